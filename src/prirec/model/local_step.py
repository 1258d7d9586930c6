"""The local step: one person, own records, V fixed. One function that every engine calls, present and future.

A sample X^ij is never put together: the person's part is the same in every record, the place's part has few entries,
and both are used as they are.
"""

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from prirec.compiled import inlined
from prirec.model.kernels import add_loss, add_pull_of, dot, odds, pair_score, residual_at, shrinkage
from prirec.model.lanes import whole_lanes
from prirec.model.latent import (
    FactorRows,
    LatentRates,
    affinity,
    collect_factor,
    factor_rows,
    forget,
    latent_step,
    weigh,
)
from prirec.model.public_half import Public
from prirec.settings import Settings
from prirec.types import FeatureArray, IndexArray, LabelArray, RealArray


class Own(NamedTuple):
    """What one device holds: its person's features and records. None of it leaves the device."""

    person: FeatureArray  # (m,)
    place: IndexArray  # (r,)
    context: FeatureArray  # (r, c)
    label: LabelArray  # (r,)


class Rates(NamedTuple):
    alpha: float
    lambda_w: float
    clip: float  # the longest that a contribution to the sum over everyone may be
    latent: LatentRates = LatentRates()


def rates_of(settings: Settings, *, clip: float) -> Rates:
    s = settings.latent
    latent = LatentRates(s.alpha, s.lambda_u, s.lambda_p, s.weight)
    return Rates(settings.linear.alpha, settings.model.lambda_w, clip, latent)


class Work(NamedTuple):
    """Room to compute in, so that a step allocates nothing."""

    pull: RealArray  # (L,): K in whole lanes
    base: RealArray  # (L,): the person's half of Eq. (1)
    rates: RealArray  # (K + 1,): r pull_k of one record, and r
    sums: RealArray  # (K + 1,): the same, summed over the records
    total: RealArray  # (K + 1, D): sum of r pull_k x_d, and in the last row sum of r x_d^2


def work(dimension: int, features: int) -> Work:
    K, L, D = dimension, whole_lanes(dimension), features
    return Work(np.empty(L), np.empty(L), np.empty(K + 1), np.empty(K + 1), np.empty((K + 1, D)))


class Contribution(NamedTuple):
    """What one person adds to the sum over everyone, clipped as one vector."""

    interaction: RealArray  # (K * D,): the mean over the records of Eq. (4) without lambda_v
    factors: FactorRows  # the gradient of P, weighted

    def whole(self) -> RealArray:
        """Both as one vector (K * D + J * K'), with 0 for all places that the person has no record of."""
        rows, many = self.factors, int(self.factors.many[0])
        G = np.zeros((len(rows.row), rows.gradient.shape[1]))
        G[rows.place[:many]] = rows.gradient[:many]
        return np.concatenate([self.interaction, G.ravel()])


def contribution_of(
    dimension: int, features: int, *, latent: int = 0, places: int = 0, records: int = 0
) -> Contribution:
    """Room for the contribution of somebody with so many records."""
    return Contribution(np.empty(dimension * features), factor_rows(places, records, latent))


@inlined
def _step(w: RealArray, first: int, x: FeatureArray, pace: float) -> None:
    """Eq. (3) without lambda_w, for features first, first + 1, ...; pace is alpha r."""
    for d in range(x.size):
        w[1 + first + d] -= pace * x[d]


@inlined
def _decay(w: RealArray, share: float) -> None:
    """The lambda_w term of Eq. (3), for the whole linear model; share is 2 alpha lambda_w."""
    for d in range(w.size):
        w[d] -= share * w[d]


@inlined
def _collect(rates: RealArray, feature: int, x: float, total: RealArray) -> None:
    """One feature's part of Eq. (4) that adds up over records."""
    K = rates.size - 1
    for k in range(K):
        total[k, feature] += rates[k] * x
    total[K, feature] += rates[K] * x * x


@inlined
def _collect_from(rates: RealArray, first: int, x: FeatureArray, total: RealArray) -> None:
    """_collect for features first, first + 1, ..., along memory."""
    K = rates.size - 1
    for k in range(K):
        row = total[k, first : first + x.size]
        for d in range(x.size):
            row[d] += rates[k] * x[d]
    squares = total[K, first : first + x.size]
    for d in range(x.size):
        squares[d] += rates[K] * x[d] * x[d]


@inlined
def _mean_gradient(T: RealArray, total: RealArray, records: int, out: RealArray) -> None:
    """Eq. (4) without lambda_v, mean over the records: r x_d (pull_k - v_dk x_d), its second half factored out."""
    (K, D), share = T.shape, 1.0 / max(records, 1)
    for k in range(K):
        for d in range(D):
            out[k * D + d] = (total[k, d] - T[k, d] * total[K, d]) * share


@inlined
def _clip(contribution: Contribution, rates: Rates) -> None:
    """Both parts as one vector, no longer than the clip."""
    g, G = contribution
    factor = shrinkage(sqrt(dot(g, 0, g) + weigh(G, rates.latent.weight)), rates.clip)
    if factor != 1.0:
        for d in range(g.size):
            g[d] *= factor
        weigh(G, factor)


@inlined
def local_step(
    w: RealArray, u: RealArray, shared: Public, own: Own, order: IndexArray, rates: Rates, room: Work,
    contribution: Contribution,
) -> float:  # fmt: skip
    """One pass of stochastic descent (Eq. (3)) in the given order: w, and u where there is a latent part, are moved in
    place, and `contribution` becomes what the person adds to the sum over everyone. Returns the summed loss."""
    T, V, offsets, feature, value, pulls, squares, P = shared
    person, place, context, label = own
    pull, base, rate, sums, total = room
    K, m, moment = T.shape[0], person.size, T.shape[1] - context.shape[1]
    total[:] = 0.0
    sums[:] = 0.0
    base[:] = 0.0
    forget(contribution.factors)
    base_square, losses, product = add_pull_of(V, 0, person, base), 0.0, 1.0
    for row in order:
        j, y, x = place[row], float(label[row]), context[row]
        for k in range(pull.size):
            pull[k] = base[k] + pulls[j, k]
        square = base_square + squares[j] + add_pull_of(V, moment, x, pull)
        score = w[0] + dot(w, 1, person) + dot(w, 1 + moment, x) + pair_score(pull, square)
        for e in range(offsets[j], offsets[j + 1]):
            score += w[1 + m + feature[e]] * value[e]
        score += affinity(u, P, j)
        chances = odds(y, score)
        r = residual_at(y, chances)
        losses, product = add_loss(losses, product, y * score, chances)

        for k in range(K):
            rate[k] = r * pull[k]
        rate[K] = r
        for k in range(K + 1):
            sums[k] += rate[k]
        _decay(w, 2.0 * rates.alpha * rates.lambda_w)
        w[0] -= rates.alpha * r
        _step(w, 0, person, rates.alpha * r)
        _step(w, moment, x, rates.alpha * r)
        for e in range(offsets[j], offsets[j + 1]):
            _collect(rate, m + feature[e], value[e], total)
            w[1 + m + feature[e]] -= rates.alpha * r * value[e]
        _collect_from(rate, moment, x, total)
        collect_factor(contribution.factors, u, P, j, r, rates.latent.lambda_p)  # before u moves
        latent_step(u, P, j, r, rates.latent)
    _collect_from(sums, 0, person, total)
    _mean_gradient(T, total, order.size, contribution.interaction)
    _clip(contribution, rates)
    return losses + log(product)
