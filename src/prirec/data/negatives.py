"""Negatives for data that knows only what was visited: drawn on the device, from the public catalogue.

A device avoids what it knows its owner visited. In training that is the training set alone: a negative that avoided
the test positives too would give them away.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from scipy.spatial import cKDTree

from prirec.data.dataset import Places, Visits
from prirec.data.filters import distinct_pairs
from prirec.errors import UsageError
from prirec.geography import unit_vectors
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray

Draw: TypeAlias = Callable[[IndexArray, np.random.Generator], IndexArray]  # anchors (-1: none) -> candidate places
NOWHERE = np.int32(-1)
POOL = 200
_ROUNDS = 100  # someone who visited nine places of ten is left empty-handed once in 40,000 draws
_CHUNK = 10_000


def uniform(places: Places) -> Draw:
    """Any place of the catalogue, wherever the anchor is."""
    J = len(places)

    def draw(anchor: IndexArray, rng: np.random.Generator) -> IndexArray:
        return rng.integers(J, size=len(anchor), dtype=np.int32)

    return draw


def nearby(places: Places, *, pool: int = POOL) -> Draw:
    """One of the `pool` places nearest to the anchor; any place where the anchor is missing or has no coordinates."""
    if pool < 1:
        raise UsageError("pool must be at least 1")
    located = _located(places)
    everywhere = uniform(places)
    near = _nearest(places, located, pool=pool)  # (located, pool + 1)
    row = np.full(len(places) + 1, NOWHERE)  # the last entry answers for an anchor of -1
    row[located] = np.arange(len(located), dtype=np.int32)

    def draw(anchor: IndexArray, rng: np.random.Generator) -> IndexArray:
        chosen = near[row[anchor], rng.integers(near.shape[1], size=len(anchor))]
        return np.where(row[anchor] == NOWHERE, everywhere(anchor, rng), chosen)

    return draw


def draw_negatives(
    person: IndexArray, anchor: IndexArray, *, known: Visits, places: int, draw: Draw, rng: np.random.Generator
) -> IndexArray:
    """A place for each row that the person is not known to have visited; -1 where a hundred draws found none."""
    keys = distinct_pairs(known.take(known.label > 0), places=places)
    chosen = np.full(len(person), NOWHERE)
    rows = np.arange(len(person))
    for _ in range(_ROUNDS):
        if not len(rows):
            break
        candidate = draw(anchor[rows], rng)
        free = ~_contains(keys, person[rows] * np.int64(places) + candidate)
        chosen[rows[free]] = candidate[free]
        rows = rows[~free]
    return chosen


def blind_anchor(
    positives: Visits, of: np.ndarray, *, known: BoolArray, pick: Callable[[OffsetArray, OffsetArray], OffsetArray]
) -> OffsetArray:
    """Which positive a negative of each of these goes by, for place and moment, when only known ones may be looked at.

    Its own if that is known, else a known one of the same person, else none (-1). `pick(rows, counts)` draws, for these
    rows of `of`, one of so many.
    """
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(positives.person[rows], kind="stable")]
    count = np.bincount(positives.person[rows], minlength=int(positives.person.max(initial=0)) + 1)
    start = np.cumsum(count) - count
    anchor = np.where(known[of], of, -1)
    hidden = np.flatnonzero(~known[of] & (count[positives.person[of]] > 0))
    person = positives.person[of[hidden]]
    anchor[hidden] = rows[start[person] + pick(hidden, count[person])]
    return anchor


def someone_known(anchor: OffsetArray, *, known: BoolArray, rng: np.random.Generator) -> OffsetArray:
    """The anchors, with any known positive, whoever it belongs to, where there was none."""
    rows, none = np.flatnonzero(known), np.flatnonzero(anchor < 0)
    anchor = anchor.copy()
    if len(rows):
        anchor[none] = rows[rng.integers(len(rows), size=len(none))]
    return anchor


def _contains(keys: OffsetArray, wanted: OffsetArray) -> BoolArray:
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.bool_)
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray(keys[found] == wanted)


def _located(places: Places) -> np.ndarray:
    none: RealArray = np.empty((0, 2))
    location = none if places.location is None else places.location
    located = np.flatnonzero(np.isfinite(location).all(axis=1))
    if not len(located):
        raise UsageError("nearby negatives need places with coordinates; choose uniform negatives instead")
    return located


def _nearest(places: Places, located: np.ndarray, *, pool: int) -> IndexArray:
    """The nearest places to each located place and, as it is no use as a candidate, itself: one more than the pool."""
    points = unit_vectors(np.asarray(places.location)[located])
    tree, width = cKDTree(points), min(pool + 1, len(located))
    near = np.empty((len(located), width), dtype=np.int32)
    for start in range(0, len(located), _CHUNK):  # a query answers in int64 and with distances: six times the memory
        rows = slice(start, start + _CHUNK)
        near[rows] = located[tree.query(points[rows], k=np.arange(1, width + 1))[1]]
    return near
