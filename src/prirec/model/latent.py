"""The latent part, beside Eq. (1): s_ij = Eq. (1) + u_i . p_j (decisions/0016).

u_i (K',) is one person's: it stays on the device, is mixed with nobody's and is in no sum. P (J, K') has a row p_j for
each place and is public. It is learnt through the sum over everyone that V is learnt through.
"""

from typing import NamedTuple

import numpy as np

from prirec.types import IndexArray, RealArray
from prirec.util.jit import inlined


class Latent(NamedTuple):
    """Everyone's vectors, as only a simulation has them, and the factors of places."""

    vectors: RealArray  # u (I, K')
    factors: RealArray  # P (J, K')


def no_latent(people: int, places: int) -> Latent:
    """For kernels, which take arrays: vectors and factors without an entry."""
    return Latent(np.empty((people, 0)), np.empty((places, 0)))


class LatentRates(NamedTuple):
    """Step size and penalties of the latent part; zeros where there is none."""

    alpha: float = 0.0
    lambda_u: float = 0.0
    lambda_p: float = 0.0
    weight: float = 1.0  # of the gradient of P beside that of V, with which it is clipped


class FactorRows(NamedTuple):
    """One person's gradient of P: rows for the places that the person has records of, and 0 for all others."""

    row: IndexArray  # (J,): where the gradient of a place stands; -1: nowhere
    place: IndexArray  # (r,): of which place each row is
    gradient: RealArray  # (r, K')
    many: IndexArray  # (1,): how many rows there are


def factor_rows(places: int, records: int, dimension: int) -> FactorRows:
    """Room for somebody with so many records; none at all where there is no latent part."""
    J, r = (places, records) if dimension else (0, 0)
    return FactorRows(
        np.full(J, -1, dtype=np.int32),
        np.empty(r, dtype=np.int32),
        np.empty((r, dimension)),
        np.zeros(1, dtype=np.int32),
    )


@inlined
def affinity(u: RealArray, P: RealArray, j: int) -> float:
    """u_i . p_j."""
    total = 0.0
    for k in range(u.size):
        total += u[k] * P[j, k]
    return total


@inlined
def latent_step(u: RealArray, P: RealArray, j: int, r: float, rates: LatentRates) -> None:
    """u_i <- u_i - alpha (r p_j + 2 lambda_u u_i), for one record."""
    for k in range(u.size):
        u[k] -= rates.alpha * (r * P[j, k] + 2.0 * rates.lambda_u * u[k])


@inlined
def forget(G: FactorRows) -> None:
    """Empties the gradient of the previous person, so that its room can be used again."""
    for at in range(G.many[0]):
        G.row[G.place[at]] = -1
    G.many[0] = 0


@inlined
def collect_factor(G: FactorRows, u: RealArray, P: RealArray, j: int, r: float, lambda_p: float) -> None:
    """G_j <- G_j + r u_i + 2 lambda_p p_j: summed over records, so that a penalty weighs with a place's records."""
    if u.size == 0:
        return
    # A table of all J places would be cleared for every person; rows are given out as places come.
    at = G.row[j]
    if at < 0:
        at = G.many[0]
        G.row[j], G.place[at], G.many[0] = at, j, at + 1
        G.gradient[at] = 0.0
    for k in range(u.size):
        G.gradient[at, k] += r * u[k] + 2.0 * lambda_p * P[j, k]


@inlined
def weigh(G: FactorRows, factor: float) -> float:
    """G <- factor G, in place; returns the square of its length."""
    square = 0.0
    for at in range(G.many[0]):
        for k in range(G.gradient.shape[1]):
            G.gradient[at, k] *= factor
            square += G.gradient[at, k] * G.gradient[at, k]
    return square
