"""prirec data import: a published data set as a data folder."""

from pathlib import Path
from typing import Annotated

import typer

from prirec.cli.options import Json, NewFolder, Tables, examples

EPILOG = examples("prirec data import --list", "prirec data import gowalla downloads/gowalla gowalla --format parquet")


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
    from prirec.cli.output import notes, show_json
    from prirec.cli.progress import busy
    from prirec.data.published import import_published

    with busy(f"reading {source}"):
        loaded = import_published(published, source, target, table_format=table_format)
    city = loaded.dataset
    sizes = {"people": len(city.people), "places": len(city.places), "records": len(city.visits)}
    if json:
        show_json({"format": published, **sizes, "notes": loaded.notes, "target": str(target)})
        return
    people, places, records = (f"{size:,} {name}" for name, size in sizes.items())
    typer.echo(f"wrote {people}, {places} and {records} to {target}")
    notes(loaded.notes)
