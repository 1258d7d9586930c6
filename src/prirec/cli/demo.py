"""prirec demo: a made-up city, five models, one table, ten places for one person, and a report."""

from pathlib import Path
from typing import Annotated

import typer

from prirec.cli.options import Json, Seed, examples

EPILOG = examples("prirec demo", "prirec demo --quick --out try", "prirec demo --quick --json > demo.json")
USUAL, QUICK, FEWEST = 10_000, 500, 200


def demo(
    *,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where report, run and data go.")] = Path("demo"),
    people: Annotated[
        int | None, typer.Option(min=FEWEST, metavar="N", show_default=str(USUAL), help="People in the city.")
    ] = None,
    seed: Seed = 0,
    quick: Annotated[bool, typer.Option("--quick", help=f"A small city of {QUICK} people.")] = False,
    json: Json = False,
) -> None:
    """Compare five models on a made-up city and recommend places."""
    from prirec.cli.output import busy
    from prirec.errors import UsageError

    if quick and people is not None:
        raise UsageError("--quick sets the number of people; give --quick or --people")
    with busy("loading"):
        from prirec.cli.demo_work import ForPeople, ForPrograms, hold, refuse_foreign, require_tools

    require_tools()
    refuse_foreign(out)
    words = ForPrograms() if json else ForPeople()
    hold(out, people=people if people is not None else (QUICK if quick else USUAL), seed=seed, words=words)
