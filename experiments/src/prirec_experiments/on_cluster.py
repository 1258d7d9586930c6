"""Cells measured on a cluster: each is a task, and what it found goes into the store here, in the order of cells.

A city is opened here, once, and goes once to each node."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from prirec.cluster.pool import map_tasks, ray_session
from prirec.errors import UsageError
from prirec_experiments.experiment import Experiment, Measure, Remaining, Workspace
from prirec_experiments.results_store import Cell, CellScores, ResultsStore
from prirec_experiments.tuning import validated, validation_digest


def refuse_address(engine: str, address: str | None) -> None:
    """UsageError for --address without --engine cluster: a flag that would change nothing is a mistake."""
    if address is not None and engine != "cluster":
        raise UsageError("--address belongs to --engine cluster")


@contextmanager
def connected(engine: str, address: str | None) -> Iterator[None]:
    """A connection to Ray for the tasks of an experiment; none where all is computed on this machine."""
    if engine != "cluster":
        yield
        return
    with ray_session(address):
        yield


class StoredCell(NamedTuple):
    """A result on its way to the store of the driver."""

    cell: Cell
    digest: str
    values: Mapping[str, Any]
    scores: CellScores | None


class MemoryStore(ResultsStore):
    """A results store without files: what a task puts into it is sent to the store of the driver."""

    def __init__(self) -> None:
        super().__init__(Path("nowhere"), "memory")
        self.puts: list[StoredCell] = []

    def put(self, cell: Cell, digest: str, values: Mapping[str, Any], scores: CellScores | None = None) -> None:
        self.puts.append(StoredCell(cell, digest, values, scores))


def measure_on_cluster(
    experiment: Experiment, left: Remaining, workspace: Workspace, store: ResultsStore, *, done: Callable[[Cell], None]
) -> None:
    """`measure_cells` of experiment.py with a Ray task for each cell."""
    for city, cells in _by_city(left.cells):
        workspace.city(city)
        for cell, puts in zip(cells, map_tasks(_measured, (experiment.measure, workspace), cells), strict=True):
            for one in puts:
                store.put(*one)
            done(cell)


def validate_ahead(cells: Iterable[Cell], workspace: Workspace, store: ResultsStore) -> None:
    """Measure beforehand what tuning.validate_cell will ask for."""
    for city, some in _by_city(cells):
        workspace.city(city)
        digests = {cell: validation_digest(cell, workspace) for cell in some}
        left = [cell for cell in some if not store.done(cell, digests[cell])]
        for cell, values in zip(left, map_tasks(_validated, workspace, left), strict=True):
            store.put(cell, digests[cell], values)


def _by_city(cells: Iterable[Cell]) -> Iterator[tuple[str, list[Cell]]]:
    for city, some in groupby(cells, key=lambda cell: cell.city):
        yield city, list(some)


def _measured(shared: tuple[Measure, Workspace], cell: Cell) -> list[StoredCell]:
    measure, workspace = shared
    store = MemoryStore()
    measure.run(cell, workspace, store)
    return store.puts


def _validated(workspace: Workspace, cell: Cell) -> dict[str, Any]:
    return validated(cell, workspace)
