"""A data set to a data folder, so that read_folder gives the same data set back."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from prirec.data.columns import cells_of, number_cells, would_be_misread
from prirec.data.dataset import Category, Columns, Dataset, Numbers, Places
from prirec.data.folder import UNLOCATED_LIMIT
from prirec.data.schema import FILE, NAME, RESERVED, Kind, Schema, asks, schema_text
from prirec.errors import PassingError, UsageError
from prirec.types import RealArray
from prirec.util.files import NO_ROOM, clear, is_full, room_beside

if TYPE_CHECKING:
    import polars as pl

TableFormat = Literal["csv", "parquet"]


def write_folder(dataset: Dataset, path: Path, *, table_format: TableFormat = "csv") -> None:
    """Writes a new folder; after any error there is none. Words that no row has are not written."""
    _refuse_unreadable(dataset)
    tables = _tables(dataset)
    text = schema_text(_schema(dataset))
    with new_folder(Path(path)) as beside:
        _write_all(tables, text, folder=beside, table_format=table_format)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder to write in, which becomes `path` when all went well. A `path` with content is refused."""
    from polars.exceptions import PolarsError

    path = path.resolve()
    refuse_occupied(path)
    # Written beside and moved in whole: a folder that is there is complete, whenever somebody looks.
    beside = room_beside(path)
    try:
        beside.mkdir(parents=True)
        yield beside
        if path.exists():
            path.rmdir()
        beside.rename(path)
    except (OSError, PolarsError) as broken:
        if is_full(broken):
            raise PassingError(f"{path} {NO_ROOM}") from None
        if isinstance(broken, PolarsError):
            raise
        raise UsageError(f"cannot write to {path}: {broken.strerror or broken}") from broken
    finally:
        clear(beside)


def refuse_occupied(path: Path) -> None:
    """UsageError if the folder is not empty: what is there is never mixed with something new."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file; name a new folder")
    if path.exists() and any(path.iterdir()):
        raise UsageError(f"{path} is there and not empty; name a new folder")


def _write_all(tables: Mapping[str, "pl.DataFrame"], schema: str, *, folder: Path, table_format: TableFormat) -> None:
    for name, frame in tables.items():
        if table_format == "csv":
            frame.write_csv(folder / f"{name}.csv")
        else:
            frame.write_parquet(folder / f"{name}.parquet")
    if schema:
        (folder / FILE).write_text(schema, encoding="utf-8")


def _tables(dataset: Dataset) -> dict[str, "pl.DataFrame"]:
    people, places = dataset.people, dataset.places
    return {
        "users": _listed("users", people.ids, location=people.location, columns=people.columns),
        "pois": _listed("pois", places.ids, location=places.location, columns=places.columns).with_columns(
            **({_name_column(places): _ids(places.names).replace("", None)} if places.names else {})
        ),
        "visits": _visits(dataset),
    }


def _visits(dataset: Dataset) -> "pl.DataFrame":
    import polars as pl

    visits = dataset.visits
    cells = {
        "user": _ids(dataset.people.ids).gather(visits.person),
        "poi": _ids(dataset.places.ids).gather(visits.place),
    }
    if dataset.labelled:
        cells["label"] = pl.Series((visits.label > 0).astype(np.int8))
    if visits.time is not None:
        cells["time"] = pl.Series(visits.time)
    return pl.DataFrame({**cells, **_features("visits", visits.context)})


def _listed(name: str, ids: Sequence[str], *, location: RealArray | None, columns: Columns) -> "pl.DataFrame":
    import polars as pl

    cells = {RESERVED[name][0]: _ids(ids)}
    if len(set(ids)) < len(ids) or any(not word.strip() for word in ids):
        raise UsageError(f"the ids of {name} must be distinct and not blank")
    if location is not None:
        cells |= {axis: number_cells(f"{name}.{axis}", location[:, at]) for at, axis in enumerate(("lat", "lon"))}
    return pl.DataFrame({**cells, **_features(name, columns)})


def _ids(ids: Sequence[str]) -> "pl.Series":
    import polars as pl

    return pl.Series(ids, dtype=pl.String)


def _features(table: str, columns: Columns) -> dict[str, "pl.Series"]:
    for name in columns:
        if name in RESERVED[table] or not name.strip() or "\n" in name or "\r" in name:
            raise UsageError(f"a column of {table} cannot be called {name!r}")
    return {name: cells_of(f"{table}.{name}", column) for name, column in columns.items()}


def _refuse_unreadable(dataset: Dataset) -> None:
    """UsageError for what a reader of the folder would refuse."""
    if not len(dataset.visits):
        raise UsageError("there are no visits to write")
    if not dataset.labelled and (dataset.visits.label < 0).any():
        raise UsageError("labels of -1 would be lost; set labelled")
    strange = sorted(set(dataset.declared) - set(_named(dataset)))
    if strange:
        raise UsageError(f"{strange[0]} is declared, and there is no such column")
    _refuse_location("users", dataset.people.location)
    _refuse_location("pois", dataset.places.location)
    location = dataset.places.location
    if location is not None and np.isnan(location[:, 0]).mean() > UNLOCATED_LIMIT:
        raise UsageError("over 1 % of the POIs have no coordinates; fill them in, or leave location out altogether")


def _refuse_location(name: str, location: RealArray | None) -> None:
    if location is None:
        return
    unknown = np.isnan(location)
    if (unknown[:, 0] != unknown[:, 1]).any():
        raise UsageError(f"a row of {name} has one coordinate; latitude and longitude come together")
    if (np.abs(location) > (90, 180)).any():
        raise UsageError(f"a row of {name} lies outside ±90 degrees of latitude or ±180 of longitude")


def _named(dataset: Dataset) -> Columns:
    """All columns by names such as "users.gender"."""
    groups = {"users": dataset.people.columns, "pois": dataset.places.columns, "visits": dataset.visits.context}
    return {f"{table}.{name}": column for table, columns in groups.items() for name, column in columns.items()}


def _name_column(places: Places) -> str:
    """Under which name the names of places are written: one that no feature has."""
    return next(name for name in ("name", "poi_name", "place_name", "names of places") if name not in places.columns)


def _schema(dataset: Dataset) -> Schema:
    """What is declared, and what a reader would take for something else."""
    kinds: dict[str, Kind] = {}
    for key, column in _named(dataset).items():
        known = dataset.declared.get(key)
        words = known.words if known is not None else None
        if isinstance(column, Category) and (
            would_be_misread(column, text=words is not None) or any(word != word.strip() for word in words or ())
        ):
            kinds[key] = "category"  # postcodes look like numbers, "a|b" like two tags
        elif asks(key.partition(".")[2], key.partition(".")[0]):  # a feature that is called like an id
            kinds[key] = (
                "number" if isinstance(column, Numbers) else "category" if isinstance(column, Category) else "tags"
            )
    roles = {f"pois.{_name_column(dataset.places)}": NAME} if dataset.places.names else {}
    return Schema(kinds=kinds, declared=dataset.declared, roles=roles)
