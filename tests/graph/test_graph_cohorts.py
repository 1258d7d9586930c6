import h3.api.basic_int as h3
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.graph.cohorts import NO_CELL, coarse_cells, cohorts
from prirec.util.keyed_random import person_keys
from support import messages

PHOENIX, TOKYO, LIMA = (h3.latlng_to_cell(*at, 6) for at in ((33.45, -112.07), (35.68, 139.65), (-12.05, -77.04)))
CELLS = [int(NO_CELL), *h3.grid_disk(PHOENIX, 1), *h3.grid_disk(TOKYO, 1), LIMA, h3.cell_to_parent(LIMA, 4)]


def city(*crowds: tuple[int, int]) -> np.ndarray:
    """(cell, people) pairs to one cell a person."""
    return np.concatenate([np.full(people, cell, dtype=np.uint64) for cell, people in crowds])


def keys_for(cells: np.ndarray) -> np.ndarray:
    return person_keys([f"person {i}" for i in range(len(cells))])


def sizes(cohort: np.ndarray) -> list[int]:
    return np.bincount(cohort).tolist()


populations = st.lists(st.sampled_from(CELLS), max_size=150).map(lambda cells: np.array(cells, dtype=np.uint64))


@settings(max_examples=200)
@given(populations, st.integers(2, 30), st.integers(0, 2**256))
def test_no_cohort_is_smaller_than_asked_and_none_is_skipped(cells, size, beacon):
    cohort = cohorts(cells, keys_for(cells), size=size, beacon=beacon)
    assert cohort.dtype == np.int32
    if len(cells) < 2 * size:
        assert set(cohort.tolist()) <= {0}
    else:
        assert min(sizes(cohort)) >= size
        assert max(sizes(cohort)) < 3 * size


@settings(max_examples=200)
@given(populations, st.integers(2, 30), st.integers(0, 2**64), st.randoms(use_true_random=False))
def test_the_order_of_people_does_not_matter(cells, size, beacon, random):
    keys = keys_for(cells)
    order = list(range(len(cells)))
    random.shuffle(order)
    straight = cohorts(cells, keys, size=size, beacon=beacon)
    assert (cohorts(cells[order], keys[order], size=size, beacon=beacon) == straight[order]).all()


def test_cities_far_apart_do_not_share_a_cohort():
    cells = city((PHOENIX, 12), (TOKYO, 13), (LIMA, 11))
    cohort = cohorts(cells, keys_for(cells), size=10, beacon=1)
    assert sizes(cohort) in ([12, 13, 11], [12, 11, 13], [13, 12, 11], [13, 11, 12], [11, 12, 13], [11, 13, 12])
    assert all(len(set(cohort[cells == cell].tolist())) == 1 for cell in np.unique(cells))


def test_a_cell_below_the_size_joins_its_surroundings():
    neighbour = sorted(set(h3.grid_disk(PHOENIX, 1)) - {PHOENIX})[0]
    cells = city((PHOENIX, 10), (neighbour, 3), (TOKYO, 13))
    cohort = cohorts(cells, keys_for(cells), size=10, beacon=1)
    assert sorted(sizes(cohort)) == [13, 13]
    assert len(set(cohort[:13].tolist())) == 1


def test_the_cut_is_as_near_to_half_as_cells_allow():
    row = h3.grid_path_cells(PHOENIX, h3.grid_ring(PHOENIX, 5)[0])
    cells = city(*((cell, 5) for cell in row))  # six cells of five
    assert sizes(cohorts(cells, keys_for(cells), size=8, beacon=0)) == [15, 15]


def test_a_crowded_cell_is_divided_into_equal_parts():
    cells = city((PHOENIX, 35))
    assert sorted(sizes(cohorts(cells, keys_for(cells), size=10, beacon=5))) == [11, 12, 12]


