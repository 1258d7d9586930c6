"""Arguments and options that more than one command has, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from prirec.settings import PresetName

TableFormat: TypeAlias = Literal["csv", "parquet"]

DataFolder = Annotated[Path, typer.Argument(metavar="DATA", help="Data folder: visits and, if any, pois and users.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder that prirec train wrote.")]
NewFolder = Annotated[Path, typer.Argument(metavar="TARGET", help="Folder to write; must be new or empty.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse repeated visits instead of leaving them out.")]
Tables = Annotated[TableFormat, typer.Option("--format", help="Kind of files to write.")]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed; the same seed gives the same answer.")]
ListLength = Annotated[int, typer.Option("--k", "-k", min=1, max=100_000, metavar="K", help="How many places.")]
Radius = Annotated[
    float,
    typer.Option(
        min=0.0,
        metavar="KM",
        help="Places within so many kilometres are considered, and the nearest beyond where too few of them are new.",
    ),
]
Preset = Annotated[
    PresetName | None,
    typer.Option(
        help="Settings to start from: private (one privacy budget for each person), rounds (the same without noise), "
        "paper (Algorithm 2) or fm (centralised).",
        show_default="private",
    ),
]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", metavar="FILE", help="TOML file of settings that differ from the preset.")
]
Assignments = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, such as neighbours.size=200; repeatable."),
]

Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        show_default="a cluster of its own on this machine",
        help="With --engine cluster: the head of a Ray cluster.",
    ),
]

Where = Annotated[
    Literal["local", "cluster"],
    typer.Option("--engine", help="One after another on this machine, or as tasks of a Ray cluster: the same figures."),
]


def examples(*lines: str) -> str:
    """The end of a command's help: one example a line, kept as it is (the first character says so)."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
