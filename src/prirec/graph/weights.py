"""Edge weights S_if of Eq. (8): what part of the mix each neighbour is, and what part stays with the person.

Every function answers with (weights, own): `weights` stands beside neighbours.people, `own` is (I,). Each row sums to
1, but for `ones`. A person without neighbours keeps the own model whole.
"""

from typing import Literal, TypeAlias

import numpy as np

from prirec.errors import UsageError
from prirec.geography import haversine_km, located
from prirec.graph.nearest import Neighbours
from prirec.settings import DIVERGES
from prirec.types import RealArray

Weights: TypeAlias = tuple[RealArray, RealArray]
Kind: TypeAlias = Literal["exponential", "gaussian", "inverse"]


def uniform(neighbours: Neighbours) -> Weights:
    """S_if = 1 / |N(i)|. The paper sets S_if = 1, which diverges: see decisions/0001."""
    counts = neighbours.counts()
    return np.repeat(1.0 / np.maximum(counts, 1), counts), _alone(neighbours)


def metropolis_hastings(neighbours: Neighbours) -> Weights:
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


def by_distance(neighbours: Neighbours, location: RealArray, *, kind: Kind, scale_km: float) -> Weights:
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


def ones(neighbours: Neighbours, *, knowing: str = "") -> Weights:
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
