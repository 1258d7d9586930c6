"""An average from two noisy sums, by nothing but what is public: it spends no privacy.

A_j = Σ_i x_ij and B_j = Σ_i x_ij u_ij with u between -1 and 1, each with noise of σ. B/A is wild where A is small, so
the average of place j is taken to lie around that of the city, r = ΣB / ΣA, with a spread τ that the sums themselves
show: d_j = B_j − r Â_j has variance Â_j² τ² + σ², Â being A's posterior mean. The posterior mean of the average is
r + Â_j τ² d_j / (Â_j² τ² + σ²): nothing but r where nobody was.
"""

import numpy as np

from prirec.features.averages import Scale
from prirec.features.popularity import OwnCounts, Popularity
from prirec.privacy.weighted_popularity import NoisySums
from prirec.types import RealArray


def average(visitors: RealArray, values: NoisySums, scale: Scale, *, name: str) -> Popularity:
    """From the posterior of A (J,) and the noisy B; a device leaves its own part of B out."""
    A, B, sigma = np.maximum(visitors, 0.0), values.sums, values.sigma
    r = float(np.clip(B.sum() / A.sum(), -1.0, 1.0)) if A.sum() > 0 else 0.0
    off = B - r * A
    spread = max(float((off**2).mean()) - sigma**2, 0.0) / max(float((A**2).mean()), 1e-300) if len(A) else 0.0
    released = scale.outward(_posterior(A, B, r, spread, sigma))
    own = values.own
    places = own.pairs % own.places
    others = scale.outward(_posterior(A[places], B[places] - own.counts, r, spread, sigma))
    return Popularity({name: released}, {name: OwnCounts(own.places, own.pairs, released[places] - others)})


def _posterior(A: RealArray, B: RealArray, r: float, spread: float, sigma: float) -> RealArray:
    weight = A**2 * spread + sigma**2
    share = np.divide(A * spread, weight, out=np.zeros_like(weight), where=weight > 0)
    moved: RealArray = r + share * (B - r * A)
    return moved
