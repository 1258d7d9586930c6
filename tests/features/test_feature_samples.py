"""Samples: rows stand beside the right ids, nobody is lost, and distances are those from home to place."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.data.dataset import Dataset
from prirec.data.prepare import prepare
from prirec.features.encoding import encode_columns, encode_popularity
from prirec.features.location import homes
from prirec.features.samples import Samples, assemble
from prirec.simulate.setup import recipe, set_up
from prirec.util.keyed_random import generator
from support.cities import SMALL_ROUNDS, change, small_city, with_idle_people, with_moods, without_coordinates

CITY: Dataset = with_moods(with_idle_people(small_city()), np.random.default_rng(0))
BARE = change(SMALL_ROUNDS, features={"own_history": False, "areas": 0})
SETUP = set_up(CITY, BARE)
SAMPLES: Samples = SETUP.samples
ROW = {person: row for row, person in enumerate(CITY.people.ids)}


def kilometres(a: np.ndarray, b: np.ndarray) -> float:
    """By the angle between two points on a sphere."""
    (x, y), (u, v) = np.radians(a), np.radians(b)
    angle = np.sin(x) * np.sin(u) + np.cos(x) * np.cos(u) * np.cos(y - v)
    return float(6371.0088 * np.arccos(np.clip(angle, -1, 1)))


def test_every_person_is_in_exactly_one_row():
    assert sorted(SAMPLES.ids) == sorted(CITY.people.ids)
    assert SAMPLES.ids != CITY.people.ids
    assert len(SAMPLES.people) == len(SAMPLES.keys) == len(SAMPLES.home) == len(SAMPLES.ids)
    assert len(set(SAMPLES.keys.tolist())) == len(SAMPLES.ids)


def test_people_without_a_home_are_there_too():
    nobody_knows = CITY.people.location.copy()
    nobody_knows[::2] = np.nan
    city = replace(CITY, people=replace(CITY.people, location=nobody_knows))
    samples = set_up(city, BARE).samples
    assert sorted(samples.ids) == sorted(city.people.ids)
    homeless = np.isnan(samples.home).any(axis=1)
    assert homeless.any()
    assert not homeless[: np.flatnonzero(homeless)[0]].any()


def test_features_and_homes_stand_beside_their_ids():
    order = np.array([ROW[person] for person in SAMPLES.ids])
    expected = encode_columns(SETUP.encoding.person, CITY.people.columns, len(order))
    assert (SAMPLES.people == expected[order]).all()
    assert (SAMPLES.home == homes(CITY, SETUP.prepared.train)[order]).all()


@pytest.mark.parametrize("side", ["train", "test"])
def test_records_stand_beside_their_people(side):
    records, visits = getattr(SAMPLES, side), getattr(SETUP.prepared, side)
    assert records.offsets[0] == 0
    assert records.offsets[-1] == len(records) == len(visits)
    found = {person: [] for person in CITY.people.ids}
    for row in range(len(records)):
        person = int(records.person[row])
        assert records.offsets[person] <= row < records.offsets[person + 1]
        found[SAMPLES.ids[person]].append((int(records.place[row]), int(records.label[row])))
    expected = {person: [] for person in CITY.people.ids}
    for row in range(len(visits)):
        expected[CITY.people.ids[visits.person[row]]].append((int(visits.place[row]), int(visits.label[row])))
    assert found == expected
    assert records.counts().tolist() == [len(expected[person]) for person in SAMPLES.ids]


@pytest.mark.parametrize("side", ["train", "test"])
def test_context_holds_popularity_distance_time_and_mood_of_the_very_record(side):
    records, visits, popular = getattr(SAMPLES, side), getattr(SETUP.prepared, side), SETUP.popularity
    distance, clock, mood = SETUP.encoding.context
    by_person = np.argsort([SAMPLES.ids.index(CITY.people.ids[p]) for p in visits.person], kind="stable")
    for row, visit in list(enumerate(by_person))[::9]:
        place = visits.place[visit]
        counts = popular.seen_by(visits.take(np.array([visit])))
        km = kilometres(SAMPLES.home[records.person[row]], CITY.places.location[place])
        expected = np.hstack([
            encode_popularity(SETUP.encoding, counts, 1)[0],
            distance.encode_km(np.array([km]))[0], clock.encode_time(visits.time[[visit]])[0],
            mood.encode(visits.take(np.array([visit])).context["mood"])[0],
        ])  # fmt: skip
        np.testing.assert_allclose(records.context[row], expected, atol=1e-4)


def test_popularity_with_ones_own_visits_is_that_of_the_catalogue():
    samples = set_up(CITY, change(BARE, features={"own_left_out": False})).samples
    width = samples.popularity.shape[1]
    assert width > 0
    for records in (samples.train, samples.test):
        assert (records.context[:, :width] == samples.popularity[records.place]).all()
    assert (SAMPLES.train.context[:, :width] != samples.train.context[:, :width]).any()


def test_the_number_of_features_is_the_number_of_names():
    encoding, columns, places = SETUP.encoding, CITY.places.columns, len(CITY.places)
    assert SAMPLES.features == len(encoding.names())
    assert SAMPLES.places.shape == (places, encoding.width(encoding.place))
    assert (SAMPLES.places == encode_columns(encoding.place, columns, places)).all()
    assert (SAMPLES.popularity == encode_popularity(encoding, SETUP.popularity.released, places)).all()
    assert (SAMPLES.catalogue == np.hstack([SAMPLES.places, SAMPLES.popularity])).all()


def test_without_dynamic_features_there_is_no_popularity():
    setup = set_up(CITY, change(BARE, features={"dynamic": False}))
    assert setup.samples.popularity.shape == (len(CITY.places), 0)
    assert setup.samples.features == len(setup.encoding.names()) < SAMPLES.features


def test_without_coordinates_people_stay_in_their_order_and_nothing_is_near():
    samples = set_up(without_coordinates(CITY), BARE).samples
    assert samples.ids == CITY.people.ids
    assert samples.home is None
    assert samples.features == SAMPLES.features - 1


def test_people_without_places_on_the_map_have_homes_but_no_distance():
    samples = set_up(replace(CITY, places=replace(CITY.places, location=None)), BARE)
    assert samples.samples.home is not None
    assert "distance from home" not in samples.encoding.names()


def test_blocks_of_visits_are_joined_without_a_seam(monkeypatch):
    monkeypatch.setattr("prirec.features.samples._BLOCK", 7)
    again = set_up(CITY, BARE).samples
    assert (again.train.context == SAMPLES.train.context).all()
    assert (again.test.context == SAMPLES.test.context).all()


def test_an_empty_side_has_its_columns():
    none = SETUP.prepared.test.take(np.empty(0, dtype=np.int64))
    parts = {"encoding": SETUP.encoding, "popularity": SETUP.popularity}
    samples = assemble(CITY, train=SETUP.prepared.train, test=none, **parts)
    assert samples.test.context.shape == (0, SAMPLES.test.context.shape[1])
    assert samples.test.offsets.tolist() == [0] * (len(CITY.people) + 1)


def test_a_saved_encoding_is_used_as_it_is():
    other = replace(CITY, places=replace(CITY.places, columns=dict(reversed(CITY.places.columns.items()))))
    assert set_up(other, BARE).encoding != SETUP.encoding
    again = set_up(other, BARE, encoding=SETUP.encoding)
    assert (again.samples.places == SAMPLES.places).all()


def test_the_set_up_is_the_recipe_with_the_seed_of_the_settings():
    prepared = prepare(CITY, recipe(BARE.data, labelled=True), generator(BARE.seed, "data"))
    assert (prepared.train.place == SETUP.prepared.train.place).all()


def test_private_values_do_not_print():
    assert not any(person in repr(SAMPLES) for person in CITY.people.ids)
    assert "array" not in repr(SAMPLES) + repr(SAMPLES.train)
