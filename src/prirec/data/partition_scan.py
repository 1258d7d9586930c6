"""Tables of a data folder as streams, and what kind each of their columns is."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prirec.data.cell_types import holds_ids, holds_words, plain_text
from prirec.data.columns import NO_WORDS, SEPARATOR, read_numbers
from prirec.data.folder_records import check_header
from prirec.data.folder_tables import IDS, Table, find_table
from prirec.data.partition_file import PART, ROW
from prirec.data.schema import RESERVED, Kind, Schema
from prirec.errors import DataError
from prirec.types import OffsetArray

if TYPE_CHECKING:
    import polars as pl

COORDINATES = ("lat", "lon")


@dataclass(frozen=True, slots=True)
class Scanned:
    """Rows numbered as they stand, ids as text, blank cells empty."""

    name: str
    frame: "pl.LazyFrame" = field(repr=False)
    typed: bool  # Parquet says what is text; in a CSV file everything is
    file: Path

    @property
    def columns(self) -> list[str]:
        return self.frame.collect_schema().names()

    def degrees(self, rows: "pl.DataFrame") -> dict[str, "pl.Series"]:
        """Where the rows are, as numbers, null where nothing is known; empty where the table does not say."""
        import polars as pl

        if not set(COORDINATES) <= set(rows.columns):
            return {}
        table = Table(name=self.name, frame=rows, origin="parquet" if self.typed else "csv", file=self.file)
        try:
            numbers = {axis: read_numbers(table, axis).values for axis in COORDINATES}
        except DataError:  # once more, for the right line: blank ones are no rows
            blamed = replace(table, records=None if self.typed else self._records())
            numbers = {axis: read_numbers(blamed, axis).values for axis in COORDINATES}
        return {axis: pl.Series(axis, values).fill_nan(None) for axis, values in numbers.items()}

    def _records(self) -> OffsetArray:
        """Which record of a CSV file each row is."""
        import polars as pl

        cells = pl.scan_csv(self.file, infer_schema=False)
        cells = cells.with_columns(plain_text(cells.collect_schema()))
        there = cells.select(~pl.all_horizontal(pl.all().is_null())).collect(engine="streaming")
        return np.flatnonzero(there.to_series().to_numpy())


def scanned(folder: Path, name: str) -> Scanned | None:
    """One table, or None where the folder has none."""
    import polars as pl

    file = find_table(folder, name)
    if file is None:
        return None
    typed = file.suffix == ".parquet"
    if typed:
        frame = pl.scan_parquet(file)
    else:
        frame = pl.scan_csv(file, infer_schema=False, new_columns=check_header(file, needed=IDS[name]))
    for taken in (ROW, PART):
        if taken in frame.collect_schema().names():
            raise DataError("the parts need this name for themselves; rename the column", file=file, column=taken)
    frame = frame.with_columns(plain_text(frame.collect_schema()))
    frame = frame if typed else frame.filter(~pl.all_horizontal(pl.all().is_null()))
    for column in IDS[name]:
        if column not in frame.collect_schema().names():
            raise DataError("there is no such column", file=file, column=column)
        if not holds_ids(frame.collect_schema()[column]):
            raise DataError("ids are text or whole numbers; write them as such", file=file, column=column)
        if frame.select(pl.col(column).is_null().any()).collect(engine="streaming").item():
            raise DataError("an id is empty", file=file, column=column)
    frame = frame.with_columns(pl.col(column).cast(pl.String) for column in IDS[name])
    return Scanned(name, frame.with_row_index(ROW), typed, file)


def kinds_of(table: Scanned, schema: Schema) -> dict[str, Kind]:
    """The kind of every column that nobody declared a range for, as a reader of the whole table would guess it."""
    names = [name for name in table.columns if name not in (*RESERVED[table.name], ROW)]
    keys = {f"{table.name}.{name}": name for name in names}
    return {
        key: schema.kinds.get(key) or _guessed(table, name, text=schema.is_text(key))
        for key, name in keys.items()
        if not schema.is_number(key)
    }


def _guessed(table: Scanned, name: str, *, text: bool) -> Kind:
    """data/columns.py, as a stream."""
    import polars as pl

    kind = table.frame.collect_schema()[name]
    if not text and (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
        return "number"
    if not holds_words(kind):
        raise DataError(NO_WORDS, file=table.file, column=name)
    if isinstance(kind, pl.List):
        return "tags"
    cells = pl.col(name).cast(pl.String)
    told = cells.str.strip_chars().cast(pl.Float64, strict=False).is_not_null().sum()
    either = cells.str.strip_chars().str.to_lowercase().is_in(["true", "false"]).sum()
    lists = cells.str.contains(SEPARATOR, literal=True).any()
    row = table.frame.select(a=lists, b=told, c=either, d=cells.is_not_null().sum()).collect(engine="streaming").row(0)
    tagged, numeric, logical, filled = row
    if tagged:
        return "tags"
    every = numeric == filled if numeric else logical == filled
    return "category" if text or table.typed or not every else "number"
