"""prirec data partition: a data folder cut into parts, for a cluster."""

import shlex
from typing import Annotated

import typer

from prirec.cli.options import DataFolder, Json, NewFolder, examples

EPILOG = examples("prirec data partition city city-parts", "prirec data partition large large-parts --parts 512")


def partition(
    data: DataFolder,
    target: NewFolder,
    *,
    parts: Annotated[
        int, typer.Option(min=1, max=100_000, metavar="N", help="Regions to cut into; a few for each actor.")
    ] = 64,
    json: Json = False,
) -> None:
    """Cut a data folder into regions, for a cluster.

    No machine need hold all of it then. All commands read the new folder as they read the old one. What is drawn at
    random is then each person's own."""
    from prirec.cli.output import program, show_json
    from prirec.cli.progress import busy
    from prirec.data.partition import partition_folder

    with busy("partitioning"):
        made = partition_folder(data, target, parts=parts)
    if json:
        show_json({"parts": len(made.parts), "people": made.people, "records": made.records, "target": str(target)})
        return
    typer.echo(f"wrote {made.people:,} people and {made.records:,} records in {len(made.parts)} parts to {target}")
    command = (*program(), "train", str(target), "--engine", "cluster", "--out", "RUN")
    typer.echo(f"next: {shlex.join(command)}")
