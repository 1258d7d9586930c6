"""A partitioned folder is the data set that it was made of, and each part of it is prepared as the whole would be."""

from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest

from prirec.data.dataset import Category, Numbers, Tags
from prirec.data.folder import read_folder
from prirec.data.partition import partition_folder
from prirec.data.partitioned import read_partition, read_parts
from prirec.data.prepare import Recipe, train_and_test
from prirec.data.synthetic import CityPlan, make_city
from prirec.data.write_folder import write_folder
from prirec.errors import DataError, UsageError
from prirec.util.keyed_random import run_key
from support import messages
from support.cities import small_city, with_idle_people, with_moods, without_coordinates


def unlabelled(city):
    return replace(city.with_visits(city.visits.take(city.visits.label > 0)), labelled=False)


CITIES = {
    "a city": small_city,
    "people without records": lambda: with_idle_people(small_city()),
    "context columns": lambda: with_moods(small_city(), np.random.default_rng(1)),
    "no coordinates": lambda: without_coordinates(small_city()),
    "visits alone": lambda: unlabelled(small_city()),
}


def same_columns(a, b) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, Numbers):
        return np.array_equal(a.values, b.values, equal_nan=True)
    if isinstance(a, Category):
        return a.words == b.words and np.array_equal(a.codes, b.codes)
    assert isinstance(a, Tags)
    return a.words == b.words and np.array_equal(a.codes, b.codes) and np.array_equal(a.offsets, b.offsets)


def assert_same(a, b) -> None:
    assert a.people.ids == b.people.ids
    assert a.places.ids == b.places.ids
    assert (a.labelled, a.declared) == (b.labelled, b.declared)
    for one, other in ((a.people, b.people), (a.places, b.places)):
        assert (one.location is None) == (other.location is None)
        assert one.location is None or np.array_equal(one.location, other.location, equal_nan=True)
    for name in ("person", "place", "label", "time"):
        assert np.array_equal(getattr(a.visits, name), getattr(b.visits, name))
    for one, other in ((a.people.columns, b.people.columns), (a.places.columns, b.places.columns),
                       (a.visits.context, b.visits.context)):  # fmt: skip
        assert list(one) == list(other)
        assert all(same_columns(one[name], other[name]) for name in one)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("made", CITIES.values(), ids=CITIES)
def test_reading_all_parts_gives_the_data_set_back(made, kind, tmp_path):
    write_folder(made(), tmp_path / "city", table_format=kind)
    partition_folder(tmp_path / "city", tmp_path / "parts", parts=5)
    whole, back = read_folder(tmp_path / "city").dataset, read_folder(tmp_path / "parts").dataset
    assert_same(back, whole)
    assert back.partitioned
    assert not whole.partitioned


def test_visits_alone_without_any_other_table_are_partitioned_too(tmp_path):
    (tmp_path / "city").mkdir()
    rows = "\n".join(f"{n % 30},{n % 7},{'a|b' if n % 2 else 'c'},{n % 3}" for n in range(200))
    (tmp_path / "city" / "visits.csv").write_text(f"user,poi,mood,stars\n{rows}\n")
    partition_folder(tmp_path / "city", tmp_path / "parts", parts=4)
    assert_same(read_folder(tmp_path / "parts").dataset, read_folder(tmp_path / "city").dataset)


def test_visits_that_are_there_twice_are_counted_once(tmp_path):
    (tmp_path / "visits.csv").write_text("user,poi\nann,bar\nann,bar\nbob,bar\nbob,bar\n")
    found = partition_folder(tmp_path, tmp_path / "parts", parts=1)
    assert found.notes == read_folder(tmp_path).notes
    assert found.partition == read_partition(tmp_path / "parts")
    assert found.partition.records == len(read_folder(tmp_path / "parts").dataset.visits) == 2


