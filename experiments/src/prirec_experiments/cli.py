"""The commands `prirec reproduce` and `prirec tune`, which this package adds to the program by an entry point."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prirec.cli.options import Address, Where, examples, no_flag


# Names that a shell completes are listed here, not loaded: a shell waits for them.
def among(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Those that begin as the word does. A name of several words is left out: shells would take it apart."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete) and " " not in name]

    return complete


Published = Annotated[
    Path | None,
    typer.Option(
        envvar="PRIREC_DATA",
        metavar="FOLDER",
        help="Published data: foursquare_tokyo, foursquare_tokyo_profiles, tist2015_tokyo, trivago, yelp in it.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, max=256, metavar="N", show_default="one a core", help="Any number gives the same figures."),
]


# prirec reproduce: the paper's tables and figures, with its numbers beside ours.


REPRODUCE_EPILOG = examples(
    "prirec reproduce table4 --quick",
    "prirec reproduce table4 figure6 --data published --out results",
    "prirec reproduce all --forecast",
    "prirec reproduce all --engine cluster --address head:6379",
    "prirec reproduce --report results.html",
)
NAMES = ("table2", "table3", "table4", "table5", "figure4", "figure5", "figure6", "figure7", "beyond", "all")


def reproduce(
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="table2 ... table5, figure4 ... figure7, beyond, or all.",
            autocompletion=among(NAMES),
        ),
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A small made-up city, to see that it works.")] = False,
    data: Published = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of results; finished ones are kept.")] = Path(
        "experiments"
    ),
    threads: Threads = None,
    engine: Where = "local",
    address: Address = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="A model that another package registers, to add to table4 and table5; repeatable."
        ),
    ] = None,
    forecast: Annotated[bool, typer.Option("--forecast", help="Estimate the time, and stop.")] = False,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", callback=no_flag, help="At the end, write all results in FOLDER to one HTML page."
        ),
    ] = None,
) -> None:
    """Run the paper's experiments, with controls that it left out.

    An interrupted run continues where it stopped. Each table says which data it has instead of the paper's."""
    import os

    from prirec.errors import UsageError
    from prirec_experiments.on_cluster import refuse_address
    from prirec_experiments.reproduce import Request, reproduce_all

    refuse_address(engine, address)
    source = context.get_parameter_source("data")
    if quick and source is not None and source.name == "COMMANDLINE":  # PRIREC_DATA may be set for other runs
        raise UsageError("--quick makes up a city and reads no data: leave out --quick or --data")
    if not names and report is None:
        raise UsageError("name an experiment, or all; `prirec reproduce --help` lists them")
    reproduce_all(
        Request(
            names=tuple(names or ()), quick=quick, data=data, out=out, threads=threads or os.cpu_count() or 1,
            forecast=forecast, report=report, engine=engine, address=address, models=tuple(model or ()),
        )
    )  # fmt: skip


# prirec tune: the settings that models are compared with.


if TYPE_CHECKING:
    from prirec_experiments.experiment import Workspace
    from prirec_experiments.results_store import ResultsStore
    from prirec_experiments.tuning import Candidate

TUNE_EPILOG = examples(
    "prirec tune small --model MF --out results",
    "prirec tune yelp tokyo --data published --out results",
    "prirec tune yelp --model FM --by optuna --trials 60",
    "prirec tune yelp --engine cluster --address head:6379",
)
TUNED_CITIES = ("yelp", "tokyo", "trivago", "koubei-sized", "small")
USUAL = ("FM", "PriRec-", "PriRec", "MF", "DMF", "FM + ids")


def tune(
    cities: Annotated[
        list[str],
        typer.Argument(
            metavar="CITY", help="Data sets, such as yelp, tokyo or small.", autocompletion=among(TUNED_CITIES)
        ),
    ],
    *,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            show_default="all that have a grid",
            help="Model to tune; repeatable.",
            autocompletion=among(USUAL),
        ),
    ] = None,
    by: Annotated[
        Literal["grid", "optuna"], typer.Option(help="The paper's grid, or a search that learns from what it tried.")
    ] = "grid",
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="For optuna: settings to try.")] = 60,
    data: Published = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results are kept.")] = Path("experiments"),
    threads: Threads = None,
    engine: Where = "local",
    address: Address = None,
) -> None:
    """Search settings on held-out training records.

    Test records are never used. A search on private data looks at everyone's records, which no ε covers."""
    import os
    from itertools import product

    from prirec.cli.output import show_table
    from prirec.errors import UsageError
    from prirec.util.shown import SIMULATION
    from prirec_experiments.experiment import Workspace
    from prirec_experiments.on_cluster import connected, refuse_address
    from prirec_experiments.results_store import ResultsStore, write_whole
    from prirec_experiments.tuning import merged, searched_settings

    refuse_address(engine, address)
    if engine == "cluster" and by == "optuna":
        raise UsageError("optuna chooses each setting in the light of those before it; on a cluster search --by grid")
    chosen = tuple(model or USUAL)
    _refuse_unknown(cities, chosen, data)
    workspace, store = Workspace(data, threads or os.cpu_count() or 1), ResultsStore(out / "results", f"tuning-{by}")
    file, rows = out / "found.toml", []
    with connected(engine, address):
        for city, name in product(cities, chosen):
            best = _searched(city, name, workspace, store, by=by, trials=trials, engine=engine)
            write_whole(file, merged(file, best).encode())
            settings = ", ".join(f"{key} = {value:g}" for key, value in searched_settings(best).items())
            rows.append((city, name, f"{best.loss:.4f}", settings or "defaults"))
    show_table(("city", "model", ">log loss", "settings"), rows)
    typer.echo(f"settings {file}")
    typer.echo(SIMULATION)


def _refuse_unknown(cities: list[str], models: tuple[str, ...], data: Path | None) -> None:
    from prirec.errors import UsageError
    from prirec.util.sentences import suggest
    from prirec_experiments.cities import CITIES
    from prirec_experiments.models import MODELS

    for city in cities:
        if city not in CITIES:
            raise UsageError(f"there is no city '{city}'; {suggest(city, CITIES)}")
        if not CITIES[city].available(data):
            raise UsageError(f"{CITIES[city].title} is read from published data: name their folder with --data")
    for name in models:
        if name not in MODELS or name == "popularity alone":
            raise UsageError(f"no model '{name}' can be tuned; {suggest(name, USUAL)}")


def _searched(
    city: str, model: str, workspace: "Workspace", store: "ResultsStore", *, by: str, trials: int, engine: str
) -> "Candidate":  # fmt: skip
    from prirec.cli.output import bars
    from prirec_experiments import tuning

    with bars() as shown:
        row = shown.add_task(f"{city}, {model}", total=None, stage="")

        def done(tried: "Candidate") -> None:
            shown.update(row, advance=1, stage=f"log loss {tried.loss:.4f}")

        if by == "optuna":
            return tuning.search_by_optuna(city, model, workspace, store, trials=trials, done=done)
        if engine == "cluster":
            from prirec_experiments.on_cluster import validate_ahead

            ahead = partial(validate_ahead, workspace=workspace, store=store)
            return tuning.search(city, model, workspace, store, done=done, ahead=ahead)
        return tuning.search(city, model, workspace, store, done=done)


def add_commands(app: typer.Typer) -> None:
    """The entry point: called by prirec.cli.main when the program is built."""
    app.command("reproduce", epilog=REPRODUCE_EPILOG)(reproduce)
    app.command("tune", epilog=TUNE_EPILOG)(tune)
