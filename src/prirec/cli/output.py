"""How answers are shown: lines and tables for people, one JSON object for programs. Notes and progress go to stderr."""

import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import typer

from prirec.errors import UsageError
from prirec.util.shown import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from prirec.util.shown import Table as Panel


def program() -> tuple[str, ...]:
    """The command that starts this program: its name, or how it was called where a shell would not find the name."""
    if shutil.which("prirec") is not None:
        return ("prirec",)
    called = sys.argv[0]
    return (sys.executable, "-m", "prirec.cli.main") if called.endswith(".py") else (called,)


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


def write_private_json(path: Path, answer: Mapping[str, Any]) -> None:
    """`show_json` into a new file that only its owner can read, whole or not at all. UsageError if there is such a
    file."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{path.name} is there already; name a new file") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as target:
            json.dump(finite(answer), target, indent=2, ensure_ascii=False, allow_nan=False)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def finite(value: Any) -> Any:
    """A copy of the value with None for every number that JSON cannot hold: NaN and infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return value


def show_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> None:
    """A table as wide as it needs to be. On a narrow terminal cells are folded between words, never cut; where that is
    not enough, the columns are shown in bands below one another, each with the first column. Names of columns that hold
    numbers begin with '>'; a table whose columns have no names has no header."""
    cells, screen = [[printable(cell) for cell in row] for row in rows], console()
    if title:  # Rich would fold it at the table's width, and at no-break spaces
        whole = title.replace(" = ", "\xa0=\xa0").replace(" %", "\xa0%")
        folded = fill(whole, screen.width, break_on_hyphens=False).replace("\xa0", " ")
        screen.print(folded, style="bold", highlight=False, markup=False)
    for band in _bands(columns, cells, room=screen.width):
        some = [[row[column] for column in band] for row in cells]
        screen.print(table_of([columns[column] for column in band], some))


FOLDED = 20  # columns of a terminal that a cell of words keeps, so that it can be read


def _bands(columns: Sequence[str], rows: Sequence[Sequence[str]], *, room: int) -> list[list[int]]:
    """Columns that fit beside the first: all of them in one band, if they do."""
    widths, least = _widths_of(columns, rows)
    if sum(least) + 2 * len(columns) + 1 <= room:
        return [list(range(len(columns)))]
    needed = [max(low, min(wide, FOLDED)) + 2 for wide, low in zip(widths, least, strict=True)]
    bands = [[0]]
    for column in range(1, len(columns)):
        if sum(needed[one] for one in bands[-1]) + needed[column] + 1 > room and len(bands[-1]) > 1:
            bands.append([0])
        bands[-1].append(column)
    return bands


def table_of(columns: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> "Table":
    """A Rich table of these columns and rows."""
    from rich import box
    from rich.table import Table

    table = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        title_style="bold",
        padding=(0, 1, 0, 0),
        show_header=any(columns),
    )
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = _widths(columns, cells, room=console().width - 2 * len(columns) - 1)  # less padding and edges
    for name, width in zip(columns, widths, strict=True):
        number = name.startswith(">")
        side: Literal["left", "right"] = "right" if number else "left"
        table.add_column(name.removeprefix(">"), justify=side, overflow="fold", no_wrap=number, width=width)
    for row in cells:
        table.add_row(*row)
    return table


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]], *, room: int) -> "list[int | None]":
    """Widths at which no word is broken; None where all has room, or where a word must be broken whatever is done.

    Rich would take from the widest column first, and break its words while another one still had spaces to fold at."""
    widths, least = _widths_of(columns, rows)
    if sum(widths) <= room or sum(least) > room:
        return [None] * len(columns)
    while sum(widths) > room:
        widest = max((at for at in range(len(widths)) if widths[at] > least[at]), key=widths.__getitem__)
        widths[widest] -= 1
    return list(widths)


