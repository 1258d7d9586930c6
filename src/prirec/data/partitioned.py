"""Reads a partitioned folder: all of it, which gives the data set that was partitioned, or some parts of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from prirec.data.schema import read_schema
from prirec.data.sources import MANIFEST
from prirec.data.tables import memory_table, whole_parquet
from prirec.errors import DataError
from prirec.types import OffsetArray
from prirec.util.decode_errors import NOT_DECODED

if TYPE_CHECKING:
    import polars as pl

    from prirec.data.folder import Loaded

VERSION = 1
PLACES, PART = "pois.parquet", "part"
ROW = "__row"  # where a person or a visit stood before: reading all parts gives the same data set back


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many people and records one part holds."""

    people: int
    records: int


class Partition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The manifest partition.json."""

    version: int = VERSION
    parts: tuple[Part, ...]
    labelled: bool

    @property
    def people(self) -> int:
        return sum(part.people for part in self.parts)

    @property
    def records(self) -> int:
        return sum(part.records for part in self.parts)


@dataclass(frozen=True, slots=True)
class Parts:
    """The data set of some parts, and the rows of its people among those of all parts."""

    loaded: "Loaded"
    rows: OffsetArray = field(repr=False)  # (I,): ascending


def read_parts(path: Path, which: Sequence[int] | None = None, *, strict: bool = False) -> Parts:
    """These parts, or all. Places are whole in any case: they are public."""
    from prirec.data.folder import assemble  # here: folder.py reads partitioned folders through this file

    known = range(len(read_partition(path).parts))
    wanted = list(known if which is None else which)
    users, visits = (read_rows(path, name, wanted) for name in ("users", "visits"))
    tables = {
        "users": memory_table("users", users.drop(ROW)),
        "visits": memory_table("visits", visits.drop(ROW)),
        "pois": memory_table("pois", _parquet(path / PLACES)),
    }
    loaded = assemble(tables, schema=read_schema(path), name=path.resolve().name, strict=strict)
    return Parts(
        replace(loaded, dataset=replace(loaded.dataset, partitioned=True)), users[ROW].to_numpy().astype("int64")
    )


def read_rows(path: Path, name: str, which: Sequence[int]) -> "pl.DataFrame":
    """Rows of one table from these parts, in the order that they had before the folder was partitioned."""
    import polars as pl

    files = [file for part in which for file in sorted((path / name / f"part={part}").glob("*.parquet"))]
    if not files:
        if name == "users":
            raise DataError("has lost parts; partition the data again", file=path / name)
        files = [next(iter(sorted((path / name).glob("part=*/*.parquet"))))]  # people without a record: columns alone
        return _parquet(files[0]).clear()
    return pl.concat([_parquet(file) for file in files]).sort(ROW)


def _parquet(file: Path) -> "pl.DataFrame":
    import polars as pl

    with whole_parquet(file, advice="partition the data again"):
        return pl.read_parquet(file, hive_partitioning=False)


# partition.json: what is known of the parts without opening them.


def read_partition(folder: Path) -> Partition:
    """The manifest; DataError if it is damaged or of another version."""
    try:
        found = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Partition)
    except (OSError, *NOT_DECODED):
        raise DataError("is damaged; partition the data again", file=folder / MANIFEST) from None
    if found.version != VERSION or not found.parts:
        raise DataError(f"has version {found.version}, this program reads {VERSION}", file=folder / MANIFEST)
    return found
