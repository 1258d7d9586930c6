"""The public half of a round: what the recommender publishes, and every device derives from it in the same way.

V is fixed within a round, so what a place adds to Eq. (1) is computed once for all of its records. Most words are
absent from most places, so only what is present is kept.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from prirec.compiled import lean_kernel
from prirec.model.lanes import LANES, in_lanes, in_lines
from prirec.model.pull_lanes import pull_of_entries
from prirec.types import FeatureArray, IndexArray, OffsetArray, RealArray

Task = Callable[[int, int], None]  # for rows from the first number to before the second


class PlaceRows(NamedTuple):
    """The features of places that are not 0: place j has entries offsets[j] to offsets[j + 1]."""

    offsets: OffsetArray  # (J + 1,)
    feature: IndexArray  # which of the n static features
    value: FeatureArray
    features: int  # n


class Public(NamedTuple):
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
    """Once for a catalogue."""
    row, feature = np.nonzero(places)
    counts = np.bincount(row, minlength=len(places))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return PlaceRows(offsets, feature.astype(np.int32), places[row, feature], places.shape[1])


def at_once(task: Task, many: int) -> None:
    """All of them in one go."""
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
