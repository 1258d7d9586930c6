"""prirec data check, describe, import, make and partition: data folders."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from prirec.cli.options import (
    Assignments,
    DataFolder,
    Json,
    NewFolder,
    Seed,
    SettingsFile,
    SkipBad,
    Strict,
    Tables,
    assignment,
    examples,
)
from prirec.errors import DataError, UsageError

DATA_CHECK_EPILOG = examples(
    "prirec data check city", "prirec data check city --write-schema", "prirec data check city --skip-bad --json"
)


def check(
    data: DataFolder,
    *,
    skip_bad: SkipBad = False,
    write_schema: Annotated[
        bool, typer.Option("--write-schema", help="Write the proposed schema.toml into the folder, if it has none.")
    ] = False,
    json: Json = False,
) -> None:
    """List everything that is wrong or doubtful about a data folder.

    A schema.toml is proposed that names what each column is. No cell is shown. With problems, the exit code is 3."""
    from prirec.cli.output import busy, show, show_json

    with busy("reading the data"):
        from prirec import check_folder

        found = check_folder(data, skip_bad=skip_bad)
    written = found.write_schema() if write_schema and found.schema else None
    if json:
        show_json(found.to_dict())
    else:
        show(found.panels())
        if written is not None:
            typer.echo(f"wrote {written}")
        elif found.schema:
            typer.echo(f"proposed schema.toml:\n\n{found.schema}")
    if found.problems:
        raise typer.Exit(DataError.exit_code)


# prirec data describe: the paper's Table 2.


DATA_DESCRIBE_EPILOG = examples(
    "prirec data describe city",
    "prirec data describe city --filter none --json",
    "prirec data describe city --set data.at_least=3 --set features.words=10",
)

READ_BY_DESCRIBE = ("data.keep", "data.at_least")


def describe(
    data: DataFolder,
    *,
    keep: Annotated[
        Literal["paper", "none"] | None,
        typer.Option(
            "--filter",
            show_default="data.keep: paper",
            help="The paper's filter of people and places with few records, or none.",
        ),
    ] = None,
    file: SettingsFile = None,
    assignments: Assignments = None,
    people: Annotated[int, typer.Option(min=0, metavar="N", help="List N ids of people; they are private.")] = 0,
    strict: Strict = False,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Count people, places, records and features (Table 2)."""
    from prirec.cli.options import choose
    from prirec.cli.output import busy, notes, show, show_json
    from prirec.util.shown import printable

    flags = {"data.keep": {"none": "all"}.get(keep, keep) if keep else None}
    settings = choose(preset=None, file=file, assignments=assignments, flags=flags)
    for name in (assignment(text)[0] for text in assignments or ()):
        if name not in READ_BY_DESCRIBE and not name.startswith("features."):
            raise UsageError(f"{name} makes no difference here: it counts by data.keep, data.at_least and features.*")
    with busy("counting"):
        from prirec import read_folder

        found = read_folder(data, strict=strict, skip_bad=skip_bad).describe(settings)
    ids = found.people[:people]
    if json:
        show_json({**found.to_dict(), **({"people_ids": ids} if people else {})})
        return
    show(found.panels())
    notes(found.notes)
    listing = "people: " + ", ".join(printable(name) for name in ids)
    typer.echo(listing if people else "ids of people are private and not shown; --people 3 lists 3")


# prirec data import: a published data set as a data folder.


DATA_IMPORT_EPILOG = examples(
    "prirec data import --list", "prirec data import gowalla downloads/gowalla gowalla --format parquet"
)


def _formats(incomplete: str) -> list[str]:
    from prirec.data.published import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


def _list(value: bool) -> None:  # noqa: FBT001  # called with one argument by position
    if not value:
        return
    from prirec.data.published import FORMATS

    for known in FORMATS.values():
        typer.echo(f"{known.name}\n    {known.description}\n    needs {', '.join(known.files)}")
    raise typer.Exit


def import_data(
    published: Annotated[
        str, typer.Argument(metavar="FORMAT", help="Name of the format; --list shows them.", autocompletion=_formats)
    ],
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="Folder with the published files.")],
    target: NewFolder,
    *,
    table_format: Tables = "csv",
    show: Annotated[
        bool, typer.Option("--list", callback=_list, is_eager=True, help="List the formats and their files.")
    ] = False,
    json: Json = False,
) -> None:
    """Turn a published data set into a data folder."""
    from prirec.cli.output import busy, notes, show_json
    from prirec.data.published import import_published

    with busy(f"reading {source}"):
        loaded = import_published(published, source, target, table_format=table_format)
    city = loaded.dataset
    sizes = {"people": len(city.people), "places": len(city.places), "records": len(city.visits)}
    if json:
        show_json({"format": published, **sizes, "notes": loaded.notes, "target": str(target)})
        return
    typer.echo(f"wrote {_sizes(**sizes)} to {target}")
    notes(loaded.notes)


def _sizes(people: int, places: int, records: int) -> str:
    from prirec.util.shown import counted

    return f"{counted(people, 'person')}, {counted(places, 'place')} and {counted(records, 'record')}"


# prirec data make: a synthetic city as a data folder.


DATA_MAKE_EPILOG = examples(
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
        int, typer.Option(min=1, metavar="N", help="Records: a place shown to a person, clicked or ignored.")
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
    from prirec.cli.options import point_of
    from prirec.cli.output import busy, program, show_json
    from prirec.data.write_folder import refuse_occupied

    refuse_occupied(target)
    centre = {} if middle is None else {"centre": point_of(middle, flag="--centre")}
    with busy("making the city"):
        from prirec import make_city

        made = make_city(
            people, places=places, records=records, districts=districts, categories=categories, days=days,
            span_km=span_km, ignored_per_click=ignored_per_click, seed=seed, **centre,
        )  # fmt: skip
        made.save(target, format=table_format)
    if json:
        show_json({"people": people, "places": places, "records": records, "seed": seed, "target": str(target)})
        return
    typer.echo(f"wrote {_sizes(people, places, records)} to {target}")
    typer.echo(f"next: {shlex.join((*program(), 'train', str(target), '--out', 'RUN'))}")


# prirec data partition: a data folder cut into parts, for a cluster.


DATA_PARTITION_EPILOG = examples(
    "prirec data partition city city-parts", "prirec data partition large large-parts --parts 512"
)


def partition(
    data: DataFolder,
    target: NewFolder,
    *,
    parts: Annotated[
        int, typer.Option(min=1, max=100_000, metavar="N", help="Regions to cut into; a few for each actor.")
    ] = 64,
    skip_bad: SkipBad = False,
    json: Json = False,
) -> None:
    """Cut a data folder into regions, for a cluster.

    No machine has to hold all of it then. All commands read the new folder like the old one. The split and the
    negatives are drawn for each person separately, so a run differs from one on the old folder."""
    from prirec.cli.output import busy, notes, program, show_json
    from prirec.data.partition import partition_folder
    from prirec.util.shown import counted

    with busy("partitioning"):
        done = partition_folder(data, target, parts=parts, skip_bad=skip_bad)
    made = done.partition
    sizes = {"parts": len(made.parts), "people": made.people, "records": made.records}
    if json:
        show_json({**sizes, "notes": done.notes, "target": str(target)})
        return
    people, records = counted(made.people, "person"), counted(made.records, "record")
    typer.echo(f"wrote {people} and {records} in {counted(len(made.parts), 'part')} to {target}")
    notes(done.notes)
    command = (*program(), "train", str(target), "--engine", "cluster", "--out", "RUN")
    typer.echo(f"next: {shlex.join(command)}")
