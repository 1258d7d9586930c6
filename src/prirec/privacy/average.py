"""An average from two noisy sums, by nothing but what is public: it spends no privacy.

A_j = Σ_i x_ij and B_j = Σ_i x_ij u_ij with u between -1 and 1, each with noise of σ. B/A is wild where A is small, so
the average of place j is taken to lie around that of the city, r = ΣB / ΣA, with a spread τ that the sums themselves
show: d_j = B_j − r Â_j has variance Â_j² τ² + σ², Â being the best estimate of A. The posterior mean of the average is
r + Â_j τ² d_j / (Â_j² τ² + σ²): nothing but r where nobody was.
"""

from collections.abc import Callable

import numpy as np

from prirec.features.averages import Scale
from prirec.features.popularity import OwnCounts, Popularity
from prirec.privacy.weighted_popularity import NoisySums
from prirec.types import RealArray


def average(visitors: RealArray, values: NoisySums, scale: Scale, *, name: str) -> Popularity:
    """From a secure sum: the posterior of A (J,) and the noisy B. A device leaves its own part of B out."""
    variance = np.asarray(values.sigma**2)
    return _average(
        visitors, values.sums, noise=lambda r: variance, own=values.own, own_weight=0.0, scale=scale, name=name
    )


def average_of_answers(
    visitors: RealArray,
    sums: RealArray,
    *,
    noise: Callable[[float], RealArray],
    own: OwnCounts,
    scale: Scale,
    name: str,
) -> Popularity:
    """From local answers: unbiased estimates of A and B (J,), in which everyone of `own` counts once a place.

    `noise` is the variance of B − rA (J,) for an r. A device leaves its own part of both sums out."""
    return _average(visitors, sums, noise=noise, own=own, own_weight=1.0, scale=scale, name=name)


def _average(
    visitors: RealArray,
    B: RealArray,
    *,
    noise: Callable[[float], RealArray],
    own: OwnCounts,
    own_weight: float,
    scale: Scale,
    name: str,
) -> Popularity:
    A = np.maximum(visitors, 0.0)
    total = float(visitors.sum())  # with what is below 0, or noise alone would make a crowd
    r = float(np.clip(B.sum() / total, -1.0, 1.0)) if total > 0 else 0.0
    variance = noise(r)
    each = np.broadcast_to(variance, B.shape)
    off = B - r * A
    spread = max(float((off**2).mean() - variance.mean()), 0.0) / max(float((A**2).mean()), 1e-300) if len(A) else 0.0
    released = scale.outward(_posterior(A, B, r, spread, each))
    at = own.pairs % own.places
    fewer = np.maximum(A[at] - own_weight, 0.0)
    others = scale.outward(_posterior(fewer, B[at] - own.counts, r, spread, each[at]))
    return Popularity({name: released}, {name: OwnCounts(own.places, own.pairs, released[at] - others)})


def _posterior(A: RealArray, B: RealArray, r: float, spread: float, noise: RealArray) -> RealArray:
    weight = A**2 * spread + noise
    share = np.divide(A * spread, weight, out=np.zeros_like(weight), where=weight > 0)
    moved: RealArray = r + share * (B - r * A)
    return moved
