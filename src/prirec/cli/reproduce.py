"""prirec reproduce: the paper's tables and figures, with its numbers beside ours."""

from pathlib import Path
from typing import Annotated

import typer

from prirec.cli.completion import among
from prirec.cli.options import Address, Where, examples

EPILOG = examples(
    "prirec reproduce table4 --quick",
    "prirec reproduce table4 figure6 --data published --out results",
    "prirec reproduce all --forecast",
    "prirec reproduce all --engine cluster --address head:6379",
    "prirec reproduce --report results.html",
)
DATA = "PRIREC_DATA"
NAMES = ("table2", "table3", "table4", "table5", "figure4", "figure5", "figure6", "figure7", "beyond", "all")


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="table2 ... table5, figure4 ... figure7, beyond, or all.",
            autocompletion=among(NAMES),
        ),
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="A small made-up city, to see that it works.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            envvar=DATA,
            metavar="FOLDER",
            help="Published data: foursquare_tokyo, foursquare_tokyo_profiles, tist2015_tokyo, trivago, yelp in it.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where results are, and go on from.")] = Path(
        "experiments"
    ),
    threads: Annotated[
        int | None, typer.Option(min=1, max=256, metavar="N", show_default="one a core", help="Same figures for any.")
    ] = None,
    engine: Where = "local",
    address: Address = None,
    forecast: Annotated[bool, typer.Option("--forecast", help="Say what it would cost, and stop.")] = False,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One HTML page of all results in FOLDER, in the end.")
    ] = None,
) -> None:
    """Run the paper's experiments, with controls that it left out.

    Stopped at any moment, it goes on where it was. What data stand for which is said with each table."""
    import os

    from prirec.cli.on_cluster import refuse_off_cluster
    from prirec.cli.reproducing import Request, reproduce_all
    from prirec.errors import UsageError

    refuse_off_cluster(engine, address=address)
    if not names and report is None:
        raise UsageError("name an experiment, or all; `prirec reproduce --help` lists them")
    reproduce_all(
        Request(
            names=tuple(names or ()), quick=quick, data=data, out=out, threads=threads or os.cpu_count() or 1,
            forecast=forecast, report=report, engine=engine, address=address,
        )
    )  # fmt: skip
