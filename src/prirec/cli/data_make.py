"""prirec data make: a synthetic city as a data folder."""

import shlex
from typing import Annotated

import typer

from prirec.cli.options import NewFolder, Seed, Tables, examples

EPILOG = examples("prirec data make city", "prirec data make big --people 20000 --records 500000 --format parquet")


def make(
    target: NewFolder,
    *,
    people: Annotated[int, typer.Option(min=1, metavar="N", help="People who live there.")] = 2000,
    places: Annotated[int, typer.Option(min=1, metavar="N", help="Places they can go to.")] = 1500,
    records: Annotated[
        int, typer.Option(min=1, metavar="N", help="Places shown to people, clicked or ignored.")
    ] = 24_000,
    districts: Annotated[int, typer.Option(min=1, metavar="N", help="Districts, each with tastes of its own.")] = 12,
    categories: Annotated[int, typer.Option(min=1, metavar="N", help="Categories of places.")] = 24,
    seed: Seed = 0,
    table_format: Tables = "csv",
) -> None:
    """Make up a city and write it as a data folder."""
    from prirec.cli.output import program
    from prirec.cli.progress import busy
    from prirec.data.city import CityPlan, make_city
    from prirec.data.writing import refuse_occupied, write_folder
    from prirec.engines.randomness import generator

    refuse_occupied(target)
    plan = CityPlan(people=people, places=places, records=records, districts=districts, categories=categories)
    with busy("making the city"):
        write_folder(make_city(plan, generator(seed, "city")), target, table_format=table_format)
    typer.echo(f"wrote {people:,} people, {places:,} places and {records:,} records to {target}")
    typer.echo(f"next: {shlex.join((*program(), 'train', str(target), '--out', 'RUN'))}")
