"""What a conductor reads from its store: all that has come, and nothing that it knows already."""

from prirec.protocols.codec import encode
from prirec.recommender.campaign import CampaignState
from prirec.recommender.conductor import Conductor, OpenSum, Pace
from prirec.recommender.store import MIGRATIONS, Store
from support.rounds import gather
from support.stores import FOUNDING, ONE, OTHER, enter, of, said


def test_all_stored_messages_are_processed_before_a_deadline_counts_whatever_their_size(store: Store) -> None:
    store.found(FOUNDING)
    enter(store, of())
    for at in range(100):
        store.post_messages([said(at, bytes(2**20))])
    conductor, under_way = Conductor(store), OpenSum(gather(3).collector, pace=Pace())  # type: ignore[arg-type]
    assert conductor._read_posted(under_way) == 100
    assert conductor._read_posted(under_way) == 0
    store.post_messages([said(1, b"later")])
    assert conductor._read_posted(under_way) == 1


class Watched(Store):
    """Notes how often the progress itself was read."""

    bodies = 0

    def progress_since(self, changes: int) -> tuple[int, bytes | None]:
        found = super().progress_since(changes)
        self.bodies += found[1] is not None
        return found

    def progress(self) -> bytes | None:
        self.bodies += 1
        return super().progress()


def test_the_progress_is_read_once_for_every_change_and_not_at_every_look(url: str) -> None:
    with Watched.open(url) as store:
        store.found(FOUNDING)
        conductor = Conductor(store)
        assert [conductor.tick() for _ in range(3)] == [False] * 3
        for changes, charter in enumerate((ONE, OTHER, OTHER), 1):
            store.advance(progress=encode(CampaignState(charter, "over")))
            assert [conductor.tick() for _ in range(5)] == [False] * 5
            assert store.bodies == changes


def test_the_progress_comes_with_the_number_of_its_change(store: Store) -> None:
    assert store.progress_since(0) == (0, None)
    store.advance(progress=b"one")
    assert store.progress_since(0) == (1, b"one")
    assert store.progress_since(1) == (1, None)
    store.advance(progress=None)
    assert store.progress_since(1) == (1, None)
    store.advance(progress=b"two")
    store.advance(progress=b"two")
    assert store.progress_since(1) == (3, b"two")


def test_a_store_of_an_earlier_version_keeps_its_progress(url: str) -> None:
    with Store.open(url, migrations=MIGRATIONS[:1]) as store, store._database.transaction() as rows:
        rows.execute("INSERT INTO progress (one, body) VALUES (1, ?)", b"of before")
    with Store.open(url) as store:
        assert store.progress_since(0) == (1, b"of before")
        enter(store, of())
        assert store.post_messages([said(1, b"keys")]) == [True]


def test_a_store_of_an_earlier_version_without_a_campaign_has_none(url: str) -> None:
    Store.open(url, migrations=MIGRATIONS[:1]).close()
    with Store.open(url) as store:
        assert store.progress_since(0) == (0, None)
