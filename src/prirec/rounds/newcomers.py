"""Where a person who joins after training starts: at the mean of the cohorts of the people in the same coarse cell.

In a deployment with noise these means are public. Nobody's budget pays for them a second time, and a device needs
nothing but its own cell to find its start. Without noise, and in the paper's schedule, they serve a simulation only.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from h3.api import basic_int as h3

from prirec.config import Settings
from prirec.features.samples import Samples
from prirec.graph.cohorts import NO_CELL, cells_of, cohort_numbers
from prirec.types import IndexArray, KeyArray, OffsetArray, RealArray

# Means are added as whole numbers of 2**-FRACTION, so that sums are exact in any order and over any shards. No weight
# that was learnt is larger than MOST; together they leave room for 2**28 people in 64 bits.
FRACTION, MOST = 24, 2.0**11


@dataclass(frozen=True, slots=True)
class Starts:
    """A model for each cell, fine or coarse, where enough people were; the first one is for everywhere else."""

    cells: KeyArray = field(repr=False)  # (n,): ascending, NO_CELL first
    models: RealArray = field(repr=False)  # (n, D + 1)

    def fit(self, linear: RealArray) -> bool:
        """Whether these have the shape and type of such linear models (I, D + 1)."""
        return (
            len(self.cells) == len(self.models) > 0
            and self.models.shape[1:] == linear.shape[1:]
            and self.models.dtype == linear.dtype == np.float64
        )

    def for_cells(self, cells: KeyArray) -> RealArray:
        """(m, D + 1): the start of a device in each of these cells: that of the cell, or of the finest coarser cell
        that has one."""
        named, where = np.unique(cells, return_inverse=True)
        known = {cell: at for at, cell in enumerate(self.cells.tolist())}
        at = [next((known[cell] for cell in _with_parents(cell) if cell in known), 0) for cell in named.tolist()]
        return self.models[np.array(at, dtype=np.int64)[where]]


def starts(samples: Samples, settings: Settings, *, linear: RealArray, means: RealArray) -> Starts:
    """From the last mean of each cohort (C, D + 1); from the mean of all models where there are no cohorts."""
    if not len(means):
        return Starts(np.array([NO_CELL]), linear.mean(axis=0, keepdims=True))
    cells = cells_of(samples.home, len(samples.ids), settings)
    return starts_from(inhabitants(cells, cohort_numbers(samples, settings), means), floor=settings.floor)


def starts_from(found: "Inhabitants", *, floor: int) -> Starts:
    """From sums over cells. A cell has a start of its own from `floor` people on: the list of cells is published, and
    would otherwise say where few people live."""
    enough = found.people >= floor
    enough[0] = True  # everywhere
    models = found.sums[enough] * 2.0**-FRACTION / found.people[enough, None]
    return Starts(found.cells[enough], models)


class Inhabitants(NamedTuple):
    """For everywhere, and for each cell, fine and coarse: how many people live there, and the sum over them of their
    cohorts' means. A crowded cell is in several cohorts, and the mean of more of them is less noisy.

    Whole numbers, so that the parts of several shards can be added in any order.
    """

    cells: KeyArray  # (n,): ascending, NO_CELL (everywhere) first
    people: OffsetArray  # (n,)
    sums: OffsetArray  # (n, D + 1): in units of 2**-FRACTION

    @classmethod
    def none(cls, cells: KeyArray, width: int) -> "Inhabitants":
        return cls(cells, np.zeros(len(cells), dtype=np.int64), np.zeros((len(cells), width), dtype=np.int64))

    def plus(self, other: "Inhabitants") -> "Inhabitants":
        total = Inhabitants.none(np.union1d(self.cells, other.cells), self.sums.shape[1])
        for part in (self, other):
            at = np.searchsorted(total.cells, part.cells)
            total.people[at] += part.people
            total.sums[at] += part.sums
        return total


def inhabitants(cells: KeyArray, cohort: IndexArray, means: RealArray) -> Inhabitants:
    """From the cell and the cohort of each person, both (I,), and the cohorts' means (C, D + 1)."""
    whole = np.rint(np.clip(means, -MOST, MOST) * 2.0**FRACTION).astype(np.int64)
    # one row for each pair of cell and cohort, however many people are in it
    pairs, many = np.unique(np.stack([cells, cohort.astype(np.uint64)]), axis=1, return_counts=True)
    named, where = np.unique(pairs[0], return_inverse=True)
    fine = Inhabitants.none(named, whole.shape[1])
    np.add.at(fine.people, where, many)
    np.add.at(fine.sums, where, many[:, None] * whole[pairs[1].astype(np.int64)])
    return _with_coarser(fine)


def _with_coarser(fine: Inhabitants) -> Inhabitants:
    """The people of each cell counted in all coarser cells that contain it as well."""
    containing = [(NO_CELL, *_with_parents(cell)) for cell in fine.cells.tolist()]
    cells = np.unique(np.array([cell for those in containing for cell in those], dtype=np.uint64))
    total = Inhabitants.none(cells, fine.sums.shape[1])
    for those, people, sums in zip(containing, fine.people, fine.sums, strict=True):
        at = np.searchsorted(cells, np.array(those, dtype=np.uint64))
        total.people[at] += people
        total.sums[at] += sums
    return total


def _with_parents(cell: int) -> Iterator[int]:
    """A cell and the coarser cells that contain it, up to the coarsest; nothing for NO_CELL."""
    if cell != NO_CELL:
        for resolution in range(h3.get_resolution(cell), -1, -1):
            yield h3.cell_to_parent(cell, resolution)
