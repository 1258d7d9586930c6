"""Cells measured on a cluster: each is a task, and what it found goes into the cabinet here, in the order of cells.

A city is opened here, once, and goes once to each node."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from prirec.cluster.pool import in_tasks
from prirec_experiments.catalogue import EXPERIMENTS
from prirec_experiments.experiment import Missing, Workshop
from prirec_experiments.results_store import Cabinet, Cell, Evidence
from prirec_experiments.tuning import resolved, validated


class Put(NamedTuple):
    """What a cabinet is to be told."""

    cell: Cell
    digest: str
    values: Mapping[str, Any]
    evidence: Evidence | None


class Tray(Cabinet):
    """A cabinet that keeps nothing on disk: what is put into it is taken on by another."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"), "tray")
        self.puts: list[Put] = []

    def put(self, cell: Cell, digest: str, values: Mapping[str, Any], evidence: Evidence | None = None) -> None:
        self.puts.append(Put(cell, digest, values, evidence))


def work_elsewhere(
    name: str, left: Missing, workshop: Workshop, cabinet: Cabinet, *, done: Callable[[Cell], None]
) -> None:
    """What runner.work does, in tasks."""
    for city, cells in _by_city(left.cells):
        workshop.city(city)
        for cell, puts in zip(cells, in_tasks(_measured, (name, workshop), cells), strict=True):
            for one in puts:
                cabinet.put(*one)
            done(cell)


def look_ahead(cells: Iterable[Cell], workshop: Workshop, cabinet: Cabinet) -> None:
    """What tuning.look will ask for, measured beforehand."""
    for city, some in _by_city(cells):
        data = workshop.city(city)[2]
        digests = [resolved(cell, workshop).digest(model=f"validation of {cell.model}", data=data) for cell in some]
        left = [(cell, digest) for cell, digest in zip(some, digests, strict=True) if not cabinet.done(cell, digest)]
        answers = in_tasks(_validated, workshop, [cell for cell, _ in left])
        for (cell, digest), values in zip(left, answers, strict=True):
            cabinet.put(cell, digest, values)


def _by_city(cells: Iterable[Cell]) -> Iterator[tuple[str, list[Cell]]]:
    for city, some in groupby(cells, key=lambda cell: cell.city):
        yield city, list(some)


def _measured(shared: tuple[str, Workshop], cell: Cell) -> list[Put]:
    name, workshop = shared
    tray = Tray()
    EXPERIMENTS[name].measure.run(cell, workshop, tray)
    return tray.puts


def _validated(workshop: Workshop, cell: Cell) -> dict[str, Any]:
    return validated(cell, workshop)
