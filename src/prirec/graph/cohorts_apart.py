"""The cohorts of graph/cohorts.py where nobody holds the whole roster: the same numbers for everyone.

What is added over the parts: how many people name each cell. Cells make groups; a crowded group is cut by the order of
hashes, and where to cut is found by counting: 64 times everyone is asked how many of their hashes are below a number.
"""

from typing import NamedTuple, Self

import numpy as np

from prirec.compiled import kernel
from prirec.errors import UsageError
from prirec.graph.cohorts import SPREAD, groups_of, hashed
from prirec.types import IndexArray, KeyArray, OffsetArray


class Cells(NamedTuple):
    """How many people name each cell; cells ascend."""

    cells: KeyArray
    people: OffsetArray

    @classmethod
    def of(cls, cells: KeyArray) -> Self:
        return cls(*np.unique(cells, return_counts=True))

    def plus(self, other: "Cells") -> "Cells":
        cells, where = np.unique(np.concatenate([self.cells, other.cells]), return_inverse=True)
        return Cells(cells, np.bincount(where, np.concatenate([self.people, other.people])).astype(np.int64))


class Counts(NamedTuple):
    values: OffsetArray

    def plus(self, other: "Counts") -> "Counts":
        return Counts(self.values + other.values)


class Keys(NamedTuple):
    keys: KeyArray

    def plus(self, other: "Keys") -> "Keys":
        return Keys(np.concatenate([self.keys, other.keys]))


class Groups(NamedTuple):
    """Public: which cell is in which group, and into how many cohorts each group is cut."""

    cells: KeyArray  # (n,), ascending
    group: OffsetArray  # (n,); SPREAD for those who are spread over all cohorts
    first: OffsetArray  # (G,): the number of each group's first cohort
    inhabitants: OffsetArray  # (G,)
    parts: OffsetArray  # (G,)

    @property
    def cohorts(self) -> int:
        return max(int(self.parts.sum()), 1)

    def cuts(self) -> tuple[OffsetArray, OffsetArray]:
        """For each cut of a group: the group, and how many people stand before the cut."""
        group = np.repeat(np.arange(len(self.parts)), self.parts - 1)
        number = np.arange(len(group)) - np.repeat(np.cumsum(self.parts - 1) - (self.parts - 1), self.parts - 1) + 1
        return group, -(-number * self.inhabitants[group] // self.parts[group])


def groups(found: Cells, *, size: int) -> Groups:
    """At the driver, from counts alone."""
    group = groups_of(found.cells, found.people, size=size)
    settled = group != SPREAD
    inhabitants = np.bincount(group[settled], found.people[settled]).astype(np.int64)
    parts = np.maximum(inhabitants // size, 1)
    return Groups(found.cells, group, np.concatenate([[0], np.cumsum(parts)[:-1]]).astype(np.int64), inhabitants, parts)


class Roster:
    """Some of the people, for whoever asks about hashes."""

    def __init__(self, cells: KeyArray, keys: KeyArray, known: Groups, *, beacon: int):
        self.keys, self.known = keys, known
        self.group: OffsetArray = known.group[np.searchsorted(known.cells, cells)]
        self.hashes = hashed(keys, beacon=beacon)
        order = np.lexsort((self.hashes, self.group))
        self._sorted, grouped = self.hashes[order], self.group[order]
        self._starts = np.searchsorted(grouped, np.arange(len(known.parts) + 1))

    def below(self, group: OffsetArray, pivots: KeyArray) -> Counts:
        """How many of these people's hashes are below each pivot, within its group."""
        return Counts(_below(self._sorted, self._starts, group, pivots))

    def strays(self) -> Keys:
        """Who is spread: always fewer than one cohort has."""
        return Keys(self.keys[self.group == SPREAD])

    def cohorts(self, cuts: KeyArray, strays: KeyArray) -> IndexArray:
        """(I,): the cohort of each, from the hashes at which groups are cut and everyone's strays in their order."""
        known = self.known
        ends = np.cumsum(known.parts - 1)
        part = _below(cuts, np.concatenate([[0], ends]), np.maximum(self.group, 0), self.hashes + np.uint64(1))
        number = known.first[np.maximum(self.group, 0)] + part
        stray = self.group == SPREAD
        row = {key: at for at, key in enumerate(strays.tolist())}
        number[stray] = [row[key] % known.cohorts for key in self.keys[stray].tolist()]
        return number.astype(np.int32)


def in_order(strays: KeyArray, *, beacon: int) -> KeyArray:
    """By hash(beacon, key)."""
    return strays[np.lexsort((strays, hashed(strays, beacon=beacon)))]


class Search:
    """For each cut the smallest number that has so many hashes below it, by halving."""

    def __init__(self, known: Groups):
        self.group, self.wanted = known.cuts()
        self._low = np.zeros(len(self.group), dtype=np.uint64)
        self._high = np.full(len(self.group), np.uint64(2**64 - 1))

    @property
    def pivots(self) -> KeyArray:
        return self._low + (self._high - self._low) // np.uint64(2)

    def told(self, counts: Counts) -> None:
        middle, enough = self.pivots, counts.values >= self.wanted
        self._high = np.where(enough, middle, self._high)
        self._low = np.where(enough, self._low, middle)

    def found(self, counts: Counts) -> KeyArray:
        """Once halved 64 times; told how many are below what was found."""
        if not np.array_equal(counts.values, self.wanted):
            raise UsageError("two devices have the same hash, and the order between them is not known; change the seed")
        return self._high

    @property
    def last(self) -> KeyArray:
        return self._high


HALVINGS = 64


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
