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

from prirec.data.columns import NO_WORDS, MixedCells, check_names, guess_kind, with_roles
from prirec.data.dataset import Dataset
from prirec.data.folder import (
    assemble_sound,
    check_places,
    left_out,
    listed_ids,
    names_left_out,
    read_location,
    refuse_far_homes,
    refuse_other_tables,
    refuse_too_long,
    repeated_notes,
    rows_of,
    seen_ids,
    without_wrong,
)
from prirec.data.partitioned import PART, PLACES, ROW, Part, Partition, read_rows
from prirec.data.schema import FILE, NAME, RESERVED, Kind, Schema, read_schema, schema_text
from prirec.data.sources import MANIFEST, existing_folder, refuse_oversized
from prirec.data.tables import (
    IDS,
    NEEDS,
    Table,
    TableError,
    TableFiles,
    check_header,
    holds_ids,
    holds_words,
    plain_text,
    refuse_disproportionate,
    rows_too_long,
    short_rows,
    whole_parquet,
)
from prirec.data.write_folder import new_folder
from prirec.errors import DataError, UsageError
from prirec.types import OffsetArray, RealArray
from prirec.util.files import clear, is_full
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


@dataclass(frozen=True, slots=True)
class MadePartition:
    """What `partition_folder` has written, and in plain sentences what it left out or what looks odd."""

    partition: Partition
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Skipped:
    """Rows that are wrong, by table and problem: they are left out of the streams. Without `allowed` none is."""

    allowed: bool
    rows: dict[tuple[str, str], tuple[Table, OffsetArray]] = field(default_factory=dict)  # with the records in the file

    def add(self, table: Table, records: OffsetArray, problem: str) -> None:
        """More rows of a table that have this problem."""
        if len(records):
            _, before = self.rows.get((table.name, problem), (table, np.zeros(0, dtype=np.int64)))
            self.rows[table.name, problem] = table, np.union1d(before, records)

    def of(self, name: str) -> OffsetArray:
        """All records of this table that are left out."""
        found = [records for (table, _), (_, records) in self.rows.items() if table == name]
        return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *found]))

    def take(self, error: TableError, tables: Mapping[str, Scanned]) -> None:
        """The rows of an error and the visits that name them; the error itself where it is not about rows."""
        import polars as pl

        if not self.allowed or error.records is None:
            raise error
        own = tables[error.table]
        wrong = pl.col(ROW).is_in(error.records.tolist())
        self.add(own.table, error.records, error.problem)
        if error.table == "visits":
            return
        (name,) = IDS[error.table]
        gone = own.frame.filter(wrong).select(name).join(own.frame.filter(~wrong).select(name), on=name, how="anti")
        visits = tables["visits"]
        named = visits.frame.join(gone.unique(), on=name, how="semi").select(ROW).collect(engine="streaming")
        self.add(visits.table, named[ROW].to_numpy().astype(np.int64), names_left_out(own.table))

    def take_part(self, error: TableError, part: Mapping[str, Table]) -> dict[str, Table]:
        """The rows of an error in the tables of one part, and these tables without them."""
        if not self.allowed or error.records is None:
            raise error
        left, _ = without_wrong(part, error)
        for name, before in part.items():
            gone = np.setdiff1d(before.positions, left[name].positions)
            self.add(before, gone, error.problem if name == error.table else names_left_out(part[error.table]))
        return left

    def count(self) -> int:
        return sum(len(records) for _, records in self.rows.values())

    def notes(self) -> list[str]:
        some = [(replace(table, records=records), why) for (_, why), (table, records) in self.rows.items()]
        return [left_out(table, np.ones(len(table.positions), dtype=np.bool_), why) for table, why in some]


def partition_folder(source: Path, target: Path, *, parts: int, skip_bad: bool = False) -> MadePartition:
    """Writes the parts of a data folder to a new folder; after any error there is no new folder. With skip_bad, rows
    that are wrong are left out and counted, as by `read_folder`."""
    import polars as pl

    if parts < 1:
        raise UsageError("there must be at least one part")
    source = existing_folder(Path(source), needs=NEEDS)
    skipped = _Skipped(skip_bad)
    with new_folder(target) as beside:
        while True:  # once more without the rows that were found to be wrong
            try:
                made = _partitioned(source, beside, skipped, parts=parts)
            except pl.exceptions.PolarsError as broken:  # its words may repeat cells
                if is_full(broken):
                    raise
                if any(_found_malformed(source, name, skipped) for name in IDS):
                    continue
                raise DataError("a table cannot be read to its end; is it being written?", file=source) from None
            if made is not None:
                return made
            for one in beside.iterdir():
                clear(one)


