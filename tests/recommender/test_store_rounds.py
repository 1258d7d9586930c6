"""A collector's journal: the rules of protocols/journal.py for each group, and nothing kept when a round is over."""

from collections.abc import Callable
from typing import Any

import pytest

from prirec.errors import StateError, UsageError
from prirec.protocols.journal import ConflictError, JournalEntry
from prirec.protocols.messages import Round
from prirec.protocols.party import Persist, Stage
from prirec.recommender.store import MIGRATIONS, Store
from prirec.wire.documents import Head, Model, written
from support import messages
from support.stores import ONE, OTHER, enter, everything, name, of, said, signed

MODEL = written(Model(bytes(32), 0, bytes(8)))


def fill(store: Store, *rounds: Round) -> None:
    """A posted message and a queued one for each."""
    for one in rounds:
        store.post_messages([said(1, b"sealed", to=one)])
        store.deliver([(name(1), one, b"sealed")])


def kept(store: Store) -> tuple[int, int]:
    counts = store.counts()
    return counts.messages, counts.queued


def test_who_may_have_masked_is_known_until_the_round_is_over(store: Store) -> None:
    enter(store, of())
    assert store.participants() == []
    store.deliver([(name(at), of(), b"sealed") for at in (1, 2)], masking=[(name(at), of()) for at in (1, 2)])
    assert store.participants() == [name(1), name(2)]
    store.write(Persist(of(), Stage.BURNT, bytes(32)))
    assert store.participants() == []


