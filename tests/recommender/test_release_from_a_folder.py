"""A catalogue is published from what is public in a folder. Files about people are not even opened."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prirec.config import Features
from prirec.data.folder import read_folder, read_public
from prirec.data.schema import Schema, read_schema
from prirec.data.write_folder import write_folder
from prirec.errors import DataError
from prirec.features.encoding import (
    PRIVATE_SCALE,
    Clock,
    Distance,
    Hashed,
    Log,
    Range,
    Words,
    plan_declared_encoding,
    plan_encoding,
)
from prirec.features.popularity import Popularity
from prirec.recommender.release import from_folder, pack_regions
from support import messages
from support.cities import same_bits, small_city

PLAIN = Features(own_history=False, areas=0)  # of the tables alone
POIS = "poi,lat,lon,price,kind\na,35.1,139.2,10,bar\nb,35.2,139.3,30,café\n"


def folder(path: Path, *, schema: str = "", **tables: str) -> Path:
    for name, text in tables.items():
        (path / f"{name}.csv").write_text(text, encoding="utf-8")
    if schema:
        (path / "schema.toml").write_text(schema, encoding="utf-8")
    return path


def test_places_are_those_that_a_simulation_reads_from_the_same_folder(tmp_path):
    write_folder(small_city(people=20, places=15, records=60), tmp_path / "city")
    public, whole = from_folder(tmp_path / "city", PLAIN).places, read_folder(tmp_path / "city").dataset.places
    assert public.ids == whole.ids
    assert same_bits(public.location, whole.location)
    encoding = plan_encoding(read_folder(tmp_path / "city").dataset, Popularity(), PLAIN)
    assert pack_regions(public, encoding).documents == pack_regions(whole, encoding).documents


def test_devices_see_the_name_of_a_place_first_and_do_not_learn_from_it(tmp_path):
    pois = "venue_id,latitude,lng,name,kind\na,35.1,139.2,Chez Ann,bar\nb,35.2,139.3,,café\n"
    source = from_folder(folder(tmp_path, pois=pois, schema='[users.uid]\nkind = "ignore"\n'), PLAIN)
    assert pack_regions(source.places, source.encoding).known.words == ("Chez Ann · bar", "café")
    assert [block.column for block in source.encoding.blocks()] == ["kind", "distance from home", "time"]


def test_the_encoding_is_the_one_of_a_simulation_where_every_private_column_is_declared(tmp_path):
    """But for the order of people's columns, which a folder has from its tables and a deployment from its schema."""
    write_folder(small_city(people=20, places=15, records=60), tmp_path / "city")
    published = from_folder(tmp_path / "city", Features()).encoding
    simulated = plan_encoding(read_folder(tmp_path / "city").dataset, Popularity(), Features())
    assert (published.place, published.context) == (simulated.place, simulated.context)
    assert set(published.person) == set(simulated.person)
    assert len(published.person) == 6
    assert published.popularity == ()


def test_files_about_people_are_not_opened(tmp_path):
    """They are unreadable here, and it does not matter."""
    path = folder(tmp_path, pois=POIS, visits="not,a\ntable", users='"', schema="[users.age]\nlow = 0\nhigh = 9\n")
    (path / "visits.csv").chmod(0)
    (path / "users.parquet").symlink_to("/nowhere")
    with pytest.raises(DataError):
        read_folder(path)
    assert from_folder(path, PLAIN).places.ids == ("a", "b")


def test_a_folder_of_places_alone_can_be_published(tmp_path):
    source = from_folder(folder(tmp_path, pois=POIS), PLAIN)
    assert source.encoding.person == ()
    assert source.encoding.context == (
        Distance(column="distance from home", shift=float(np.log1p(5.0)), scale=2.0),
        Clock(column="time"),
    )
    assert len(pack_regions(source.places, source.encoding).known) == 2


