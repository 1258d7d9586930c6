"""Runs what is missing of an experiment, cell by cell. What is done is kept, so that stopping costs one cell."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell
from prirec.experiments.experiment import Experiment, Workshop
from prirec.experiments.rivals.passes import Tell, quiet


@dataclass(frozen=True, slots=True)
class Missing:
    """What is still to be measured, and what cannot be."""

    cells: tuple[Cell, ...]
    done: int
    without_data: tuple[str, ...]  # cities that are not there
    seconds: float  # about


def missing(experiment: Experiment, cells: Sequence[Cell], workshop: Workshop, cabinet: Cabinet) -> Missing:
    """City by city, so that each is opened once."""
    there = sorted((cell for cell in cells if workshop.available(cell)), key=lambda cell: cell.city)
    left = [cell for cell in there if not cabinet.done(cell, experiment.measure.digest(cell, workshop))]
    absent = tuple(sorted({cell.city for cell in cells} - {cell.city for cell in there}))
    expected = sum(experiment.measure.expected(cell, workshop) for cell in left)
    return Missing(tuple(left), len(there) - len(left), absent, expected)


def work(
    experiment: Experiment, left: Missing, workshop: Workshop, cabinet: Cabinet, *,
    begun: Callable[[Cell], Tell] = lambda cell: quiet, done: Callable[[Cell], None] = lambda cell: None,
) -> None:  # fmt: skip
    """`begun` is told of each cell and answers with who wants to hear of its passes."""
    for cell in left.cells:
        experiment.measure.run(cell, workshop, cabinet, begun(cell))
        done(cell)