def _widths_of(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[int], list[int]]:
    """How wide each column is, and how wide it is at least with cells folded between words; numbers are not folded."""
    from rich.cells import cell_len

    texts = [[name.removeprefix(">"), *(row[at] for row in rows)] for at, name in enumerate(columns)]
    widths = [max(map(cell_len, column)) for column in texts]
    # Chinese and Japanese have no spaces, and may be folded anywhere
    words = [[word for text in column for word in text.split() if cell_len(word) == len(word)] for column in texts]
    least = [max(map(len, some), default=2) for some in words]
    for at, name in enumerate(columns):
        if name.startswith(">"):
            least[at] = widths[at]
    return widths, least


def say(text: str) -> None:
    """A paragraph as wide as the terminal."""
    console().print(printable(text))


def show(panels: "Iterable[str | Panel]") -> None:
    """The paragraphs and tables of a result, as `prirec.util.shown` describes them."""
    for panel in panels:
        if isinstance(panel, str):
            say(panel)
        else:
            show_table(panel.columns, panel.rows, title=panel.title or None)


# Progress on the standard error stream, one bar a model; silent where nobody watches.


if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from prirec import IterationReport

MEASURING = ", measuring"


@dataclass(frozen=True, slots=True)
class Bar:
    """The bar of one model."""

    bars: "Progress"
    task: "TaskID"

    def begin(self) -> None:
        """The clock starts: something is being done for this model."""
        self.bars.start_task(self.task)
        self.bars.update(self.task, stage="preparing")

    def tell(self, passed: "IterationReport") -> None:
        """One more iteration, and its loss; after the last of them the model is still to be measured."""
        last = MEASURING if passed.iteration == self._total else ""
        stage = f"loss {passed.loss:.4f}{self._pace(passed)}{last}"
        self.bars.update(self.task, completed=passed.iteration, stage=stage)

    def _pace(self, passed: "IterationReport") -> str:
        """On a cluster: how fast it goes, what it moves, and when it will be done."""
        if passed.moved is None or not passed.seconds:
            return ""
        left = self._total - passed.iteration
        rate, moved = passed.took_part / passed.seconds, passed.moved / 1e6
        return f", {rate:,.0f} people/s, {moved:,.1f} MB a round, {duration(left * passed.seconds)} left"

    def finish(self) -> None:
        """Training may stop early, report nothing, or have been done before: the bar is full all the same."""
        row = self.bars.tasks[self.task]
        done = row.completed or self._total
        stage = row.fields["stage"].removesuffix(MEASURING) if row.completed else "done"
        self.bars.update(self.task, total=done, completed=done, stage=stage)

    @property
    def _total(self) -> float:
        return self.bars.tasks[self.task].total or 0


@contextmanager
def bars() -> "Iterator[Progress]":
    """A display of progress bars, which stay on the screen when they are done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    screen = console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[stage]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=screen, disable=not screen.is_terminal) as shown:
        yield shown


@contextmanager
def busy(what: str) -> Iterator[None]:
    """A sign of life for work whose end is not known; it leaves nothing on the screen."""
    if not sys.stderr.isatty():  # before Rich is loaded
        yield
        return
    with console(stderr=True).status(what):
        yield


def bar(shown: "Progress", name: str, *, iterations: int) -> Bar:
    """A new progress bar; its clock starts with `begin`."""
    return Bar(shown, shown.add_task(name, total=iterations, start=False, stage="waiting"))


@contextmanager
def model_bars(models: Mapping[str, int]) -> "Iterator[Callable[[str, IterationReport | None], None]]":
    """A bar for each model of `prirec.compare`, by name and number of iterations; yields its `progress`."""
    with bars() as shown:
        rows = {name: bar(shown, name, iterations=iterations) for name, iterations in models.items()}
        begun: list[Bar] = []

        def report(name: str, passed: "IterationReport | None") -> None:
            if passed is not None:
                rows[name].tell(passed)
                return
            for row in begun[-1:]:
                row.finish()
            begun.append(rows[name])
            rows[name].begin()

        yield report
        for row in begun[-1:]:
            row.finish()


def duration(seconds: float) -> str:
    """About how long, in the unit that suits."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


# What happens when something is refused: one line on the standard error stream, and the code that says why.
