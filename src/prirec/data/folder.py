"""A data folder: `visits` and, if there are any, `pois` and `users`, each a CSV or Parquet file; see read_folder."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from prirec.data.columns import check_names, first, mixed_notes, read_columns
from prirec.data.dataset import Columns, Dataset, People, Places
from prirec.data.folder_ids import listed_ids, read_ids, read_location, rows_of, seen_ids
from prirec.data.folder_tables import NEEDS, Table, find_table, read_table, require_polars
from prirec.data.folder_visits import read_visits
from prirec.data.partition_file import PLACES, is_partitioned
from prirec.data.partitioned import read_parts
from prirec.data.schema import Schema, read_schema
from prirec.data.swapped import refuse_swapped
from prirec.errors import DataError
from prirec.types import RealArray

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
class _Listed:
    """People or places before they are told apart."""

    ids: "pl.Series" = field(repr=False)
    table: Table | None
    location: RealArray | None = field(repr=False)
    columns: Columns = field(repr=False)


@dataclass(frozen=True, slots=True)
class Public:
    """What a data folder tells about places, and about private columns without showing any."""

    places: Places
    schema: Schema
    notes: tuple[str, ...] = ()


def read_public(path: Path) -> Public:
    """`pois` and schema.toml of a folder. No other file is opened: whoever publishes a catalogue need hold no visit."""
    require_polars()
    file = find_table(_folder(path), "pois")
    if file is None:
        raise DataError("holds no pois.csv, pois.csv.gz or pois.parquet: places are published from these", file=path)
    table, schema = read_table("pois", file), read_schema(path)
    check_names(table, schema)
    listed = _in_table(table, "poi", schema=schema)
    notes = _unlocated_notes(listed) + mixed_notes(table, listed.columns, schema)
    return Public(_places(listed), schema, tuple(notes))


def read_folder(path: Path, *, strict: bool = False) -> Loaded:
    """The data set in a folder. People and places stand in their table's order, or by id where there is no table.

    Repeated visits are left out and counted; strict makes them a DataError.
    """
    require_polars()
    path = _folder(path)
    if is_partitioned(path):
        loaded = read_parts(path, strict=strict).loaded
        refuse_swapped(loaded.dataset, users=path / "users", pois=path / PLACES)
        return loaded
    files = {name: find_table(path, name) for name in TABLES}
    if files["visits"] is None:
        raise DataError(f"holds no visits; {NEEDS}", file=path)
    tables = {name: read_table(name, file) for name, file in files.items() if file is not None}
    loaded = assemble(tables, schema=read_schema(path), name=path.resolve().name, strict=strict)
    refuse_swapped(loaded.dataset, users=files["users"] or path, pois=files["pois"] or path)
    return loaded


def assemble(tables: Mapping[str, Table], *, schema: Schema, name: str, strict: bool = False) -> Loaded:
    """The data set that these tables describe: ids to rows, cells to columns, repeated visits left out."""
    _check_schema(tables, schema)
    visits_table = tables["visits"]
    who, where = read_ids(visits_table, "user"), read_ids(visits_table, "poi")
    people = _listed(tables.get("users"), who, schema=schema)
    places = _listed(tables.get("pois"), where, schema=schema)
    visits, notes = read_visits(
        visits_table,
        schema,
        person=rows_of(who, people.ids, table=visits_table, other=people.table),
        place=rows_of(where, places.ids, table=visits_table, other=places.table),
        strict=strict,
    )
    notes += _unlocated_notes(places)
    for listed in (places, people):
        notes += mixed_notes(listed.table, listed.columns, schema) if listed.table is not None else []
    dataset = Dataset(
        name=name,
        people=People(ids=tuple(people.ids.to_list()), location=people.location, columns=people.columns),
        places=_places(places),
        visits=visits,
        labelled="label" in visits_table.frame.columns,
        declared=dict(schema.declared),
    )
    return Loaded(dataset, tuple(notes))


def _folder(path: Path) -> Path:
    if not Path(path).is_dir():
        raise DataError(f"there is no such folder; {NEEDS}", file=Path(path))
    return Path(path)


def _places(listed: _Listed) -> Places:
    return Places(ids=tuple(listed.ids.to_list()), location=listed.location, columns=listed.columns)


def _check_schema(tables: Mapping[str, Table], schema: Schema) -> None:
    for key in {**schema.kinds, **schema.declared}:
        name, _, column = key.partition(".")
        if name not in tables:
            raise schema.error(f"is declared for '{name}', and the folder has no such table", column=column)
    for table in tables.values():
        check_names(table, schema)


def _listed(table: Table | None, seen: "pl.Series", *, schema: Schema) -> _Listed:
    if table is None:
        return _Listed(ids=seen_ids(seen), table=None, location=None, columns={})
    return _in_table(table, seen.name, schema=schema)


def _in_table(table: Table, column: str, *, schema: Schema) -> _Listed:
    ids = listed_ids(table, column)
    return _Listed(ids=ids, table=table, location=read_location(table), columns=read_columns(table, schema))


def _unlocated_notes(places: _Listed) -> list[str]:
    if places.table is None or places.location is None:
        return []
    missing = np.isnan(places.location[:, 0])
    count = int(missing.sum())
    if count > UNLOCATED_LIMIT * len(missing):
        problem = (
            f"{count:,} of {len(missing):,} POIs have no coordinates, more than 1 %; fill them in or leave them out"
        )
        raise places.table.error(problem, row=first(missing), column="lat")
    return (
        [f"{count:,} POI{'' if count == 1 else 's'} without coordinates kept, with no place on the map"]
        if count
        else []
    )
