"""Disjoint cohorts: every person mixes models with one set of people and with no other (decisions/0005).

A device names a coarse h3 cell of its own choosing, and nothing finer is used here. Everything else is public: anyone
who holds the roster, the cells and the beacon computes the same cohorts. Cells make groups of at least `size` people;
a crowded group is cut into cohorts by the order of hash(beacon, key).
"""

from collections.abc import Iterator
from hashlib import blake2b
from itertools import repeat
from typing import NamedTuple, Self

import msgspec
import numpy as np
from h3.api import basic_int as h3

from prirec.config import Settings
from prirec.errors import PolicyError, UsageError
from prirec.features.samples import Samples
from prirec.graph.neighbours import (
    Neighbours,
    NeighbourSets,
    Weights,
    check_count,
    distance_weights,
    metropolis_weights,
    nearest,
    nearest_in_line,
    ones_weights,
    random_neighbours,
)
from prirec.types import BoolArray, IndexArray, KeyArray, OffsetArray, RealArray
from prirec.util.geography import located, unit_vectors
from prirec.util.jit import kernel
from prirec.util.keyed_random import generator, iteration_key, run_key

NO_CELL = np.uint64(0)  # not a cell in h3: the person gives no location
SPREAD = -1  # group of people who are too few for a cohort of their own: spread over all cohorts


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
    groups = cohort_groups(CellPopulation.of(cells), size=size)
    group = groups.of_cells(cells)
    cohort = groups.first[group]
    crowded = np.flatnonzero((group != SPREAD) & (groups.parts[group] > 1))
    rank = _hash_rank(group[crowded], keys[crowded], beacon=beacon)
    cohort[crowded] += rank * groups.parts[group[crowded]] // groups.inhabitants[group[crowded]]
    # fewer strays than one cohort has, so that each cohort gets at most a few: nobody is left alone or left out
    strays = np.flatnonzero(group == SPREAD)
    cohort[strays] = _hash_rank(group[strays], keys[strays], beacon=beacon) % groups.cohorts
    return cohort.astype(np.int32)


def _check(cells: KeyArray, keys: KeyArray, *, size: int, beacon: int) -> None:
    if cells.dtype != np.uint64 or keys.dtype != np.uint64 or cells.shape != keys.shape or cells.ndim != 1:
        raise UsageError("cohorts need one cell and one key a person, both uint64: see coarse_cells and person_keys")
    if size < 2:
        raise UsageError(f"a cohort of one is that person's own model: give a size of at least 2, not {size}")
    if beacon < 0:
        raise UsageError("the beacon is a whole number of 0 or more")


def _hash_rank(group: OffsetArray, keys: KeyArray, *, beacon: int) -> OffsetArray:
    """Each person's place, from 0, within the group in the order of hash(beacon, key)."""
    order = np.lexsort((keys, key_hashes(keys, beacon=beacon), group))
    ordered = group[order]
    rank = np.empty(len(group), dtype=np.int64)
    rank[order] = np.arange(len(group)) - np.searchsorted(ordered, ordered)
    return rank


def key_hashes(keys: KeyArray, *, beacon: int) -> KeyArray:
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


# Groups of cells, from how many people name each.


class CellPopulation(NamedTuple):
    """How many people name each cell; cells ascend."""

    cells: KeyArray
    people: OffsetArray

    @classmethod
    def of(cls, cells: KeyArray) -> Self:
        return cls(*np.unique(cells, return_counts=True))

    def plus(self, other: "CellPopulation") -> "CellPopulation":
        cells, where = np.unique(np.concatenate([self.cells, other.cells]), return_inverse=True)
        return CellPopulation(cells, np.bincount(where, np.concatenate([self.people, other.people])).astype(np.int64))


