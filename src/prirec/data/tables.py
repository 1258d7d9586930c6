"""One table of a data folder as it stands in its file, and the way from a row back to its line for error texts.

Everything here is about the shape of files: what a cell means is for columns.py and folder.py.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from prirec.data.schema import TABLE_OF, is_known, squashed
from prirec.data.sources import (
    existing,
    open_unpacked,
    refuse_many_columns,
    refuse_oversized,
    refuse_oversized_parquet,
    unreadable,
    without_panic_texts,
)
from prirec.errors import DataError
from prirec.types import BoolArray, OffsetArray
from prirec.util.decode_errors import NOT_UNPACKED
from prirec.util.sentences import suggest

if TYPE_CHECKING:
    import polars as pl
    from polars.datatypes import DataType, DataTypeClass

# published files: "lines" have neither header nor quotes, "named" are CSV; a reader has given their columns types
Origin = Literal["csv", "parquet", "lines", "named", "memory"]
IDS = {"visits": ("user", "poi"), "pois": ("poi",), "users": ("user",)}
SUFFIXES = (".csv", ".csv.gz", ".parquet")
NEEDS = (
    "a data folder needs visits.csv, visits.csv.gz or visits.parquet with the columns 'user' and 'poi'; "
    "'pois' and 'users' are optional"
)


@dataclass(frozen=True, slots=True)
class Table:
    """The cells of `visits`, `pois` or `users` in file order; null where a cell is empty. From CSV all is text."""

    name: str
    frame: "pl.DataFrame" = field(repr=False)
    origin: Origin = "memory"
    file: Path | None = None
    records: OffsetArray | None = field(repr=False, default=None)  # record of each row, where some were dropped
    names: Mapping[str, str] = field(default_factory=dict)  # what the file calls a column
    shown: str | None = None  # the column that holds the names of places
    too_long: BoolArray | None = field(repr=False, default=None)  # rows with more cells than columns, if any
    notes: tuple[str, ...] = ()  # on its shape, and on what its columns were taken for

    @property
    def typed(self) -> bool:
        """Whether the columns say themselves what is a number and what is text."""
        return self.origin != "csv"

    @property
    def positions(self) -> OffsetArray:
        """The record of each row, counted from 0."""
        return np.arange(self.frame.height) if self.records is None else self.records

    @property
    def label(self) -> str:
        return self.file.name if self.file is not None else self.name

    @property
    def declared_by(self) -> str:
        """Whose declaration an error text names: a folder's schema.toml, or the reader of a published format."""
        return "of this format" if self.origin in ("lines", "named") else "declared in schema.toml"

    def called(self, column: str) -> str:
        """What the file calls this column."""
        return self.names.get(column, column)

    def error(self, problem: str, *, column: str | None = None) -> "TableError":
        """The error for a column, or for the table as a whole."""
        return TableError(problem, table=self, column=column)

    def wrong_rows(self, problem: str, wrong: BoolArray, *, column: str | None = None) -> "TableError":
        """The error for some rows, which names the first: a line of a text file (a header is line 1), or the row of
        Parquet counted from 1."""
        return TableError(problem, table=self, column=column, wrong=wrong)

    def take(self, kept: BoolArray) -> "Table":
        """The rows of the mask, which still know where in the file they stand."""
        if kept.all():
            return self
        too_long = None if self.too_long is None else self.too_long[kept]
        return replace(self, frame=self.frame.filter(kept), records=self.positions[kept], too_long=too_long)

    def without_columns(self, columns: Iterable[str]) -> "Table":
        return replace(self, frame=self.frame.drop(columns, strict=False))

    def missing(self, column: str) -> "TableError":
        """The error for a column that is not there, with the nearest name that is."""
        other = f', nor one with kind = "{column}" in schema.toml' if self.origin in ("csv", "parquet") else ""
        problem = f"there is no such column{other}; {suggest(column, self.frame.columns)}"
        return TableError(problem, table=self, column=column, line=1 if self.origin == "csv" else None)

    def line(self, row: int) -> int | None:
        """Where a row stands in its file; None where there is no file."""
        if self.origin == "memory" or self.file is None:
            return None
        record = row if self.records is None else int(self.records[row])
        return line_of_record(self.file, record) if self.origin in ("csv", "named") else record + 1


