"""Cohorts that are found in parts, by counting, are those that are found with the whole roster."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.graph import cohorts as cohorts_apart
from prirec.graph.cohorts import (
    HALVINGS,
    NO_CELL,
    CellPopulation,
    CutSearch,
    PartialRoster,
    coarse_cells,
    cohort_groups,
    cohorts,
    ordered_by_hash,
)
from support import messages

BEACON = 12345


def found_apart(cells, keys, parts, *, size):
    """What the parts of a roster come to, told only counts and strays of each other."""
    known = cohort_groups(sum_of([CellPopulation.of(cells[part]) for part in parts]), size=size)
    rosters = [PartialRoster(cells[part], keys[part], known, beacon=BEACON) for part in parts]
    search = CutSearch(known)
    for _ in range(HALVINGS):
        search.narrow(sum_of([roster.below(search.group, search.pivots) for roster in rosters]))
    cuts = search.found(sum_of([roster.below(search.group, search.last) for roster in rosters]))
    strays = ordered_by_hash(sum_of([roster.strays() for roster in rosters]).keys, beacon=BEACON)
    answer = np.empty(len(keys), dtype=np.int32)
    for part, roster in zip(parts, rosters, strict=True):
        answer[part] = roster.cohorts(cuts, strays)
    return answer, known


def sum_of(some):
    total = some[0]
    for one in some[1:]:
        total = total.plus(one)
    return total


@settings(max_examples=40)
@given(
    people=st.integers(2, 400), spread=st.floats(0.0, 3.0), lost=st.floats(0.0, 1.0), size=st.integers(2, 60),
    shards=st.integers(1, 5), seed=st.integers(0, 10**6),
)  # fmt: skip
def test_parts_find_the_cohorts_of_the_whole(people, spread, lost, size, shards, seed):
    rng = np.random.default_rng(seed)
    location = np.array([35.0, 139.0]) + rng.normal(0, spread, size=(people, 2))
    location[rng.random(people) < lost] = np.nan
    cells = coarse_cells(location, resolution=5)
    keys = rng.integers(2**64, size=people, dtype=np.uint64)
    where = rng.integers(shards, size=people)
    parts = [np.flatnonzero(where == shard) for shard in np.unique(where)]
    wanted = cohorts(cells, keys, size=size, beacon=BEACON)
    found, known = found_apart(cells, keys, parts, size=size)
    assert np.array_equal(found, wanted)
    assert known.cohorts == wanted.max() + 1


def test_some_people_without_a_cell_are_spread_over_all_cohorts():
    rng = np.random.default_rng(0)
    location = np.array([35.0, 139.0]) + rng.normal(0, 1.0, size=(300, 2))
    location[:7] = np.nan
    cells, keys = coarse_cells(location, resolution=4), rng.integers(2**64, size=300, dtype=np.uint64)
    found, _ = found_apart(cells, keys, [np.arange(0, 300, 2), np.arange(1, 300, 2)], size=20)
    assert (cells[:7] == NO_CELL).all()
    assert len(set(found[:7].tolist())) > 3
    assert np.array_equal(found, cohorts(cells, keys, size=20, beacon=BEACON))


def test_two_devices_with_one_hash_where_a_group_is_cut_are_refused(monkeypatch):
    monkeypatch.setattr(cohorts_apart, "key_hashes", lambda keys, *, beacon: np.full(len(keys), np.uint64(7)))
    cells, keys = np.full(40, NO_CELL), np.arange(40, dtype=np.uint64)
    with pytest.raises(UsageError, match=messages.SAME_HASH_TWICE):
        found_apart(cells, keys, [np.arange(40)], size=10)
