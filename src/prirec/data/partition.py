"""A data folder cut into parts, so that no machine need ever hold all of it (decisions/0017).

    partition.json              how many parts, with how many people and records each
    pois.parquet, schema.toml   public, and what every column is: no part could guess it from its own rows
    users/part=N/, visits/part=N/

A part is a region: people are ordered along a Z-order curve of where they live, or of a place that they visited. All
records of a person are in the part that the person is in. Cells stay as they were. Records pass through as a stream; of
people their ids are held in memory, of places everything. partitioned.py reads the parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from prirec.data.columns import NO_WORDS, guess_kind, read_numbers
from prirec.data.folder import refuse_far_homes, seen_ids
from prirec.data.partitioned import MANIFEST, PART, PLACES, ROW, Part, Partition
from prirec.data.schema import FILE, RESERVED, Kind, Schema, read_schema, schema_text
from prirec.data.tables import (
    IDS,
    NEEDS,
    Table,
    check_header,
    find_table,
    holds_ids,
    holds_words,
    plain_text,
    require_polars,
)
from prirec.data.write_folder import new_folder
from prirec.errors import DataError, UsageError
from prirec.types import OffsetArray, RealArray
from prirec.util.geography import morton

if TYPE_CHECKING:
    import polars as pl

COORDINATES = ("lat", "lon")


@dataclass(frozen=True, slots=True)
class Scanned:
    """One table as a stream: rows numbered in file order, ids as text, blank cells null."""

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
        """The number of the CSV record behind each row: blank lines are records, but no rows."""
        import polars as pl

        cells = pl.scan_csv(self.file, infer_schema=False)
        cells = cells.with_columns(plain_text(cells.collect_schema()))
        there = cells.select(~pl.all_horizontal(pl.all().is_null())).collect(engine="streaming")
        return np.flatnonzero(there.to_series().to_numpy())


def partition_folder(source: Path, target: Path, *, parts: int) -> Partition:
    """Writes the parts of a data folder to a new folder; after any error there is no new folder."""
    require_polars()
    import polars as pl

    if parts < 1:
        raise UsageError("there must be at least one part")
    with new_folder(target) as beside:
        try:
            return _partitioned(source, beside, parts=parts)
        except pl.exceptions.PolarsError:  # its words may repeat cells
            why = "a table cannot be read to its end; `prirec data describe` says where"
            raise DataError(why, file=source) from None


def _partitioned(source: Path, target: Path, *, parts: int) -> Partition:
    import polars as pl

    found = {name: scanned(source, name) for name in ("visits", "pois", "users")}
    tables = {name: table for name, table in found.items() if table is not None}
    if "visits" not in tables:
        raise DataError(f"holds no visits; {NEEDS}", file=source)
    places = _places(tables)
    people = _people(tables, places)
    if not people["records"].sum():
        raise DataError(f"holds no visits; {NEEDS}", file=source)
    people = people.with_columns(part=pl.Series(_parts(people, parts=parts), dtype=pl.Int32))
    users = tables["users"].frame if "users" in tables else people.lazy().select(ROW, "user")
    for name, frame in (("users", users), ("visits", tables["visits"].frame)):
        by_part = frame.join(people.lazy().select("user", "part"), on="user", how="left")
        by_part.sink_parquet(pl.PartitionBy(target / name, key="part", include_key=False), mkdir=True)
    places.drop(ROW).write_parquet(target / PLACES)
    schema, kinds = read_schema(source), dict[str, Kind]()
    for table in tables.values():
        kinds |= kinds_of(table, schema)
    (target / FILE).write_text(schema_text(declared=schema.declared, kinds=kinds), encoding="utf-8")
    made = Partition(parts=_counted(people), labelled="label" in tables["visits"].columns)
    (target / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1))
    return made


def _counted(people: "pl.DataFrame") -> tuple[Part, ...]:
    import polars as pl

    counts = people.group_by("part").agg(pl.len(), pl.col("records").sum()).sort("part")
    return tuple(Part(people=some, records=many) for _, some, many in counts.iter_rows())


def _places(tables: Mapping[str, Scanned]) -> "pl.DataFrame":
    """The table of places; without one, each place that a visit names."""
    import polars as pl

    if "pois" in tables:
        return tables["pois"].frame.collect()
    seen = tables["visits"].frame.select(pl.col("poi").unique()).collect(engine="streaming")["poi"]
    return pl.DataFrame({"poi": seen_ids(seen)}).with_row_index(ROW)


def _people(tables: Mapping[str, Scanned], places: "pl.DataFrame") -> "pl.DataFrame":
    """Everyone, in the order of rows, with the number of records and about where. Only the cut follows from this."""
    import polars as pl

    seen = tables["visits"].frame.group_by("user").agg(records=pl.len(), poi=pl.col("poi").min())
    counts = seen.collect(engine="streaming")
    if "users" in tables:
        people = _listed(tables["users"])
        if counts.join(people, on="user", how="anti").height:
            raise DataError("visits name people who are not in the table of users", column="user")
    else:
        people = pl.DataFrame({"user": seen_ids(counts["user"])}).with_row_index(ROW)
    people = people.join(counts, on="user", how="left", maintain_order="left")
    spots = tables["pois"].degrees(places) if "pois" in tables else {}
    near = places.select("poi", *(spot.alias(f"near {axis}") for axis, spot in spots.items()))
    people = people.join(near, on="poi", how="left", maintain_order="left")
    if "users" in tables and "pois" in tables:
        everyone, files = np.arange(people.height, dtype=np.int32), (tables["users"].file, tables["pois"].file)
        refuse_far_homes(everyone, _degrees(people), _degrees(people, of="near "), users=files[0], pois=files[1])
    return people.with_columns(pl.col("records").fill_null(0))


def _listed(users: Scanned) -> "pl.DataFrame":
    located = COORDINATES if set(COORDINATES) <= set(users.columns) else ()
    people = users.frame.select(ROW, "user", *located).collect(engine="streaming").sort(ROW)
    if people["user"].n_unique() < people.height:
        raise DataError("an id is there twice", file=users.file, column="user")
    return people.with_columns(*users.degrees(people).values())


def _degrees(people: "pl.DataFrame", *, of: str = "") -> RealArray:
    """(I, 2): where they live, or with "near " where they went; NaN where nothing is known."""
    import polars as pl

    degrees = np.full((people.height, 2), np.nan)
    for at, axis in enumerate(COORDINATES):
        if of + axis in people.columns:
            degrees[:, at] = people[of + axis].cast(pl.Float64).fill_null(np.nan).to_numpy()
    return degrees


def _parts(people: "pl.DataFrame", *, parts: int) -> OffsetArray:
    """(I,): the part of each person: about as much work in each part, along the map; none is empty."""
    home, near = _degrees(people), _degrees(people, of="near ")
    degrees = np.where(np.isnan(home), near, home)  # one's own home counts before a place that was visited
    order = np.argsort(morton(degrees), kind="stable")
    # one for the person: somebody without records has models, too
    effort = np.cumsum(1 + people["records"].to_numpy().astype(np.int64)[order])
    found = np.empty(len(order), dtype=np.int64)
    found[order] = (effort - 1) * parts // max(int(effort[-1]), 1)
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


# Tables as streams, and what kind each of their columns is.


def scanned(folder: Path, name: str) -> Scanned | None:
    """Opens one table as a stream and checks its ids; None where the folder has no such table."""
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
    for key, name in keys.items():
        guessed = not (schema.is_number(key) or key in schema.kinds)
        if guessed and not holds_words(table.frame.collect_schema()[name]):
            raise DataError(NO_WORDS, file=table.file, column=name)
    return {
        key: schema.kinds.get(key) or guess_kind(table.frame, name, text=schema.is_text(key), typed=table.typed)
        for key, name in keys.items()
        if not schema.is_number(key)
    }