class TableError(DataError):
    """Something is wrong with a table: with some of its rows, with a column, or with all of it."""

    def __init__(
        self, problem: str, *, table: Table, column: str | None = None, wrong: BoolArray | None = None,
        line: int | None = None,
    ):  # fmt: skip
        line = line if wrong is None else table.line(int(np.argmax(wrong)))
        called = None if column is None else table.called(column)
        super().__init__(problem, file=table.file or Path(table.name), line=line, column=called)
        self.problem, self.table, self.key = problem, table.name, column
        self.records = None if wrong is None else table.positions[wrong]  # of the rows that are wrong

    def __reduce__(self) -> tuple[type[DataError], tuple[str]]:
        return DataError, (str(self),)  # for another process, its words are enough


class UnnamedColumnsError(DataError):
    """No column has a known name. The first line of such a CSV file may be someone's visit: no cell of it is shown."""


def _unnamed(name: str, file: Path, *, needed: Sequence[str], line: int | None = None) -> UnnamedColumnsError:
    wanted = "no column has a known name; there must be"
    if line is not None:
        wanted = "the first line does not name the columns; it must name"
    advice = f'; name them so, or in schema.toml by kind = "{IDS[name][0]}" below [{name}.COLUMN]'
    own = tuple(needed) == IDS[name]  # schema.toml is for data folders, not for published formats
    return UnnamedColumnsError(f"{wanted} {_all(needed)}{advice * own}", file=file, line=line)


@dataclass(frozen=True, slots=True)
class TableFiles:
    """The CSV and Parquet files of a data folder, and which of them is which table."""

    folder: Path
    there: tuple[Path, ...]

    @classmethod
    def of(cls, folder: Path) -> Self:
        try:
            names = sorted(folder.iterdir())
        except OSError as broken:
            raise unreadable(folder, broken) from None
        return cls(folder, tuple(file for file in names if file.name.lower().endswith(SUFFIXES)))

    def find(self, table: str) -> Path | None:
        """The one file of this table, or None. DataError where there are two, or it is no file that can be read."""
        found = self._named(table)
        if len(found) > 1:
            names, plain = " and ".join(file.name for file in found), _stem(found[0]) == table
            advice = "are both there; keep one of them" if plain else f"could both be {table}; call one of them {table}"
            raise DataError(f"{names} {advice}", file=self.folder)
        return existing(found[0]) if found else None

    def find_visits(self) -> Path:
        """The file of visits, which every data folder has."""
        file = self.find("visits")
        if file is not None:
            return file
        if self.there:
            others = ", ".join(one.name for one in self.there)
            raise DataError(f"holds no visits among its files {others}; {NEEDS}", file=self.folder)
        raise DataError(f"holds no visits; {NEEDS}", file=self.folder)

    def notes(self, *tables: str) -> list[str]:
        """Notes on files with another name than their table's and, without `tables`, on those that are not read."""
        read = {file: table for table in tables or IDS for file in self._named(table)}
        notes = [f"{file.name} is read as {table}" for file, table in read.items() if _stem(file) != table]
        for file in self.there:
            if file not in read and not tables:
                taken = self._named(TABLE_OF.get(squashed(_stem(file)), ""))
                why = (
                    f"{taken[0].name} is" if taken else "it is not called like one of the tables visits, pois and users"
                )
                notes.append(f"{file.name} is not read: {why}")
        return notes

    def _named(self, table: str) -> list[Path]:
        """Files with the table's own name; where there are none, those with another name for it."""
        alike = [file for file in self.there if TABLE_OF.get(squashed(_stem(file))) == table]
        return [file for file in alike if _stem(file) == table] or alike


def _stem(file: Path) -> str:
    return next(file.name[: -len(suffix)] for suffix in SUFFIXES if file.name.lower().endswith(suffix))


def read_table(name: str, file: Path, *, needed: Sequence[str] = (), known: Sequence[str] = ()) -> Table:
    """Every cell of one CSV or Parquet file, checked for shape only; needed: other columns than this table's ids;
    known: names that schema.toml gives a meaning."""
    read = _read_parquet if file.suffix.lower() == ".parquet" else _read_csv
    table = read(name, file, needed=needed or IDS[name], known=known)
    if table.frame.height == 0:
        raise table.error("holds no rows; leave the file out if there is nothing to say")
    return table


