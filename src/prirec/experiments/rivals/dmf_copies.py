"""Where the copies of DMF stand: a person keeps the common part of a place only if a gradient ever reaches it.

A dense table of everyone's copies would hold I x J x K numbers. What is touched is known beforehand: the places of the
own records, and those of the records of whoever counts the person among its neighbours.
"""

from typing import NamedTuple

import numpy as np

from prirec.compiled import inlined, kernel
from prirec.features.samples import Records
from prirec.graph.nearest import Neighbours
from prirec.types import IndexArray, OffsetArray


class Pairs(NamedTuple):
    """Each (person, place) of the training records once, by person and then by place."""

    offsets: OffsetArray  # (I + 1,)
    place: IndexArray  # (A,)
    of_record: OffsetArray  # (R,): which pair a record is of


class Copies(NamedTuple):
    """Person i has copies offsets[i] to offsets[i + 1], in ascending order of place."""

    offsets: OffsetArray  # (I + 1,)
    place: IndexArray  # (C,)
    own: OffsetArray  # (A,): the copy of a pair's own person
    first: OffsetArray  # (A,): where the copies of the neighbours begin in `told`, as many as the person has of them
    told: IndexArray  # the neighbours' copies, in the order of N(i)


class Tellers(NamedTuple):
    """Who tells person f: those who have f among their neighbours, and at which position."""

    offsets: OffsetArray  # (I + 1,)
    person: IndexArray
    position: IndexArray


def own_pairs(train: Records, *, places: int) -> Pairs:
    """From the training records, repeated visits counted once."""
    keys, of_record = np.unique(train.person.astype(np.int64) * places + train.place, return_inverse=True)
    people = len(train.offsets) - 1
    offsets = np.searchsorted(keys, np.arange(people + 1, dtype=np.int64) * places)
    return Pairs(offsets, (keys % places).astype(np.int32), of_record)


def tellers(neighbours: Neighbours) -> Tellers:
    """The neighbourhoods turned round."""
    order = np.argsort(neighbours.people, kind="stable")
    counts = np.bincount(neighbours.people, minlength=len(neighbours))
    owners = neighbours.owners()
    position = np.arange(len(owners)) - neighbours.offsets[owners]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Tellers(offsets, owners[order], position[order].astype(np.int32))


def copies(pairs: Pairs, neighbours: Neighbours, *, places: int) -> Copies:
    """All that training will touch."""
    around, sizes = tellers(neighbours), neighbours.counts()
    mark = np.full(places, -1, dtype=np.int64)
    counts = np.empty(len(neighbours), dtype=np.int64)
    _count(pairs, around, mark, counts)
    told_to = np.repeat(sizes, np.diff(pairs.offsets))
    found = Copies(
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        place=np.empty(int(counts.sum()), dtype=np.int32),
        own=np.empty(len(pairs.place), dtype=np.int64),
        first=np.cumsum(told_to) - told_to,
        told=np.empty(int(told_to.sum()), dtype=np.int32),
    )
    mark[:] = -1
    _fill(pairs, around, mark, found)
    return found


@inlined
def _gather(pairs: Pairs, start: int, stop: int, f: int, mark: OffsetArray, out: IndexArray, many: int) -> int:
    """Adds the places of these pairs that person f does not have yet; how many there are now."""
    for a in range(start, stop):
        j = pairs.place[a]
        if mark[j] != f:
            mark[j] = f
            if out.size > 0:
                out[many] = j
            many += 1
    return many


@inlined
def _gather_all(pairs: Pairs, around: Tellers, f: int, mark: OffsetArray, out: IndexArray) -> int:
    many = _gather(pairs, pairs.offsets[f], pairs.offsets[f + 1], f, mark, out, 0)
    for e in range(around.offsets[f], around.offsets[f + 1]):
        i = around.person[e]
        many = _gather(pairs, pairs.offsets[i], pairs.offsets[i + 1], f, mark, out, many)
    return many


@kernel
def _count(pairs: Pairs, around: Tellers, mark: OffsetArray, counts: OffsetArray) -> None:
    nowhere = np.empty(0, dtype=np.int32)
    for f in range(counts.size):
        counts[f] = _gather_all(pairs, around, f, mark, nowhere)


@kernel
def _fill(pairs: Pairs, around: Tellers, mark: OffsetArray, found: Copies) -> None:
    """Once for each person f; `mark` then says where f has the copy of a place."""
    where = np.empty(mark.size, dtype=np.int64)
    for f in range(found.offsets.size - 1):
        start, stop = found.offsets[f], found.offsets[f + 1]
        mine = found.place[start:stop]
        _gather_all(pairs, around, f, mark, mine)
        mine.sort()
        for at in range(mine.size):
            where[mine[at]] = start + at
        for a in range(pairs.offsets[f], pairs.offsets[f + 1]):
            found.own[a] = where[pairs.place[a]]
        for e in range(around.offsets[f], around.offsets[f + 1]):
            i, position = around.person[e], around.position[e]
            for a in range(pairs.offsets[i], pairs.offsets[i + 1]):
                found.told[found.first[a] + position] = where[pairs.place[a]]
