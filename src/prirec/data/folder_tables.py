"""One table of a data folder as it stands in its file, and the way from a row back to its line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from prirec.data.cell_types import plain_text
from prirec.data.folder_names import suggest
from prirec.data.folder_records import check_header, line_of_record, malformed, names_columns
from prirec.errors import DataError, UsageError
from prirec.types import BoolArray, OffsetArray

if TYPE_CHECKING:
    import polars as pl

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
    names: Mapping[str, str] = field(default_factory=dict)  # what a published file calls a column

    @property
    def typed(self) -> bool:
        """Whether the columns say themselves what is a number and what is text."""
        return self.origin != "csv"

    @property
    def label(self) -> str:
        return self.file.name if self.file is not None else self.name

    @property
    def declared_by(self) -> str:
        """Who says what a column may hold: a folder's schema.toml, or the reader of a published format."""
        return "of this format" if self.origin in ("lines", "named") else "declared in schema.toml"

    def error(self, problem: str, *, row: int | None = None, column: str | None = None) -> DataError:
        """The blame for one row: a line of a text file (a header is line 1), the row of Parquet counted from 1."""
        line = None if row is None else self._line(row)
        called = self.names.get(column, column) if column is not None else None
        return DataError(problem, file=self.file or Path(self.name), line=line, column=called)

    def take(self, kept: BoolArray) -> "Table":
        """The rows of the mask, which still know where in the file they stand."""
        if kept.all():
            return self
        records = np.arange(self.frame.height) if self.records is None else self.records
        return replace(self, frame=self.frame.filter(kept), records=records[kept])

    def missing(self, column: str) -> DataError:
        """The blame for a column that is not there."""
        problem = f"there is no such column; {suggest(column, self.frame.columns)}"
        line = 1 if self.origin == "csv" else None
        return DataError(problem, file=self.file or Path(self.name), line=line, column=column)

    def _line(self, row: int) -> int | None:
        if self.origin == "memory" or self.file is None:
            return None
        record = row if self.records is None else int(self.records[row])
        return line_of_record(self.file, record) if self.origin in ("csv", "named") else record + 1


def require_polars() -> None:
    """Tables are read and written with polars, which a device does not need."""
    try:
        import polars  # noqa: F401
    except ModuleNotFoundError as missing:
        raise UsageError("tables need polars; install it with: pip install 'prirec[tables]'") from missing


def find_table(folder: Path, name: str) -> Path | None:
    """The one file of this table in the folder, or None."""
    found = [folder / f"{name}{suffix}" for suffix in SUFFIXES if (folder / f"{name}{suffix}").is_file()]
    if len(found) > 1:
        names = " and ".join(file.name for file in found)
        raise DataError(f"{names} are both there; keep one of them", file=folder)
    return found[0] if found else None


def read_table(name: str, file: Path, *, needed: Sequence[str] = ()) -> Table:
    """Every cell of one CSV or Parquet file, checked for shape only; needed: other columns than this table's ids."""
    read = _read_parquet if file.suffix == ".parquet" else _read_csv
    table = read(name, file, needed=needed or IDS[name])
    if table.frame.height == 0:
        raise table.error("holds no rows; leave the file out if there is nothing to say")
    return table


def memory_table(name: str, frame: "pl.DataFrame") -> Table:
    """A table that a reader of a published format has made: its columns are believed as typed."""
    return Table(name=name, frame=_without_blanks(frame))


def _read_parquet(name: str, file: Path, *, needed: Sequence[str]) -> Table:
    import polars as pl

    try:
        frame = pl.read_parquet(file)
    except (pl.exceptions.PolarsError, OSError):
        raise DataError("cannot be read as Parquet; write it again", file=file) from None  # a cause could show cells
    if not names_columns(frame.columns, needed=needed):
        raise DataError(f"no column has a known name; there must be {' and '.join(needed)}", file=file)
    return Table(name=name, frame=_without_blanks(frame), origin="parquet", file=file)


def _read_csv(name: str, file: Path, *, needed: Sequence[str]) -> Table:
    import polars as pl

    header = check_header(file, needed=needed)
    try:
        frame = pl.read_csv(file, infer_schema=False, new_columns=header)  # polars leaves doubled quotes in names
    except (pl.exceptions.PolarsError, OSError):
        raise malformed(file) from None
    frame = _without_blanks(frame)
    blank = frame.select(pl.all_horizontal(pl.all().is_null())).to_series()
    if not blank.any():
        return Table(name=name, frame=frame, origin="csv", file=file)
    records = np.flatnonzero(~blank.to_numpy())
    return Table(name=name, frame=frame.filter(~blank), origin="csv", file=file, records=records)


def _without_blanks(frame: "pl.DataFrame") -> "pl.DataFrame":
    """Text of nothing but spaces is an empty cell."""
    return frame.with_columns(plain_text(frame.schema))
