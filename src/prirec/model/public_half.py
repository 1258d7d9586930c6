"""The public half of a round: what the recommender publishes, and every device derives from it in the same way.

V is fixed within a round, so what a place adds to Eq. (1) is computed once for all of its records. Most words are
absent from most places, so only what is present is kept.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from prirec.model.equations import pair_score
from prirec.model.lanes import LANES, in_lanes, in_lines, number, plus, read, spread, sum_of, times, write
from prirec.types import FeatureArray, IndexArray, OffsetArray, RealArray, ValueArray
from prirec.util.jit import inlined, lean_kernel

Task = Callable[[int, int], None]  # for rows from the first number to before the second


class PlaceRows(NamedTuple):
    """The features of places that are not 0: place j has entries offsets[j] to offsets[j + 1]."""

    offsets: OffsetArray  # (J + 1,)
    feature: IndexArray  # which of the n static features
    value: FeatureArray
    features: int  # n


class Public(NamedTuple):
    """V_t and what follows from it and from the catalogue alone: the same on every device."""

    lanes: RealArray  # (D, L): V_t, with rows filled up with zeros to whole lanes
    offsets: OffsetArray  # (J + 1,)
    feature: IndexArray
    value: FeatureArray
    features: int  # n
    first: int  # m: the features of people stand before the places' in V
    pulls: RealArray  # (J, L): the places' half of Eq. (1)
    squares: RealArray  # (J,)
    factors: RealArray  # (J, K'): P_t; no columns where there is no latent part


def place_rows(places: FeatureArray) -> PlaceRows:
    """A catalogue's features (J, n) without those that are 0; computed once."""
    row, feature = np.nonzero(places)  # row after row, features ascending: the order in which sums are taken
    counts = np.bincount(row, minlength=len(places))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return PlaceRows(offsets, feature.astype(np.int32), places[row, feature], places.shape[1])


def at_once(task: Task, many: int) -> None:
    """Runs the task over all rows in this thread."""
    task(0, many)


def public(
    interaction: RealArray, rows: PlaceRows, *,
    first: int, factors: RealArray | None = None, in_parts: Callable[[Task, int], None] = at_once,
) -> Public:  # fmt: skip
    """Once for each V_t; `first` is the number of person features, which stand before the places' in V. The factors
    have a row for each place of `rows`, in that order. `in_parts` hands out the places, to threads if it likes."""
    V, J = in_lanes(interaction), len(rows.offsets) - 1
    pulls, squares = in_lines(J, V.shape[1]), np.empty(J)
    in_parts(lambda start, stop: _place_parts(V, first, rows, start, stop, pulls, squares), J)
    return Public(V, *rows, first, pulls, squares, factors if factors is not None else np.empty((J, 0)))


@lean_kernel
def _place_parts(
    V: RealArray, first: int, rows: PlaceRows, start: int, stop: int, pulls: RealArray, squares: RealArray
) -> None:
    """The pulls of places start to stop, and the squares of what each feature adds to them."""
    offsets, feature, value, _ = rows
    for j in range(start, stop):
        square = 0.0
        for at in range(0, V.shape[1], LANES):
            square += pull_of_entries(V, first, feature, value, offsets[j], offsets[j + 1], pulls, j, at)
        squares[j] = square


@inlined
def pull_of_entries(
    V: RealArray, first: int, feature: IndexArray, value: ValueArray, start: int, stop: int, out: RealArray,
    row: int, at: int,
) -> float:  # fmt: skip
    """The pull of entries start to stop, whose features stand in V from row `first` on, into out[row]: the eight
    components from `at` on, each in the order of `add_pull`. Returns the sum of the squares of what each entry adds."""
    total = squares = spread(0.0)
    for e in range(start, stop):
        term = times(read(V, first + number(feature, e), at), spread(number(value, e)))
        total = plus(total, term)
        squares = plus(squares, times(term, term))
    write(out, row, at, total)
    return sum_of(squares)


# Eq. (1) over the features that are not 0. Most words are absent from most places, and adding 0 changes no sum, so
# these give the same bits as their twins in model/equations.py in a fraction of the time.


