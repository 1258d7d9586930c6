"""The home area: centres that everyone finds in the public catalogue, and the one that a home is nearest to."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prirec.config import Features
from prirec.data.schema import Schema
from prirec.evaluate.leaks import check
from prirec.features.encoding import Area, Encoding, encode_person, plan_declared_encoding, plan_encoding
from prirec.features.location import area_centres, homes, nearest_centre
from prirec.features.popularity import Popularity
from prirec.model.scoring import FactorizationModels
from prirec.simulate.recommend import Advisor
from prirec.simulate.setup import set_up
from prirec.util.geography import haversine_km
from support.cities import (
    SMALL_FM,
    SMALL_PAPER,
    SMALL_PRIVATE,
    SMALL_ROUNDS,
    change,
    same_bits,
    small_city,
    without_coordinates,
)

CITY = small_city()
AREAS = {"features": {"areas": 5}}
EVERYWHERE = st.tuples(st.floats(-90, 90), st.floats(-180, 180))
IN_TOWN = st.tuples(st.floats(35.5, 35.9), st.floats(139.4, 139.9))


def located(points: list[tuple[float, float]]) -> np.ndarray:
    return np.array(points, dtype=float).reshape(-1, 2)


def blobs(*middles: tuple[float, float], each: int = 30) -> np.ndarray:
    """Places around each of these, within about a kilometre; longitudes as a catalogue has them, from -180 to 180."""
    rng = np.random.default_rng(5)
    around = np.concatenate([np.array(one) + rng.normal(scale=0.005, size=(each, 2)) for one in middles])
    around[:, 1] = (around[:, 1] + 180) % 360 - 180
    return around


@given(st.lists(IN_TOWN | EVERYWHERE, min_size=1, max_size=40), st.integers(1, 12), st.randoms())
def test_centres_do_not_depend_on_the_order_of_places_nor_on_places_without_coordinates(points, areas, random):
    mixed = [*points, (np.nan, np.nan), (35.0, np.nan)]
    random.shuffle(mixed)
    assert np.array_equal(area_centres(located(points), areas), area_centres(located(mixed), areas))


@given(st.lists(IN_TOWN | EVERYWHERE, max_size=40), st.integers(0, 12))
def test_there_are_at_most_as_many_centres_as_asked_for_all_of_them_on_the_globe(points, areas):
    centres = area_centres(located(points), areas)
    assert (np.abs(centres) <= (90, 180)).all()
    assert len(centres) <= areas
    assert (len(centres) > 0) is (0 < areas <= len(points))


@given(st.lists(EVERYWHERE, min_size=1, max_size=9), arrays(np.float64, (7, 2), elements=st.floats(-90, 90)))
def test_every_home_has_one_area_the_nearest_and_whoever_has_none_has_no_area(centres, home):
    features = Area(column="home area", centres=tuple(centres)).encode_home(home)
    assert (features.sum(axis=1) == 1).all()
    km = haversine_km(home[:, None], located(centres))
    assert km[features == 1] == pytest.approx(km.min(axis=1), abs=1e-3)
    home[::2, 0] = np.nan
    unknown = Area(column="home area", centres=tuple(centres)).encode_home(home)
    assert same_bits(unknown[1::2], features[1::2])
    assert not unknown[::2].any()


@given(arrays(np.float64, (40, 2), elements=st.floats(35, 36)), st.integers(1, 30))
def test_a_home_by_itself_has_the_area_that_it_has_among_all(home, areas):
    centres = area_centres(CITY.places.location, areas)
    alone = [nearest_centre(home[i : i + 1], centres)[0] for i in range(len(home))]
    assert alone == nearest_centre(home, centres).tolist()


@pytest.mark.parametrize(
    "middles",
    [
        [(35.6, 139.6), (35.7, 139.9), (35.9, 139.7)],
        [(-17.0, 179.95), (-16.8, -179.9), (-17.2, -179.95)],  # the date line goes through
        [(89.9, 0.0), (89.9, 120.0), (89.9, -120.0)],
    ],
    ids=["a town", "at the date line", "at a pole"],
)
def test_areas_are_the_parts_of_a_town(middles):
    location = blobs(*middles)
    centres = area_centres(location, len(middles))
    km = haversine_km(located(middles)[:, None], centres)
    assert sorted(km.argmin(axis=1).tolist()) == [0, 1, 2]
    assert (km.min(axis=1) < 1.0).all()
    part = nearest_centre(location, centres).reshape(len(middles), -1)
    assert (part == part[:, :1]).all()


def test_one_place_and_places_all_at_one_point_have_one_centre_there():
    point = (35.68, 139.76)
    for places, areas in ((1, 1), (9, 1), (9, 4)):
        assert area_centres(located([point] * places), areas) == pytest.approx(located([point]))


def test_places_at_two_points_have_two_centres_however_many_are_asked_for():
    points = [(35.0, 139.0)] * 5 + [(36.0, 139.0)] * 2
    assert area_centres(located(points), 6) == pytest.approx(located([(35.0, 139.0), (36.0, 139.0)]))


def planned(city=CITY, **features) -> Encoding:
    return plan_encoding(city, Popularity(), Features(**{"areas": 0, **features}))


def test_the_area_is_the_last_feature_of_a_person_where_it_is_asked_for():
    usual, found = planned(), planned(areas=5)
    assert found.person[:-1] == usual.person
    assert isinstance(found.person[-1], Area)
    assert found.person[-1].width == 5
    assert msgspec.structs.replace(found, person=usual.person) == usual
    assert planned(areas=5, context=False).person == found.person


def test_a_recommender_plans_the_areas_of_a_simulation_without_a_table_of_people():
    declared = plan_declared_encoding(CITY.places, Schema(), Features(areas=5))
    assert declared.person == planned(areas=5).person[-1:]


def test_where_all_people_would_be_in_one_area_there_is_none():
    one_point = replace(CITY.places, location=np.tile([35.0, 139.0], (len(CITY.places), 1)))
    for city, areas in (
        (CITY, 1),
        (CITY, 200),
        (without_coordinates(CITY), 5),
        (replace(CITY, places=one_point), 5),
    ):
        assert len(city.places) < 200
        assert planned(city, areas=areas) == planned(city)


@pytest.mark.parametrize("settings", [SMALL_PAPER, SMALL_FM, SMALL_ROUNDS, SMALL_PRIVATE])
def test_people_are_in_the_areas_of_their_homes_under_every_model(settings):
    setup = set_up(CITY, change(settings, **AREAS))
    area, samples = setup.encoding.person[-1], setup.samples
    home = dict(zip(setup.prepared.dataset.people.ids, homes(CITY, setup.prepared.train), strict=True))
    expected = [nearest_centre(home[one][None], np.array(area.centres))[0] for one in samples.ids]
    assert samples.people[:, -area.width :].argmax(axis=1).tolist() == expected
    assert len(set(expected)) > 1
    assert samples.features == set_up(CITY, change(settings, features={"areas": 0})).samples.features + 5
    assert [one for one in check(setup) if one.severity == "refused"] == []


def test_whoever_has_no_home_is_in_no_area():
    only = Encoding(person=(Area(column="home area", centres=((35.0, 139.0),)),))
    assert encode_person(only, {}, home=np.array([[36.0, 140.0], [np.nan, np.nan]])).tolist() == [[1], [0]]


def test_recommendations_see_the_area_and_may_give_it_as_a_reason():
    setup = set_up(CITY, change(SMALL_ROUNDS, **AREAS))
    samples, area = setup.samples, setup.encoding.person[-1]
    first = samples.people.shape[1] - area.width
    V = np.zeros((samples.features, 1))
    kind = setup.encoding.names().index(next(name for name in setup.encoding.names() if name.startswith("category: ")))
    V[first : first + area.width], V[kind] = 2.0, 2.0
    advisor = Advisor.of(setup, FactorizationModels(np.zeros((len(samples.ids), samples.features + 1)), V))
    found = [reason for one in advisor.recommend(0, radius_km=50.0) for reason in one.reasons]
    assert ("home area", "fits your area") in {(reason.name, reason.words) for reason in found}
