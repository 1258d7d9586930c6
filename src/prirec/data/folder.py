"""A data folder to a data set: `visits` and, if there are any, `pois` and `users`, each a CSV or Parquet file.

Errors name file, line and column, and never show a cell: visits and people are private.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prirec.data.columns import (
    as_numbers,
    check_names,
    codes_of,
    mixed_notes,
    read_columns,
    read_names,
    read_numbers,
    with_roles,
)
from prirec.data.dataset import Columns, Dataset, People, Places, Visits
from prirec.data.partitioned import PLACES, read_parts
from prirec.data.schema import Schema, read_schema
from prirec.data.sources import existing_folder, is_partitioned
from prirec.data.tables import (
    NEEDS,
    Table,
    TableError,
    TableFiles,
    holds_ids,
    holds_numbers,
    read_table,
)
from prirec.errors import DataError, UsageError
from prirec.types import BoolArray, IndexArray, LabelArray, RealArray, TimeArray
from prirec.util.geography import haversine_km

if TYPE_CHECKING:
    import polars as pl

TABLES = ("visits", "pois", "users")
UNLOCATED_LIMIT = 0.01  # share of POIs that may lack coordinates


@dataclass(frozen=True, slots=True)
class Loaded:
    """A data set and, in plain sentences, what was left out on the way or looks odd."""

    dataset: Dataset
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PublicFolder:
    """The public part of a data folder: places, and what schema.toml declares about private columns."""

    places: Places
    schema: Schema
    notes: tuple[str, ...] = ()


def read_folder(path: Path, *, strict: bool = False, skip_bad: bool = False) -> Loaded:
    """The data set in a folder. People and places stand in their table's order, or by id where there is no table.

    Repeated visits are left out and counted; strict makes them a DataError. With skip_bad, rows that are wrong are left
    out and counted, too.
    """
    path = existing_folder(Path(path), needs=NEEDS)
    if is_partitioned(path):  # whose rows were looked at when it was made
        loaded = read_parts(path, strict=strict).loaded
        refuse_swapped(loaded.dataset, users=path / "users", pois=path / PLACES)
        return loaded
    schema, there = read_schema(path), TableFiles.of(path)
    there.find_visits()
    files = {name: there.find(name) for name in TABLES}
    tables = {
        name: read_table(name, file, known=schema.columns_of(name))
        for name, file in files.items() if file is not None
    }  # fmt: skip
    loaded = assemble(tables, schema=schema, name=path.resolve().name, strict=strict, skip_bad=skip_bad)
    refuse_swapped(loaded.dataset, users=files["users"] or path, pois=files["pois"] or path)
    return replace(loaded, notes=(*there.notes(), *loaded.notes))


def read_public(path: Path) -> PublicFolder:
    """`pois` and schema.toml of a folder. No other file is opened: whoever publishes a catalogue need hold no visit."""
    there = TableFiles.of(existing_folder(Path(path), needs=NEEDS))
    file = there.find("pois")
    if file is None:
        raise DataError("holds no pois.csv, pois.csv.gz or pois.parquet: places are published from these", file=path)
    schema = read_schema(path)
    table = read_table("pois", file, known=schema.columns_of("pois"))
    check_names(table, schema)
    table = with_roles(table, schema)
    places, notes = check_places(table, schema)
    return PublicFolder(places, schema, (*there.notes("pois"), *table.notes, *notes))


def check_places(table: Table, schema: Schema) -> tuple[Places, list[str]]:
    """The places of a table whose columns have their plain names, and what is odd about them."""
    refuse_too_long(table)
    places = _places(table, listed_ids(table, "poi"), schema)
    return places, _unlocated_notes(table, places) + mixed_notes(table, places.columns, schema)


def assemble(
    tables: Mapping[str, Table], *, schema: Schema, name: str, strict: bool = False, skip_bad: bool = False
) -> Loaded:
    """The data set that these tables describe: ids to rows, cells to columns, repeated visits left out."""
    if strict and skip_bad:
        raise UsageError("strict refuses what skip_bad leaves out; give one of them")
    refuse_other_tables(tables, schema)
    for table in tables.values():
        check_names(table, schema)
    tables = {key: with_roles(table, schema) for key, table in tables.items()}
    skipped: list[str] = []
    while True:
        try:
            found = assemble_sound(tables, schema=schema, name=name, strict=strict)
            return Loaded(found.dataset, (*skipped, *found.notes))
        except TableError as error:
            if not skip_bad or error.records is None:
                raise
            tables, notes = without_rows(tables, error)
            skipped += notes


def assemble_sound(tables: Mapping[str, Table], *, schema: Schema, name: str, strict: bool = False) -> Loaded:
    """The data set of tables whose columns have their plain names. TableError, with the rows, for the first thing that
    is wrong."""
    for table in tables.values():
        refuse_too_long(table)
    table, users, pois = tables["visits"], tables.get("users"), tables.get("pois")
    who, where = read_ids(table, "user"), read_ids(table, "poi")
    # without a table of their own, people and places are those that visits name
    known_people, known_places = (
        seen_ids(ids) if other is None else listed_ids(other, ids.name) for ids, other in ((who, users), (where, pois))
    )
    people, places = People(*_rows(users, known_people, schema)), _places(pois, known_places, schema)
    person = rows_of(who, known_people, table=table, other=users)
    place = rows_of(where, known_places, table=table, other=pois)
    visits, notes = read_visits(table, schema, person=person, place=place, strict=strict)
    notes += [] if pois is None else _unlocated_notes(pois, places) + mixed_notes(pois, places.columns, schema)
    notes += [] if users is None else mixed_notes(users, people.columns, schema)
    labelled, declared = "label" in table.frame.columns, dict(schema.declared)
    shapes = (note for one in tables.values() for note in one.notes)
    return Loaded(Dataset(name, people, places, visits, labelled, declared), (*shapes, *notes))


def without_rows(tables: Mapping[str, Table], error: TableError) -> tuple[dict[str, Table], list[str]]:
    """The tables without the rows that an error is about, and without visits that name them; and notes with counts.
    The error itself, if no row is left."""
    left, notes = without_wrong(tables, error)
    if not all(table.frame.height for table in left.values()):
        raise error
    return left, notes


def without_wrong(tables: Mapping[str, Table], error: TableError) -> tuple[dict[str, Table], list[str]]:
    """`without_rows` for a part of the tables, of which nothing may be left."""
    before = tables[error.table]
    wrong = np.isin(before.positions, [] if error.records is None else error.records)
    left = {**tables, error.table: before.take(~wrong)}
    notes = [left_out(before, wrong, error.problem)]
    own = {"pois": "poi", "users": "user"}.get(error.table, "")
    visits = tables.get("visits")
    if visits is not None and own in before.frame.columns and own in visits.frame.columns:
        gone = before.frame.filter(wrong)[own].drop_nulls().cast(str)
        gone = gone.filter(~gone.is_in(left[error.table].frame[own].cast(str).implode()))
        named = visits.frame[own].cast(str).is_in(gone.implode()).fill_null(value=False).to_numpy()
        if named.any():
            left["visits"] = visits.take(~named)
            notes.append(left_out(visits, named, names_left_out(before)))
    return left, notes


def names_left_out(table: Table) -> str:
    """Why visits are left out whose person or place is."""
    return f"they name rows of {table.label} that were left out"


def left_out(table: Table, rows: BoolArray, why: str) -> str:
    """The note on rows that are left out."""
    many, line = int(rows.sum()), table.line(int(np.argmax(rows)))
    where = "" if line is None else f", the first in line {line}" if many > 1 else f", line {line}"
    return f"{table.label}: {many:,} row{'' if many == 1 else 's'} left out{where}: {why}"


def refuse_other_tables(tables: Collection[str], schema: Schema) -> None:
    """DataError for what schema.toml says of a table that is not there."""
    for key in schema.columns():
        if (table := key.partition(".")[0]) not in tables:
            raise schema.error(f"is declared for '{table}', and the folder has no such table", key=key)


def refuse_too_long(table: Table) -> None:
    """DataError for rows with more cells than there are columns."""
    if table.too_long is not None and table.too_long.any():
        raise table.wrong_rows("more cells in a row than there are columns; is a comma not quoted?", table.too_long)


def _rows(table: Table | None, ids: "pl.Series", schema: Schema) -> tuple[tuple[str, ...], RealArray | None, Columns]:
    """Ids, location and columns of people or places; nothing but ids without a table."""
    if table is None:
        return tuple(ids.to_list()), None, {}
    return tuple(ids.to_list()), read_location(table), read_columns(table, schema)


def _places(table: Table | None, ids: "pl.Series", schema: Schema) -> Places:
    return Places(*_rows(table, ids, schema), names=() if table is None else read_names(table))


def _unlocated_notes(table: Table, places: Places) -> list[str]:
    if places.location is None:
        return []
    missing = np.isnan(places.location[:, 0])
    count = int(missing.sum())
    if count > UNLOCATED_LIMIT * len(missing):
        problem = (
            f"{count:,} of {len(missing):,} POIs have no coordinates, more than 1 %; fill them in or leave them out"
        )
        raise table.wrong_rows(problem, missing, column="lat")
    note = f"{count:,} POI{'' if count == 1 else 's'} without coordinates kept, with no place on the map"
    return [note] if count else []


# Who and what the rows are: ids as text, and their order.


def read_ids(table: Table, column: str) -> "pl.Series":
    """A column of ids as text, none of them empty."""
    import polars as pl

    if column not in table.frame.columns:
        raise table.missing(column)
    cells = table.frame[column]
    if not holds_ids(cells.dtype):
        raise table.error("ids are text or whole numbers; write them as such", column=column)
    if cells.null_count():
        raise table.wrong_rows("the id is empty", cells.is_null().to_numpy(), column=column)
    return cells.cast(pl.String)


def listed_ids(table: Table, column: str) -> "pl.Series":
    """The ids of a table with one row each, in its order."""
    ids = read_ids(table, column)
    again = ~ids.is_first_distinct()
    if again.any():
        raise table.wrong_rows("this id is there twice", again.to_numpy(), column=column)
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
        raise table.wrong_rows(problem, missing, column=ids.name)
    return rows


# The visits table: labels, times, repeated rows.


EARLIEST, LATEST = -62_135_596_800, 253_402_300_799  # the years 1 to 9999
ISO_8601 = (
    r"^(?<date>\d{4}-\d{2}-\d{2})"
    r"(?:[T ](?<minute>\d{2}:\d{2})(?<second>:\d{2})?(?:[.,]\d+)?\s?(?:[Zz]|[+-]\d{2}(?::?\d{2})?)?)?$"
)


def read_visits(
    table: Table, schema: Schema, *, person: IndexArray, place: IndexArray, strict: bool
) -> tuple[Visits, list[str]]:
    """The visits in file order, the first of each kind, and a note on how many others were left out."""
    refuse_coordinates(table)
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


def refuse_coordinates(table: Table) -> None:
    """DataError for visits with coordinates."""
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
        raise table.wrong_rows(problem, wrong.to_numpy(), column="label")
    return np.where(numbers.to_numpy() > 0, 1, -1).astype(np.int8)


def read_time(table: Table) -> TimeArray | None:
    """Seconds since 1970 on the local wall clock: an offset from UTC is dropped, not applied, since features are about
    the hour that the person saw on the clock."""
    if "time" not in table.frame.columns:
        return None
    seconds = _seconds(table)
    if seconds.null_count():
        problem = "a time is whole seconds since 1970, or a date and time such as 2012-04-03T18:00:06+09:00"
        raise table.wrong_rows(problem, seconds.is_null().to_numpy(), column="time")
    time = seconds.to_numpy().astype(np.int64, copy=True)
    wrong = (time < EARLIEST) | (time > LATEST)
    if wrong.any():
        problem = "outside the years 1 to 9999; are these milliseconds? Give seconds"
        raise table.wrong_rows(problem, wrong, column="time")
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
        raise table.wrong_rows(f"the same {what} as in an earlier row", ~kept)
    return kept, repeated_notes(count)


def repeated_notes(count: int) -> list[str]:
    """The note on visits that are there more than once."""
    return [f"{count:,} duplicate visit{'' if count == 1 else 's'} left out"] if count else []


def _first_of_each(person: IndexArray, place: IndexArray, *, time: TimeArray | None) -> BoolArray:
    """Whether a visit is the first with its person, place and (if known) time."""
    keys = (place, person) if time is None else (time, place, person)
    order = np.lexsort(keys)  # stable: visits that are the same stay in their order
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = np.logical_or.reduce([key[order[1:]] != key[order[:-1]] for key in keys])
    mask = np.empty(len(order), dtype=np.bool_)
    mask[order] = first
    return mask


# Coordinates of people and places.


def read_location(table: Table) -> RealArray | None:
    """(n, 2) latitude and longitude in degrees, NaN where both cells are empty; None without such columns."""
    present = [name for name in ("lat", "lon") if name in table.frame.columns]
    if not present:
        return None
    if len(present) == 1:
        raise table.error("lat and lon come together; the other column is missing", column=present[0])
    lat, lon = (_degrees(table, name) for name in present)
    half = np.isnan(lat) != np.isnan(lon)
    if half.any():
        empty = "lat" if np.isnan(lat[np.argmax(half)]) else "lon"
        raise table.wrong_rows("lat and lon come together; fill both cells or none", half, column=empty)
    _refuse_out_of_range(table, lat, lon)
    return np.stack([lat, lon], axis=1)


def _degrees(table: Table, name: str) -> RealArray:
    """Numbers of a column; true and false, which are 1 and 0 in other columns, are no degrees."""
    import polars as pl

    cells = table.frame[name]
    if holds_numbers(cells.dtype) and cells.cast(pl.String).str.contains("(?i)true|false").any():
        raise table.error("does not hold degrees", column=name)
    return read_numbers(table, name).values


def _refuse_out_of_range(table: Table, lat: RealArray, lon: RealArray) -> None:
    tall, wide = np.abs(lat) > 90, np.abs(lon) > 180
    if tall.any():
        row = np.argmax(tall)
        swapped = "; lat and lon look swapped" if abs(lon[row]) <= 90 and abs(lat[row]) <= 180 else ""
        raise table.wrong_rows(f"a latitude is between -90 and 90{swapped}", tall, column="lat")
    if wide.any():
        raise table.wrong_rows("a longitude is between -180 and 180", wide, column="lon")


# Latitude and longitude that have changed places, in the table of people or in that of places but not in both.
#
# Either table alone may be right as it stands. Together they give themselves away: nearly everybody lives on another
# part of the globe than where they go, and within a city's reach of it once one of the tables is turned around.


FAR_KM, NEAR_KM = 1_000.0, 100.0
FAR_SHARE, NEAR_SHARE = 0.95, 0.5
FEWEST = 10  # people: one or two may well have moved, and to anywhere
_LOOKED_AT = 100_000  # records, evenly over all of them


def refuse_swapped(dataset: Dataset, *, users: Path, pois: Path) -> None:
    """DataError if one table's coordinates are the wrong way round; nothing can be known if only one has any."""
    if dataset.people.location is None or dataset.places.location is None:
        return
    visits = dataset.visits
    some = slice(None, None, max(1, len(visits) // _LOOKED_AT))
    person, place = visits.person[some], visits.place[some]
    refuse_far_homes(person, dataset.people.location[person], dataset.places.location[place], users=users, pois=pois)


def refuse_far_homes(person: IndexArray, home: RealArray, spot: RealArray, *, users: Path, pois: Path) -> None:
    """DataError if most of these people live far from where they went, and near it with lat and lon exchanged."""
    known = ~(np.isnan(home).any(axis=1) | np.isnan(spot).any(axis=1))
    if len(np.unique(person[known])) >= FEWEST and _look_swapped(home[known], spot[known]):
        problem = (
            f"nearly all live over {FAR_KM:,.0f} km from where they go, and near it if lat and lon change places; "
            f"they look swapped here or in {pois.name}: write the latitude as lat"
        )
        raise DataError(problem, file=users, column="lat")


def _look_swapped(home: RealArray, spot: RealArray) -> bool:
    turned = home[:, ::-1]
    near = (haversine_km(turned, spot) < NEAR_KM) & (np.abs(turned[:, 0]) <= 90)
    far = haversine_km(home, spot) > FAR_KM
    return bool(far.mean() >= FAR_SHARE and near.mean() >= NEAR_SHARE)
