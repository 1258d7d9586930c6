"""partition.json: what is known of the parts of a partitioned folder without opening them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from prirec.data.schema import read_schema
from prirec.data.tables import Table, memory_table, require_polars
from prirec.errors import DataError
from prirec.types import OffsetArray
from prirec.util.decode_errors import NOT_DECODED

VERSION = 1
MANIFEST = "partition.json"
PLACES, PART = "pois.parquet", "part"
ROW = "__row"  # where a person or a visit stood before: reading all parts gives the same data set back


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    people: int
    records: int


class Partition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = VERSION
    parts: tuple[Part, ...]
    labelled: bool

    @property
    def people(self) -> int:
        return sum(part.people for part in self.parts)

    @property
    def records(self) -> int:
        return sum(part.records for part in self.parts)


def is_partitioned(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def read_partition(folder: Path) -> Partition:
    try:
        found = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Partition)
    except (OSError, *NOT_DECODED):
        raise DataError("is damaged; partition the data again", file=folder / MANIFEST) from None
    if found.version != VERSION or not found.parts:
        raise DataError(f"has version {found.version}, this program reads {VERSION}", file=folder / MANIFEST)
    return found


# A partitioned folder, read: all of it, which gives the data set that was partitioned, or some parts of it.


if TYPE_CHECKING:
    import polars as pl

    from prirec.data.folder import Loaded


@dataclass(frozen=True, slots=True)
class Parts:
    """What was read, and where its people stand among all of them."""

    loaded: "Loaded"
    rows: OffsetArray = field(repr=False)  # (I,): ascending


def read_parts(path: Path, which: Sequence[int] | None = None, *, strict: bool = False) -> Parts:
    """These parts, or all. Places are whole in any case: they are public."""
    from prirec.data.folder import assemble

    require_polars()
    known = range(len(read_partition(path).parts))
    wanted = list(known if which is None else which)
    users, visits = (_read(path, name, wanted) for name in ("users", "visits"))
    tables = {
        "users": _table("users", users),
        "visits": _table("visits", visits),
        "pois": memory_table("pois", _parquet(path / PLACES)),
    }
    loaded = assemble(tables, schema=read_schema(path), name=path.resolve().name, strict=strict)
    return Parts(
        replace(loaded, dataset=replace(loaded.dataset, partitioned=True)), users[ROW].to_numpy().astype("int64")
    )


def _read(path: Path, name: str, which: Sequence[int]) -> "pl.DataFrame":
    """In the order in which the rows stood before."""
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

    try:
        return pl.read_parquet(file, hive_partitioning=False)
    except (pl.exceptions.PolarsError, OSError):
        raise DataError("cannot be read as Parquet; partition the data again", file=file) from None


def _table(name: str, frame: "pl.DataFrame") -> Table:
    return memory_table(name, frame.drop(ROW))
