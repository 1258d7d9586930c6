"""Arguments and options that more than one command has, so that they read the same everywhere."""

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from math import nan
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer

from prirec import config
from prirec.config import PresetName, Settings
from prirec.errors import UsageError
from prirec.util.decode_errors import NOT_TOML

TableFormat: TypeAlias = Literal["csv", "parquet"]

DataFolder = Annotated[Path, typer.Argument(metavar="DATA", help="Data folder: visits and, if any, pois and users.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder that prirec train wrote.")]
NewFolder = Annotated[Path, typer.Argument(metavar="TARGET", help="Folder to write; must be new or empty.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse repeated visits instead of leaving them out.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave out rows that are wrong, and count them.")]
AppOrigins = Annotated[
    list[str] | None,
    typer.Option(metavar="URL", help="Origin of a web app whose devices may connect from a browser; repeatable."),
]
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


def no_flag(path: Path | None) -> Path | None:
    """UsageError for a file that is called like a flag: its name was left out, and the next flag taken for it."""
    if path is not None and str(path).startswith("--"):
        raise UsageError(f"a file is to be named before {path}; write ./{path} if it is really called that")
    return path


Report = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        callback=no_flag,
        help="Also write one HTML page: figures, plots, a map, places for one person.",
    ),
]
Against = Annotated[
    list[str] | None,
    typer.Option(metavar="MODEL", help="Compare with this model, trained now on the same records, such as fm-tuned."),
]
Near = Annotated[
    str | None, typer.Option(metavar="LAT,LON", show_default="home", help="Where the person is, in degrees.")
]
At = Annotated[
    str | None,
    typer.Option(metavar="TIME", show_default="no particular time", help="Local time, such as 2024-05-04T19:30."),
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
    typer.Option("--set", metavar="KEY=VALUE", help="Change one setting, such as features.areas=12; repeatable."),
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


CodeFile = Annotated[
    Path | None,
    typer.Option(
        "--code-file",
        metavar="FILE",
        help="File with the enrolment code; - reads it from the standard input, and asks for it on a terminal.",
    ),
]


def enrolment_code(file: Path | None) -> str | None:
    """The one line of a file, or of the standard input for "-". Codes are not taken from flags or variables: process
    lists and shell histories show those."""
    if file is None:
        return None
    if str(file) == "-" and sys.stdin.isatty():
        from getpass import getpass

        text = getpass("enrolment code: ")
    else:
        with nullcontext(sys.stdin.buffer) if str(file) == "-" else file.open("rb") as source:
            text = source.read(1024).decode("utf-8", "replace")
    code = text.removesuffix("\n").removesuffix("\r")
    if not (code and code.isprintable()):
        raise UsageError("there is no enrolment code: its file has one line, the code")
    return code


EXAMPLE_WIDTH = 74  # of eighty columns, less the indent and the sign that a line goes on


def examples(*lines: str) -> str:
    """The end of a command's help: one example a line, kept as it is (the first character says so). What does not fit
    into eighty columns goes on in the next line, as a shell reads it."""
    return "\n".join(("\b", "Examples:", *(f"  {_folded(line)}" for line in lines)))


def _folded(line: str) -> str:
    """Broken before a flag, never between a flag and its value."""
    lines = [""]
    for part in re.split(r" (?=--?[a-z])", line):
        if lines[-1] and len(lines[-1]) + len(part) >= EXAMPLE_WIDTH:
            lines.append("")
        lines[-1] += f" {part}" if lines[-1] else part
    return " \\\n    ".join(lines)


# Where and when, from flags. What was given is not repeated in an error: it says where someone is.


_POINT = re.compile(r"\s*([+-]?[0-9.]+)\s*,\s*([+-]?[0-9.]+)\s*")


def point_of(text: str, *, flag: str) -> tuple[float, float]:
    """Latitude and longitude in degrees."""
    found = _POINT.fullmatch(text)
    try:
        lat, lon = (float(part) for part in found.groups()) if found else (nan, nan)
    except ValueError:
        lat, lon = nan, nan
    if not (abs(lat) <= 90 and abs(lon) <= 180):
        raise UsageError(f"{flag} takes a latitude and a longitude in degrees, such as {flag} 35.68,139.76")
    return lat, lon


def wall_clock_of(text: str, *, flag: str) -> int:
    """Seconds since 1970 on the local wall clock: an offset from UTC is dropped, as it is from visits."""
    from datetime import UTC, datetime

    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{flag} takes a date and a local time, such as {flag} 2024-05-04T19:30") from None
    return int(time.replace(tzinfo=UTC).timestamp())


def moment_of(near: str | None, at: str | None) -> tuple[tuple[float, float] | None, int | None]:
    """Where and when, from the flags --near and --at."""
    here = None if near is None else point_of(near, flag="--near")
    return here, None if at is None else wall_clock_of(at, flag="--at")


def now() -> int:
    """The present time: seconds since 1970 by the local wall clock, as the times of visits are."""
    from datetime import UTC, datetime

    return int(datetime.now().astimezone().replace(tzinfo=UTC).timestamp())


# From flags to settings.


def choose(
    *,
    preset: str | None,
    file: Path | None,
    assignments: Sequence[str] | None,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """The preset, changed by the file, then by flags and --set; a flag that was not given is None."""
    return config.load(file, changes=changes_from(preset=preset, assignments=assignments, flags=flags))


def changes_from(
    *, preset: str | None, assignments: Sequence[str] | None, flags: Mapping[str, Any] | None = None
) -> dict[str, Any]:  # fmt: skip
    """Settings that flags and --set name, with their values; UsageError where one is given twice."""
    given = [(key, value) for key, value in (flags or {}).items() if value is not None]
    given += [("preset", preset)] if preset is not None else []
    given += [assignment(text) for text in assignments or ()]
    _refuse_twice([key for key, _ in given])
    return dict(given)


def assignment(text: str) -> tuple[str, Any]:
    """KEY=VALUE with a TOML value; a bare word is a string."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not (key and equals and value):
        raise UsageError("write --set KEY=VALUE, such as --set features.areas=12")
    if key.count(".") > 1:
        raise UsageError(f"unknown setting '{key}'; a setting is named like features.areas")
    return key, _literal(value)


def _literal(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}")
    except NOT_TOML:
        return text
    return table["value"] if len(table) == 1 else text


def _refuse_twice(keys: Iterable[str]) -> None:
    seen: set[str] = set()
    for key in keys:
        if any(key == other or key.startswith(f"{other}.") or other.startswith(f"{key}.") for other in seen):
            raise UsageError(f"the setting '{key}' is given twice")
        seen.add(key)
