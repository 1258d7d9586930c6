"""Disjoint cohorts: every person mixes models with one set of people and with no other (decisions/0005).

A device names a coarse h3 cell of its own choosing, and nothing finer is used here. Everything else is public: anyone
who holds the roster, the cells and the beacon computes the same cohorts.
"""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import repeat

import numpy as np
from h3.api import basic_int as h3

from prirec.errors import UsageError
from prirec.geography import located, unit_vectors
from prirec.types import IndexArray, KeyArray, OffsetArray, RealArray

NO_CELL = np.uint64(0)  # not a cell in h3: the person gives no location
SPREAD = -1


def coarse_cells(location: RealArray, resolution: int = 6) -> KeyArray:
    """(n, 2) degrees to the h3 cell each device would name, NO_CELL without a location; runs on the device."""
    if not 0 <= resolution <= 15:
        raise UsageError(f"h3 resolutions go from 0 (continents) to 15 (a square metre); got {resolution}")
    known = located(location)
    latitude, longitude = location[known].T.tolist()
    cells = np.full(len(location), NO_CELL)
    cells[known] = np.fromiter(map(h3.latlng_to_cell, latitude, longitude, repeat(resolution)), np.uint64)
    return cells


def cohorts(cells: KeyArray, keys: KeyArray, *, size: int, beacon: int) -> IndexArray:
    """Cohort numbers 0 .. C - 1 for everyone, shape (I,); nobody's cohort has fewer than `size` people.

    With fewer than 2 · size people there is one cohort. The answer follows from what people name and the beacon,
    never from the order in which they stand.
    """
    _check(cells, keys, size=size, beacon=beacon)
    homes, home, counts = np.unique(cells, return_inverse=True, return_counts=True)
    group = groups_of(homes, counts, size=size)[home]
    inhabitants = np.bincount(group[group != SPREAD])
    parts = np.maximum(inhabitants // size, 1)
    cohort = np.concatenate([[0], np.cumsum(parts)[:-1]])[group]
    crowded = np.flatnonzero((group != SPREAD) & (parts[group] > 1))
    rank = _hash_rank(group[crowded], keys[crowded], beacon=beacon)
    cohort[crowded] += rank * parts[group[crowded]] // inhabitants[group[crowded]]
    strays = np.flatnonzero(group == SPREAD)
    cohort[strays] = _hash_rank(group[strays], keys[strays], beacon=beacon) % max(parts.sum(), 1)
    return cohort.astype(np.int32)


def _check(cells: KeyArray, keys: KeyArray, *, size: int, beacon: int) -> None:
    if cells.dtype != np.uint64 or keys.dtype != np.uint64 or cells.shape != keys.shape or cells.ndim != 1:
        raise UsageError("cohorts need one cell and one key a person, both uint64: see coarse_cells and person_keys")
    if size < 2:
        raise UsageError(f"a cohort of one is that person's own model: give a size of at least 2, not {size}")
    if beacon < 0:
        raise UsageError("the beacon is a whole number of 0 or more")


def groups_of(homes: KeyArray, counts: OffsetArray, *, size: int) -> OffsetArray:
    """For each distinct cell the group its people belong to; SPREAD for those to be spread over all cohorts."""
    on_map = np.flatnonzero(homes != NO_CELL)
    if counts[on_map].sum() < size:
        return np.zeros(len(homes), dtype=np.int64)
    group = np.full(len(homes), SPREAD, dtype=np.int64)
    number = 0
    for members in _split_map(_centres(homes[on_map]), counts[on_map], size=size):
        group[on_map[members]] = number
        number += 1
    if homes[0] == NO_CELL and counts[0] >= size:
        group[0] = number
    return group


def _centres(cells: KeyArray) -> RealArray:
    numbers = cells.tolist()
    if not all(map(h3.is_valid_cell, numbers)):
        raise UsageError("a cell is not an h3 cell: name one with coarse_cells, or 0 for none")
    return unit_vectors(np.array([h3.cell_to_latlng(number) for number in numbers]))


def _split_map(centres: RealArray, counts: OffsetArray, *, size: int) -> Iterator[OffsetArray]:
    """Halve the cells again and again while both halves keep `size` people; what is left, in order along the map."""
    waiting = [np.arange(len(counts))]
    while waiting:
        members = waiting.pop()
        halves = _halves(members, centres[members], counts[members], size=size)
        if halves is None:
            yield members
        else:
            waiting += reversed(halves)


def _halves(
    members: OffsetArray, centres: RealArray, counts: OffsetArray, *, size: int
) -> tuple[OffsetArray, OffsetArray] | None:
    """Cut between two cells as near to half the people as can be, across the widest axis that allows it."""
    total = counts.sum()
    if total < 2 * size or len(members) < 2:
        return None
    for axis in np.argsort(-np.ptp(centres, axis=0), kind="stable"):
        order = np.argsort(centres[:, axis], kind="stable")
        before = np.cumsum(counts[order])[:-1]
        allowed = np.flatnonzero((before >= size) & (total - before >= size))
        if len(allowed):
            cut = 1 + allowed[np.argmin(np.abs(2 * before[allowed] - total))]
            return members[order[:cut]], members[order[cut:]]
    return None


def _hash_rank(group: OffsetArray, keys: KeyArray, *, beacon: int) -> OffsetArray:
    """Each person's place, from 0, within the group in the order of hash(beacon, key)."""
    order = np.lexsort((keys, hashed(keys, beacon=beacon), group))
    ordered = group[order]
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - np.searchsorted(ordered, ordered)
    return rank


def hashed(keys: KeyArray, *, beacon: int) -> KeyArray:
    """hash(beacon, key) for each.

    A cryptographic hash, because a server could otherwise enrol devices that land beside a chosen person whatever the
    beacon turns out to be.
    """
    seal = blake2b(beacon.to_bytes(1 + beacon.bit_length() // 8, "little"), digest_size=32).digest()
    data = keys.astype("<u8").tobytes()
    digests = (
        blake2b(data[at : at + 8], digest_size=8, key=seal, person=b"prirec cohort").digest()
        for at in range(0, len(data), 8)
    )
    return np.frombuffer(b"".join(digests), "<u8").astype(np.uint64)
