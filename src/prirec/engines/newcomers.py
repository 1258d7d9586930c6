"""Where a person who is new starts: at the mean of the cohorts that people of the same coarse cell were in.

In a noisy deployment these means are public, so nobody pays for it, and a device needs nothing but its own cell to find
its start. Without noise, and in the paper's schedule, they serve a simulation only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from h3.api import basic_int as h3

from prirec.config import Settings
from prirec.engines.state import State
from prirec.features.samples import Samples
from prirec.graph.cohorts import NO_CELL
from prirec.graph.neighbourhoods import cells_of, cohort_numbers
from prirec.types import IndexArray, KeyArray, OffsetArray, RealArray

FRACTION, MOST = 24, 2.0**11  # no weight that was learnt is larger; 2**28 people can be added


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
    return starts_from(inhabitants(cells, cohort, means), floor=floor)


class Inhabitants(NamedTuple):
    """Of everywhere first, then of cells, fine and coarse: how many people, and what the means of their cohorts come
    to. A crowded cell is in several cohorts, and the mean of more is less noisy. Whole numbers, so that parts over
    other people can be added in any order."""

    cells: KeyArray  # (n,): ascending, NO_CELL first
    people: OffsetArray  # (n,)
    sums: OffsetArray  # (n, D + 1): in parts of 2**-FRACTION

    def plus(self, other: "Inhabitants") -> "Inhabitants":
        cells = np.union1d(self.cells, other.cells)
        people, sums = _room(cells, self.sums.shape[1])
        for part in (self, other):
            at = np.searchsorted(cells, part.cells)
            people[at] += part.people
            sums[at] += part.sums
        return Inhabitants(cells, people, sums)


def inhabitants(cells: KeyArray, cohort: IndexArray, means: RealArray) -> Inhabitants:
    whole = np.rint(np.clip(means, -MOST, MOST) * 2.0**FRACTION).astype(np.int64)
    pairs, many = np.unique(np.stack([cells, cohort.astype(np.uint64)]), axis=1, return_counts=True)
    named, where = np.unique(pairs[0], return_inverse=True)
    fine = Inhabitants(named, *_room(named, whole.shape[1]))
    np.add.at(fine.people, where, many)
    np.add.at(fine.sums, where, many[:, None] * whole[pairs[1].astype(np.int64)])
    return _with_coarser(fine)


def _with_coarser(fine: Inhabitants) -> Inhabitants:
    around = [(NO_CELL, *_outward(cell)) for cell in fine.cells.tolist()]
    cells = np.unique(np.array([one for some in around for one in some], dtype=np.uint64))
    people, sums = _room(cells, fine.sums.shape[1])
    for some, many, total in zip(around, fine.people, fine.sums, strict=True):
        at = np.searchsorted(cells, np.array(some, dtype=np.uint64))
        people[at] += many
        sums[at] += total
    return Inhabitants(cells, people, sums)


def starts_from(found: Inhabitants, *, floor: int) -> Starts:
    """The same, from sums alone."""
    enough = found.people >= floor
    enough[0] = True  # everywhere
    models = found.sums[enough] * 2.0**-FRACTION / found.people[enough, None]
    return Starts(found.cells[enough], models)


def _room(cells: KeyArray, width: int) -> tuple[OffsetArray, OffsetArray]:
    return np.zeros(len(cells), dtype=np.int64), np.zeros((len(cells), width), dtype=np.int64)


def _outward(cell: int) -> Iterator[int]:
    """A cell and those around it, up to the coarsest; none for no cell."""
    if cell != NO_CELL:
        for resolution in range(h3.get_resolution(cell), -1, -1):
            yield h3.cell_to_parent(cell, resolution)