def memory_table(name: str, frame: "pl.DataFrame") -> Table:
    """A table that a reader of a published format has made: its columns are believed as typed."""
    return Table(name=name, frame=_without_blanks(frame))


def _read_parquet(name: str, file: Path, *, needed: Sequence[str], known: Sequence[str]) -> Table:
    import polars as pl

    with whole_parquet(file):
        scan = pl.scan_parquet(file, hive_partitioning=False)
        refuse_disproportionate(file, scan)
        frame = pl.read_parquet(file, hive_partitioning=False)
    if not names_columns(frame.columns, known=(*needed, *known)):
        raise _unnamed(name, file, needed=needed)
    return Table(name=name, frame=_without_blanks(frame), origin="parquet", file=file)


def refuse_disproportionate(file: Path, scan: "pl.LazyFrame") -> None:
    """DataError for a Parquet file with more columns or rows than a table of its size has; only its footer is read."""
    import polars as pl

    columns = len(scan.collect_schema())
    refuse_many_columns(file, columns)
    refuse_oversized_parquet(file, rows=scan.select(pl.len()).collect().item(), columns=columns)


@contextmanager
def whole_parquet(file: Path, *, advice: str = "write it again") -> Iterator[None]:
    """Context manager around reading a Parquet file: DataError if it is damaged."""
    import polars as pl

    try:
        with without_panic_texts():
            yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, MemoryError):
        raise DataError(f"cannot be read as Parquet; {advice}", file=file) from None  # a cause could show cells


def _read_csv(name: str, file: Path, *, needed: Sequence[str], known: Sequence[str]) -> Table:
    import polars as pl

    refuse_oversized(file)
    header = check_header(name, file, needed=needed, known=known)
    too_long: BoolArray | None = None
    try:
        frame = pl.read_csv(file, infer_schema=False, new_columns=header)  # polars leaves doubled quotes in names
    except (pl.exceptions.PolarsError, OSError):
        too_long = rows_too_long(file, width=len(header))
        try:
            frame = pl.read_csv(file, infer_schema=False, new_columns=header, truncate_ragged_lines=True)
        except (pl.exceptions.PolarsError, OSError):
            raise not_csv(file) from None
        if not too_long.any() or len(too_long) != frame.height:
            raise not_csv(file) from None
    frame = _without_blanks(frame)
    blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    notes = short_rows(file, width=frame.width) if frame[frame.columns[-1]].null_count() else ()
    table = Table(name=name, frame=frame, origin="csv", file=file, too_long=too_long, notes=notes)
    return table.take(~blank.to_numpy())


def not_csv(file: Path) -> DataError:
    return DataError("is not well-formed CSV; check its quotes", file=file)


def rows_too_long(file: Path, *, width: int) -> BoolArray:
    """Which records have more cells than there are columns; DataError for a file that is no CSV to its end."""
    return np.array([len(cells) > width for cells, _ in _records(file)], dtype=np.bool_)[1:]


def short_rows(file: Path, *, width: int) -> tuple[str, ...]:
    """A note on rows with fewer cells than there are columns: Polars reads the missing ones as empty, so this is for a
    table with empty cells in its last column."""
    lines = _short_lines(file, width=width) if width > 1 else []
    if not lines:
        return ()
    few = f"1 row has fewer cells than columns, line {lines[0]}"
    many = f"{len(lines):,} rows have fewer cells than columns, the first in line {lines[0]}"
    return (f"{file.name}: {few if len(lines) == 1 else many}; missing cells are read as empty",)


def _short_lines(file: Path, *, width: int) -> list[int]:
    """Lines with fewer cells than the header. Commas are counted, unless cells are quoted."""
    lines = []
    with open_unpacked(file) as stream:
        for number, line in enumerate(stream, start=1):
            if b'"' in line:
                return [line for cells, line in _records(file) if 0 < len(cells) < width]
            if line.count(b",") < width - 1 and line.strip():
                lines.append(number)
    return lines


def _without_blanks(frame: "pl.DataFrame") -> "pl.DataFrame":
    """Text of nothing but spaces is an empty cell."""
    return frame.with_columns(plain_text(frame.schema))


# What a typed column may be read as. A CSV file holds text alone; Parquet has types that mean nothing here.


