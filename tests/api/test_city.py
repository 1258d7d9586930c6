"""Cities from folders, from tables in memory, and made up."""

from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import prirec
from prirec.errors import DataError, UsageError
from support import messages

VISITS = {
    "user": ["ann", "ann", "bob", "cy"],
    "poi": ["cafe", "park", "cafe", "park"],
    "time": ["2024-05-04T19:30", "2024-05-05T10:00", "2024-05-05T11:00", "2024-05-06T12:00"],
    "label": [1, 0, 1, 1],
}
POIS = {"poi": ["cafe", "park"], "lat": [35.68, 35.69], "lon": [139.76, 139.75], "kind": ["coffee", "green"]}
USERS = {"user": ["ann", "bob", "cy"], "age": [31, None, 56]}
SCHEMA = {"users": {"age": {"low": 0, "high": 100}}}


def rows(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def arrays(value: object) -> Any:
    """A data set as plain values, so that two can be compared; NaN is equal to itself."""
    if hasattr(value, "__dataclass_fields__"):
        return {one.name: arrays(getattr(value, one.name)) for one in fields(value)}  # type: ignore[arg-type]
    if isinstance(value, np.ndarray):
        return repr(value.tolist())
    if isinstance(value, dict):
        return {key: arrays(inner) for key, inner in value.items()}
    return value


@pytest.mark.parametrize("form", [dict, pl.DataFrame, lambda columns: pl.LazyFrame(columns), rows])
def test_a_city_is_the_same_from_every_form_of_table(form: Any) -> None:
    city = prirec.City(form(VISITS), form(POIS), form(USERS), schema=SCHEMA, name="town")
    expected = prirec.City(visits=VISITS, pois=POIS, users=USERS, schema=SCHEMA, name="town")
    assert arrays(city.dataset) == arrays(expected.dataset)
    assert (city.people, city.places, city.records) == (("ann", "bob", "cy"), ("cafe", "park"), 4)
    assert repr(city) == "City 'town': 3 people, 2 places, 4 labelled records"


def test_a_city_is_the_same_from_pandas() -> None:
    pd = pytest.importorskip("pandas")
    users = pd.DataFrame({"user": ["ann", "bob", "cy"], "age": [31.0, float("nan"), 56.0]})
    visits = pd.DataFrame(VISITS).assign(time=lambda frame: pd.to_datetime(frame["time"]))
    city = prirec.City(visits, pd.DataFrame(POIS), users, schema=SCHEMA)
    assert arrays(city.dataset) == arrays(prirec.City(VISITS, POIS, USERS, schema=SCHEMA).dataset)


def test_arrays_and_datetimes_are_columns_too() -> None:
    times = [datetime.fromisoformat(time) for time in VISITS["time"]]  # type: ignore[arg-type]
    users = {"user": np.array(["ann", "bob", "cy"]), "age": np.array([31, np.nan, 56])}
    city = prirec.City({**VISITS, "time": times}, POIS, users, schema=SCHEMA)
    assert arrays(city.dataset) == arrays(prirec.City(VISITS, POIS, USERS, schema=SCHEMA).dataset)


def test_a_city_goes_to_a_folder_and_back(tmp_path: Path) -> None:
    city = prirec.make_city(people=60, seed=3)
    city.save(tmp_path / "city")
    again = prirec.read_folder(tmp_path / "city")
    assert (again.people, again.places, again.records) == (city.people, city.places, city.records)
    assert again.source == str(tmp_path / "city")


def test_made_up_cities_follow_from_their_arguments() -> None:
    one, same, other = (prirec.make_city(people=30, seed=seed).dataset for seed in (1, 1, 2))
    assert arrays(one) == arrays(same)
    assert arrays(one) != arrays(other)
    assert len(prirec.make_city(people=10, places=5).places) == 5


def test_repeated_visits_are_noted_or_refused() -> None:
    twice = {key: [*values, values[0]] for key, values in VISITS.items()}
    assert "1 duplicate visit left out" in repr(prirec.City(twice))
    with pytest.raises(DataError):
        prirec.City(twice, strict=True)


BAD = {
    "no visits": ({"visits": None}, UsageError, messages.VISITS_MISSING),
    "no table": ({"visits": 7}, UsageError, messages.not_a_table("visits")),
    "rows of lists": ({"visits": [["ann", "cafe"]]}, UsageError, messages.ROWS_NOT_MAPPINGS),
    "no rows": ({"visits": {"user": [], "poi": []}}, UsageError, messages.TABLE_WITHOUT_ROWS),
    "one cell": (
        {"visits": {"user": "ann", "poi": ["cafe"]}},
        UsageError,
        messages.not_a_column("user", table="visits"),
    ),
    "lengths": (
        {"visits": {"user": ["ann"], "poi": ["cafe", "park"]}},
        UsageError,
        messages.COLUMNS_OF_DIFFERENT_LENGTHS,
    ),
    "no such column": (
        {"visits": {"usr": ["ann"], "poi": ["cafe"]}},
        DataError,
        messages.in_column("user", messages.NO_SUCH_COLUMN, file="visits"),
    ),
    "unknown place": (
        {"visits": VISITS, "pois": {"poi": ["cafe"]}},
        DataError,
        messages.in_column("poi", messages.ID_UNKNOWN, file="visits"),
    ),
    "schema": ({"visits": VISITS, "schema": {"people": {}}}, DataError, messages.no_such_table("people")),
    "swapped": (
        {"visits": VISITS, "pois": {**POIS, "lat": POIS["lon"], "lon": POIS["lat"]}},
        DataError,
        messages.LATITUDE_OUT_OF_RANGE,
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_invalid_tables_are_refused_with_the_reason(name: str) -> None:
    given, kind, words = BAD[name]
    with pytest.raises(kind, match=words):
        prirec.City(**given)


def test_a_refusal_shows_nobodys_cells() -> None:
    with pytest.raises(UsageError) as refused:
        prirec.City({"user": ["secret-person", 3, object()], "poi": ["a", "b", "c"]})
    assert "secret-person" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


def test_a_made_up_city_has_no_other_arguments() -> None:
    with pytest.raises(UsageError, match=messages.did_you_mean("districts")):
        prirec.make_city(people=50, district=3)
    with pytest.raises(UsageError, match=messages.not_a_count("people")):
        prirec.make_city(people="many")
