"""The distance from own visits: what it is, and what it may not know."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.data.dataset import Dataset, Visits
from prirec.evaluate.leaks import check
from prirec.features import location as module
from prirec.features.location import OwnVisits, nearest_km
from prirec.features.samples import assemble
from prirec.model.scoring import Models
from prirec.protocols.prediction import Moment
from prirec.simulate.recommend import Advisor
from prirec.simulate.setup import Setup, set_up
from prirec.util.geography import haversine_km
from support.cities import SMALL_ROUNDS, change, same_bits, small_city, without_coordinates

SETTINGS = change(SMALL_ROUNDS, features={"own_visits": True})
CITY: Dataset = small_city()
SETUP: Setup = set_up(CITY, SETTINGS)


def visits(person: list[int], place: list[int], label: list[int]) -> Visits:
    return Visits(np.array(person, dtype=np.int32), np.array(place, dtype=np.int32), np.array(label, dtype=np.int8))


def slowly(location: np.ndarray, train: Visits, person: int, place: int) -> float:
    mine = train.place[(train.person == person) & (train.label > 0) & (train.place != place)]
    km = haversine_km(location[mine], location[place])
    return float(np.nanmin(km)) if np.isfinite(km).any() else np.nan


@pytest.mark.parametrize("side", ["train", "test"])
def test_the_distance_is_to_the_nearest_other_place_of_the_same_person(side: str):
    rows, train = getattr(SETUP.prepared, side), SETUP.prepared.train
    location = SETUP.prepared.dataset.places.location.copy()
    location[::7] = np.nan
    own = OwnVisits.of(location, train, people=len(CITY.people))
    some = np.arange(0, len(rows), 5)
    found = own.nearest_km(rows.person[some], rows.place[some])
    expected = [slowly(location, train, rows.person[at], rows.place[at]) for at in some]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6)
    assert np.isnan(found).any()
    assert np.isfinite(found).any()


def test_whether_somebody_was_at_the_place_itself_makes_no_difference():
    location = np.array([[35.0, 139.0], [35.0, 139.1], [35.2, 139.0]])
    with_it = OwnVisits.of(location, visits([0, 0, 0], [0, 1, 0], [1, 1, 1]), people=1)
    without = OwnVisits.of(location, visits([0], [1], [1]), people=1)
    here = np.zeros(1, dtype=np.int32)
    assert same_bits(with_it.nearest_km(here, here), without.nearest_km(here, here))


def test_ignored_places_and_other_peoples_visits_do_not_count():
    location = np.array([[35.0, 139.0], [35.0, 139.1], [35.2, 139.0]])
    own = OwnVisits.of(location, visits([0, 0, 1], [1, 2, 1], [-1, 1, 1]), people=3)
    person, place = np.array([0, 1, 2], dtype=np.int32), np.zeros(3, dtype=np.int32)
    assert own.nearest_km(person, place)[:2] == pytest.approx(
        [haversine_km(location[0], location[2]), haversine_km(location[0], location[1])]
    )
    assert np.isnan(own.nearest_km(person, place)[2])


def test_a_city_without_coordinates_has_none():
    assert OwnVisits.of(None, SETUP.prepared.train, people=3) is None
    assert np.isnan(nearest_km(None, np.zeros(2, dtype=np.int32), np.zeros(2, dtype=np.int32))).all()
    names = set_up(without_coordinates(CITY), SETTINGS).encoding.names()
    assert "distance from own visits" not in names


def test_test_visits_are_not_looked_at():
    prepared = SETUP.prepared
    more = replace(prepared.train, label=np.where(np.arange(len(prepared.train)) % 9 == 0, 1, prepared.train.label))
    known = {"encoding": SETUP.encoding, "popularity": SETUP.popularity}
    one = assemble(prepared.dataset, train=prepared.train, test=prepared.test, **known)
    other = assemble(prepared.dataset, train=prepared.train, test=prepared.test.take(np.arange(5)), **known)
    peeked = assemble(prepared.dataset, train=more, test=prepared.test, **known)
    assert same_bits(one.train.context, other.train.context)
    assert not same_bits(one.train.context, peeked.train.context)


def test_the_leak_checker_passes_this_feature_and_finds_one_computed_from_test_visits():
    assert [one for one in check(SETUP) if one.severity == "refused"] == []
    prepared, home = SETUP.prepared, SETUP.samples
    both = Visits(
        np.concatenate([prepared.train.person, prepared.test.person]),
        np.concatenate([prepared.train.place, prepared.test.place]),
        np.concatenate([prepared.train.label, prepared.test.label]),
    )
    own = OwnVisits.of(prepared.dataset.places.location, both, people=len(CITY.people))
    at = SETUP.encoding.names().index("distance from own visits") - home.people.shape[1] - home.places.shape[1]
    context, order = home.test.context.copy(), np.argsort(prepared.test.person, kind="stable")
    km = own.nearest_km(prepared.test.person, prepared.test.place)[order]
    context[:, at] = np.nan_to_num(np.log1p(km), nan=0.0)[: len(context)]
    leaky = replace(SETUP, samples=replace(home, test=replace(home.test, context=context)))
    assert any(one.severity == "refused" for one in check(leaky))


def test_a_candidate_is_seen_as_a_test_record_is():
    """By the code that a device runs: the same place, the same distance."""
    samples, untimed = SETUP.samples, np.zeros((1, SETUP.samples.features + 1))
    advisor = Advisor.of(SETUP, Models(untimed, np.zeros((samples.features, 1))))
    first = samples.people.shape[1] + samples.places.shape[1]
    at = SETUP.encoding.names().index("distance from own visits") - first
    popular = samples.popularity.shape[1]
    for row in range(0, len(samples.test), 40):
        person, place = int(samples.test.person[row]), samples.test.place[row : row + 1]
        context, _ = advisor.context(person, place, Moment())
        assert context[0, at - popular] == samples.test.context[row, at]


def test_few_distances_by_numpy_are_those_of_the_kernel_to_the_last_bit(monkeypatch):
    train, location = SETUP.prepared.train, SETUP.prepared.dataset.places.location.copy()
    location[::7] = np.nan
    own = OwnVisits.of(location, train, people=len(CITY.people))
    found = []
    for few in (0, 10**9):
        monkeypatch.setattr(module, "FEW", few)
        found.append(own.nearest_km(train.person, train.place))
    assert np.isnan(found[0]).any()
    assert same_bits(*found)
