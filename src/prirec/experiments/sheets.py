"""Cells without a model: something is counted in a city."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from prirec.data.dataset import Dataset
from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell
from prirec.experiments.cities import City
from prirec.experiments.experiment import Workshop
from prirec.experiments.rivals.passes import Tell, quiet

MICROSECONDS = 15.0  # a record


@dataclass(frozen=True, slots=True)
class Sheet:
    """`count` makes a cell's values of a city; `code` is raised when it counts otherwise."""

    count: Callable[[City, Dataset], Mapping[str, Any]] = field(repr=False)
    code: int = 1

    def digest(self, cell: Cell, workshop: Workshop) -> str:
        _, _, data = workshop.city(cell.city)
        return f"{self.code}-{data}"

    def run(self, cell: Cell, workshop: Workshop, cabinet: Cabinet, tell: Tell = quiet) -> None:
        city, dataset, _ = workshop.city(cell.city)
        cabinet.put(cell, self.digest(cell, workshop), self.count(city, dataset))

    def expected(self, cell: Cell, workshop: Workshop) -> float:
        _, dataset, _ = workshop.city(cell.city)
        return 1e-6 * MICROSECONDS * len(dataset.visits)
