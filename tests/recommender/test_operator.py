"""What an operator begins, beside a service that goes on meanwhile. On a file and on PostgreSQL."""

from contextlib import suppress

import msgspec
import pytest

from prirec.config import PRIVATE, Features
from prirec.errors import PolicyError, StateError, UsageError
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.protocols.codec import encode
from prirec.recommender import campaign as rules
from prirec.recommender.conductor import Conductor
from prirec.recommender.operator import (
    begin_campaign,
    campaign_status,
    deployment_status,
    end_campaign,
    found_deployment,
    publish_catalogue,
    rotate_sessions,
    sign_entries,
)
from prirec.recommender.release import CatalogueSource
from prirec.recommender.store import OvertakenError, Store
from prirec.wire.documents import Offer, address, written
from support import messages
from support.cities import SMALL_PRIVATE, small_city
from support.stores import enter, name, of


def source() -> CatalogueSource:
    town = small_city(people=20, places=15, records=60)
    return CatalogueSource(town.places, plan_encoding(town, Popularity(), Features()))


def ready(store: Store, *, people: int) -> None:
    """For a campaign."""
    with suppress(StateError):
        found_deployment(store, title="Our town")
    publish_catalogue(store, source())
    for at in range(1, people + 1):
        store.enrol(name(at), day=0)


def test_a_deployment_is_founded_once(store):
    store.check_unfounded()
    founding = found_deployment(store, title="Our town")
    with pytest.raises(StateError, match=messages.STORE_HAS_A_DEPLOYMENT):
        store.check_unfounded()
    with pytest.raises(StateError):
        found_deployment(store, title="another")
    with pytest.raises(UsageError):
        found_deployment(store, title="")
    assert store.founding() == founding


def test_the_key_of_sessions_changes_and_who_the_recommender_is_stays(store):
    with pytest.raises(StateError, match=messages.STORE_WITHOUT_A_DEPLOYMENT):
        rotate_sessions(store)
    founding = found_deployment(store, title="Our town")
    rotate_sessions(store, entropy=lambda many: b"\3" * many)
    after = store.founding()
    assert after.token_key == b"\3" * 32
    assert (after.deployment, after.identity, after.title) == (founding.deployment, founding.identity, founding.title)


def test_publishing_does_not_set_back_a_campaign_that_moves_on_meanwhile(store, monkeypatch):
    found_deployment(store, title="Our town")
    store.advance(progress=b"before")
    advance = Store.advance

    def moving(self, **parts):
        advance(self, progress=b"after")
        advance(self, **parts)

    monkeypatch.setattr(Store, "advance", moving)
    publish_catalogue(store, source())
    assert store.progress() == b"after"


def test_what_was_published_meanwhile_stands_before_what_is_published_then(store, monkeypatch):
    found_deployment(store, title="Our town")
    advance, once = Store.advance, [1]

    def overtaken(self, **parts):
        if once:
            once.clear()
            publish_catalogue(store, source())
        advance(self, **parts)

    monkeypatch.setattr(Store, "advance", overtaken)
    publish_catalogue(store, source())
    assert [one.entry.subject for one in store.entries(0)] == ["catalogue", "catalogue"]


def test_of_two_who_begin_a_campaign_at_once_one_does(store, monkeypatch):
    ready(store, people=60)
    advance, once = Store.advance, [1]

    def overtaken(self, **parts):
        if once:
            once.clear()
            begin_campaign(store, SMALL_PRIVATE)
        advance(self, **parts)

    monkeypatch.setattr(Store, "advance", overtaken)
    with pytest.raises(OvertakenError):
        begin_campaign(store, SMALL_PRIVATE)
    assert [one.entry.subject for one in store.entries(0)] == ["catalogue", "charter"]


def test_a_campaign_in_which_nobody_may_be_lost_is_not_begun(store):
    ready(store, people=50)
    with pytest.raises(PolicyError, match=messages.enough_are_left_from(63, lost="20%")):
        begin_campaign(store, SMALL_PRIVATE)
    store.enrol(name(51), day=0)
    begin_campaign(store, SMALL_PRIVATE)


def test_a_campaign_is_ended_with_all_that_is_open_and_another_may_begin(store):
    found_deployment(store, title="Our town")
    with pytest.raises(PolicyError, match=messages.NO_CAMPAIGN_TO_END):
        end_campaign(store)
    ready(store, people=60)
    begin_campaign(store, SMALL_PRIVATE)
    conductor = Conductor(store)
    conductor.tick()
    assert len(store.open_rounds()) == 1
    assert end_campaign(store).phase == "visits"
    assert (campaign_status(store).phase, store.open_rounds(), store.counts().queued) == ("failed", [], 0)
    with pytest.raises(OvertakenError):
        conductor.tick()
    with pytest.raises(PolicyError, match=messages.NO_CAMPAIGN_TO_END):
        end_campaign(store)
    assert begin_campaign(store, SMALL_PRIVATE).campaign == 1


