"""Objects that print as paragraphs and tables: in a terminal through `repr`, in a notebook through `_repr_html_`.

Both forms are made from one description, `Shown.panels`, so that they cannot say different things. Ids and words of
places come from data: the text form removes control characters, which could move a terminal's cursor, and the HTML form
escapes everything.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain
from unicodedata import category, east_asian_width

SIMULATION = "Simulation: all data are on one machine, and nothing here is private to anyone."


@dataclass(frozen=True, slots=True)
class Table:
    """Cells as text. A column whose name begins with '>' holds numbers and is aligned to the right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


class Shown:
    """Base of the results that a person looks at. A subclass describes itself in `panels`."""

    __slots__ = ()

    def panels(self) -> Iterator[str | Table]:
        """Paragraphs and tables, in the order in which they are read; `notes`, where there are any, come after them."""
        raise NotImplementedError

    def _all_panels(self) -> Iterator[str | Table]:
        yield from self.panels()
        yield from (f"Note: {words}." for words in getattr(self, "notes", ()))

    def __repr__(self) -> str:
        return "\n".join(
            "\n".join(_lines(panel)) if isinstance(panel, Table) else printable(panel) for panel in self._all_panels()
        )

    def _repr_html_(self) -> str:
        parts = (_html(panel) if isinstance(panel, Table) else f"<p>{text(panel)}</p>" for panel in self._all_panels())
        return f"<div>{''.join(parts)}</div>"


def number(value: float | None, digits: int = 4) -> str:
    """A number for a table; a dash where there is none, or where it has no meaning."""
    return f"{value:.{digits}f}" if value is not None and math.isfinite(value) else "–"


def counted(many: int, one: str, several: str = "", *, none: str = "0") -> str:
    """A number with its noun: "1 place", "2,000 places", "1 person", "2 people". `several` is for other plurals without
    an s, `none` for zero in words."""
    plural = several or ("people" if one == "person" else f"{one}s")
    return f"{f'{many:,}' if many else none} {one if many == 1 else plural}"


def printable(words: str) -> str:
    """Text on one line, without characters that would move a terminal's cursor or change its colours."""
    return "".join(letter if letter.isprintable() else " " for letter in " ".join(words.splitlines()))


def text(value: object) -> str:
    """Plain text, safe between tags and inside a quoted attribute; what no page may hold shows as a replacement."""
    return escape("".join("\ufffd" if _forbidden(c) else c for c in str(value)), quote=True)


def _forbidden(character: str) -> bool:
    """Control characters, and halves of surrogate pairs, which cannot be written at all."""
    return category(character) in ("Cc", "Cs") and character not in "\n\t"


def _lines(table: Table) -> Iterator[str]:
    if table.title:
        yield printable(table.title)
    head = [name.removeprefix(">") for name in table.columns]
    rows = [[printable(cell) for cell in row] for row in table.rows]
    widths = [max(map(_width, cells)) for cells in zip(head, *rows, strict=True)]
    for cells in chain([head], [["─" * width for width in widths]], rows):
        padded = [
            _padded(cell, width, right=name.startswith(">"))
            for cell, width, name in zip(cells, widths, table.columns, strict=True)
        ]
        yield "  ".join(padded).rstrip()


def _width(cell: str) -> int:
    """Columns of a terminal: names of places in Chinese or Japanese take two for each character."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in cell)


def _padded(cell: str, width: int, *, right: bool) -> str:
    room = " " * (width - _width(cell))
    return room + cell if right else cell + room


def _html(table: Table) -> str:
    """Styles stand in the cells: a notebook shows the table without any style sheet of ours."""
    sides = ["right" if name.startswith(">") else "left" for name in table.columns]
    head = "".join(
        f'<th style="text-align:{side}">{text(name.removeprefix(">"))}</th>'
        for name, side in zip(table.columns, sides, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td style="text-align:{side}">{text(cell)}</td>' for cell, side in zip(row, sides, strict=True))
        + "</tr>"
        for row in table.rows
    )
    title = f"<caption>{text(table.title)}</caption>" if table.title else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
