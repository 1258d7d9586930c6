"""All experiments by name, and the work behind prirec reproduce: forecast, cells with bars, tables, drawings."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from prirec.cli.output import bar, bars, console, duration, note, show_table
from prirec.data.tables import TableFiles
from prirec.errors import UsageError
from prirec.util.sentences import suggest
from prirec.util.shown import SIMULATION
from prirec_experiments.cities import CITIES
from prirec_experiments.experiment import Experiment, Remaining, Workspace, measure_cells, remaining
from prirec_experiments.figure7 import FIGURE7
from prirec_experiments.figures import BEYOND, FIGURE4, FIGURE5, FIGURE6
from prirec_experiments.models import MODELS
from prirec_experiments.on_cluster import connected
from prirec_experiments.results_store import Cell, ResultsStore
from prirec_experiments.rivals.descent import Tell
from prirec_experiments.show import Section, write_markdown, write_page
from prirec_experiments.tables import TABLE2, TABLE3, TABLE4, TABLE5
from prirec_experiments.trial import slowness

# in the order of the paper
EXPERIMENTS: Mapping[str, Experiment] = {
    one.name: one for one in (TABLE2, TABLE3, TABLE4, TABLE5, FIGURE4, FIGURE5, FIGURE6, FIGURE7, BEYOND)
}
RESULTS, QUICK = "results", "quick"
WITH_MODELS = ("table4", "table5")  # experiments to which models can be added


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The arguments of `prirec reproduce`."""

    names: tuple[str, ...]
    quick: bool
    data: Path | None
    out: Path
    threads: int
    forecast: bool
    report: Path | None
    engine: str = "local"
    address: str | None = None
    models: tuple[str, ...] = ()  # registered by other packages (entry points `prirec.models`), beside ours

    def settings(self, experiment: Experiment) -> dict[str, Any]:
        """Those of an experiment, with the models that were asked for where it compares the accuracy of models."""
        settings = experiment.settings(quick=self.quick)
        if experiment.name in WITH_MODELS:
            settings["models"] = list(dict.fromkeys((*settings["models"], *self.models)))
        return settings

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """The named experiments, in the order of the paper."""
        unknown = [name for name in self.names if name not in EXPERIMENTS and name != "all"]
        if unknown:
            raise UsageError(f"there is no experiment '{unknown[0]}'; {suggest(unknown[0], (*EXPERIMENTS, 'all'))}")
        return tuple(one for name, one in EXPERIMENTS.items() if name in self.names or "all" in self.names)

    @property
    def results(self) -> Path:
        """Quick runs have a folder of their own: they are no results."""
        return self.out / (QUICK if self.quick else RESULTS)


@dataclass(frozen=True, slots=True)
class Pending:
    """An experiment, its results so far, and the cells that are left."""

    experiment: Experiment
    store: ResultsStore
    left: Remaining

    @property
    def name(self) -> str:
        return self.experiment.name


def reproduce_all(request: Request) -> None:
    """Measures what is missing of each named experiment, then shows all results."""
    _refuse_models(request)
    _refuse_unpublished(request)
    workspace = Workspace(request.data, request.threads)
    chosen = [_pending(one, workspace, request) for one in request.experiments]
    if chosen:
        _show_forecast(chosen, request)
    if request.forecast:
        return
    with connected(request.engine, request.address):
        for one in chosen:
            _work(one, workspace, request)
    _show(request)


def _refuse_models(request: Request) -> None:
    """Before any work: a model that nobody registers, or experiments that compare no models."""
    for name in request.models:
        MODELS[name]
    if request.models and not any(one.name in WITH_MODELS for one in request.experiments):
        raise UsageError(f"--model belongs to {' and '.join(WITH_MODELS)}: name one of them")


def _refuse_unpublished(request: Request) -> None:
    """UsageError for a folder that holds none of the published data: in quick mode nobody reads it."""
    if request.quick or request.data is None or not request.names:
        return
    folders = sorted({city.published[1] for city in CITIES.values() if city.published is not None})
    if any((request.data / folder).is_dir() for folder in folders):
        return
    own = request.data.is_dir() and TableFiles.of(request.data).find("visits") is not None
    instead = (
        "it is a data folder of your own: use `prirec train` and `prirec evaluate`" if own else "name their folder"
    )
    raise UsageError(f"{request.data} holds none of the published data ({', '.join(folders)}); {instead}")


def _pending(experiment: Experiment, workspace: Workspace, request: Request) -> Pending:
    settings, store = request.settings(experiment), ResultsStore(request.results, experiment.name)
    return Pending(experiment, store, remaining(experiment, experiment.cells(settings), workspace, store))


def _show_forecast(chosen: list[Pending], request: Request) -> None:
    """Prints how many cells are left and about how long they take, before any is begun."""
    factor = slowness() if any(one.left.cells for one in chosen) else 1.0
    rows = [
        (one.name, f"{one.left.done:,}", f"{len(one.left.cells):,}", duration(factor * one.left.seconds))
        for one in chosen
    ]
    show_table(("experiment", ">done", ">to do", ">about"), rows)
    for city in sorted({city for one in chosen for city in one.left.without_data}):
        folder = (CITIES[city].published or ("", ""))[1]
        note(f"{CITIES[city].title} is left out: there is no folder {folder} in the folder of published data (--data)")


def _work(one: Pending, workspace: Workspace, request: Request) -> None:
    if not one.left.cells:
        return
    with bars() as shown:
        row = bar(shown, one.name, iterations=len(one.left.cells))
        row.begin()

        def begun(cell: Cell) -> Tell:
            shown.update(row.task, stage=cell.key)
            return lambda number, loss: shown.update(row.task, stage=f"{cell.key}: {number}, loss {loss:.4f}")

        def finished(cell: Cell) -> None:
            shown.update(row.task, advance=1)

        if request.engine == "cluster" and not one.experiment.clocked:
            from prirec_experiments.on_cluster import measure_on_cluster

            measure_on_cluster(one.experiment, one.left, workspace, one.store, done=finished)
        else:
            measure_cells(one.experiment, one.left, workspace, one.store, begun=begun, done=finished)
        shown.update(row.task, stage="done")
    one.experiment.conclude(request.settings(one.experiment), one.store)


def _show(request: Request) -> None:
    """All results that the folder holds; what was asked for is printed too."""
    sections: list[Section] = []
    for name, experiment in EXPERIMENTS.items():
        if (request.results / f"{name}.json").is_file():
            settings = request.settings(experiment)
            sections.append(experiment.show(settings, ResultsStore(request.results, name)))
            if experiment in request.experiments:
                print_section(sections[-1])
    if not sections:
        quick = not request.quick and any((request.out / QUICK).glob("*.json"))
        hint = "; those of quick runs are shown with --quick" if quick else "; name an experiment to run"
        raise UsageError(f"there are no results in {request.results}{hint}")
    target = request.results if request.quick else request.out
    typer.echo(f"results  {write_markdown(target, sections)}")
    if request.report is not None:
        write_page(request.report, sections)
        typer.echo(f"report   {request.report}")
    typer.echo(SIMULATION)


def print_section(shown: Section) -> None:
    """Title, tables and their notes; drawings are in the files."""
    screen = console()
    screen.print(f"\n{shown.title}", style="bold")
    for table in shown.tables:
        show_table(table.columns, table.rows, title=table.title)
        if table.note:
            screen.print(table.note, style="dim", highlight=False, markup=False)