SCHEMA = """
[visits.rain]
low = 0
high = 9
[users.steps]
kind = "number"
[users.job]
kind = "category"
[users.age]
low = 18
high = 99
[users.likes]
kind = "tags"
[users.gender]
values = ["f", "m"]
[visits.company]
values = ["alone", "friends"]
[pois.price]
kind = "category"
"""


def test_private_columns_are_those_that_the_schema_names(tmp_path):
    few = Features(own_history=False, areas=0, buckets=4)
    encoding = from_folder(folder(tmp_path, pois=POIS, schema=SCHEMA), few).encoding
    assert encoding.person == (
        Range(column="age", low=18.0, high=99.0),
        Words(column="gender", words=("f", "m")),
        Log(column="steps", scale=PRIVATE_SCALE),
        Hashed(column="job", buckets=4),
        Hashed(column="likes", buckets=4),
    )
    assert encoding.context[2:] == (
        Range(column="rain", low=0.0, high=9.0),
        Words(column="company", words=("alone", "friends")),
    )
    assert encoding.place[0] == Words(column="price", words=("10", "30"))


def test_settings_say_whether_the_moment_counts_and_times_are_known(tmp_path):
    path = folder(tmp_path, pois=POIS, schema=SCHEMA)
    assert from_folder(path, Features(own_history=False, areas=0, context=False)).encoding.context == ()
    untimed = from_folder(path, PLAIN, timed=False).encoding.context
    assert [block.column for block in untimed] == ["distance from home", "rain", "company"]


def test_every_declared_column_is_planned_as_a_table_with_it_would_be():
    """Slow twin: the same declarations, and a table of people beside them."""
    city = small_city(people=20, places=15, records=60)
    schema = Schema(declared={f"users.{name}": city.declared[f"users.{name}"] for name in city.people.columns})
    assert plan_declared_encoding(city.places, schema, PLAIN) == plan_encoding(city, Popularity(), PLAIN)
    bare = replace(city.places, location=None)
    untimed = city.with_visits(replace(city.visits, time=None))
    assert plan_declared_encoding(bare, schema, PLAIN, timed=False) == plan_encoding(
        replace(untimed, places=bare), Popularity(), PLAIN
    )


@pytest.mark.parametrize(
    ("tables", "schema", "problem"),
    [
        ({"visits": "user,poi\nu,a\n"}, "", messages.NO_TABLE_OF_PLACES),
        ({"pois": "poi,lat,lon\na,1,2\na,1,2\n"}, "", messages.ID_TWICE),
        ({"pois": "poi,lat,lon\na,1,\n"}, "", messages.ONE_COORDINATE_MISSING),
        ({"pois": "poi,lat,lon\n" + "a,1,2\nb,,\n"}, "", messages.PLACES_WITHOUT_COORDINATES),
        ({"pois": POIS}, '[pois.prize]\nkind = "number"\n', messages.did_you_mean("price")),
        ({"pois": POIS}, '[people.age]\nkind = "number"\n', messages.no_such_table("people")),
    ],
)
def test_a_folder_that_cannot_be_published_is_refused_with_a_reason(tmp_path, tables, schema, problem):
    with pytest.raises(DataError, match=problem):
        from_folder(folder(tmp_path, schema=schema, **tables), PLAIN)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DataError, match=messages.PLACES_FOLDER_MISSING):
        from_folder(tmp_path / "nowhere", PLAIN)


def test_doubtful_tables_are_noted(tmp_path):
    rows = "".join(f"p{n},{n % 80},{n % 80},{n if n else 'free'}\n" for n in range(200)) + "lost,,,5\n"
    source = from_folder(folder(tmp_path, pois="poi,lat,lon,price\n" + rows), PLAIN)
    assert [note for note in source.notes if "1 POI without coordinates" in note]
    assert [note for note in source.notes if "column 'price': 1 of 201 cells" in note]


def test_the_public_half_comes_with_its_schema(tmp_path):
    path = folder(tmp_path, pois=POIS, schema=SCHEMA)
    assert read_public(path).schema == read_schema(path)
