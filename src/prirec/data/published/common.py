"""What readers of published formats share: finding files, reading text, leaving out what is incomplete."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prirec.data.dataset import Declared
from prirec.data.folder import Loaded, assemble, refuse_too_long, seen_ids
from prirec.data.schema import Schema
from prirec.data.sources import existing, refuse_oversized
from prirec.data.tables import Origin, Table, memory_table, read_table
from prirec.errors import DataError

if TYPE_CHECKING:
    import polars as pl

GENDER = Declared(words=("female", "male"))
FRIENDS = "friend_count"
LINE, RECORD = "its line", "its record"  # where a row stands, counted from 0: in a file without header, in a CSV file
ORIGINS: Mapping[str, Origin] = {LINE: "lines", RECORD: "named"}


@dataclass(frozen=True, slots=True)
class Format:
    """A published format: what it is, which files it needs, and its reader."""

    name: str
    read: Callable[[Path], Loaded] = field(repr=False)
    files: tuple[str, ...]
    description: str


@dataclass(frozen=True, slots=True)
class Frames:
    """What a reader hands over: the tables of a data folder, typed, so that text columns stay text.

    Errors name the published files, and the lines of those tables that kept LINE or RECORD.
    """

    visits: "pl.DataFrame" = field(repr=False)
    pois: "pl.DataFrame | None" = field(repr=False, default=None)
    users: "pl.DataFrame | None" = field(repr=False, default=None)
    declared: Mapping[str, Declared] = field(default_factory=dict)
    notes: Sequence[str] = ()
    files: Mapping[str, Path] = field(default_factory=dict)  # which file a table was made of
    names: Mapping[str, str] = field(default_factory=dict)  # what the files call a column

    def load(self, name: str) -> Loaded:
        """The data set that these tables give, checked as the tables of a data folder are."""
        present = {"visits": self.visits, "pois": self.pois, "users": self.users}
        tables = {table: self._table(table, frame) for table, frame in present.items() if frame is not None}
        if not self.visits.height:
            raise DataError(f"no visit is left; are these the files of {name}?")
        loaded = assemble(tables, schema=Schema(declared=self.declared), name=name)
        return Loaded(loaded.dataset, (*self.notes, *loaded.notes))

    def _table(self, name: str, frame: "pl.DataFrame") -> Table:
        cells = memory_table(name, frame.drop(ORIGINS, strict=False))
        table = replace(cells, file=self.files.get(name), names=self.names)
        for column, origin in ORIGINS.items():
            if column in frame.columns:
                return replace(table, origin=origin, records=frame[column].to_numpy())
        return table


def find(source: Path, *names: str) -> Path:
    """The one of these files that is in the folder; the names are spellings of the same file."""
    found = [file for name in names if (file := existing(source / name)) is not None]
    if not found:
        raise DataError(f"{' or '.join(names)} is not there", file=source)
    return found[0]


def read_rows(file: Path, columns: Sequence[str], *, separator: str = "\t") -> "pl.DataFrame":
    """A file without header or quoting as text, and LINE; if it is not UTF-8, it is taken for Latin-1."""
    import polars as pl

    refuse_oversized(file)
    try:
        return pl.read_csv(file, **_as_text(columns, separator))
    except (pl.exceptions.PolarsError, OSError):
        pass
    try:
        content = file.read_bytes().decode("latin-1").encode("utf-8")
        return pl.read_csv(content, **_as_text(columns, separator))
    except (pl.exceptions.PolarsError, OSError):
        raise unlike(file, columns) from None


def scan_rows(file: Path, columns: Sequence[str]) -> "pl.LazyFrame":
    """`read_rows` for a tab-separated file too large to hold: filter it, then call `collect`."""
    import polars as pl

    return pl.scan_csv(file, **_as_text(columns, "\t"))


def _as_text(columns: Sequence[str], separator: str) -> dict[str, Any]:
    """Options for polars: every cell as text, without header or quotes, and the number of its line."""
    import polars as pl

    schema = dict.fromkeys(columns, pl.String)
    return {
        "has_header": False, "schema": schema, "separator": separator, "quote_char": None, "row_index_name": LINE
    }  # fmt: skip


def collect(rows: "pl.LazyFrame", *, file: Path, columns: Sequence[str]) -> "pl.DataFrame":
    """Reads a scanned file, as far as filters have left rows of it."""
    import polars as pl

    try:
        return rows.collect(engine="streaming")
    except (pl.exceptions.PolarsError, OSError):
        raise unlike(file, columns) from None


def unlike(file: Path, columns: Sequence[str]) -> DataError:
    """The error for a file that is not of this format; it shows no cell."""
    return DataError(f"is not as published; each row should hold {', '.join(columns)}", file=file)


def read_named(file: Path, columns: Sequence[str]) -> "pl.DataFrame":
    """These columns of a CSV file with a header, as text, and RECORD."""
    import polars as pl

    table = read_table("visits", file, needed=columns)
    refuse_too_long(table)
    for column in columns:
        if column not in table.frame.columns:
            raise table.missing(column)
    return table.frame.select(columns).with_columns(pl.Series(RECORD, table.positions))


def only_complete(frame: "pl.DataFrame", *, file: Path) -> tuple["pl.DataFrame", list[str]]:
    """The rows without an empty cell and how many others there were; a file with mostly others is the wrong file."""
    complete = frame.drop_nulls()
    count = frame.height - complete.height
    # columns that were cast without a match are null: mostly nulls are the columns of another format
    if 2 * count > frame.height:
        raise unlike(file, [column for column in frame.columns if column not in ORIGINS])
    return complete, counted(count, "incomplete row", file=file)


def counted(count: int, noun: str, *, file: Path, which: str = "") -> list[str]:
    """A note on what was left out, or none if nothing was."""
    return [f"{file.name}: {count:,} {noun}{'' if count == 1 else 's'}{which} left out"] if count else []


def in_order(frame: "pl.DataFrame", column: str) -> "pl.DataFrame":
    """One row for each id, the first seen, sorted as a folder without this table would be."""
    first = frame.unique(subset=column, keep="first", maintain_order=True)
    ids = seen_ids(frame[column]).to_frame()
    return ids.join(first, on=column, how="left", maintain_order="left", nulls_equal=True)


def with_friend_counts(people: "pl.DataFrame", edges: "pl.DataFrame") -> "pl.DataFrame":
    """How many different people each one is joined to, whichever of the two an edge (user, friend) names first."""
    import polars as pl

    back = edges.select(user=pl.col("friend"), friend=pl.col("user"))
    both = pl.concat([edges.select("user", "friend"), back]).filter(pl.col("user") != pl.col("friend")).unique()
    counts = both.group_by("user").agg(pl.len().cast(pl.Int64).alias(FRIENDS))
    joined = people.join(counts, on="user", how="left", maintain_order="left")
    return joined.with_columns(pl.col(FRIENDS).fill_null(0))


def utc_to_local(stamp: str, offset: str) -> "pl.Expr":
    """Seconds on the local wall clock from "Tue Apr 03 18:00:06 +0000 2012" and an offset in minutes."""
    import polars as pl

    utc = pl.col(stamp).str.replace(" +0000", "", literal=True).str.to_datetime("%a %b %d %H:%M:%S %Y", strict=False)
    return utc.dt.epoch("s") + 60 * pl.col(offset).cast(pl.Int64, strict=False)