def test_rounds_of_a_campaign_that_was_ended_when_they_began_are_burnt(store):
    ready(store, people=60)
    begin_campaign(store, SMALL_PRIVATE)
    before = store.progress()
    Conductor(store).tick()
    store.advance(progress=encode(rules.failed(rules.decode_state(before))))
    Conductor(store).take_over()
    assert (store.open_rounds(), campaign_status(store).phase) == ([], "failed")


def test_a_damaged_account_of_a_campaign_is_a_state_error(store):
    ready(store, people=60)
    begin_campaign(store, SMALL_PRIVATE)
    whole = store.progress()
    for damaged in (whole[:-1], whole.replace(b"visits", b"visit\xe9"), 100_000 * b"\x91"):
        with pytest.raises(StateError, match=messages.CAMPAIGN_STATE_DAMAGED):
            rules.decode_state(damaged)


def test_a_campaign_needs_a_catalogue_and_as_many_people_as_its_floor(store):
    found_deployment(store, title="Our town")
    with pytest.raises(StateError, match=messages.NO_CATALOGUE):
        begin_campaign(store, SMALL_PRIVATE)
    publish_catalogue(store, source())
    for at in range(1, 50):
        store.enrol(name(at), day=0)
    with pytest.raises(PolicyError, match=messages.too_few_enrolled(49)):
        begin_campaign(store, SMALL_PRIVATE)
    store.enrol(name(50), day=0)
    with pytest.raises(PolicyError, match=messages.no_sum_over_fewer_than(100)):
        begin_campaign(store, PRIVATE)
    assert (campaign_status(store), store.head().length) == (None, 1)


def test_status_tells_how_far_a_campaign_is(store):
    ready(store, people=60)
    charter = begin_campaign(store, SMALL_PRIVATE)
    found_now = deployment_status(store)
    assert (found_now.places, found_now.counts.people, found_now.counts.entries) == (15, 60, 2)
    now = found_now.campaign
    assert (now.number, now.people, now.phase, now.round, now.rounds) == (charter.campaign, 60, "visits", 0, 3)
    assert now.past == ()
    with pytest.raises(PolicyError, match=messages.CAMPAIGN_UNDER_WAY):
        begin_campaign(store, SMALL_PRIVATE)


def of_version_1(store: Store, phase: str) -> None:
    """A store as the last version left it, with the second campaign over or in this phase."""
    ready(store, people=60)
    enter(store, of())
    for number in (0, 1):
        charter = written_raw(["prirec charter", 1, bytes(16), number, bytes(32), "a setting that is gone", b"{}"])
        progress = msgspec.msgpack.encode(["prirec progress", charter[0], phase, 7, 0, bytes(32), (29, 5), b"V"])
        store.advance(
            progress=progress, documents=[charter],
            entries=sign_entries(store.founding(), [("charter", charter[0])]),
        )  # fmt: skip


def written_raw(document: list[object]) -> tuple[bytes, bytes]:
    body = msgspec.msgpack.encode(document)
    return address(body), body


@pytest.mark.parametrize("phase", ["visits", "mixing", "learning", "over", "failed"])
def test_a_campaign_of_an_earlier_version_has_ended_and_the_next_one_begins_with_its_own_number(store, phase):
    of_version_1(store, phase)
    assert rules.decode_state(store.progress()).phase == ("over" if phase == "over" else "failed")
    assert deployment_status(store).campaign is None  # of its documents nothing is read
    conductor = Conductor(store)
    conductor.take_over()
    assert not conductor.tick()
    assert store.open_rounds() == []  # whose keys are gone
    assert begin_campaign(store, SMALL_PRIVATE).campaign == 2
    assert conductor.tick()
    assert campaign_status(store).number == 2


def test_a_catalogue_of_an_earlier_version_is_to_be_published_again(store):
    ready(store, people=60)
    manifest = written_raw(["prirec manifest", 5, []])
    offer = Offer(1, store.founding().deployment, source().encoding.to_json(), manifest[0], 15)
    store.advance(
        progress=None, documents=[manifest, written(offer)],
        entries=sign_entries(store.founding(), [("catalogue", written(offer)[0])]),
    )  # fmt: skip
    with pytest.raises(StateError, match=messages.CATALOGUE_OF_AN_EARLIER_VERSION):
        begin_campaign(store, SMALL_PRIVATE)
    publish_catalogue(store, source())
    begin_campaign(store, SMALL_PRIVATE)
