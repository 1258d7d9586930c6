"""A partitioned folder, read: all of it, which gives the data set that was partitioned, or some parts of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prirec.data.folder_tables import Table, memory_table, require_polars
from prirec.data.partition_file import PLACES, ROW, read_partition
from prirec.data.schema import read_schema
from prirec.errors import DataError
from prirec.types import OffsetArray

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
    return Parts(replace(loaded, dataset=replace(loaded.dataset, apart=True)), users[ROW].to_numpy().astype("int64"))


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