class CohortGroups(NamedTuple):
    """Public: which cell is in which group, and into how many cohorts each group is cut."""

    cells: KeyArray  # (n,), ascending
    group: OffsetArray  # (n,); SPREAD for those who are spread over all cohorts
    first: OffsetArray  # (G,): the number of each group's first cohort
    inhabitants: OffsetArray  # (G,)
    parts: OffsetArray  # (G,)

    @property
    def cohorts(self) -> int:
        """How many cohorts there are."""
        return max(int(self.parts.sum()), 1)

    def of_cells(self, cells: KeyArray) -> OffsetArray:
        """The group of each of these cells, all of which must be known."""
        found: OffsetArray = self.group[np.searchsorted(self.cells, cells)]
        return found

    def cuts(self) -> tuple[OffsetArray, OffsetArray]:
        """For each cut of a group: the group, and how many people stand before the cut."""
        group = np.repeat(np.arange(len(self.parts)), self.parts - 1)
        number = np.arange(len(group)) - np.repeat(np.cumsum(self.parts - 1) - (self.parts - 1), self.parts - 1) + 1
        return group, -(-number * self.inhabitants[group] // self.parts[group])


def cohort_groups(population: CellPopulation, *, size: int) -> CohortGroups:
    """Groups of cells from how many people name each cell: all that a driver of parts needs to know of people."""
    group = _group_cells(population.cells, population.people, size=size)
    settled = group != SPREAD
    inhabitants = np.bincount(group[settled], population.people[settled]).astype(np.int64)
    parts = np.maximum(inhabitants // size, 1)
    return CohortGroups(
        population.cells, group, np.concatenate([[0], np.cumsum(parts)[:-1]]).astype(np.int64), inhabitants, parts
    )


def _group_cells(homes: KeyArray, counts: OffsetArray, *, size: int) -> OffsetArray:
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


# The same cohorts where nobody holds the whole roster, because the people are in parts.
#
# Counts over the parts are added up. Where a group is cut is found by counting too: 64 times every part says how many
# of its hashes are below a number.


HALVINGS = 64


class SummableCounts(NamedTuple):
    """Counts that are added up over the parts."""

    values: OffsetArray

    def plus(self, other: "SummableCounts") -> "SummableCounts":
        return SummableCounts(self.values + other.values)


class SummableKeys(NamedTuple):
    """Keys that are gathered from all parts."""

    keys: KeyArray

    def plus(self, other: "SummableKeys") -> "SummableKeys":
        return SummableKeys(np.concatenate([self.keys, other.keys]))


class PartialRoster:
    """The people of some parts, sorted by hash within their group, to answer how many hashes are below a number."""

    def __init__(self, cells: KeyArray, keys: KeyArray, groups: CohortGroups, *, beacon: int):
        self.keys, self.groups = keys, groups
        self.group = groups.of_cells(cells)
        self.hashes = key_hashes(keys, beacon=beacon)
        order = np.lexsort((self.hashes, self.group))
        self._sorted, grouped = self.hashes[order], self.group[order]
        self._starts = np.searchsorted(grouped, np.arange(len(groups.parts) + 1))

    def below(self, group: OffsetArray, pivots: KeyArray) -> SummableCounts:
        """How many of these people's hashes are below each pivot, within its group."""
        return SummableCounts(_below(self._sorted, self._starts, group, pivots))

    def strays(self) -> SummableKeys:
        """Keys of the people who are spread over all cohorts: always fewer than one cohort has."""
        return SummableKeys(self.keys[self.group == SPREAD])

    def cohorts(self, cuts: KeyArray, strays: KeyArray) -> IndexArray:
        """(I,): the cohort of each, from the hashes at which groups are cut and everyone's strays in their order."""
        groups = self.groups
        ends = np.cumsum(groups.parts - 1)
        part = _below(cuts, np.concatenate([[0], ends]), np.maximum(self.group, 0), self.hashes + np.uint64(1))
        number = groups.first[np.maximum(self.group, 0)] + part
        stray = self.group == SPREAD
        row = {key: at for at, key in enumerate(strays.tolist())}
        number[stray] = [row[key] % groups.cohorts for key in self.keys[stray].tolist()]
        return number.astype(np.int32)


def ordered_by_hash(strays: KeyArray, *, beacon: int) -> KeyArray:
    """Keys in the order of hash(beacon, key), in which strays are dealt out to cohorts."""
    return strays[np.lexsort((strays, key_hashes(strays, beacon=beacon)))]


class CutSearch:
    """For each cut of a group the smallest number that has so many hashes below it, by bisection over 64 bits."""

    def __init__(self, groups: CohortGroups):
        self.group, self.wanted = groups.cuts()
        self._low = np.zeros(len(self.group), dtype=np.uint64)
        self._high = np.full(len(self.group), np.uint64(2**64 - 1))

    @property
    def pivots(self) -> KeyArray:
        """The middle of each interval: every part counts its hashes below these."""
        return self._low + (self._high - self._low) // np.uint64(2)

    def narrow(self, counts: SummableCounts) -> None:
        """One halving, from how many hashes of all parts are below each pivot."""
        middle, enough = self.pivots, counts.values >= self.wanted
        self._high = np.where(enough, middle, self._high)
        self._low = np.where(enough, self._low, middle)

    def found(self, counts: SummableCounts) -> KeyArray:
        """The cuts after 64 halvings, checked against how many hashes are below `last`."""
        if not np.array_equal(counts.values, self.wanted):
            raise UsageError("two devices have the same hash, and the order between them is not known; change the seed")
        return self._high

    @property
    def last(self) -> KeyArray:
        """The upper end of each interval; after 64 halvings, the cut itself."""
        return self._high


@kernel
def _below(ordered: KeyArray, starts: OffsetArray, group: OffsetArray, pivots: KeyArray) -> OffsetArray:
    """For each pivot how many of its group's numbers, which ascend, are below it."""
    out = np.empty(pivots.size, dtype=np.int64)
    for i in range(pivots.size):
        low, high = starts[group[i]], starts[group[i] + 1]
        first = low
        while low < high:
            middle = (low + high) // 2
            if ordered[middle] < pivots[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low - first
    return out


# Who learns with whom, from the settings: cohorts for rounds, neighbours for the paper's schedule.


def cohort_numbers(samples: Samples, settings: Settings) -> IndexArray:
    """(I,): the cohort of each person, from the coarse cell that the device names; by hash where there is no home."""
    return cohorts_of(cells_of(samples.home, len(samples.ids), settings), samples.keys, settings)


def cohorts_of(cells: KeyArray, keys: KeyArray, settings: Settings) -> IndexArray:
    """(I,): the cohort of each person from what is public: the cell that the device named, and the key of its id."""
    people, size = len(keys), settings.neighbours.size
    # cohorts() would make one cohort of whoever is there; a sum over them would not be opened in any round
    if people < settings.floor:
        raise PolicyError(
            f"{people} people are fewer than the floor of {settings.floor} for an opened sum; the filter data.keep may "
            "have left some out"
        )
    return cohorts(cells, keys, size=size, beacon=int(run_key(settings.seed, "beacon")))


def cells_of(home: RealArray | None, people: int, settings: Settings) -> KeyArray:
    """(I,): the coarse cell that each device names; none where there are no homes."""
    where = np.full((people, 2), np.nan) if home is None else home
    return coarse_cells(where, resolution=settings.neighbours.resolution)


def neighbourhoods_of(samples: Samples, settings: Settings, *, iteration: int, online: BoolArray) -> NeighbourSets:
    """N(i) and S_if among those online in this pass."""
    rows = np.flatnonzero(online).astype(np.int32)
    position = np.full(len(online), -1, dtype=np.int32)
    position[rows] = np.arange(len(rows), dtype=np.int32)
    if settings.neighbours.kind == "random":
        if settings.neighbours.weights != "uniform":
            raise UsageError("neighbours drawn anew for each interaction have uniform weights only")
        none = np.zeros(len(online) + 1, dtype=np.int64)
        empty = np.empty(0, dtype=np.int32)
        return NeighbourSets(
            none, empty, np.empty(0), np.zeros(len(online)), _how_many_fresh(settings, online), rows, position
        )
    found = _neighbours(samples, settings, iteration=iteration, online=online)
    weights, own = _weights(found, samples, settings)
    return NeighbourSets(found.offsets, found.people, weights, own, 0, rows, position)


def _neighbours(samples: Samples, settings: Settings, *, iteration: int, online: BoolArray) -> Neighbours:
    n = settings.neighbours
    if n.kind == "fixed":
        everyone = random_neighbours(len(online), count=n.count, rng=generator(settings.seed, "fixed neighbours"))
        return _only_online(everyone, online)
    if n.kind == "alike" and samples.area is not None:
        return nearest_in_line(samples.area, count=n.count, online=online)
    if samples.home is None:
        raise UsageError(
            "nearest neighbours need coordinates, which this city has not; set neighbours.kind to 'random'"
        )
    drawn = generator(int(iteration_key(settings.seed, "among the closest", iteration)) >> 1, "draw")
    return nearest(samples.home, count=n.count, online=online, among=n.among, rng=drawn)


def _how_many_fresh(settings: Settings, online: BoolArray) -> int:
    """How many neighbours are drawn for an interaction: N, or all others online where they are fewer. Nobody where one
    other person is online: the sum would be that person's own model."""
    check_count(settings.neighbours.count, people=len(online))
    others = int(np.count_nonzero(online)) - 1
    return min(settings.neighbours.count, others) if others > 1 else 0


def adapt_to_coordinates(settings: Settings, *, located: bool) -> Settings:
    """Settings that fit a city with or without coordinates: without, neighbours are drawn anew for each interaction
    instead of from nearby, as the paper does for Foursquare (decisions/0008)."""
    n = settings.neighbours
    if located or settings.schedule != "samples" or n.kind != "nearest" or n.weights != "uniform":
        return settings
    return msgspec.structs.replace(settings, neighbours=msgspec.structs.replace(n, kind="random", among=None))


def _only_online(everyone: Neighbours, online: BoolArray) -> Neighbours:
    """The graph without the people who are offline, and without their edges."""
    kept = online[everyone.people] & online[everyone.owners()]
    counts = np.bincount(everyone.owners()[kept], minlength=len(online))
    return Neighbours(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), everyone.people[kept])


def _weights(found: Neighbours, samples: Samples, settings: Settings) -> Weights:
    kind = settings.neighbours.weights
    if kind == "uniform":  # 1 / |N(i)| is not stored for each edge: engines divide the sum once
        return np.empty(0), np.zeros(len(found))
    if kind == "metropolis":
        return metropolis_weights(found)
    if kind == "ones-diverges":
        return ones_weights(found, knowing="it diverges")
    if samples.home is None:
        raise UsageError("weights by distance need coordinates, which this city has not; use uniform weights")
    return distance_weights(found, samples.home, kind=kind, scale_km=settings.neighbours.scale_km)
