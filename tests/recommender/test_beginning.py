"""What an operator begins, beside a service that goes on meanwhile. On a file and on PostgreSQL."""

import pytest

from prirec.errors import PolicyError, StateError, UsageError
from prirec.features.planning import plan
from prirec.features.popularity import Popularity
from prirec.recommender.beginning import begin, found, publish, refuse_second, rotate_sessions
from prirec.recommender.publishing import Source
from prirec.recommender.standing import campaign, standing
from prirec.recommender.store import Store
from prirec.settings import PRIVATE, Features
from support.cities import SMALL_PRIVATE, small_city
from support.stores import name


def source() -> Source:
    town = small_city(people=20, places=15, records=60)
    return Source(town.places, plan(town, Popularity(), Features()))


def test_a_deployment_is_founded_once(store):
    refuse_second(store)
    founding = found(store, title="Our town")
    with pytest.raises(StateError, match="founded in this store before"):
        refuse_second(store)
    with pytest.raises(StateError):
        found(store, title="another")
    with pytest.raises(UsageError):
        found(store, title="")
    assert store.founding() == founding


def test_the_key_of_sessions_changes_and_who_the_recommender_is_stays(store):
    with pytest.raises(StateError, match="no deployment was founded"):
        rotate_sessions(store)
    founding = found(store, title="Our town")
    rotate_sessions(store, entropy=lambda many: b"\3" * many)
    after = store.founding()
    assert after.token_key == b"\3" * 32
    assert (after.deployment, after.identity, after.title) == (founding.deployment, founding.identity, founding.title)


def test_publishing_does_not_set_back_a_campaign_that_moves_on_meanwhile(store, monkeypatch):
    found(store, title="Our town")
    store.advance(progress=b"before")
    head = Store.head

    def moving(self):
        store.advance(progress=b"after")
        return head(self)

    monkeypatch.setattr(Store, "head", moving)
    publish(store, source())
    assert store.progress() == b"after"


def test_a_campaign_needs_a_catalogue_and_as_many_people_as_its_floor(store):
    found(store, title="Our town")
    with pytest.raises(StateError, match="no catalogue"):
        begin(store, SMALL_PRIVATE)
    publish(store, source())
    for at in range(1, 50):
        store.enrol(name(at), 0, day=0)
    with pytest.raises(PolicyError, match="49 devices have enrolled"):
        begin(store, SMALL_PRIVATE)
    store.enrol(name(50), 0, day=0)
    with pytest.raises(PolicyError, match="fewer than 100"):
        begin(store, PRIVATE)
    assert (campaign(store), store.head().length) == (None, 1)


def test_standing_tells_how_far_a_campaign_is(store):
    found(store, title="Our town")
    publish(store, source())
    for at in range(1, 61):
        store.enrol(name(at), 0, day=0)
    charter = begin(store, SMALL_PRIVATE)
    found_now = standing(store)
    assert (found_now.places, found_now.counts.people, found_now.counts.entries) == (15, 60, 2)
    now = found_now.campaign
    assert (now.number, now.people, now.phase, now.round, now.rounds) == (charter.campaign, 60, "visits", 0, 3)
    assert now.past == ()
    with pytest.raises(PolicyError, match="under way"):
        begin(store, SMALL_PRIVATE)
