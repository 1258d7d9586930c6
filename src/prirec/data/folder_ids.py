"""Who and what the rows are: ids as text, their order, their coordinates."""

from typing import TYPE_CHECKING

import numpy as np

from prirec.data.cell_types import holds_ids, holds_numbers
from prirec.data.columns import codes_of, first, read_numbers
from prirec.data.folder_tables import Table
from prirec.types import IndexArray, RealArray

if TYPE_CHECKING:
    import polars as pl


def read_ids(table: Table, column: str) -> "pl.Series":
    """A column of ids as text, none of them empty."""
    import polars as pl

    if column not in table.frame.columns:
        raise table.missing(column)
    cells = table.frame[column]
    if not holds_ids(cells.dtype):
        raise table.error("ids are text or whole numbers; write them as such", column=column)
    if cells.null_count():
        raise table.error("the id is empty", row=first(cells.is_null().to_numpy()), column=column)
    return cells.cast(pl.String)


def listed_ids(table: Table, column: str) -> "pl.Series":
    """The ids of a table with one row each, in its order."""
    ids = read_ids(table, column)
    again = ~ids.is_first_distinct()
    if again.any():
        raise table.error("this id is there twice", row=first(again.to_numpy()), column=column)
    return ids


def seen_ids(ids: "pl.Series") -> "pl.Series":
    """Each id once: by number if all are whole numbers, else by text."""
    import polars as pl

    seen = ids.unique()
    numbers = seen.cast(pl.Int64, strict=False)
    if numbers.null_count():
        return seen.sort()
    return pl.DataFrame({"number": numbers, "id": seen}).sort("number", "id")["id"].alias(ids.name)


def rows_of(ids: "pl.Series", known: "pl.Series", *, table: Table, other: Table | None) -> IndexArray:
    """Row of each visit's person or place; an id that the other table does not list is refused."""
    rows = codes_of(ids, known)
    missing = rows < 0
    if missing.any():
        there = other.label if other is not None else "the other table"
        problem = f"this id is not in {there}; add its row there, or leave {there} out of the folder"
        raise table.error(problem, row=first(missing), column=ids.name)
    return rows


def read_location(table: Table) -> RealArray | None:
    """(n, 2) latitude and longitude in degrees, NaN where both cells are empty; None without such columns."""
    present = [name for name in ("lat", "lon") if name in table.frame.columns]
    if not present:
        return None
    if len(present) == 1:
        raise table.error("lat and lon come together; the other column is missing", column=present[0])
    lat, lon = (_degrees(table, name) for name in present)
    _refuse_half(table, lat, lon)
    _refuse_out_of_range(table, lat, lon)
    return np.stack([lat, lon], axis=1)


def _degrees(table: Table, name: str) -> RealArray:
    """Elsewhere true and false are 1 and 0, which no latitude is meant to be."""
    import polars as pl

    cells = table.frame[name]
    if holds_numbers(cells.dtype) and cells.cast(pl.String).str.contains("(?i)true|false").any():
        raise table.error("does not hold degrees", column=name)
    return read_numbers(table, name).values


def _refuse_half(table: Table, lat: RealArray, lon: RealArray) -> None:
    half = np.isnan(lat) != np.isnan(lon)
    if half.any():
        row = first(half)
        raise table.error("lat and lon come together; fill both cells or none", row=row, column=_empty(lat, row))


def _empty(lat: RealArray, row: int) -> str:
    return "lat" if np.isnan(lat[row]) else "lon"


def _refuse_out_of_range(table: Table, lat: RealArray, lon: RealArray) -> None:
    tall, wide = np.abs(lat) > 90, np.abs(lon) > 180
    if tall.any():
        row = first(tall)
        swapped = "; lat and lon look swapped" if abs(lon[row]) <= 90 and abs(lat[row]) <= 180 else ""
        raise table.error(f"a latitude is between -90 and 90{swapped}", row=row, column="lat")
    if wide.any():
        raise table.error("a longitude is between -180 and 180", row=first(wide), column="lon")
