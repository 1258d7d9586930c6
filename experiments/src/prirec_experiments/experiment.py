"""An experiment: which cells it has, how one is measured, and what all of them show."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from tomllib import loads
from typing import Any, Protocol

from prirec.data.dataset import Dataset
from prirec.simulate.setup import Setup
from prirec_experiments.cities import CITIES, City, fingerprint
from prirec_experiments.results_store import Cell, ResultsStore
from prirec_experiments.rivals.descent import Tell, quiet
from prirec_experiments.show import Section


@dataclass(slots=True)
class Workspace:
    """Where cells are measured: the reader's data, and the city that was opened last."""

    data: Path | None = None
    threads: int = 1
    _open: tuple[str, Dataset, str] | None = field(default=None, repr=False)
    _ready: tuple[str, Setup] | None = field(default=None, repr=False)

    def city(self, name: str) -> tuple[City, Dataset, str]:
        """The city, its data and their fingerprint. Cells come city by city, and one city is in memory at a time."""
        if self._open is None or self._open[0] != name:
            self._open = None
            dataset = CITIES[name].open(self.data)
            self._open = (name, dataset, fingerprint(dataset))
        return CITIES[name], self._open[1], self._open[2]

    def ready(self, name: str, make: Callable[[], Setup]) -> Setup:
        """A city made ready under settings that this names; the last one is kept."""
        if self._ready is None or self._ready[0] != name:
            self._ready = None
            self._ready = (name, make())
        return self._ready[1]

    def available(self, cell: Cell) -> bool:
        return CITIES[cell.city].available(self.data)


class Measure(Protocol):
    def digest(self, cell: Cell, workspace: Workspace) -> str:
        """A hash of all that the result depends on: a cell is measured again only when it changes."""
        ...

    def run(self, cell: Cell, workspace: Workspace, store: ResultsStore, tell: Tell = quiet) -> None:
        """Measures the cell and puts what it found into the store."""
        ...

    def expected(self, cell: Cell, workspace: Workspace) -> float:
        """About how many seconds the cell takes."""
        ...


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure of the paper."""

    name: str  # "table4"
    title: str
    cells: Callable[[Mapping[str, Any]], Sequence[Cell]]  # from its settings
    measure: Measure
    show: Callable[[Mapping[str, Any], ResultsStore], Section]
    conclude: Callable[[Mapping[str, Any], ResultsStore], None] = lambda settings, store: None  # after all cells
    clocked: bool = False  # it measures time, and is worth nothing where others work at the same time

    def settings(self, *, quick: bool) -> dict[str, Any]:
        """Its TOML file; a quick form is the same with what stands below [quick]."""
        table = loads(files("prirec_experiments").joinpath(f"settings/{self.name}.toml").read_text(encoding="utf-8"))
        changes = table.pop("quick", {})
        return {**table, **(changes if quick else {})}


# Runs what is missing of an experiment, cell by cell. What is done is kept, so that stopping costs one cell.


@dataclass(frozen=True, slots=True)
class Remaining:
    """What is still to be measured, and what cannot be."""

    cells: tuple[Cell, ...]
    done: int
    without_data: tuple[str, ...]  # cities that are not there
    seconds: float  # about


def remaining(experiment: Experiment, cells: Sequence[Cell], workspace: Workspace, store: ResultsStore) -> Remaining:
    """The cells that are not in the store, city by city, so that each city is opened once."""
    there = sorted((cell for cell in cells if workspace.available(cell)), key=lambda cell: cell.city)
    left = [cell for cell in there if not store.done(cell, experiment.measure.digest(cell, workspace))]
    absent = tuple(sorted({cell.city for cell in cells} - {cell.city for cell in there}))
    expected = sum(experiment.measure.expected(cell, workspace) for cell in left)
    return Remaining(tuple(left), len(there) - len(left), absent, expected)


def measure_cells(
    experiment: Experiment, left: Remaining, workspace: Workspace, store: ResultsStore, *,
    begun: Callable[[Cell], Tell] = lambda cell: quiet, done: Callable[[Cell], None] = lambda cell: None,
) -> None:  # fmt: skip
    """`begun` is called before each cell, and what it returns after each pass of the cell's training."""
    for cell in left.cells:
        experiment.measure.run(cell, workspace, store, begun(cell))
        done(cell)


# Cells without a model: something is counted in a city.


MICROSECONDS = 15.0  # a record


@dataclass(frozen=True, slots=True)
class CountCells:
    """`count` makes a cell's values of a city; `code` is raised when it counts otherwise."""

    count: Callable[[City, Dataset], Mapping[str, Any]] = field(repr=False)
    code: int = 1

    def digest(self, cell: Cell, workspace: Workspace) -> str:
        _, _, data = workspace.city(cell.city)
        return f"{self.code}-{data}"

    def run(self, cell: Cell, workspace: Workspace, store: ResultsStore, tell: Tell = quiet) -> None:
        city, dataset, _ = workspace.city(cell.city)
        store.put(cell, self.digest(cell, workspace), self.count(city, dataset))

    def expected(self, cell: Cell, workspace: Workspace) -> float:
        _, dataset, _ = workspace.city(cell.city)
        return 1e-6 * MICROSECONDS * len(dataset.visits)
