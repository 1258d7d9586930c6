"""The local step: one person, own records, V fixed. One function that every engine calls, present and future."""

from typing import NamedTuple

import numpy as np

from prirec.compiled import inlined
from prirec.model.kernels import (
    add_pull,
    linear_gradient,
    linear_score,
    load,
    loss,
    pair_score,
    place_parts,
    residual,
    shrink,
)
from prirec.types import FeatureArray, IndexArray, LabelArray, RealArray


class Public(NamedTuple):
    """What the recommender publishes for one round, and every device derives from it in the same way."""

    transposed: RealArray  # (K, D): V_t
    places: FeatureArray  # (J, n)
    pulls: RealArray  # (J, K): the places' half of Eq. (1)
    squares: RealArray  # (J,)


class Own(NamedTuple):
    """What one device holds: its person's features and records. None of it leaves the device."""

    person: FeatureArray  # (m,)
    place: IndexArray  # (r,)
    context: FeatureArray  # (r, c)
    label: LabelArray  # (r,)


class Rates(NamedTuple):
    alpha: float
    lambda_w: float
    clip: float  # the longest that a contribution to the sum of gradients of V may be


class Work(NamedTuple):
    """Room to compute in, so that a step allocates nothing."""

    x: RealArray  # (D,)
    pull: RealArray  # (K,)
    base: RealArray  # (K,): the person's half of Eq. (1)
    gradient: RealArray  # (D + 1,)
    total: RealArray  # (K + 1, D)


def public(interaction: RealArray, places: FeatureArray, *, first: int) -> Public:
    """The public half for V_t; `first` is the number of person features, which stand before the places' in V."""
    T = np.ascontiguousarray(interaction.T)
    pulls, squares = np.empty((len(places), len(T))), np.empty(len(places))
    place_parts(T, first, places, pulls, squares)
    return Public(T, places, pulls, squares)


def work(dimension: int, features: int) -> Work:
    K, D = dimension, features
    return Work(np.empty(D), np.empty(K), np.empty(K), np.empty(D + 1), np.empty((K + 1, D)))


@inlined
def _collect(x: RealArray, pull: RealArray, r: float, total: RealArray) -> None:
    """The parts of Eq. (4) that add up over records: sum of r pull_k x_d, and in the last row sum of r x_d^2."""
    for k in range(pull.size):
        rate = r * pull[k]
        for d in range(x.size):
            total[k, d] += rate * x[d]
    for d in range(x.size):
        total[-1, d] += r * x[d] * x[d]


@inlined
def _mean_gradient(T: RealArray, total: RealArray, records: int, out: RealArray) -> None:
    """Eq. (4) without lambda_v, mean over the records: r x_d (pull_k - v_dk x_d), its second half factored out."""
    (K, D), share = T.shape, 1.0 / max(records, 1)
    for k in range(K):
        for d in range(D):
            out[k * D + d] = (total[k, d] - T[k, d] * total[K, d]) * share


@inlined
def local_step(
    w: RealArray, shared: Public, own: Own, order: IndexArray, rates: Rates, room: Work, contribution: RealArray
) -> float:
    """One pass of stochastic descent (Eq. (3)) in the given order: w is moved in place.

    `contribution` (K * D,) becomes the mean over the records of Eq. (4) without lambda_v, clipped: what the person adds
    to the sum over everyone. Returns the summed loss.
    """
    T, places, pulls, squares = shared
    person, place, context, label = own
    x, pull, base, gradient, total = room
    losses, after_places = 0.0, person.size + places.shape[1]
    total[:] = 0.0
    base[:] = 0.0
    base_square = add_pull(T, 0, person, base)
    for row in order:
        j, y = place[row], float(label[row])
        load(person, places[j], context[row], x)
        for k in range(pull.size):
            pull[k] = base[k] + pulls[j, k]
        square = base_square + squares[j] + add_pull(T, after_places, context[row], pull)
        score = linear_score(w, x) + pair_score(pull, square)
        r = residual(y, score)
        losses += loss(y, score)
        _collect(x, pull, r, total)
        linear_gradient(w, x, r, rates.lambda_w, gradient)
        for d in range(w.size):
            w[d] -= rates.alpha * gradient[d]
    _mean_gradient(T, total, order.size, contribution)
    shrink(contribution, rates.clip, contribution)
    return losses
