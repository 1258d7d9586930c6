import h3.api.basic_int as h3
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.graph.matching import RegionIndex, cells_near, coarse_cells, match
from prirec.util.geography import EARTH_RADIUS_KM, haversine_km
from support import messages

# one place every 0.01 degrees along the equator: 1.112 km apart
STREET = np.column_stack([np.zeros(10), np.arange(10) * 0.01])


def town(places: int, seed: int) -> np.ndarray:
    """Places around 33 N, 112 W, some of them without coordinates, some at the same address."""
    rng = np.random.default_rng(seed)
    location = np.round(rng.normal((33.0, -112.0), 0.1, size=(places, 2)), 2)
    location[rng.random(places) < 0.1] = np.nan
    return location


def around(centre: tuple[float, float], km: float, bearing: float) -> tuple[float, float]:
    """The point so many kilometres away in that direction."""
    lat, lon, arc = np.radians(centre[0]), np.radians(centre[1]), km / EARTH_RADIUS_KM
    to_lat = np.arcsin(np.sin(lat) * np.cos(arc) + np.cos(lat) * np.sin(arc) * np.cos(bearing))
    to_lon = lon + np.arctan2(np.sin(bearing) * np.sin(arc) * np.cos(lat), np.cos(arc) - np.sin(lat) * np.sin(to_lat))
    return float(np.degrees(to_lat)), float((np.degrees(to_lon) + 180) % 360 - 180)


def test_match_gives_places_within_the_radius_nearest_first():
    assert match(STREET, (0.0, 0.0301), 1.5).tolist() == [3, 4, 2]
    assert match(STREET, np.array([0.0, 0.0301]), 1.5).dtype == np.int32


def test_match_widens_to_the_nearest_when_too_few_are_near():
    assert match(STREET, (0.0, -1.0), 1.0).tolist() == []
    assert match(STREET, (0.0, -1.0), 1.0, at_least=3).tolist() == [0, 1, 2]
    assert len(match(STREET, (0.0, -1.0), 1.0, at_least=99)) == 10


def test_places_without_coordinates_are_left_out():
    street = STREET.copy()
    street[3] = np.nan
    assert match(street, (0.0, 0.03), 1.5).tolist() == [2, 4]
    assert 3 not in match(street, (0.0, 0.03), 1.5, at_least=99)
    assert 3 not in RegionIndex.build(street).near((0.0, 0.03), 1.5, at_least=99)


@settings(max_examples=60)
@given(
    st.integers(0, 300),
    st.integers(0, 9),
    st.tuples(st.floats(32, 34), st.floats(-113, -111)),
    st.sampled_from([0.0, 0.3, 2.0, 11.0, 80.0, 25_000.0]),
    st.integers(0, 40),
)
def test_the_index_answers_what_looking_at_every_place_answers(places, seed, here, radius_km, at_least):
    location = town(places, seed)
    index = RegionIndex.build(location, resolution=7)
    expected = match(location, here, radius_km, at_least=at_least)
    assert index.near(here, radius_km, at_least=at_least).tolist() == expected.tolist()


def test_the_index_looks_only_at_cells_near_the_person(monkeypatch):
    location = town(3_000, seed=1)
    index = RegionIndex.build(location)
    looked_at = []
    monkeypatch.setattr(
        "prirec.graph.matching.haversine_km", lambda a, b: looked_at.append(len(a)) or haversine_km(a, b)
    )
    found = index.near((33.0, -112.0), 2.0)
    assert 0 < len(found) <= looked_at[0] < 0.2 * len(index.rows)


def test_the_index_holds_each_located_place_once():
    location = town(500, seed=3)
    index = RegionIndex.build(location)
    assert sorted(index.rows.tolist()) == np.flatnonzero(~np.isnan(location[:, 0])).tolist()
    for number, cell in enumerate(index.cells):
        rows = index.in_cells([int(cell)])
        assert rows.tolist() == index.rows[index.offsets[number] : index.offsets[number + 1]].tolist()
        assert {h3.latlng_to_cell(*location[row], 7) for row in rows} == {int(cell)}
    assert index.in_cells([h3.latlng_to_cell(0, 0, 7)]).tolist() == []


