"""Neighbours at random, as the paper has them for Foursquare: fixed once, or drawn anew for each interaction."""

import numpy as np
from numpy.random import Generator

from prirec.compiled import kernel_for
from prirec.errors import UsageError
from prirec.graph.nearest import Neighbours, check_count
from prirec.keyed import Word, below, mix, word
from prirec.types import IndexArray

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
    """The same when most people are neighbours: the first `count` of a random order."""
    order = np.argsort(rng.random((rows, others)), axis=1)
    return order[:, :count].astype(np.int32)
