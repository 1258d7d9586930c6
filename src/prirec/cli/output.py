"""How answers are shown: lines and tables for people, one JSON object for programs. Notes and progress go to stderr."""

import json
import math
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

SIMULATION = "simulation: all data on one machine; nothing here is private to anyone"


def program() -> tuple[str, ...]:
    """The words that call this program: its name, or the way it was called where a shell would not find the name."""
    if shutil.which("prirec") is not None:
        return ("prirec",)
    called = sys.argv[0]
    return (sys.executable, "-m", "prirec.cli.main") if called.endswith(".py") else (called,)


def printable(text: str) -> str:
    """Text on one line, without characters that would move a terminal's cursor or change its colours."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(text.splitlines()))


def console(*, stderr: bool = False) -> "Console":
    """A console that prints what it is given: no markup, no emoji codes, no guessed colours."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def note(text: str) -> None:
    """A remark beside the answer."""
    typer.echo(f"note: {printable(text)}", err=True)


def notes(texts: Iterable[str]) -> None:
    for text in texts:
        note(text)


def show_json(answer: Mapping[str, Any]) -> None:
    """Exactly one JSON object; what has no value (NaN, an infinity) is null."""
    typer.echo(json.dumps(finite(answer), indent=2, ensure_ascii=False, allow_nan=False))


def finite(value: Any) -> Any:
    """The same value with null for every number that JSON cannot hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return value


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """A table as wide as it needs to be; on a narrow terminal cells are folded, never cut. Names of columns that hold
    numbers begin with '>'."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", padding=(0, 1, 0, 0))
    for name in columns:
        number = name.startswith(">")
        table.add_column(
            name.removeprefix(">"),
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=number,
        )
    for row in rows:
        table.add_row(*(printable(cell) for cell in row))
    console().print(table)


def figure(value: float | None, *, digits: int = 4) -> str:
    """A number for a table; a dash where there is none."""
    return "-" if value is None or math.isnan(value) else f"{value:.{digits}f}"
