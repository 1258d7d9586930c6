"""prirec tune: the settings that models are compared with."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from prirec.cli.completion import among
from prirec.cli.options import Address, Where, examples

if TYPE_CHECKING:
    from prirec.experiments.cabinet import Cabinet
    from prirec.experiments.experiment import Workshop
    from prirec.experiments.tuning import Tried

EPILOG = examples(
    "prirec tune small --model MF --out results",
    "prirec tune yelp tokyo --data published --out results",
    "prirec tune yelp --model FM --by optuna --trials 60",
    "prirec tune yelp --engine cluster --address head:6379",
)
DATA = "PRIREC_DATA"
CITIES = ("yelp", "tokyo", "trivago", "koubei-sized", "small")
USUAL = ("FM", "PriRec-", "PriRec", "PriRec, rounds", "MF", "DMF", "FM + ids")


def tune(
    cities: Annotated[
        list[str],
        typer.Argument(metavar="CITY...", help="Such as yelp, tokyo, trivago or small.", autocompletion=among(CITIES)),
    ],
    *,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", show_default="all that have a grid", help="Repeatable.", autocompletion=among(USUAL)
        ),
    ] = None,
    by: Annotated[
        Literal["grid", "optuna"], typer.Option(help="The paper's grid, or a search that learns from what it tried.")
    ] = "grid",
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="For optuna: settings to try.")] = 60,
    data: Annotated[Path | None, typer.Option(envvar=DATA, metavar="FOLDER", help="Published data.")] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results are kept.")] = Path("experiments"),
    threads: Annotated[
        int | None, typer.Option(min=1, max=256, metavar="N", show_default="one a core", help="Same figures for any.")
    ] = None,
    engine: Where = "local",
    address: Address = None,
) -> None:
    """Search settings on held-out training records.

    Test records are never looked at. On private data a search is outside of any ε: it looks at everyone's records."""
    import os
    from itertools import product

    from prirec.cli.on_cluster import reached, refuse_off_cluster
    from prirec.cli.output import SIMULATION, show_table
    from prirec.errors import UsageError
    from prirec.experiments.cabinet import Cabinet, write_whole
    from prirec.experiments.experiment import Workshop
    from prirec.experiments.tuning import found, merged

    refuse_off_cluster(engine, address=address)
    if engine == "cluster" and by == "optuna":
        raise UsageError("optuna chooses each setting in the light of those before it; on a cluster search --by grid")
    chosen = tuple(model or USUAL)
    _refuse_unknown(cities, chosen, data)
    workshop, cabinet = Workshop(data, threads or os.cpu_count() or 1), Cabinet(out / "results", f"tuning-{by}")
    file, rows = out / "found.toml", []
    with reached(engine, address):
        for city, name in product(cities, chosen):
            best = _searched(city, name, workshop, cabinet, by=by, trials=trials, engine=engine)
            write_whole(file, merged(file, best).encode())
            settings = ", ".join(f"{key} = {value:g}" for key, value in found(best).items())
            rows.append((city, name, f"{best.loss:.4f}", settings or "as it is"))
    show_table(("city", "model", ">log loss", "settings"), rows)
    typer.echo(f"settings {file}")
    typer.echo(SIMULATION)


def _refuse_unknown(cities: list[str], models: tuple[str, ...], data: Path | None) -> None:
    from prirec.errors import UsageError
    from prirec.experiments.cities import CITIES
    from prirec.experiments.entrants import ENTRANTS

    for city in cities:
        if city not in CITIES:
            raise UsageError(f"there is no city '{city}'; there are {', '.join(CITIES)}")
        if not CITIES[city].available(data):
            raise UsageError(f"{CITIES[city].title} is read from published data: name their folder with --data")
    for name in models:
        if name not in ENTRANTS or name == "popularity alone":
            raise UsageError(f"no model '{name}' can be tuned; there are {', '.join(USUAL)}")


def _searched(
    city: str, model: str, workshop: "Workshop", cabinet: "Cabinet", *, by: str, trials: int, engine: str
) -> "Tried":  # fmt: skip
    from prirec.cli.progress import bars
    from prirec.experiments import by_optuna, tuning

    with bars() as shown:
        row = shown.add_task(f"{city}, {model}", total=None, stage="")

        def done(tried: "Tried") -> None:
            shown.update(row, advance=1, stage=f"log loss {tried.loss:.4f}")

        if by == "optuna":
            return by_optuna.search(city, model, workshop, cabinet, trials=trials, done=done)
        if engine == "cluster":
            from prirec.experiments.elsewhere import look_ahead

            ahead = partial(look_ahead, workshop=workshop, cabinet=cabinet)
            return tuning.search(city, model, workshop, cabinet, done=done, ahead=ahead)
        return tuning.search(city, model, workshop, cabinet, done=done)