def test_the_beacon_reshuffles_a_crowded_cell_but_not_the_map():
    cells = city((PHOENIX, 400), (TOKYO, 150))
    one, two = (cohorts(cells, keys_for(cells), size=100, beacon=beacon) for beacon in (1, 2))
    assert (one[400:] == two[400:]).all()
    assert (one[:400] != two[:400]).mean() > 0.5


@pytest.mark.parametrize("beacon", [0, 1, 255, 256, 2**63, 2**64, 2**256 + 1])
def test_any_whole_number_is_a_beacon_of_its_own(beacon):
    cells = city((PHOENIX, 200))
    other = cohorts(cells, keys_for(cells), size=50, beacon=beacon + 1)
    assert (cohorts(cells, keys_for(cells), size=50, beacon=beacon) != other).any()


def test_many_people_without_a_location_form_cohorts_of_their_own():
    cells = city((NO_CELL, 25), (PHOENIX, 15))
    cohort = cohorts(cells, keys_for(cells), size=10, beacon=3)
    assert set(cohort[:25].tolist()).isdisjoint(cohort[25:].tolist())
    assert sorted(sizes(cohort)) == [12, 13, 15]


def test_a_few_without_location_are_spread_evenly():
    cells = city((NO_CELL, 7), (PHOENIX, 10), (TOKYO, 10), (LIMA, 10))
    cohort = cohorts(cells, keys_for(cells), size=10, beacon=3)
    assert sorted(np.bincount(cohort[:7], minlength=3).tolist()) == [2, 2, 3]


def test_when_nobody_gives_a_location_all_are_divided_by_hash():
    cells = city((NO_CELL, 45))
    assert sizes(cohorts(cells, keys_for(cells), size=10, beacon=3)) in ([12, 11, 11, 11], [11, 11, 11, 12])


def test_too_few_on_the_map_for_a_cohort_are_divided_with_the_rest():
    cells = city((NO_CELL, 40), (PHOENIX, 5))
    assert min(sizes(cohorts(cells, keys_for(cells), size=10, beacon=3))) >= 10


def test_without_people_there_is_no_cohort():
    nobody = np.array([], dtype=np.uint64)
    assert cohorts(nobody, nobody, size=10, beacon=0).shape == (0,)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"size": 1}, messages.COHORT_OF_ONE),
        ({"beacon": -1}, messages.BEACON_NEGATIVE),
        ({"keys": np.arange(3, dtype=np.uint64)}, messages.CELLS_OR_KEYS_UNFIT),
        ({"keys": np.arange(40)}, messages.CELLS_OR_KEYS_UNFIT),
        ({"cells": np.full(40, 987654321, dtype=np.uint64)}, messages.CELL_INVALID),
    ],
)
def test_invalid_arguments_of_cohorts_are_refused(change, says):
    cells = city((PHOENIX, 40))
    asked = {"cells": cells, "keys": keys_for(cells), "size": 10, "beacon": 0} | change
    with pytest.raises(UsageError, match=says) as refused:
        cohorts(asked["cells"], asked["keys"], size=asked["size"], beacon=asked["beacon"])
    assert "987654321" not in str(refused.value)


def test_coarse_cells_are_h3_cells_and_zero_without_a_location():
    location = np.array([[33.45, -112.07], [np.nan, np.nan], [35.68, 139.65]])
    cells = coarse_cells(location)
    assert cells.dtype == np.uint64
    assert cells.tolist() == [PHOENIX, 0, TOKYO]
    assert coarse_cells(location, resolution=4)[0] == h3.cell_to_parent(PHOENIX, 4)
    assert coarse_cells(location[:0]).shape == (0,)


@pytest.mark.parametrize("resolution", [-1, 16])
def test_a_resolution_h3_does_not_have_is_refused(resolution):
    with pytest.raises(UsageError, match=messages.RESOLUTION_OUT_OF_RANGE):
        coarse_cells(np.zeros((1, 2)), resolution)
