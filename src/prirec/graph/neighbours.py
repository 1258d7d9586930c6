"""The user adjacency network: who learns with whom in the paper's schedule (decentralised model propagation).

Neighbours are the N closest of those online, those alike, fixed ones, or drawn anew for each interaction.

Whoever computes this knows where everyone is. It belongs to simulation, and to the paper's schedule alone.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator

from prirec.config import DIVERGES, Settings
from prirec.errors import UsageError
from prirec.features.samples import Samples
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray
from prirec.util.geography import haversine_km, located, morton, unit_vectors
from prirec.util.jit import kernel_for
from prirec.util.keyed_random import Word, below, generator, iteration_key, mix, mix_each, word

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


class NeighbourSets(NamedTuple):
    """N(i) and S_if for everyone. With `fresh` > 0 that many are drawn anew for each interaction instead."""

    offsets: OffsetArray  # (I + 1,)
    people: IndexArray
    weights: RealArray  # aligned with people; empty for S_if = 1 / |N(i)|, which is divided out once, in the clear
    own: RealArray  # (I,): S_ii, 0 where the weights leave nothing for oneself
    fresh: int
    online: IndexArray  # rows of those online
    position: IndexArray  # (I,): where a person stands in `online`


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
    """N(i) along a line: the `count` online people whose positions, (I,), are closest; NaN for people without one. Of
    several at the same distance, the order of rows decides."""
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
    chosen = _search(_jittered(points[order]), reach=reach, count=count, rng=rng)
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


def _jittered(points: RealArray) -> RealArray:
    """The points, each moved by less than a millimetre, by its position in the list.

    Without this, people at one address (or all at a city's centre) fall into a single leaf that each of them scans
    whole, and all of them get the same few neighbours.
    """
    nudges = mix_each(0, np.arange(points.size, dtype=np.uint64)).reshape(points.shape)
    return points + _JITTER * (nudges * 2.0**-64 - 0.5)


def _search(points: RealArray, *, reach: int, count: int, rng: Generator | None) -> IndexArray:
    """Positions (n, min(reach, count)) of the chosen neighbours among the points themselves."""
    from scipy.spatial import cKDTree

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


# Neighbours at random, as the paper has them for Foursquare: fixed once, or drawn anew for each interaction.


_BLOCK_CELLS = 1 << 22  # entries worked on at a time


def random_neighbours(people: int, *, count: int, rng: Generator) -> Neighbours:
    """N(i) drawn once: `count` distinct people, never oneself, every set equally likely."""
    check_count(count, people=people)
    chosen = np.empty((people, count), dtype=np.int32)
    sparse = 2 * count <= people
    step = max(1, _BLOCK_CELLS // (count if sparse else people))
    for begin in range(0, people, step):
        rows = min(step, people - begin)
        drawn = _by_rejection(rows, people - 1, count, rng) if sparse else _by_order(rows, people - 1, count, rng)
        chosen[begin : begin + rows] = drawn + (drawn >= np.arange(begin, begin + rows)[:, None])  # step over oneself
    offsets = np.arange(people + 1, dtype=np.int64) * count
    return Neighbours(offsets, chosen.ravel())


def draw(key: Word, person: int, people: int, count: int) -> IndexArray:
    """`count` distinct people other than the person, a function of (key, person) alone; key: one per interaction."""
    check_count(count, people=people)
    if not 0 <= person < people:
        raise UsageError(f"a person is a row from 0 to {people - 1}")
    out = np.empty(count, dtype=np.int32)
    draw_neighbours(key, person, people, out)
    return out


@kernel_for("void(uint64, int64, int64, int32[::1])")
def draw_neighbours(key: Word, person: int, people: int, out: IndexArray) -> None:
    """`draw` for kernels: fills `out`. Looks at len(out)² / 2 pairs, so it is meant for small N."""
    if len(out) >= people:
        raise UsageError("there are not that many other people: N must stay under the number of people")
    state, oneself, others = mix(key, person), np.int64(person), np.uint64(people) - np.uint64(1)
    position = 0
    for filled in range(len(out)):
        fresh = False
        while not fresh:
            other = np.int64(below(word(state, position), others))
            position += 1
            if other >= oneself:
                other += 1
            fresh = True
            for earlier in range(filled):
                if out[earlier] == other:
                    fresh = False
                    break
        out[filled] = other


def _by_rejection(rows: int, others: int, count: int, rng: Generator) -> IndexArray:
    """(rows, count) distinct numbers below `others` in each row, for at most half of them.

    What repeats an earlier entry of its row is drawn again. The rule looks at positions and never at the numbers
    themselves, so every sequence of distinct numbers is equally likely.
    """
    drawn = rng.integers(others, size=(rows, count), dtype=np.int32)
    open_rows = np.arange(rows)
    while len(open_rows):
        order = np.argsort(drawn[open_rows], axis=1, kind="stable")
        ordered = np.take_along_axis(drawn[open_rows], order, axis=1)
        row, column = np.nonzero(ordered[:, 1:] == ordered[:, :-1])
        drawn[open_rows[row], order[row, column + 1]] = rng.integers(others, size=len(row), dtype=np.int32)
        open_rows = open_rows[np.unique(row)]
    return drawn


def _by_order(rows: int, others: int, count: int, rng: Generator) -> IndexArray:
    """(rows, count) distinct numbers below `others` where they are most of all numbers: the first of a random order."""
    order = np.argsort(rng.random((rows, others)), axis=1)
    return order[:, :count].astype(np.int32)


# Edge weights S_if of Eq. (8): what part of the mix each neighbour is, and what part stays with the person.
#
# Every function answers with (weights, own): `weights` stands beside neighbours.people, `own` is (I,). Each row sums to
# 1, but for `ones`. A person without neighbours keeps the own model whole. Uniform weights, S_if = 1 / |N(i)|, are not
# here: engines divide the sum once. The paper sets S_if = 1, which diverges: see decisions/0001.


Weights: TypeAlias = tuple[RealArray, RealArray]
Kind: TypeAlias = Literal["exponential", "gaussian", "inverse"]


def metropolis_weights(neighbours: Neighbours) -> Weights:
    """S_if = 1 / (1 + max(d_i, d_f)) where i and f name each other, d the number of such; the rest is S_ii.

    Nearest neighbours make a directed graph. An edge that is not returned gets 0, so that S is symmetric, its columns
    also sum to 1, and mixing alone leaves everyone's average as it was.
    """
    i, f = neighbours.owners(), neighbours.people
    pair = np.minimum(i, f) * np.int64(len(neighbours)) + np.maximum(i, f)
    _, which, times = np.unique(pair, return_inverse=True, return_counts=True)
    mutual = times[which] == 2
    degree = np.bincount(i[mutual], minlength=len(neighbours))
    weights: RealArray = np.where(mutual, 1.0 / (1.0 + np.maximum(degree[i], degree[f])), 0.0)
    given: RealArray = np.bincount(i, weights, minlength=len(neighbours)).astype(np.float64)
    return weights, 1.0 - given


def distance_weights(neighbours: Neighbours, location: RealArray, *, kind: Kind, scale_km: float) -> Weights:
    """S_if = f(d_if) / Σ f, the paper's mapping of distance to weight; whoever computes it knows the distances.

    f is exp(−d/s), exp(−d²/2s²) or 1/(1 + d/s) with s = scale_km.
    """
    if not (scale_km > 0 and np.isfinite(scale_km)):
        raise UsageError("scale_km, the distance at which weight has fallen off, must be a finite number above 0")
    i, f = neighbours.owners(), neighbours.people
    known = located(location)
    if len(known) != len(neighbours) or not (known[i].all() and known[f].all()):
        raise UsageError("weights by distance need a location for everyone who has or is a neighbour; use uniform")
    log_weights = _log_weights(haversine_km(location[i], location[f]) / scale_km, kind)
    return _normalised(log_weights, neighbours), _alone(neighbours)


def ones_weights(neighbours: Neighbours, *, knowing: str = "") -> Weights:
    """S_if = 1 as printed in the paper, to show what it does; asks to be called with knowing="it diverges"."""
    if knowing != "it diverges":
        raise UsageError(f'{DIVERGES}. Use uniform; to watch it happen, call ones(neighbours, knowing="it diverges")')
    return np.ones(len(neighbours.people)), _alone(neighbours)


def _alone(neighbours: Neighbours) -> RealArray:
    return np.where(neighbours.counts() == 0, 1.0, 0.0)


def _log_weights(distance: RealArray, kind: str) -> RealArray:
    if kind == "exponential":
        return -distance
    if kind == "gaussian":
        return -(distance**2) / 2
    if kind == "inverse":
        return -np.log1p(distance)
    raise UsageError(f"weights by distance are 'exponential', 'gaussian' or 'inverse', not {kind!r}")


def _normalised(log_weights: RealArray, neighbours: Neighbours) -> RealArray:
    """exp(log_weights) over its sum in each row, from the largest down: far from everyone must not become 0 / 0."""
    counts = neighbours.counts()
    if not len(log_weights):
        return log_weights
    starts, lengths = neighbours.offsets[:-1][counts > 0], counts[counts > 0]
    weights = np.exp(log_weights - np.repeat(np.maximum.reduceat(log_weights, starts), lengths))
    share: RealArray = weights / np.repeat(np.add.reduceat(weights, starts), lengths)
    return share


# The network that settings call for, among the people who are online in an iteration.


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