def _found_malformed(folder: Path, name: str, skipped: _Skipped) -> bool:
    """Whether this table is CSV with rows that are too long, and were not known before: DataError with the line, unless
    they may be skipped."""
    import polars as pl

    file = TableFiles.of(folder).find(name)
    if file is None or file.suffix.lower() == ".parquet":
        return False
    header = check_header(name, file, known=read_schema(folder).columns_of(name))
    wrong = rows_too_long(file, width=len(header))
    cells = pl.DataFrame(schema=dict.fromkeys(header, pl.String))
    table = Table(name, cells, origin="csv", file=file, records=np.arange(len(wrong)), too_long=wrong)
    try:
        refuse_too_long(table)
    except TableError as error:
        if not skipped.allowed or error.records is None or np.isin(error.records, skipped.of(name)).all():
            raise
        skipped.add(table, error.records, error.problem)
        return True
    return False


def _partitioned(source: Path, target: Path, skipped: _Skipped, *, parts: int) -> MadePartition | None:
    """None where rows turned out to be wrong that are to be skipped: all that is written is then of no use."""
    import polars as pl

    schema, there = read_schema(source), TableFiles.of(source)
    there.find_visits()
    found = {name: scanned(there, name, schema, skipped) for name in ("visits", "pois", "users")}
    tables = {name: table for name, table in found.items() if table is not None}
    refuse_other_tables(tables, schema)
    try:
        catalogue, spots, notes = _places(tables, schema)
        people, homes = _people(tables)
    except TableError as error:
        skipped.take(error, tables)
        return None
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
    sizes = _sizes(people)
    settled, known = _settled(tables, schema), skipped.count()
    repeats, mixed = 0, MixedCells()
    for part, size in enumerate(sizes):
        read = _check_part(target, part, tables, catalogue, schema=settled, skipped=skipped)
        if read is None:
            continue
        repeats += size.records - len(read.visits)
        sizes[part] = Part(people=size.people, records=len(read.visits))
        for name, columns in (("visits", read.visits.context), ("users", read.people.columns)):
            if name in tables:
                mixed.add(tables[name].table, columns, schema)
    if skipped.count() > known:
        return None
    made = Partition(parts=tuple(sizes), labelled="label" in tables["visits"].table.frame.columns)
    (target / FILE).write_text(schema_text(settled), encoding="utf-8")
    (target / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(made), indent=1))
    shapes = [note for one in tables.values() for note in one.table.notes]
    return MadePartition(
        made, (*there.notes(), *skipped.notes(), *shapes, *repeated_notes(repeats), *notes, *mixed.notes())
    )


def _settled(tables: Mapping[str, Scanned], schema: Schema) -> Schema:
    """What every column is, spelled out: columns have their plain names by now, and ignored ones are gone."""
    kinds: dict[str, Kind] = {}
    for table in tables.values():
        kinds |= kinds_of(table, schema)
    shown = tables["pois"].table.shown if "pois" in tables else None
    return Schema(kinds=kinds, declared=schema.declared, roles={} if shown is None else {f"pois.{shown}": NAME})


def _check_part(
    folder: Path, part: int, tables: Mapping[str, Scanned], catalogue: "pl.DataFrame", *, schema: Schema,
    skipped: _Skipped,
) -> Dataset | None:  # fmt: skip
    """What `read_folder` would refuse is refused, or skipped, by the lines of the files that were partitioned. None
    where no row of the part is sound."""
    read = {name: tables[name].rows(read_rows(folder, name, [part])) for name in ("users", "visits") if name in tables}
    read["pois"] = Table("pois", catalogue.select("poi"))  # the rest of it is checked already
    while True:
        try:
            return assemble_sound(read, schema=schema, name=folder.name).dataset
        except TableError as error:
            read = skipped.take_part(error, read)
            if not all(table.frame.height for table in read.values()):
                return None


