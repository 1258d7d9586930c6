"""The public half of a round: what the recommender publishes, and every device derives from it in the same way.

V is fixed within a round, so what a place adds to Eq. (1) is computed once for all of its records. Most words are
absent from most places, so only what is present is kept.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from prirec.compiled import lean_kernel
from prirec.model.lanes import in_lanes
from prirec.types import FeatureArray, IndexArray, OffsetArray, RealArray

Task = Callable[[int, int], None]  # for rows from the first number to before the second


class PlaceRows(NamedTuple):
    """The features of places that are not 0: place j has entries offsets[j] to offsets[j + 1]."""

    offsets: OffsetArray  # (J + 1,)
    feature: IndexArray  # which of the n static features
    value: FeatureArray


class Public(NamedTuple):
    transposed: RealArray  # (K, D): V_t
    lanes: RealArray  # (D, L): V_t again, for the pulls
    offsets: OffsetArray  # (J + 1,)
    feature: IndexArray
    value: FeatureArray
    pulls: RealArray  # (J, L): the places' half of Eq. (1)
    squares: RealArray  # (J,)
    factors: RealArray  # (J, K'): P_t; no columns where there is no latent part


def place_rows(places: FeatureArray) -> PlaceRows:
    """Once for a catalogue."""
    row, feature = np.nonzero(places)
    counts = np.bincount(row, minlength=len(places))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return PlaceRows(offsets, feature.astype(np.int32), places[row, feature])


def at_once(task: Task, many: int) -> None:
    """All of them in one go."""
    task(0, many)


def public(
    interaction: RealArray, rows: PlaceRows, *,
    first: int, factors: RealArray | None = None, in_parts: Callable[[Task, int], None] = at_once,
) -> Public:  # fmt: skip
    """Once for each V_t; `first` is the number of person features, which stand before the places' in V. The factors
    have a row for each place of `rows`, in that order. `in_parts` hands out the places, to threads if it likes."""
    T, J = np.ascontiguousarray(interaction.T), len(rows.offsets) - 1
    lanes = in_lanes(interaction)
    pulls, squares = np.zeros((J, lanes.shape[1])), np.empty(J)
    in_parts(lambda start, stop: _place_parts(T, first, rows, start, stop, pulls, squares), J)
    return Public(T, lanes, *rows, pulls, squares, factors if factors is not None else np.empty((J, 0)))


@lean_kernel
def _place_parts(
    T: RealArray, first: int, rows: PlaceRows, start: int, stop: int, pulls: RealArray, squares: RealArray
) -> None:
    """kernels.add_pull for places start to stop."""
    offsets, feature, value = rows
    for j in range(start, stop):
        square = 0.0
        for k in range(T.shape[0]):
            total, own = 0.0, 0.0
            for e in range(offsets[j], offsets[j + 1]):
                term = T[k, first + feature[e]] * value[e]
                total += term
                own += term * term
            pulls[j, k] = total
            square += own
        squares[j] = square
