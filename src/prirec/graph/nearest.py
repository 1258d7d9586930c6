"""The user adjacency network: for each person the N closest of those online (paper, decentralised model propagation).

Whoever computes this knows where everyone is. It belongs to simulation and to the paper's mode; devices form cohorts
from coarse cells instead (decisions/0005).
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator
from scipy.spatial import cKDTree

from prirec.errors import UsageError
from prirec.geography import located, unit_vectors
from prirec.keyed import mix_each
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray
from prirec.zorder import morton

_BLOCK = 1 << 16  # people queried at a time, so that memory follows the answer and not the search
_JITTER = 1e-10  # of the earth's radius: 0.6 mm


@dataclass(frozen=True, slots=True)
class Neighbours:
    """N(i) for everyone: person i has people[offsets[i]:offsets[i + 1]]."""

    offsets: OffsetArray = field(repr=False)  # (I + 1,)
    people: IndexArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of(self, person: int) -> IndexArray:
        """N(i) for one person."""
        return self.people[self.offsets[person] : self.offsets[person + 1]]

    def counts(self) -> OffsetArray:
        """|N(i)| for everyone, shape (I,)."""
        return np.diff(self.offsets)

    def owners(self) -> IndexArray:
        """For each entry of `people`, the person whose neighbour it is."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.counts())


def nearest(
    location: RealArray,
    *,
    count: int,
    online: BoolArray | None = None,
    among: int | None = None,
    rng: Generator | None = None,
) -> Neighbours:
    """N(i): the `count` closest online people, closest first, or `count` drawn from the `among` closest.

    Empty for people offline or without a location; fewer than `count` when fewer are there. People less than a
    millimetre apart count as equally far.
    """
    check_count(count, people=len(location))
    reach = _reach(count, among=among, rng=rng)
    there = located(location) if online is None else located(location) & _one_each(online, location)
    rows = np.flatnonzero(there).astype(np.int32)
    order = np.argsort(morton(location[rows]), kind="stable")  # a walk along the map finds the tree in cache: 2x
    return _around(unit_vectors(location[rows]), there, order, reach=reach, count=count, rng=rng)


def nearest_in_line(position: RealArray, *, count: int, online: BoolArray) -> Neighbours:
    """The same for people who stand in a line, (I,), NaN for those who stand nowhere: those at one's own position come
    first, and which of them is by chance of their order."""
    check_count(count, people=len(position))
    there = ~np.isnan(position) & _one_each(online, position)
    order = np.argsort(position[there], kind="stable")
    return _around(position[there, None], there, order, reach=count, count=count, rng=None)


def _around(
    points: RealArray, there: BoolArray, order: OffsetArray, *, reach: int, count: int, rng: Generator | None
) -> Neighbours:
    """Neighbours of those who are there, each of whom has a point; `order` is a walk along the points."""
    walk = np.flatnonzero(there).astype(np.int32)[order]
    reach = min(reach, max(len(walk) - 1, 0))
    chosen = _search(_apart(points[order]), reach=reach, count=count, rng=rng)
    people = np.empty_like(chosen)
    people[order] = walk[chosen]
    offsets = np.concatenate([[0], np.cumsum(there * np.int64(min(reach, count)))])
    return Neighbours(offsets, people.ravel())


def check_count(count: int, *, people: int) -> None:
    """UsageError unless 1 <= N <= people - 1."""
    if not 1 <= count < people:
        raise UsageError(
            f"N, the number of neighbours, must be from 1 to {people - 1} with {people} people; got {count}"
        )


def _reach(count: int, *, among: int | None, rng: Generator | None) -> int:
    if among is None:
        return count
    if among < count:
        raise UsageError(f"cannot draw {count} neighbours from the {among} closest: give among >= {count}")
    if rng is None:
        raise UsageError("drawing among the closest needs a random generator: give rng")
    return among


def _one_each(online: BoolArray, location: RealArray) -> BoolArray:
    if online.dtype != np.bool_ or online.shape != (len(location),):
        raise UsageError(f"online must hold one boolean for each of {len(location)} people")
    return online


def _apart(points: RealArray) -> RealArray:
    """The same points, nudged by less than a millimetre by position in the list.

    Without this, people at one address (or all at a city's centre) fall into a single leaf that each of them scans
    whole, and all of them get the same few neighbours.
    """
    nudges = mix_each(0, np.arange(points.size, dtype=np.uint64)).reshape(points.shape)
    return points + _JITTER * (nudges * 2.0**-64 - 0.5)


def _search(points: RealArray, *, reach: int, count: int, rng: Generator | None) -> IndexArray:
    """Positions (n, min(reach, count)) of the chosen neighbours among the points themselves."""
    width = min(reach, count)
    chosen = np.empty((len(points), width), dtype=np.int32)
    if width == 0:
        return chosen
    tree = cKDTree(points)
    for begin in range(0, len(points), _BLOCK):
        _, found = tree.query(points[begin : begin + _BLOCK], k=np.arange(1, reach + 2), workers=1)
        others = _without_self(found, first=begin)
        chosen[begin : begin + _BLOCK] = others if reach == width or rng is None else _some(others, width, rng)
    return chosen


def _without_self(found: OffsetArray, *, first: int) -> OffsetArray:
    """(r, k + 1) points found for the points from `first` on, to (r, k) without the point itself."""
    keep = found != np.arange(first, first + len(found))[:, None]
    keep[keep.all(axis=1), -1] = False  # crowded out by others at the very same place: drop the last of those
    others: OffsetArray = found[keep].reshape(len(found), -1)
    return others


def _some(others: OffsetArray, width: int, rng: Generator) -> OffsetArray:
    """`width` of each row, drawn without replacement, still closest first."""
    drawn = np.argpartition(rng.random(others.shape), width - 1, axis=1)[:, :width]
    return np.take_along_axis(others, np.sort(drawn, axis=1), axis=1)
