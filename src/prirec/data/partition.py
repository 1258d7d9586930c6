"""A data folder cut into parts, so that no machine need ever hold all of it (decisions/0017).

    partition.json              how many parts, with how many people and records each
    pois.parquet, schema.toml   public, and what every column is: no part could guess it from its own rows
    users/part=N/, visits/part=N/

A part is a region: people are ordered along a Z-order curve of where they live, or of a place that they visited. All
records of a person are in the part that the person is in. Cells stay as they were. Records pass through as a stream; of
people their ids are held in memory, of places everything. Every part is read back and checked before the folder takes
its place. partitioned.py reads the parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from prirec.data.columns import NO_WORDS, check_names, guess_kind, with_roles
from prirec.data.folder import (
    assemble_sound,
    check_places,
    listed_ids,
    read_location,
    refuse_far_homes,
    refuse_other_tables,
    refuse_too_long,
    rows_of,
    seen_ids,
)
from prirec.data.partitioned import MANIFEST, PART, PLACES, ROW, Part, Partition, read_rows
from prirec.data.schema import FILE, NAME, RESERVED, Kind, Schema, read_schema, schema_text
from prirec.data.sources import existing_folder, refuse_many_columns, refuse_oversized
from prirec.data.tables import (
    IDS,
    NEEDS,
    Table,
    check_header,
    find_table,
    holds_ids,
    holds_words,
    plain_text,
    rows_too_long,
    whole_parquet,
)
from prirec.data.write_folder import new_folder
from prirec.errors import DataError, UsageError
from prirec.types import OffsetArray, RealArray
from prirec.util.files import is_full
from prirec.util.geography import morton

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, slots=True)
class Scanned:
    """One table as a stream: rows with their record in the file, columns under plain names, ids as text, blank cells
    null."""

    table: Table  # without rows: its file, and what that calls the columns
    frame: "pl.LazyFrame" = field(repr=False)

    def rows(self, rows: "pl.DataFrame") -> Table:
        """Some rows, which know where in the file they stand."""
        return replace(self.table, frame=rows.drop(ROW), records=rows[ROW].to_numpy().astype(np.int64))

    def first(self, wrong: "pl.LazyFrame") -> "pl.DataFrame":
        """The first of these rows, or none."""
        return wrong.sort(ROW).head(1).collect(engine="streaming")


def partition_folder(source: Path, target: Path, *, parts: int) -> Partition:
    """Writes the parts of a data folder to a new folder; after any error there is no new folder."""
    import polars as pl

    if parts < 1:
        raise UsageError("there must be at least one part")
    source = existing_folder(Path(source), needs=NEEDS)
    with new_folder(target) as beside:
        try:
            return _partitioned(source, beside, parts=parts)
        except pl.exceptions.PolarsError as broken:  # its words may repeat cells
            if is_full(broken):
                raise
            for name in IDS:
                _refuse_malformed(source, name)
            raise DataError("a table cannot be read to its end; is it being written?", file=source) from None


def _refuse_malformed(folder: Path, name: str) -> None:
    """DataError with the line, if this table is CSV that could not be read."""
    import polars as pl

    file = find_table(folder, name)
    if file is None or file.suffix == ".parquet":
        return
    header = check_header(file, needed=IDS[name], known=read_schema(folder).columns_of(name))
    wrong = rows_too_long(file, width=len(header))
    cells = pl.DataFrame(schema=dict.fromkeys(header, pl.String))
    refuse_too_long(Table(name, cells, origin="csv", file=file, records=np.arange(len(wrong)), too_long=wrong))


def _partitioned(source: Path, target: Path, *, parts: int) -> Partition:
    import polars as pl

    schema = read_schema(source)
    found = {name: scanned(source, name, schema) for name in ("visits", "pois", "users")}
    tables = {name: table for name, table in found.items() if table is not None}
    if "visits" not in tables:
        raise DataError(f"holds no visits; {NEEDS}", file=source)
    refuse_other_tables(tables, schema)
    catalogue, spots = _places(tables, schema)
    people, homes = _people(tables)
    if not people["records"].sum():
        raise DataError(f"holds no visits; {NEEDS}", file=source)
    near = _near(people, catalogue, spots)
    everyone, files = np.arange(people.height, dtype=np.int32), {name: one.table.file for name, one in tables.items()}
    refuse_far_homes(everyone, homes, near, users=files.get("users") or source, pois=files.get("pois") or source)
    where = np.where(np.isnan(homes), near, homes)  # one's own home counts before a place that was visited
    people = people.with_columns(part=pl.Series(_parts(people, where, parts=parts), dtype=pl.Int32))
    users = tables["users"].frame if "users" in tables else people.lazy().select(ROW, "user")
    for name, frame in (("users", users), ("visits", tables["visits"].frame)):
        by_part = frame.join(people.lazy().select("user", "part"), on="user", how="left")
        by_part.sink_parquet(pl.PartitionBy(target / name, key="part", include_key=False), mkdir=True)
    catalogue.drop(ROW).write_parquet(target / PLACES)
    made = Partition(parts=_counted(people), labelled="label" in tables["visits"].table.frame.columns)
    settled = _settled(tables, schema)
    for part in range(len(made.parts)):
        _check_part(target, part, tables, catalogue, schema=settled)
    (target / FILE).write_text(schema_text(settled), encoding="utf-8")
    (target / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1))
    return made


def _settled(tables: Mapping[str, Scanned], schema: Schema) -> Schema:
    """What every column is, spelled out: columns have their plain names by now, and ignored ones are gone."""
    kinds: dict[str, Kind] = {}
    for table in tables.values():
        kinds |= kinds_of(table, schema)
    shown = tables["pois"].table.shown if "pois" in tables else None
    return Schema(kinds=kinds, declared=schema.declared, roles={} if shown is None else {f"pois.{shown}": NAME})


def _check_part(
    folder: Path, part: int, tables: Mapping[str, Scanned], catalogue: "pl.DataFrame", *, schema: Schema
) -> None:
    """What `read_folder` would refuse is refused, by the lines of the files that were partitioned."""
    read = {name: tables[name].rows(read_rows(folder, name, [part])) for name in ("users", "visits") if name in tables}
    places = Table("pois", catalogue.select("poi"))  # the rest of it is checked already
    assemble_sound({**read, "pois": places}, schema=schema, name=folder.name)


def _counted(people: "pl.DataFrame") -> tuple[Part, ...]:
    import polars as pl

    counts = people.group_by("part").agg(pl.len(), pl.col("records").sum()).sort("part")
    return tuple(Part(people=some, records=many) for _, some, many in counts.iter_rows())


def _places(tables: Mapping[str, Scanned], schema: Schema) -> "tuple[pl.DataFrame, RealArray | None]":
    """The table of places, or each place that a visit names; and where they are."""
    import polars as pl

    visits = tables["visits"]
    if "pois" not in tables:
        seen = visits.frame.select(pl.col("poi").unique()).collect(engine="streaming")["poi"]
        return pl.DataFrame({"poi": seen_ids(seen)}).with_row_index(ROW), None
    places = tables["pois"].frame.collect()
    table = tables["pois"].rows(places)
    found, _ = check_places(table, schema)
    _refuse_unlisted(visits, places["poi"], other=table)
    return places, found.location


def _people(tables: Mapping[str, Scanned]) -> "tuple[pl.DataFrame, RealArray]":
    """Everyone, in the order of rows, with the number of records and a place that they went to; and where they live,
    (I, 2), NaN where nothing is known. Only the cut follows from this."""
    import polars as pl

    visits = tables["visits"]
    counts = visits.frame.group_by("user").agg(records=pl.len(), poi=pl.col("poi").min()).collect(engine="streaming")
    homes: RealArray | None = None
    if "users" in tables:
        users = tables["users"]
        located = [name for name in ("lat", "lon") if name in users.table.frame.columns]
        people = users.frame.select(ROW, "user", *located).collect(engine="streaming").sort(ROW)
        table = users.rows(people)
        listed_ids(table, "user")
        homes = read_location(table)
        _refuse_unlisted(visits, people["user"], other=table)
    else:
        people = pl.DataFrame({"user": seen_ids(counts["user"])}).with_row_index(ROW)
    people = people.select(ROW, "user").join(counts, on="user", how="left", maintain_order="left")
    nowhere = np.full((people.height, 2), np.nan)
    return people.with_columns(pl.col("records").fill_null(0)), nowhere if homes is None else homes


def _refuse_unlisted(visits: Scanned, listed: "pl.Series", *, other: Table) -> None:
    """DataError, with the line, for a visit that names nobody and nothing of the other table."""
    import polars as pl

    absent = visits.frame.join(pl.LazyFrame({listed.name: listed}), on=listed.name, how="anti")
    first = visits.first(absent.select(ROW, listed.name))
    if first.height:
        rows_of(first[listed.name], listed, table=visits.rows(first), other=other)


def _near(people: "pl.DataFrame", catalogue: "pl.DataFrame", spots: RealArray | None) -> RealArray:
    """(I, 2): a place that each of them went to; NaN where nothing is known."""
    near = np.full((people.height, 2), np.nan)
    if spots is not None:
        row = catalogue.select("poi").with_row_index("at")
        at = people.join(row, on="poi", how="left", maintain_order="left")["at"].fill_null(-1).cast(int).to_numpy()
        near[at >= 0] = spots[at[at >= 0]]
    return near


def _parts(people: "pl.DataFrame", where: RealArray, *, parts: int) -> OffsetArray:
    """(I,): the part of each person: about as much work in each part, along the map; none is empty."""
    order = np.argsort(morton(where), kind="stable")
    # one for the person: somebody without records has models, too
    effort = np.cumsum(1 + people["records"].to_numpy().astype(np.int64)[order])
    found = np.empty(len(order), dtype=np.int64)
    found[order] = (effort - 1) * parts // max(int(effort[-1]), 1)
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


# Tables as streams, and what kind each of their columns is.


def scanned(folder: Path, name: str, schema: Schema) -> Scanned | None:
    """Opens one table as a stream and checks its ids; None where the folder has no such table."""
    import polars as pl

    file = find_table(folder, name)
    if file is None:
        return None
    typed = file.suffix == ".parquet"
    if not typed:
        refuse_oversized(file)
        header = check_header(file, needed=IDS[name], known=schema.columns_of(name))
        frame = pl.scan_csv(file, infer_schema=False, new_columns=header)
    else:
        with whole_parquet(file):  # a damaged page makes Polars panic: looked at once, before anything is made of it
            frame = pl.scan_parquet(file, hive_partitioning=False)
            refuse_many_columns(file, len(frame.collect_schema()))
            frame.select(pl.all().null_count()).collect(engine="streaming")
    columns = frame.collect_schema()
    table = Table(name, pl.DataFrame(schema=columns), origin="parquet" if typed else "csv", file=file)
    for taken in (ROW, PART):
        if taken in columns:
            raise table.error("the parts need this name for themselves; rename the column", column=taken)
    check_names(table, schema)
    table = with_roles(table, schema)
    for column in IDS[name]:
        if column not in table.frame.columns:
            raise table.missing(column)
        if not holds_ids(table.frame.schema[column]):
            raise table.error("ids are text or whole numbers; write them as such", column=column)
    rows = frame.with_row_index(ROW).with_columns(plain_text(columns))
    rows = rows if typed else rows.filter(~pl.all_horizontal(pl.exclude(ROW).is_null()))
    rows = rows.select(ROW, *(pl.col(table.called(column)).alias(column) for column in table.frame.columns))
    stream = Scanned(table, rows.with_columns(pl.col(column).cast(pl.String) for column in IDS[name]))
    for column in IDS[name]:
        empty = stream.first(stream.frame.filter(pl.col(column).is_null()).select(ROW, column))
        if empty.height:
            raise stream.rows(empty).wrong_rows("the id is empty", np.array([True]), column=column)
    return stream


def kinds_of(scan: Scanned, schema: Schema) -> dict[str, Kind]:
    """The kind of every column that nobody declared a range for, as a reader of the whole table would guess it."""
    table = scan.table
    names = [name for name in table.frame.columns if name not in (*RESERVED[table.name], table.shown)]
    keys = {f"{table.name}.{name}": name for name in names}
    for key, name in keys.items():
        guessed = not (schema.is_number(key) or key in schema.kinds)
        if guessed and not holds_words(table.frame.schema[name]):
            raise table.error(NO_WORDS, column=name)
    return {
        key: schema.kinds.get(key) or guess_kind(scan.frame, name, text=schema.is_text(key), typed=table.typed)
        for key, name in keys.items()
        if not schema.is_number(key)
    }