def test_everyone_is_in_one_part_with_all_of_their_records_and_parts_are_even(tmp_path):
    city = make_city(CityPlan(people=2000, places=200, records=20_000), np.random.default_rng(0))
    write_folder(city, tmp_path / "city", table_format="parquet")
    made = partition_folder(tmp_path / "city", tmp_path / "parts", parts=8).partition
    assert made == read_partition(tmp_path / "parts")
    assert (made.people, made.records) == (2000, 20_000)
    parts = [read_parts(tmp_path / "parts", [part]).loaded.dataset for part in range(8)]
    assert sorted(name for part in parts for name in part.people.ids) == sorted(city.people.ids)
    assert [(len(part.people), len(part.visits)) for part in parts] == [(p.people, p.records) for p in made.parts]
    effort = [part.people + part.records for part in made.parts]
    assert max(effort) < 1.05 * min(effort)
    spread = [np.ptp(part.people.location, axis=0).prod() for part in parts]
    assert np.median(spread) < 0.5 * np.ptp(city.people.location, axis=0).prod()  # regions


# Parts are prepared as the whole is

RECIPES = {
    "by record": Recipe(),
    "by time": Recipe(split="time"),
    "by moment": Recipe(split="moment"),
    "three nearby negatives": Recipe(negatives="nearby", ratio=3, pool=10),
    "by time, nearby": Recipe(split="time", negatives="nearby"),
}


def records(visits, ids):
    columns = (visits.place.tolist(), visits.label.tolist(), visits.time.tolist())
    return sorted(zip([ids[person] for person in visits.person], *columns, strict=True))


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
@pytest.mark.parametrize("labelled", [True, False])
def test_parts_are_split_and_given_negatives_as_the_whole_is(recipe, labelled, tmp_path):
    city = small_city() if labelled else unlabelled(small_city())
    write_folder(city, tmp_path / "city")
    partition_folder(tmp_path / "city", tmp_path / "parts", parts=3)
    key = partial(run_key, 7)
    whole = read_folder(tmp_path / "parts").dataset
    parts = [read_parts(tmp_path / "parts", [part]).loaded.dataset for part in range(3)]
    wanted, found = train_and_test(whole, recipe, key), [train_and_test(part, recipe, key) for part in parts]
    for side in ("train", "test"):
        apart = [row for made, part in zip(found, parts, strict=True)
                 for row in records(getattr(made, side), part.people.ids)]  # fmt: skip
        assert sorted(apart) == records(getattr(wanted, side), whole.people.ids)
    assert sum(made.left_out for made in found) == wanted.left_out


def test_thinning_is_each_persons_own(tmp_path):
    write_folder(small_city(), tmp_path / "city")
    partition_folder(tmp_path / "city", tmp_path / "parts", parts=2)
    recipe, key = Recipe(thin=1), partial(run_key, 0)
    whole = train_and_test(read_folder(tmp_path / "parts").dataset, recipe, key)
    parts = [train_and_test(read_parts(tmp_path / "parts", [part]).loaded.dataset, recipe, key) for part in range(2)]
    assert sum(len(part.train) for part in parts) == len(whole.train) < 0.8 * len(small_city().visits)


@pytest.mark.statistical  # false alarm 1e-9 (six standard deviations of a binomial); must notice a share off by 0.02
def test_a_record_is_for_training_with_the_stated_chance():
    city = make_city(CityPlan(people=5000, places=300, records=100_000), np.random.default_rng(0))
    made = train_and_test(replace(city, partitioned=True), Recipe(train_share=0.8), partial(run_key, 3))
    deviation = 6 * np.sqrt(0.8 * 0.2 / 100_000)
    share = len(made.train) / 100_000
    assert abs(share - 0.8) < deviation < 0.02


def test_training_negatives_avoid_what_is_trained_on_and_know_nothing_of_the_test():
    city = unlabelled(small_city(people=60, places=30, records=900))
    recipe, key = Recipe(), partial(run_key, 1)
    made = train_and_test(replace(city, partitioned=True), recipe, key)
    known = {(p, j) for p, j, y in zip(made.train.person, made.train.place, made.train.label, strict=True) if y > 0}
    drawn = {(p, j) for p, j, y in zip(made.train.person, made.train.place, made.train.label, strict=True) if y < 0}
    tested = {(p, j) for p, j, y in zip(made.test.person, made.test.place, made.test.label, strict=True) if y > 0}
    assert drawn
    assert not drawn & known
    assert drawn & tested  # nothing keeps a training negative from a place of the test


# Refusals


def test_a_target_that_is_occupied_is_refused(tmp_path):
    write_folder(small_city(), tmp_path / "city")
    with pytest.raises(UsageError, match=messages.FOLDER_NOT_EMPTY):
        partition_folder(tmp_path / "city", tmp_path / "city", parts=2)


