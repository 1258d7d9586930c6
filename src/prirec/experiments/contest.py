"""Cells that are models on cities: how most tables and figures measure theirs."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from tomllib import loads

from prirec.experiments.cabinet import Cabinet
from prirec.experiments.cells import Cell, Scalar
from prirec.experiments.costs import seconds
from prirec.experiments.entrants import ENTRANTS
from prirec.experiments.experiment import Workshop
from prirec.experiments.rivals.passes import Tell, quiet
from prirec.experiments.trial import Chosen, attempt, chosen


def found_settings(city: str, model: str) -> Mapping[str, Scalar]:
    """What the search on validation records has found for this model and city (settings/found.toml); else nothing."""
    table = loads(files("prirec.experiments").joinpath("settings/found.toml").read_text(encoding="utf-8"))
    return {str(name): value for name, value in table.get(city, {}).get(model, {}).items()}


@dataclass(frozen=True, slots=True)
class Contest:
    """Trains a model and measures it on the test records."""

    def chosen(self, cell: Cell, workshop: Workshop) -> Chosen:
        city, _, _ = workshop.city(cell.city)
        return chosen(cell, city, ENTRANTS[cell.model], found_settings(cell.city, cell.model))

    def digest(self, cell: Cell, workshop: Workshop) -> str:
        _, _, data = workshop.city(cell.city)
        return self.chosen(cell, workshop).digest(model=cell.model, data=data)

    def run(self, cell: Cell, workshop: Workshop, cabinet: Cabinet, tell: Tell = quiet) -> None:
        _, dataset, data = workshop.city(cell.city)
        how = self.chosen(cell, workshop)
        tried = attempt(how, ENTRANTS[cell.model], dataset, threads=workshop.threads, tell=tell)
        cabinet.put(cell, how.digest(model=cell.model, data=data), tried.values, tried.evidence)

    def expected(self, cell: Cell, workshop: Workshop) -> float:
        _, dataset, _ = workshop.city(cell.city)
        return seconds(self.chosen(cell, workshop), model=cell.model, dataset=dataset)
