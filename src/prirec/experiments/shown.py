"""What an experiment has to show: words, tables and drawings, once for Markdown and for the page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Table:
    """Cells are plain text. Columns whose names begin with '>' hold figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """`paint` fills a figure; colours are those of evaluate.reporting.drawing."""

    name: str
    caption: str
    paint: Callable[["Figure"], None] = field(repr=False)
    width: int = 480
    height: int = 300

    @property
    def file(self) -> str:
        """Its name without what file systems and links dislike."""
        return self.name.replace(",", "").replace(" ", "-")


@dataclass(frozen=True, slots=True)
class Shown:
    """A section of the results."""

    title: str
    words: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    drawings: tuple[Drawing, ...] = ()


def markdown(shown: Shown, *, drawings: str) -> list[str]:
    """Lines of a section; drawings are files in a folder of that name."""
    lines = [f"## {shown.title}", ""]
    for words in shown.words:
        lines += [words, ""]
    for table in shown.tables:
        lines += [f"**{table.title}**", "", *_rows(table), ""]
        lines += [table.note, ""] if table.note else []
    for one in shown.drawings:
        lines += [f"![{one.caption}]({drawings}/{one.file}.svg)", ""]
    return lines


def _rows(table: Table) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rules = ["---:" if name.startswith(">") else "---" for name in table.columns]
    heads = [name.removeprefix(">") for name in table.columns]
    return [line(heads), line(rules), *(line(row) for row in table.rows)]
