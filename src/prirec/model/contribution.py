"""What one person adds to the sum over everyone, and the room in which it is collected.

A person touches a few rows of V: those of the features that are not 0. All others are 0, and stay out of every walk.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from prirec.compiled import inlined
from prirec.model.kernels import shrinkage
from prirec.model.lanes import LANES, in_lines, out_of_lanes, whole_lanes
from prirec.model.latent import FactorRows, factor_rows, weigh
from prirec.model.row_lanes import square_of_rows, take_rows
from prirec.types import IndexArray, RealArray


class Work(NamedTuple):
    """Room to compute in, so that a step allocates nothing."""

    base: RealArray  # (1, L): the person's half of Eq. (1); L is K in whole lanes
    pull: RealArray  # (1, L): of one record
    sums: RealArray  # (1, L): of r pull, over the records
    gradient: RealArray  # (D, L): 0 before a step and after it
    noted: IndexArray  # (D,): 1 for a feature that has been touched; 0 before a step and after it
    feature: IndexArray  # (D + 1,): the person's features that are not 0
    value: RealArray  # (D + 1,)


def work(dimension: int, features: int) -> Work:
    L, D = whole_lanes(dimension), features
    return Work(
        in_lines(1, L), in_lines(1, L), in_lines(1, L), in_lines(D, L), np.zeros(D, dtype=np.int32),
        np.empty(D + 1, dtype=np.int32), np.empty(D + 1),
    )  # fmt: skip


class Touched(NamedTuple):
    """One person's gradient of V: rows for the features that the person or the records have, 0 for all others."""

    feature: IndexArray  # (D + 1,): of which feature each row is
    gradient: RealArray  # (D * L,): row after row
    many: IndexArray  # (1,): how many rows there are


class Contribution(NamedTuple):
    """What one person adds to the sum over everyone, clipped as one vector."""

    dimension: int  # K
    interaction: Touched  # the mean over the records of Eq. (4) without lambda_v
    factors: FactorRows  # the gradient of P, weighted

    def whole(self) -> RealArray:
        """Both as one vector (K * D + J * K'), with 0 for all features and places that the person has not touched."""
        V, P = self.interaction, self.factors
        rows = V.gradient.reshape(-1, whole_lanes(self.dimension))
        of_v = _with_zeros(V.feature, rows, int(V.many[0]), many=len(rows))
        of_p = _with_zeros(P.place, P.gradient, int(P.many[0]), many=len(P.row))
        return np.concatenate([out_of_lanes(of_v, self.dimension), of_p.ravel()])


def _with_zeros(numbers: IndexArray, rows: RealArray, found: int, *, many: int) -> RealArray:
    """(many, L): the rows that were found, each at its number."""
    whole = np.zeros((many, rows.shape[1]))
    whole[numbers[:found]] = rows[:found]
    return whole


def contribution_of(
    dimension: int, features: int, *, latent: int = 0, places: int = 0, records: int = 0
) -> Contribution:
    """Room for the contribution of somebody with so many records."""
    L, D = whole_lanes(dimension), features
    touched = Touched(np.empty(D + 1, dtype=np.int32), in_lines(D * L), np.zeros(1, dtype=np.int32))
    return Contribution(dimension, touched, factor_rows(places, records, latent))


@inlined
def clip(contribution: Contribution, room: Work, records: int, weight: float, longest: float) -> None:
    """What was collected becomes the contribution: the mean over the records, with the gradient of P weighted, and both
    as one vector no longer than `longest`."""
    _, (feature, gradient, many), factors = contribution
    share, square, L = 1.0 / max(records, 1), 0.0, room.gradient.shape[1]
    for at in range(0, L, LANES):
        square += square_of_rows(room.gradient, feature, many[0], at)
    factor = shrinkage(sqrt(share * share * square + weigh(factors, weight)), longest)
    for at in range(0, L, LANES):
        take_rows(room.gradient, room.noted, feature, many[0], share * factor, gradient, at)
    if factor != 1.0:
        weigh(factors, factor)