@inlined
def load_present(
    person: FeatureArray, places: PlaceRows, j: int, context: FeatureArray, x: RealArray, present: IndexArray
) -> int:
    """equations.load from sparse places; fills `present` with the features that are not 0, in order; how many."""
    offsets, feature, value, _ = places
    m, moment, count = person.size, x.size - context.size, 0
    for d in range(m):
        x[d] = person[d]
        present[count] = d
        count += x[d] != 0.0
    x[m:moment] = 0.0
    for e in range(offsets[j], offsets[j + 1]):
        x[m + feature[e]] = value[e]
        present[count] = m + feature[e]
        count += 1
    for d in range(context.size):
        x[moment + d] = context[d]
        present[count] = moment + d
        count += x[moment + d] != 0.0
    return count


@inlined
def linear_score_of(w: RealArray, x: RealArray, present: IndexArray) -> float:
    """equations.linear_score over the features that are not 0."""
    total = float(w[0])
    for d in present:
        total += w[d + 1] * x[d]
    return total


@inlined
def pull_of(v: RealArray, x: RealArray, present: IndexArray) -> tuple[float, float]:
    """One component of a pull, with its squares."""
    total, own = 0.0, 0.0
    for d in present:
        term = v[d] * x[d]
        total += term
        own += term * term
    return total, own


@inlined
def pairs_of(T: RealArray, x: RealArray, present: IndexArray, pull: RealArray) -> float:
    """equations.pairs, with four components at a time: each sum waits for itself, but not for the others."""
    K, square = T.shape[0], 0.0
    for k in range(0, K - 3, 4):
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for d in present:
            a, b, c, e = T[k, d] * x[d], T[k + 1, d] * x[d], T[k + 2, d] * x[d], T[k + 3, d] * x[d]
            t0, t1, t2, t3 = t0 + a, t1 + b, t2 + c, t3 + e
            s0, s1, s2, s3 = s0 + a * a, s1 + b * b, s2 + c * c, s3 + e * e
        pull[k], pull[k + 1], pull[k + 2], pull[k + 3] = t0, t1, t2, t3
        square = (((square + s0) + s1) + s2) + s3
    for k in range(K // 4 * 4, K):
        pull[k], own = pull_of(T[k], x, present)
        square += own
    return pair_score(pull, square)


# The recommender's step in rounds: Adam on the aggregated gradient, in place of Eq. (9).
#
# Kingma and Ba 2015, in the more efficient form that closes their Section 2, where the small constant is not corrected.
# A round moves V once, by the mean gradient over everyone, where Eq. (9) takes a step for every sample.


class Moments(NamedTuple):
    """What Adam remembers between rounds; public, since it is computed from opened sums only."""

    first: RealArray
    second: RealArray
    steps: int


BETA_FIRST, BETA_SECOND, SMALL = 0.9, 0.99, 1e-8


def no_moments(shape: tuple[int, ...]) -> Moments:
    """Moments before the first round: all zeros."""
    return Moments(np.zeros(shape), np.zeros(shape), 0)


def adam_move(
    V: RealArray, mean_gradient: RealArray, moments: Moments, *, alpha: float, lambda_v: float
) -> tuple[RealArray, Moments]:
    """Step (f) of a round: the opened mean gradient (K * D,), V's regularisation once, and one step."""
    D, K = V.shape
    return adam_step(V, mean_gradient.reshape(K, D).T + 2 * lambda_v * V, moments, alpha=alpha)


def adam_step(V: RealArray, gradient: RealArray, moments: Moments, *, alpha: float) -> tuple[RealArray, Moments]:
    t = moments.steps + 1
    first = BETA_FIRST * moments.first + (1 - BETA_FIRST) * gradient
    second = BETA_SECOND * moments.second + (1 - BETA_SECOND) * gradient**2
    pace = alpha * (1 - BETA_SECOND**t) ** 0.5 / (1 - BETA_FIRST**t)
    return V - pace * first / (np.sqrt(second) + SMALL), Moments(first, second, t)