def holds_numbers(kind: "DataType | DataTypeClass") -> bool:
    """Whether a column of this type may hold numbers: numbers, true and false, text, or nothing at all."""
    import polars as pl

    return kind.is_numeric() or kind in (pl.Boolean, pl.Null, pl.String)


def holds_words(kind: "DataType | DataTypeClass") -> bool:
    """Whether a column of this type may be read as words: what has one obvious way of being written, or lists of it."""
    import polars as pl

    inner = kind.inner if isinstance(kind, pl.List) else kind
    return holds_numbers(inner) or inner in (pl.Categorical, pl.Enum)


def holds_ids(kind: "DataType | DataTypeClass") -> bool:
    """Whether a column of this type may hold ids: text or whole numbers, since 1 and 1.0 would be two people."""
    import polars as pl

    return kind.is_integer() or kind == pl.String


def plain_text(schema: "pl.Schema") -> "list[pl.Expr]":
    """Categories as the text that they stand for, and text of nothing but spaces as an empty cell."""
    import polars as pl

    named = [name for name, kind in schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    text = pl.col(named).cast(pl.String)
    return [pl.when(text.str.contains(r"\S")).then(text)] if named else []


# A CSV file walked record by record, with the csv module: for its header, and to say where it went wrong. Polars reads
# the cells, many times faster, and cannot say in which line it stopped.


SEPARATORS = {";": "';'", "\t": "tabs"}
LONGEST_CELL = 2**31 - 1  # the csv module stops at 131,072 characters unless told otherwise


def check_header(name: str, file: Path, *, needed: Sequence[str] = (), known: Sequence[str] = ()) -> list[str]:
    """The names of the columns: the first line, each name once."""
    needed = needed or IDS[name]
    known = (*needed, *known)
    header = _header(file, known=known)
    if not header:
        raise DataError("is empty; its first line names the columns", file=file, line=1)
    refuse_many_columns(file, len(header), line=1)
    if not names_columns(header, known=known):
        raise _unnamed(name, file, needed=needed, line=1)
    if any("\n" in column or "\r" in column for column in header):
        raise DataError("a column's name has a line break in it; is a quote not closed?", file=file, line=1)
    if "" in header:
        raise DataError(f"column {header.index('') + 1} has no name", file=file, line=1)
    twice = next((column for column, times in Counter(header).items() if times > 1), None)
    if twice is not None:
        raise DataError("this column is there twice", file=file, line=1, column=twice)
    return header


def names_columns(header: Sequence[str], *, known: Sequence[str]) -> bool:
    """Whether any of these is a name that has a meaning (schema.py), or is among the known, in whatever case."""
    expected = {name.lower() for name in known}
    return any(column.strip().lower() in expected or is_known(column) for column in header)


def _all(needed: Sequence[str]) -> str:
    return " and ".join(f"'{name}'" for name in needed)


def _header(file: Path, *, known: Sequence[str]) -> list[str]:
    try:
        header = _first(file, separator=",")
    except DataError:
        _refuse_separators(file, known=known)
        raise
    if not names_columns(header, known=known):
        _refuse_separators(file, known=known)
    return header


def _refuse_separators(file: Path, *, known: Sequence[str]) -> None:
    for separator, name in SEPARATORS.items():
        header: list[str] = []
        with suppress(DataError):
            header = _first(file, separator=separator)
        if names_columns(header, known=known):
            raise DataError(f"the columns are separated by {name}: use commas", file=file, line=1)


def line_of_record(file: Path, record: int) -> int | None:
    """The line in which a record of a CSV file begins. Slow, for error texts alone: quoted cells may span lines, so the
    file is walked again."""
    for number, (_, line) in enumerate(_records(file), start=-1):  # the header is record -1
        if number == record:
            return line
    return None


def _first(file: Path, *, separator: str) -> list[str]:
    return next(_records(file, separator=separator), ([], 1))[0]


def _records(file: Path, *, separator: str = ",") -> Iterator[tuple[list[str], int]]:
    """Each CSV record with the line it begins on; blank lines are records without cells."""
    limit, line = csv.field_size_limit(LONGEST_CELL), 1
    try:
        with open_unpacked(file) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
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
    with suppress(*NOT_UNPACKED), open_unpacked(file) as raw:
        for number, line in enumerate(raw, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return None
