"""Where a person who is new starts: at the mean of the cohorts that people of the same coarse cell were in.

In a noisy deployment these means are public, so nobody pays for it, and a device needs nothing but its own cell to find
its start. Without noise, and in the paper's schedule, they serve a simulation only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from h3.api import basic_int as h3

from prirec.engines.circles import cells_of, cohort_numbers
from prirec.engines.state import State
from prirec.features.samples import Samples
from prirec.graph.cohorts import NO_CELL
from prirec.settings import Settings
from prirec.types import IndexArray, KeyArray, OffsetArray, RealArray


@dataclass(frozen=True, slots=True)
class Starts:
    """A model for each cell, fine or coarse, where enough people were, and first one for everywhere else."""

    cells: KeyArray = field(repr=False)  # (n,): ascending, NO_CELL first
    models: RealArray = field(repr=False)  # (n, D + 1)

    def fit(self, linear: RealArray) -> bool:
        """Whether these are starts for such models."""
        return (
            len(self.cells) == len(self.models) > 0
            and self.models.shape[1:] == linear.shape[1:]
            and self.models.dtype == linear.dtype == np.float64
        )

    def for_cells(self, cells: KeyArray) -> RealArray:
        """(m, D + 1): the start of a device in each of these cells: its own, or the next coarser one that has any."""
        named, where = np.unique(cells, return_inverse=True)
        known = {cell: at for at, cell in enumerate(self.cells.tolist())}
        at = [next((known[cell] for cell in _outward(cell) if cell in known), 0) for cell in named.tolist()]
        return self.models[np.array(at, dtype=np.int64)[where]]


def starts(samples: Samples, settings: Settings, state: State) -> Starts:
    """From what the cohorts opened last; from the models themselves where there are no cohorts."""
    if not len(state.means):
        return Starts(np.array([NO_CELL]), state.linear.mean(axis=0, keepdims=True))
    cells = cells_of(samples.home, len(samples.ids), settings)
    return starts_of(cells, cohort_numbers(samples, settings), means=state.means, floor=settings.floor)


def starts_of(cells: KeyArray, cohort: IndexArray, *, means: RealArray, floor: int) -> Starts:
    """From the cell that each person named and the cohort that each is in, both (I,), and the means (C, D + 1).

    A cell has a start of its own from `floor` people on: the list of cells is public, and would tell where few live.
    """
    return starts_from(lodgings(cells, cohort), means=means, floor=floor)


class Lodgings(NamedTuple):
    """How many people of each cell are in each cohort; parts of it, over other people, can be added."""

    cells: KeyArray
    cohorts: OffsetArray
    people: OffsetArray

    def plus(self, other: "Lodgings") -> "Lodgings":
        cells, cohorts, people = (np.concatenate(pair) for pair in zip(self, other, strict=True))
        pairs, where = np.unique(np.stack([cells, cohorts.astype(np.uint64)]), axis=1, return_inverse=True)
        many = np.bincount(where.ravel(), people).astype(np.int64)
        return Lodgings(pairs[0], pairs[1].astype(np.int64), many)


def lodgings(cells: KeyArray, cohort: IndexArray) -> Lodgings:
    pairs, many = np.unique(np.stack([cells, cohort.astype(np.uint64)]), axis=1, return_counts=True)
    return Lodgings(pairs[0], pairs[1].astype(np.int64), many)


def starts_from(found: Lodgings, *, means: RealArray, floor: int) -> Starts:
    """The same, from counts alone."""
    weights = _inhabitants(found, cohorts=len(means))
    everywhere = np.bincount(found.cohorts, found.people, minlength=len(means))
    weights = {cell: row for cell, row in weights.items() if row.sum() >= floor}
    named = sorted(weights)
    # how many of each cell were in each cohort: a crowded cell is in several, and the mean of more is less noisy
    shares = np.array([everywhere, *(weights[cell] for cell in named)], dtype=np.float64)
    models = (shares / shares.sum(axis=1, keepdims=True)) @ means
    return Starts(np.array([NO_CELL, *named], dtype=np.uint64), models)


def _inhabitants(lodged: Lodgings, *, cohorts: int) -> dict[int, OffsetArray]:
    """Of each cell, and of each coarser one around it, how many people were in each cohort."""
    found: dict[int, OffsetArray] = {}
    for cell, number, people in zip(*(column.tolist() for column in lodged), strict=True):
        for around in _outward(cell):
            found.setdefault(around, np.zeros(cohorts, dtype=np.int64))[number] += people
    return found


def _outward(cell: int) -> Iterator[int]:
    """A cell and those around it, up to the coarsest; none for no cell."""
    if cell != NO_CELL:
        for resolution in range(h3.get_resolution(cell), -1, -1):
            yield h3.cell_to_parent(cell, resolution)
