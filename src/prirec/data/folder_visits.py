"""The visits table: labels, times, repeated rows."""

from typing import TYPE_CHECKING

import numpy as np

from prirec.data.cell_types import holds_numbers
from prirec.data.columns import as_numbers, first, mixed_notes, read_columns
from prirec.data.dataset import Visits
from prirec.data.folder_tables import Table
from prirec.data.schema import Schema
from prirec.types import BoolArray, IndexArray, LabelArray, TimeArray

if TYPE_CHECKING:
    import polars as pl

EARLIEST, LATEST = -62_135_596_800, 253_402_300_799  # the years 1 to 9999
ISO_8601 = (
    r"^(?<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?<minute>\d{2}:\d{2})(?<second>:\d{2})?(?:[.,]\d+)?\s?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)?)?$"
)


def read_visits(
    table: Table, schema: Schema, *, person: IndexArray, place: IndexArray, strict: bool
) -> tuple[Visits, list[str]]:
    """The visits in file order, the first of each kind, and a note on how many others were left out."""
    _refuse_coordinates(table)
    label, time = read_label(table), read_time(table)
    kept, notes = _without_repeats(table, person=person, place=place, time=time, strict=strict)
    context_table = table.take(kept)
    context = read_columns(context_table, schema)
    visits = Visits(
        person=person[kept],
        place=place[kept],
        label=label[kept],
        time=None if time is None else time[kept],
        context=context,
    )
    return visits, notes + mixed_notes(context_table, context, schema)


def _refuse_coordinates(table: Table) -> None:
    for column in ("lat", "lon"):
        if column in table.frame.columns:
            problem = "coordinates of a place belong in pois, those of a person's home in users; a visit has none"
            raise table.error(problem, column=column)


def read_label(table: Table) -> LabelArray:
    """+1 for 1, -1 for 0 and -1; +1 throughout if the table has no labels."""
    if "label" not in table.frame.columns:
        return np.ones(table.frame.height, dtype=np.int8)
    cells = table.frame["label"]
    if not holds_numbers(cells.dtype):
        raise table.error("a label is 1 or 0", column="label")
    numbers = as_numbers(cells)
    wrong = ~numbers.is_in([1.0, 0.0, -1.0]).fill_null(value=False)
    if wrong.any():
        problem = "a label is 1 (visited or clicked) or 0 (shown and ignored)"
        raise table.error(problem, row=first(wrong.to_numpy()), column="label")
    return np.where(numbers.to_numpy() > 0, 1, -1).astype(np.int8)


def read_time(table: Table) -> TimeArray | None:
    """Seconds since 1970 on the local wall clock: an offset from UTC is dropped, not applied."""
    if "time" not in table.frame.columns:
        return None
    seconds = _seconds(table)
    if seconds.null_count():
        problem = "a time is whole seconds since 1970, or a date and time such as 2012-04-03T18:00:06+09:00"
        raise table.error(problem, row=first(seconds.is_null().to_numpy()), column="time")
    time = seconds.to_numpy().astype(np.int64, copy=True)
    wrong = (time < EARLIEST) | (time > LATEST)
    if wrong.any():
        problem = "outside the years 1 to 9999; are these milliseconds? Give seconds"
        raise table.error(problem, row=first(wrong), column="time")
    return time


def _seconds(table: Table) -> "pl.Series":
    import polars as pl

    cells = table.frame["time"]
    if cells.dtype == pl.String:
        return _from_text(cells.str.strip_chars())
    if isinstance(cells.dtype, pl.Datetime):
        return cells.dt.replace_time_zone(None).dt.epoch("s")
    if cells.dtype == pl.Date:
        return cells.cast(pl.Datetime("ms")).dt.epoch("s")
    if cells.dtype.is_integer():
        return cells.cast(pl.Int64, strict=False)
    raise table.error("a time is whole seconds since 1970, a date and time, or text", column="time")


def _from_text(text: "pl.Series") -> "pl.Series":
    """Each cell on its own: whole seconds or ISO 8601; null where it is neither."""
    import polars as pl

    seconds = text.cast(pl.Int64, strict=False)
    if not seconds.null_count():
        return seconds
    parts = text.str.extract_groups(ISO_8601).struct.unnest()
    clock = pl.col("minute").fill_null("00:00") + pl.col("second").fill_null(":00")
    written = (pl.col("date") + "T" + clock).str.to_datetime("%Y-%m-%dT%H:%M:%S", strict=False)
    dates = parts.select(written.dt.epoch("s")).to_series()
    return seconds.fill_null(dates) if seconds.null_count() < text.len() else dates


def _without_repeats(
    table: Table, *, person: IndexArray, place: IndexArray, time: TimeArray | None, strict: bool
) -> tuple[BoolArray, list[str]]:
    kept = _first_of_each(person, place, time=time)
    count = int((~kept).sum())
    if count and strict:
        what = "user and poi" if time is None else "user, poi and time"
        raise table.error(f"the same {what} as in an earlier row", row=first(~kept))
    return kept, [f"{count:,} duplicate visit{'' if count == 1 else 's'} left out"] if count else []


def _first_of_each(person: IndexArray, place: IndexArray, *, time: TimeArray | None) -> BoolArray:
    """Whether a visit is the first with its person, place and (if known) time."""
    import polars as pl

    key = {"person": person, "place": place}
    frame = pl.DataFrame(key if time is None else {**key, "time": time})
    kept = frame.with_row_index("row").unique(subset=frame.columns, keep="first", maintain_order=True)["row"]
    mask = np.zeros(len(person), dtype=np.bool_)
    mask[kept.to_numpy()] = True
    return mask
