"""prirec data make: a synthetic city as a data folder."""

import shlex
from typing import Annotated

import typer

from prirec.cli.options import Json, NewFolder, Seed, Tables, examples

EPILOG = examples(
    "prirec data make city",
    "prirec data make big --people 20000 --records 500000 --format parquet",
    "prirec data make sydney --centre -33.87,151.21 --span-km 60 --days 365",
)


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
    days: Annotated[int, typer.Option(min=1, metavar="N", help="Days that the records are from.")] = 90,
    span_km: Annotated[float, typer.Option(metavar="KM", help="Side of the square that the city fills.")] = 25.0,
    middle: Annotated[
        str | None, typer.Option("--centre", metavar="LAT,LON", show_default="Tokyo", help="Where its middle is.")
    ] = None,
    ignored_per_click: Annotated[
        float, typer.Option(metavar="RATIO", help="Places ignored for each that is clicked, on average.")
    ] = 3.0,
    seed: Seed = 0,
    table_format: Tables = "csv",
    json: Json = False,
) -> None:
    """Make up a city and write it as a data folder."""
    from prirec.cli.moments import point_of
    from prirec.cli.output import program, show_json
    from prirec.cli.progress import busy
    from prirec.data.city import CityPlan, make_city
    from prirec.data.city.plan import TOKYO
    from prirec.data.writing import refuse_occupied, write_folder
    from prirec.engines.randomness import generator

    refuse_occupied(target)
    plan = CityPlan(
        people=people,
        places=places,
        records=records,
        districts=districts,
        categories=categories,
        days=days,
        span_km=span_km,
        centre=TOKYO if middle is None else point_of(middle, flag="--centre"),
        ignored_per_click=ignored_per_click,
    )
    with busy("making the city"):
        write_folder(make_city(plan, generator(seed, "city")), target, table_format=table_format)
    if json:
        show_json({"people": people, "places": places, "records": records, "seed": seed, "target": str(target)})
        return
    typer.echo(f"wrote {people:,} people, {places:,} places and {records:,} records to {target}")
    typer.echo(f"next: {shlex.join((*program(), 'train', str(target), '--out', 'RUN'))}")