def _sizes(people: "pl.DataFrame") -> list[Part]:
    """People and rows of visits of each part."""
    import polars as pl

    counts = people.group_by("part").agg(pl.len(), pl.col("records").sum()).sort("part")
    return [Part(people=some, records=many) for _, some, many in counts.iter_rows()]


def _places(tables: Mapping[str, Scanned], schema: Schema) -> "tuple[pl.DataFrame, RealArray | None, list[str]]":
    """The table of places, or each place that a visit names; where they are; and what is odd about them."""
    import polars as pl

    visits = tables["visits"]
    if "pois" not in tables:
        seen = visits.frame.select(pl.col("poi").unique()).collect(engine="streaming")["poi"]
        return pl.DataFrame({"poi": seen_ids(seen)}).with_row_index(ROW), None, []
    places = tables["pois"].frame.collect()
    table = tables["pois"].rows(places)
    found, notes = check_places(table, schema)
    _refuse_unlisted(visits, places["poi"], other=table)
    return places, found.location, notes


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
    rows = absent.select(ROW, listed.name).sort(ROW).collect(engine="streaming")
    if rows.height:
        rows_of(rows[listed.name], listed, table=visits.rows(rows), other=other)


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


def scanned(there: TableFiles, name: str, schema: Schema, skipped: _Skipped) -> Scanned | None:
    """Opens one table as a stream and checks its ids; None where the folder has no such table."""
    import polars as pl

    file = there.find(name)
    if file is None:
        return None
    typed = file.suffix.lower() == ".parquet"
    if not typed:
        refuse_oversized(file)
        header = check_header(name, file, known=schema.columns_of(name))
        frame = pl.scan_csv(
            file, infer_schema=False, new_columns=header, truncate_ragged_lines=bool(len(skipped.of(name)))
        )
    else:
        with whole_parquet(file):  # a damaged page makes Polars panic: looked at once, before anything is made of it
            frame = pl.scan_parquet(file, hive_partitioning=False)
            refuse_disproportionate(file, frame)
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
    return _sound_ids(_stream(table, frame, gone=skipped.of(name)), skipped)


def _stream(table: Table, frame: "pl.LazyFrame", *, gone: OffsetArray) -> Scanned:
    """Rows that are neither blank nor known to be wrong, under plain names; a note on those that are too short."""
    import polars as pl

    columns = frame.collect_schema()
    rows = frame.with_row_index(ROW).with_columns(plain_text(columns))
    rows = rows if table.typed else rows.filter(~pl.all_horizontal(pl.exclude(ROW).is_null()))
    if table.file is not None and not table.typed:
        empty = rows.select(pl.last().is_null().any()).collect(engine="streaming").item()
        notes = short_rows(table.file, width=len(columns)) if empty else ()
        table = replace(table, notes=(*notes, *table.notes))
    rows = rows.filter(~pl.col(ROW).is_in(gone.tolist())) if len(gone) else rows
    rows = rows.select(ROW, *(pl.col(table.called(column)).alias(column) for column in table.frame.columns))
    return Scanned(table, rows.with_columns(pl.col(column).cast(pl.String) for column in IDS[table.name]))


def _sound_ids(stream: Scanned, skipped: _Skipped) -> Scanned:
    """The rows whose ids are not empty; the error for the others, unless they may be skipped."""
    import polars as pl

    for column in IDS[stream.table.name]:
        empty = stream.frame.filter(pl.col(column).is_null()).select(ROW, column).sort(ROW).collect(engine="streaming")
        if empty.height:
            wrong = np.ones(empty.height, dtype=np.bool_)
            error = stream.rows(empty).wrong_rows("the id is empty", wrong, column=column)
            if not skipped.allowed:
                raise error
            skipped.add(stream.table, empty[ROW].to_numpy().astype(np.int64), error.problem)
            stream = replace(stream, frame=stream.frame.filter(pl.col(column).is_not_null()))
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
        key: schema.kinds.get(key)
        or guess_kind(scan.frame, name, text=schema.is_text(key), typed=table.typed, engine="streaming")
        for key, name in keys.items()
        if not schema.is_number(key)
    }