PENTAGON = h3.cell_to_latlng(h3.get_pentagons(6)[3])
spots = st.one_of(
    st.tuples(st.floats(-90, 90), st.floats(-180, 180)),
    st.sampled_from([PENTAGON, (90.0, 0.0), (0.0, 180.0), (33.4, -112.0)]),
)


@given(spots, st.floats(0, 12), st.floats(0, 1), st.floats(0, 2 * np.pi))
def test_cells_near_hold_every_point_within_the_radius(here, radius_km, part, bearing):
    cells = cells_near(*here, radius_km, 6)
    assert h3.latlng_to_cell(*around(here, part * radius_km, bearing), 6) in cells
    assert list(cells) == sorted(set(cells))


@given(st.floats(0, 0.99), st.integers(0, 5), st.floats(0, 12))
def test_cells_near_do_not_tell_where_in_the_cell_the_person_stands(part, direction, radius_km):
    cell = h3.latlng_to_cell(33.4, -112.0, 6)
    centre = h3.cell_to_latlng(cell)
    corner = h3.cell_to_boundary(cell)[direction]
    elsewhere = tuple(c + part * (k - c) for c, k in zip(centre, corner, strict=True))
    assert h3.latlng_to_cell(*elsewhere, 6) == cell
    assert cells_near(*elsewhere, radius_km, 6) == cells_near(*centre, radius_km, 6)


def test_cells_near_do_not_hold_half_the_country():
    assert len(cells_near(33.4, -112.0, 3.0, 7)) <= 37


@pytest.mark.parametrize("here", [(95.125, 0.0), (0.0, 195.125), (np.nan, 0.0), (np.inf, 0.0), (1.125,), (1.125, 2, 3)])
def test_a_bad_location_is_refused_without_being_repeated(here):
    for ask in (lambda: match(STREET, here, 1.0), lambda: RegionIndex.build(STREET).near(here, 1.0)):
        with pytest.raises(UsageError) as refused:
            ask()
        assert "125" not in str(refused.value)
    if len(here) == 2:
        with pytest.raises(UsageError):
            cells_near(*here, 1.0, 7)


@pytest.mark.parametrize("radius_km", [-1.0, np.nan, np.inf])
def test_a_radius_must_be_a_distance(radius_km):
    for ask in (
        lambda: match(STREET, (0.0, 0.0), radius_km),
        lambda: RegionIndex.build(STREET).near((0.0, 0.0), radius_km),
        lambda: cells_near(0.0, 0.0, radius_km, 7),
    ):
        with pytest.raises(UsageError, match=messages.RADIUS_NOT_A_DISTANCE):
            ask()


def test_a_radius_of_too_many_cells_asks_for_a_lower_resolution():
    with pytest.raises(UsageError, match=messages.resolution_must_be_below(9)):
        cells_near(0.0, 0.0, 1_000.0, 9)


def test_an_index_of_no_places_matches_none():
    index = RegionIndex.build(np.full((3, 2), np.nan))
    assert index.near((0.0, 0.0), 5.0, at_least=2).tolist() == []


def test_coarse_cells_are_h3_cells_and_zero_without_a_location():
    location = np.array([[33.45, -112.07], [np.nan, np.nan], [35.68, 139.65]])
    phoenix, tokyo = (h3.latlng_to_cell(*at, 6) for at in location[[0, 2]].tolist())
    cells = coarse_cells(location)
    assert cells.dtype == np.uint64
    assert cells.tolist() == [phoenix, 0, tokyo]
    assert coarse_cells(location, resolution=4)[0] == h3.cell_to_parent(phoenix, 4)
    assert coarse_cells(location[:0]).shape == (0,)


@pytest.mark.parametrize("resolution", [-1, 16])
def test_a_resolution_h3_does_not_have_is_refused(resolution):
    with pytest.raises(UsageError, match=messages.RESOLUTION_OUT_OF_RANGE):
        coarse_cells(np.zeros((1, 2)), resolution)
