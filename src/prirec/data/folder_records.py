"""A CSV file walked record by record: for its header, and to say where it went wrong."""

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from prirec.damage import NOT_UNPACKED
from prirec.data.schema import RESERVED
from prirec.errors import DataError

SEPARATORS = {";": "';'", "\t": "tabs"}
LONGEST_CELL = 2**31 - 1  # the csv module stops at 131,072 characters unless told otherwise


def check_header(file: Path, *, needed: Sequence[str]) -> list[str]:
    """The names of the columns: the first line, each name once.

    A first line without any known name holds someone's visit, so that no cell of it may be shown.
    """
    header = _header(file, needed=needed)
    if not header:
        raise DataError("is empty; its first line names the columns", file=file, line=1)
    if not names_columns(header, needed=needed):
        raise DataError(f"the first line does not name the columns; it must name {_all(needed)}", file=file, line=1)
    if any("\n" in column or "\r" in column for column in header):
        raise DataError("a column's name has a line break in it; is a quote not closed?", file=file, line=1)
    if "" in header:
        raise DataError(f"column {header.index('') + 1} has no name", file=file, line=1)
    twice = [column for column in header if header.count(column) > 1]
    if twice:
        raise DataError("this column is there twice", file=file, line=1, column=twice[0])
    return header


def names_columns(header: Sequence[str], *, needed: Sequence[str]) -> bool:
    """Whether any of these is a name that is known, in whatever case."""
    known = {name.lower() for names in (needed, *RESERVED.values()) for name in names}
    return any(column.strip().lower() in known for column in header)


def _all(needed: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in needed)


def _header(file: Path, *, needed: Sequence[str]) -> list[str]:
    try:
        header = _first(file, separator=",")
    except DataError:
        _refuse_separators(file, needed=needed)
        raise
    if not names_columns(header, needed=needed):
        _refuse_separators(file, needed=needed)
    return header


def _refuse_separators(file: Path, *, needed: Sequence[str]) -> None:
    for separator, name in SEPARATORS.items():
        header: list[str] = []
        with suppress(DataError):
            header = _first(file, separator=separator)
        if names_columns(header, needed=needed):
            raise DataError(f"the columns are separated by {name}: use commas", file=file, line=1)


def _first(file: Path, *, separator: str) -> list[str]:
    return next(_records(file, separator=separator), ([], 1))[0]


def _open(file: Path) -> IO[bytes]:
    return gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb")  # type: ignore[return-value]


def _records(file: Path, *, separator: str = ",") -> Iterator[tuple[list[str], int]]:
    """Each CSV record with the line it begins on; blank lines are records without cells."""
    limit, line = csv.field_size_limit(LONGEST_CELL), 1
    try:
        with _open(file) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True, delimiter=separator)
            for cells in reader:
                yield cells, line
                line = reader.line_num + 1
    except csv.Error:
        raise DataError("a quote is not closed, or stands inside a cell", file=file, line=line) from None
    except UnicodeDecodeError:
        raise DataError("is not UTF-8; save it as UTF-8", file=file, line=_first_not_utf8(file)) from None
    except NOT_UNPACKED:
        raise DataError("cannot be read; is it complete?", file=file) from None
    finally:
        csv.field_size_limit(limit)


def _first_not_utf8(file: Path) -> int | None:
    with suppress(*NOT_UNPACKED), _open(file) as raw:
        for number, line in enumerate(raw, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return None


def line_of_record(file: Path, record: int) -> int | None:
    """Slow, and only for an error text: quoted cells may span lines, so the file is walked again."""
    for number, (_, line) in enumerate(_records(file), start=-1):  # the header is record -1
        if number == record:
            return line
    return None


def malformed(file: Path) -> DataError:
    """Where a CSV file first goes wrong."""
    width = 0
    try:
        for cells, line in _records(file):
            width = width or len(cells)
            if len(cells) > width:
                return DataError(f"{len(cells)} cells in a row of {width} columns", file=file, line=line)
    except DataError as known:
        return known
    return DataError("is not well-formed CSV; check its quotes", file=file)