def test_visits_of_people_who_are_not_listed_are_refused_and_nothing_is_left_behind(tmp_path):
    (tmp_path / "city").mkdir()
    (tmp_path / "city" / "visits.csv").write_text("user,poi\na,x\nb,y\n")
    (tmp_path / "city" / "users.csv").write_text("user\na\n")
    with pytest.raises(DataError, match=messages.in_column("user", messages.ID_UNKNOWN, file="visits.csv", line=3)):
        partition_folder(tmp_path / "city", tmp_path / "parts", parts=2)
    assert [path.name for path in tmp_path.iterdir()] == ["city"]


def test_a_damaged_manifest_is_refused(tmp_path):
    write_folder(small_city(), tmp_path / "city")
    partition_folder(tmp_path / "city", tmp_path / "parts", parts=2)
    for text in (b"{}", b'{"version": 1, "parts": "\xe9"}', b'{"\xe9": 1}', b'{"more": ' + 100_000 * b"["):
        (tmp_path / "parts" / "partition.json").write_bytes(text)
        with pytest.raises(DataError, match=messages.PARTITION_DAMAGED):
            read_folder(tmp_path / "parts")


@pytest.mark.parametrize("column", ["part", "__row"])
def test_a_column_whose_name_the_parts_need_is_refused(column, tmp_path):
    city = tmp_path / "city"
    write_folder(small_city(), city, table_format="csv")
    lines = (city / "visits.csv").read_text().splitlines()
    (city / "visits.csv").write_text("\n".join([f"{lines[0]},{column}", *(f"{line},1" for line in lines[1:])]))
    with pytest.raises(DataError, match=messages.COLUMN_NAME_RESERVED_FOR_PARTS):
        partition_folder(city, tmp_path / "parts", parts=3)
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda lines: lines[:1], messages.TABLE_WITHOUT_VISITS),
        (lambda lines: [*lines, lines[-1] + ",too,many,cells"], messages.ROW_TOO_LONG),
    ],
    ids=["no rows", "a row that is too long"],
)
def test_tables_that_cannot_be_cut_are_refused_in_words(spoil, words, tmp_path):
    city = tmp_path / "city"
    write_folder(small_city(), city, table_format="csv")
    lines = (city / "visits.csv").read_text().splitlines()
    (city / "visits.csv").write_text("\n".join(spoil(lines)))
    with pytest.raises(DataError, match=words):
        partition_folder(city, tmp_path / "parts", parts=3)
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(("table", "axis"), [("pois", "lat"), ("pois", "lon"), ("users", "lat")])
def test_a_coordinate_that_is_no_number_is_blamed_on_its_own_file(table, axis, kind, tmp_path):
    city = tmp_path / "city"
    write_folder(small_city(), city, table_format=kind)
    file = city / f"{table}.{kind}"
    cells = pl.read_parquet(file) if kind == "parquet" else pl.read_csv(file, infer_schema=False)
    words = cells[axis].cast(pl.String).to_list()
    spoilt = cells.with_columns(pl.Series(axis, ["up north" if row == 4 else word for row, word in enumerate(words)]))
    spoilt.write_parquet(file) if kind == "parquet" else spoilt.write_csv(file)
    with pytest.raises(DataError) as refused:
        partition_folder(city, tmp_path / "parts", parts=3)
    said = str(refused.value)
    assert f"{table}.{kind}" in said
    assert f"column '{axis}'" in said
    assert "north" not in said
    assert kind == "parquet" or "line 6" in said
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize("table", ["pois", "users"])
def test_the_line_is_right_behind_a_blank_one(table, tmp_path):
    city = tmp_path / "city"
    write_folder(small_city(), city, table_format="csv")
    file = city / f"{table}.csv"
    lines = [line.split(",") for line in file.read_text().splitlines()]
    lines.insert(2, [""] * len(lines[0]))
    lines[6][lines[0].index("lon")] = "east"
    file.write_text("\n".join(",".join(line) for line in lines) + "\n")
    for read in (read_folder, partial(partition_folder, target=tmp_path / "parts", parts=3)):
        with pytest.raises(DataError, match=messages.in_column("lon", line=7)):
            read(city)


