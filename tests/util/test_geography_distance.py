import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.util.geography import EARTH_RADIUS_KM, haversine_km, located, unit_vectors
from support import messages

points = st.tuples(st.floats(-90, 90), st.floats(-180, 180))


def test_a_quarter_of_the_equator_is_a_quarter_of_the_circumference():
    km = haversine_km(np.array([0.0, 0.0]), np.array([0.0, 90.0]))
    assert km == pytest.approx(np.pi / 2 * EARTH_RADIUS_KM)


def test_tokyo_to_paris_is_about_9712_km():
    assert haversine_km(np.array([35.6762, 139.6503]), np.array([48.8566, 2.3522])) == pytest.approx(9712, abs=5)


def test_two_sides_of_the_date_line_are_near():
    assert haversine_km(np.array([0.0, 179.999]), np.array([0.0, -179.999])) == pytest.approx(0.2224, abs=1e-3)


def test_antipodes_are_half_way_round_and_not_nan():
    a, b = np.array([[37.3, 12.1]]), np.array([[-37.3, -167.9]])
    assert haversine_km(a, b) == pytest.approx(np.pi * EARTH_RADIUS_KM)


def test_haversine_broadcasts_a_table_of_everyone_against_everyone():
    some = np.array([[0.0, 0.0], [1.0, 1.0], [np.nan, 3.0]])
    table = haversine_km(some[:, None], some[None])
    assert table.shape == (3, 3)
    assert np.isnan(table[2]).all()
    assert np.isnan(table[:, 2]).all()
    assert table[0, 0] == 0
    assert table[0, 1] == table[1, 0] > 150


@given(points, points)
def test_the_chord_between_unit_vectors_equals_haversine(a, b):
    pair = np.array([a, b])
    vectors = unit_vectors(pair)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    chord = np.linalg.norm(vectors[0] - vectors[1])
    km = haversine_km(pair[0], pair[1])
    # towards the antipode a chord hardly grows, and rounding tells
    along = 2 * EARTH_RADIUS_KM * np.arcsin(min(chord / 2, 1.0))
    assert along == pytest.approx(km, abs=1e-6 if km < 15_000 else 1.0)


def test_unknown_locations_give_nan_vectors():
    assert np.isnan(unit_vectors(np.array([[np.nan, np.nan]]))).all()


def test_located_takes_half_a_location_for_none():
    assert located(np.array([[1.0, 2.0], [np.nan, 2.0], [1.0, np.nan], [-90.0, 180.0]])).tolist() == [1, 0, 0, 1]


@pytest.mark.parametrize("bad", [[95.125, 0.0], [0.0, 195.125], [np.inf, 0.0], [0.0, -np.inf]])
def test_a_location_off_the_globe_is_refused_without_being_repeated(bad):
    with pytest.raises(UsageError, match=messages.LATITUDE_FIRST) as refused:
        located(np.array([[0.0, 0.0], bad]))
    assert "125" not in str(refused.value)
    assert "inf" not in str(refused.value)


def test_a_table_of_the_wrong_shape_is_refused():
    with pytest.raises(UsageError, match=messages.LOCATIONS_OF_ANOTHER_SHAPE):
        located(np.zeros((4, 3)))
