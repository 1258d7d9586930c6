"""Coordinates that are the wrong way round in one table are refused; those that are merely far away are not."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from prirec.data.folder import FEWEST, read_folder
from prirec.data.partition import partition_folder
from prirec.data.synthetic import CityPlan, make_city
from prirec.data.write_folder import write_folder
from prirec.errors import DataError
from support import messages

CITIES = {"Paris": (48.86, 2.35), "Oslo": (59.91, 10.75), "Nairobi": (-1.29, 36.82), "Lima": (-12.05, -77.04)}


def city(centre, *, people=60):
    return make_city(
        CityPlan(people=people, places=40, records=600, districts=4, centre=centre), np.random.default_rng(0)
    )


def turned(dataset, *tables):
    changes = {name: getattr(dataset, name) for name in tables}
    return replace(
        dataset, **{name: replace(table, location=table.location[:, ::-1]) for name, table in changes.items()}
    )


def written(dataset, path):
    write_folder(dataset, path)
    return path


@pytest.mark.parametrize("name", CITIES)
@pytest.mark.parametrize("table", ["people", "places"])
def test_one_table_the_wrong_way_round_is_refused_with_both_files(tmp_path, name, table):
    with pytest.raises(DataError, match=messages.coordinates_swapped("pois.csv")) as caught:
        read_folder(written(turned(city(CITIES[name]), table), tmp_path / "city"))
    assert (caught.value.file.name, caught.value.column) == ("users.csv", "lat")


@pytest.mark.parametrize("table", ["people", "places"])
def test_a_folder_is_looked_at_while_it_is_partitioned(tmp_path, table):
    source = written(turned(city(CITIES["Paris"]), table), tmp_path / "city")
    with pytest.raises(DataError, match=messages.coordinates_swapped("pois.csv")):
        partition_folder(source, tmp_path / "parts", parts=3)
    assert not (tmp_path / "parts").exists()


def test_a_partitioned_folder_is_looked_at_as_a_whole(tmp_path):
    partition_folder(written(city(CITIES["Paris"]), tmp_path / "city"), tmp_path / "parts", parts=3)
    for file in (tmp_path / "parts" / "users").rglob("*.parquet"):
        pl.read_parquet(file).rename({"lat": "lon", "lon": "lat"}).write_parquet(file)
    with pytest.raises(DataError, match=messages.COORDINATES_SWAPPED):
        read_folder(tmp_path / "parts")


@pytest.mark.parametrize("name", CITIES)
def test_right_coordinates_are_taken(tmp_path, name):
    source = written(city(CITIES[name]), tmp_path / "city")
    read_folder(source)
    partition_folder(source, tmp_path / "parts", parts=3)


def test_people_from_far_away_are_taken(tmp_path):
    dataset = city(CITIES["Paris"])
    abroad = replace(dataset.people, location=dataset.people.location + np.array([-40.0, 60.0]))
    read_folder(written(replace(dataset, people=abroad), tmp_path / "city"))


def test_a_tenth_of_the_people_at_home_shows_that_the_tables_agree(tmp_path):
    dataset = city(CITIES["Paris"])
    location = dataset.people.location[:, ::-1].copy()
    location[::10] = dataset.people.location[::10]
    read_folder(written(replace(dataset, people=replace(dataset.people, location=location)), tmp_path / "city"))


def test_from_one_table_or_few_people_nothing_is_concluded(tmp_path):
    few = turned(city(CITIES["Paris"], people=FEWEST - 1), "people")
    read_folder(written(few, tmp_path / "few"))
    both = turned(city(CITIES["Paris"]), "people", "places")
    read_folder(written(both, tmp_path / "both"))
    alone = turned(city(CITIES["Paris"]), "places")
    read_folder(written(replace(alone, people=replace(alone.people, location=None)), tmp_path / "alone"))