AGE = "[users.age]\nlow = 0\nhigh = 99\n"
BAD = {
    "label": {"visits": "user,poi,label\nann,bar,1\n\nbob,bar,7\n"},
    "time": {"visits": "user,poi,time\nann,bar,1\nbob,bar,soon\n"},
    "milliseconds": {"visits": "user,poi,time\nann,bar,1\nbob,bar,1333476006000\n"},
    "number": {"visits": "user,poi,spent\nann,bar,1\nbob,bar,inf\n"},
    "empty id": {"visits": "user,poi\nann,bar\n\nbob,\n"},
    "unlisted place": {"visits": "user,poi\nann,bar\nbob,inn\n", "pois": "poi\nbar\n"},
    "unlisted person": {"visits": "user,poi\nann,bar\nbob,bar\n", "users": "user\nann\n"},
    "person twice": {"visits": "user,poi\nann,bar\n", "users": "user\nann\nbob\nann\n"},
    "place twice": {"visits": "user,poi\nann,bar\n", "pois": "poi\nbar\ninn\nbar\n"},
    "latitude": {"visits": "user,poi\nann,bar\n", "pois": "poi,lat,lon\nbar,1,2\ninn,91,2\n"},
    "half a home": {"visits": "user,poi\nann,bar\n", "users": "user,lat,lon\nann,1,2\nbob,1,\n"},
    "degrees": {"visits": "user,poi\nann,bar\n", "users": "user,lat,lon\nann,true,2\n"},
    "lat alone": {"visits": "user,poi\nann,bar\n", "users": "user,lat\nann,1\n"},
    "no coordinates": {"visits": "user,poi\nann,bar\n", "pois": "poi,lat,lon\nbar,1,2\ninn,,\n"},
    "coordinates of visits": {"visits": "user,poi,lat,lon\nann,bar,1,2\n"},
    "age": {"visits": "user,poi\nann,bar\n", "users": "user,age\nann,30\nbob,900\n", "schema": AGE},
    "declared words": {"visits": "user,poi,mood\nann,bar,a\nbob,bar,b\n", "schema": "[visits.mood]\nvalues=['a']\n"},
    "declared range": {"visits": "user,poi,mood\nann,bar,5\nbob,bar,b\n", "schema": "[visits.mood]\nlow=0\nhigh=9\n"},
    "no such column": {"visits": "user,poi\nann,bar\n", "schema": "[visits.mood]\nkind='number'\n"},
    "no such table": {"visits": "user,poi\nann,bar\n", "schema": "[users.mood]\nkind='number'\n"},
    "a second user": {"visits": "user,poi,user_id\nann,bar,1\n"},
    "no user": {"visits": "usr,poi\nann,bar\n"},
    "too many cells": {"visits": "user,poi\nann,bar\nbob,bar,1\n"},
    "open quote": {"visits": 'user,poi\nann,bar\nbob,"bar\n'},
    "not UTF-8": {"visits": b"user,poi\nann,bar\nbob,caf\xe9\n"},
    "too few cells": {"visits": "user,poi\nann,bar\n", "pois": "poi,lat,lon\nbar,1,2\ninn,3\n"},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_partition_refuses_what_a_reader_refuses_in_the_same_words(name, tmp_path):
    city = tmp_path / "city"
    city.mkdir()
    for table, text in BAD[name].items():
        file = city / ("schema.toml" if table == "schema" else f"{table}.csv")
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    refused = []
    for read in (read_folder, partial(partition_folder, target=tmp_path / "parts", parts=2)):
        with pytest.raises(DataError) as refusal:
            read(city)
        refused.append(str(refusal.value))
    assert refused[0] == refused[1]
    assert not (tmp_path / "parts").exists()


@pytest.mark.parametrize("name", BAD)
def test_a_partition_skips_what_a_reader_skips_with_the_same_notes(name, tmp_path):
    city = tmp_path / "city"
    city.mkdir()
    for table, text in BAD[name].items():
        file = city / ("schema.toml" if table == "schema" else f"{table}.csv")
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    said = []
    for read in (read_folder, partial(partition_folder, target=tmp_path / "parts", parts=2)):
        try:
            said.append(sorted(read(city, skip_bad=True).notes))
        except DataError as refusal:
            said.append(str(refusal))
    assert said[0] == said[1]
    if isinstance(said[0], list):
        assert_same(read_folder(tmp_path / "parts").dataset, read_folder(city, skip_bad=True).dataset)