def test_of_a_round_that_an_older_version_left_open_all_who_were_invited_may_have_masked(url: str) -> None:
    with Store.open(url, migrations=MIGRATIONS[:3]) as older, older._database.transaction() as db:
        for at, masked in ((1, 1), (2, 0)):
            row = (at, bytes(16), "popularity", 0, at, 0, 1, ONE, masked)
            columns = "id, deployment, kind, cohort, number, attempt, stage, digest, masked"
            db.execute(f"INSERT INTO rounds ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *row)  # noqa: S608
            db.execute("INSERT INTO invited (round, name) VALUES (?, ?)", at, name(at))
    with Store.open(url) as store:
        assert store.participants() == [name(1)]


def test_a_collector_goes_through_its_stages_and_each_is_returned(store: Store) -> None:
    stages = [(Stage.ENTERED, False), (Stage.AGREED, True), (Stage.OPENED, True)]
    for stage, masked in stages:
        assert store.write(Persist(of(), stage, ONE)) == JournalEntry(of(), stage, ONE, b"", masked)
        assert store.write(Persist(of(), stage, ONE)) == JournalEntry(
            of(), stage, ONE, b"", masked
        )  # again is the same
        assert store.rounds(9) == [JournalEntry(of(), stage, ONE, b"", masked)]
        assert store.open_rounds() == ([] if stage is Stage.OPENED else [of()])


def test_many_groups_are_at_one_number_and_each_goes_its_own_way(store: Store) -> None:
    groups = [of(5, group=group) for group in range(4)]
    enter(store, *groups)
    store.write(Persist(groups[1], Stage.AGREED, ONE))
    store.write(Persist(groups[1], Stage.OPENED, ONE))
    store.write(Persist(groups[3], Stage.BURNT, ONE))
    enter(store, of(6, group=1))
    assert store.open_rounds() == [groups[0], groups[2], of(6, group=1)]
    assert [entry.round for entry in store.rounds(2)] == [of(6, group=1), groups[3]]


def test_a_group_never_goes_back_to_a_number(store: Store) -> None:
    enter(store, of(5, group=1))
    with pytest.raises(StateError, match=messages.round_not_after(4, 5)):
        enter(store, of(4, group=1))
    enter(store, of(4, group=2))  # that is another group
    enter(store, of(4, group=1, kind="moments"))  # and that another kind
    with pytest.raises(StateError, match=messages.ROUND_NEVER_ENTERED):
        store.write(Persist(of(6, group=1), Stage.OPENED, ONE))


@pytest.mark.parametrize("over", [Stage.OPENED, Stage.BURNT])
def test_a_round_that_is_over_stays_over(store: Store, over: Stage) -> None:
    enter(store, of())
    store.write(Persist(of(), over, ONE))
    for stage in (Stage.AGREED, Stage.OPENED, Stage.BURNT):
        if stage is not over:
            with pytest.raises(StateError, match=messages.STAGE_DOES_NOT_FOLLOW):
                store.write(Persist(of(), stage, ONE))
    assert store.rounds(9)[0].stage is over


def test_a_sum_that_was_burnt_may_be_begun_anew_and_one_that_was_opened_may_not(store: Store) -> None:
    """Whoever had masked in the first attempt stays away from the second: devices' own journals see to that."""
    enter(store, of())
    store.write(Persist(of(), Stage.AGREED, ONE))
    with pytest.raises(StateError, match=messages.STAGE_DOES_NOT_FOLLOW):
        store.write(Persist(of(), Stage.ENTERED, ONE))
    store.write(Persist(of(), Stage.BURNT, ONE))
    enter(store, of(attempt=1))
    store.write(Persist(of(attempt=1), Stage.OPENED, ONE))
    with pytest.raises(StateError, match=messages.ROUND_ENTERED_TWICE):
        enter(store, of(attempt=2))


def test_a_new_attempt_replaces_the_last_and_deletes_its_messages(store: Store) -> None:
    enter(store, of(), of(group=1))
    fill(store, of(), of(group=1))
    enter(store, of(attempt=1))  # as when its conductor died before it was burnt
    assert store.open_rounds() == [of(group=1), of(attempt=1)]
    assert kept(store) == (1, 1)
    assert store.post_messages([said(1, b"late"), said(1, b"now", to=of(attempt=1))]) == [False, True]
    with pytest.raises(StateError, match=messages.ROUND_ENTERED_TWICE):
        enter(store, of(attempt=0))


def test_a_stage_settled_in_another_way_burns_the_round_and_empties_it(store: Store) -> None:
    enter(store, of())
    store.write(Persist(of(), Stage.AGREED, ONE))
    fill(store, of())
    with pytest.raises(ConflictError):
        store.write(Persist(of(), Stage.AGREED, OTHER))
    assert store.rounds(1)[0].stage is Stage.BURNT
    assert kept(store) == (0, 0)


def test_a_conflict_in_a_round_that_was_opened_leaves_it_opened(store: Store) -> None:
    enter(store, of())
    store.write(Persist(of(), Stage.OPENED, ONE))
    with pytest.raises(ConflictError):
        store.write(Persist(of(), Stage.OPENED, OTHER))
    assert store.rounds(1)[0].stage is Stage.OPENED


@pytest.mark.parametrize("stage", [Stage.MASKED, Stage.REVEALED])
def test_a_collector_masks_and_reveals_nothing(store: Store, stage: Stage) -> None:
    enter(store, of())
    with pytest.raises(UsageError, match=messages.collector_has_no_stage(stage.name)):
        store.write(Persist(of(), stage, ONE, b"a masked vector"))


@pytest.mark.parametrize(
    "close",
    [
        lambda store: store.write(Persist(of(), Stage.OPENED, ONE)),
        lambda store: store.write(Persist(of(), Stage.BURNT, ONE)),
        lambda store: store.advance(progress=b"", persists=[Persist(of(), Stage.OPENED, ONE)]),
        lambda store: store.advance(progress=b"", over=[of()]),
        lambda store: store.deliver([], persists=[Persist(of(), Stage.BURNT, ONE)]),
        lambda store: store.advance(progress=None, over=[of()]),
    ],
)
def test_boxes_and_shares_are_not_kept_after_use(store: Store, close: Callable[[Store], object]) -> None:
    enter(store, of(), of(group=1))
    fill(store, of(), of(group=1))
    close(store)
    assert kept(store) == (1, 1)
    assert store.post_messages([said(2, b"more", to=of(group=1))]) == [True]


def test_closing_a_round_that_was_never_open_does_nothing(store: Store) -> None:
    enter(store, of())
    fill(store, of())
    for other in (of(9), of(attempt=1), of(group=1)):
        store.advance(progress=None, over=[other])
    assert kept(store) == (1, 1)


# What follows from an opened sum


def test_an_opened_sum_is_written_with_all_that_follows_from_it(store: Store, url: str) -> None:
    enter(store, of(), of(group=1))
    fill(store, of(), of(group=1))
    assert store.progress() is None
    entries = signed(Head(), ("model", MODEL[0]))
    opened = [Persist(of(group=group), Stage.OPENED, ONE) for group in (0, 1)]
    store.advance(progress=b"next", entries=entries, documents=[MODEL], persists=opened, over=[of(), of(group=1)])
    with Store.open(url) as worker:
        assert worker.progress() == b"next"
        assert worker.entries(0) == entries
        assert worker.document(MODEL[0]) == MODEL[1]
        assert [entry.stage for entry in worker.rounds(9)] == [Stage.OPENED] * 2
        assert kept(worker) == (0, 0)
    store.advance(progress=b"after that")
    assert store.progress() == b"after that"
    store.advance(progress=None)
    assert store.progress() == b"after that"


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            {"persists": [Persist(of(), Stage.OPENED, ONE), Persist(of(9), Stage.OPENED, ONE)]},
            messages.ROUND_NEVER_ENTERED,
        ),
        ({"entries": signed(Head(), ("model", OTHER))}, messages.LOG_ENTRY_WITHOUT_ITS_DOCUMENT),
        ({"entries": signed(Head(4, ONE), ("model", MODEL[0]))}, messages.LOG_ENTRY_OUT_OF_ORDER),
        ({"documents": [MODEL, (OTHER, b"not its name")]}, messages.DOCUMENT_UNDER_ANOTHER_HASH),
    ],
)
def test_where_a_part_is_refused_nothing_of_it_is_written(store: Store, wrong: dict[str, Any], text: str) -> None:
    enter(store, of())
    fill(store, of())
    store.advance(progress=b"before")
    before = everything(store)
    parts: dict[str, Any] = {
        "persists": [Persist(of(), Stage.OPENED, ONE)],
        "documents": [MODEL],
        "over": [of()],
    } | wrong
    with pytest.raises((StateError, UsageError), match=text):
        store.advance(progress=b"after", **parts)
    assert everything(store) == before
    assert store.document(MODEL[0]) is None


def test_a_conflict_in_one_part_burns_that_round_and_writes_nothing_else(store: Store) -> None:
    enter(store, of(), of(group=1))
    store.write(Persist(of(group=1), Stage.AGREED, ONE))
    persists = [Persist(of(), Stage.OPENED, ONE), Persist(of(group=1), Stage.AGREED, OTHER)]
    with pytest.raises(ConflictError):
        store.advance(progress=b"after", documents=[MODEL], persists=persists)
    assert store.progress() is None
    assert store.document(MODEL[0]) is None
    assert [(entry.round, entry.stage) for entry in store.rounds(9)] == [
        (of(group=1), Stage.BURNT), (of(), Stage.ENTERED)
    ]  # fmt: skip
