"""prirec data: make, import, describe."""

import inspect
import json

import pytest

from prirec.cli.data_make import make
from prirec.data.city import CityPlan
from prirec.data.folder import read_folder
from prirec.data.published import FORMATS
from prirec.evaluate.experiment import set_up
from prirec.settings import Settings
from support.shell import call


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "city"
    found = call("data", "make", folder, "--people", 150, "--places", 40, "--records", 3000, "--seed", 3)
    assert found.exit_code == 0
    return folder


def test_make_has_the_sizes_of_a_city_plan_by_default():
    defaults = {name: p.default for name, p in inspect.signature(make).parameters.items() if name != "target"}
    plan = CityPlan()
    assert all(defaults[name] == getattr(plan, name) for name in defaults if hasattr(plan, name))


def test_a_made_city_has_the_sizes_that_were_asked_for(city):
    dataset = read_folder(city).dataset
    assert (len(dataset.people), len(dataset.places), len(dataset.visits)) == (150, 40, 3000)


def test_the_same_seed_makes_the_same_files_and_another_seed_others(city, tmp_path):
    for name, seed in (("same", 3), ("other", 4)):
        call("data", "make", tmp_path / name, "--people", 150, "--places", 40, "--records", 3000, "--seed", seed)
    visits = (city / "visits.csv").read_bytes()
    assert (tmp_path / "same" / "visits.csv").read_bytes() == visits
    assert (tmp_path / "other" / "visits.csv").read_bytes() != visits


def test_parquet_is_written_when_asked_for(tmp_path):
    call("data", "make", tmp_path / "p", "--people", 50, "--places", 20, "--records", 200, "--format", "parquet")
    assert {file.suffix for file in (tmp_path / "p").glob("*s.*")} == {".parquet"}


def test_nothing_is_written_over_what_is_there(city):
    before = {file: file.read_bytes() for file in city.iterdir()}
    found = call("data", "make", city)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "not empty" in found.stderr
    assert {file: file.read_bytes() for file in city.iterdir()} == before


def test_a_plan_that_cannot_be_built_is_a_usage_error(tmp_path):
    assert call("data", "make", tmp_path / "x", "--people", 100, "--records", 10).exit_code == 2
    assert call("data", "make", tmp_path / "x", "--people", 0).exit_code == 2
    assert not (tmp_path / "x").exists()


def test_the_list_of_formats_names_each_and_its_files():
    found = call("data", "import", "--list")
    assert found.exit_code == 0
    assert all(known.name in found.stdout and known.files[0] in found.stdout for known in FORMATS.values())


def test_a_published_data_set_becomes_a_data_folder(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    rows = [
        f"{user}\t2010-10-19T23:55:{user:02d}Z\t30.{place}\t-97.7\t{place}" for user in range(9) for place in (1, 2)
    ]
    (source / "loc-gowalla_totalCheckins.txt").write_text("\n".join(rows) + "\n")
    (source / "loc-gowalla_edges.txt").write_text("0\t1\n1\t0\n")
    found = call("data", "import", "gowalla", source, target)
    assert (found.exit_code, found.stderr) == (0, "")
    assert f"wrote 9 people, 2 places and 18 records to {target}" in found.stdout
    assert len(read_folder(target).dataset.visits) == 18


@pytest.mark.parametrize(("name", "code"), [("gowala", 2), ("gowalla", 3)])
def test_an_unknown_format_and_a_missing_source_are_refused(name, code, tmp_path):
    found = call("data", "import", name, tmp_path / "nothing", tmp_path / "target")
    assert found.exit_code == code
    assert "gowalla" in found.stderr
    assert not (tmp_path / "target").exists()


def test_describe_prints_table_2_and_no_ids(city):
    found = call("data", "describe", city)
    assert found.exit_code == 0
    assert all(name in found.stdout for name in ("#user", "#item", "#interaction", "#feature"))
    assert not any(person in found.stdout for person in read_folder(city).dataset.people.ids)


def test_describe_lists_ids_only_when_asked(city):
    assert "people: u001, u002\n" in call("data", "describe", city, "--filter", "none", "--people", 2).stdout


def test_describe_speaks_json_and_counts_after_the_filter(city):
    raw, kept = (json.loads(call("data", "describe", city, "--json", "--filter", f).stdout) for f in ("none", "paper"))
    assert (raw["people"], raw["places"], raw["records"]) == (150, 40, 3000)
    assert kept["people"] < 150
    assert kept["features"] > 40
    assert any("filter kept" in text for text in kept["notes"])
    assert "people_ids" not in kept


def test_describe_counts_the_features_that_training_would_have(city):
    told = json.loads(call("data", "describe", city, "--json").stdout)
    assert told["features"] == len(set_up(read_folder(city).dataset, Settings()).encoding.names())


def test_describe_lets_no_id_move_the_cursor(tmp_path):
    (tmp_path / "visits.csv").write_text("user,poi\na\x1b[2Jb,p\n")
    found = call("data", "describe", tmp_path, "--filter", "none", "--people", 1)
    assert "people: a [2Jb\n" in found.stdout
    assert "\x1b" not in found.stdout


@pytest.mark.parametrize("header", ["user,poi", "user,poi,time", "user,poi,label"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("keep", ["none", "paper"])
def test_describe_takes_data_too_few_to_split(tmp_path, header, rows, keep):
    extra = ",1" if header.count(",") == 2 else ""
    (tmp_path / "visits.csv").write_text("\n".join([header, *[f"u,p{n}{extra}" for n in range(rows)]]) + "\n")
    found = call("data", "describe", tmp_path, "--json", "--filter", keep)
    assert found.exit_code == 0
    told = json.loads(found.stdout)
    assert told["records"] == (rows if keep == "none" else 0)
    assert any("--filter none" in text for text in told["notes"]) == (keep == "paper")
    assert call("data", "describe", tmp_path, "--filter", keep).exit_code == 0


BAD = {
    "missing column": ("user,place\na,b\n", "column 'poi'"),
    "bad label": ("user,poi,label\na,b,7\n", "line 2, column 'label'"),
    "not a time": ("user,poi,time\na,b,yesterday\n", "line 2, column 'time'"),
    "infinite context": ("user,poi,spent\na,b,inf\n", "column 'spent'"),
    "empty file": ("", "visits.csv"),
    "no rows": ("user,poi\n", "holds no rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_visits_are_a_data_error_that_names_the_place_and_no_value(name, tmp_path):
    text, words = BAD[name]
    (tmp_path / "visits.csv").write_text(text)
    found = call("data", "describe", tmp_path)
    assert found.exit_code == 3
    assert words in found.stderr
    assert "yesterday" not in found.stderr


def test_swapped_coordinates_are_a_data_error(tmp_path):
    (tmp_path / "visits.csv").write_text("user,poi\na,b\n")
    (tmp_path / "pois.csv").write_text("poi,lat,lon\nb,139.7,35.6\n")
    found = call("data", "describe", tmp_path)
    assert found.exit_code == 3
    assert "column 'lat'" in found.stderr


def test_repeated_visits_are_counted_or_refused_when_strict(tmp_path):
    rows = [f"u{user},p{place}" for user in range(20) for place in range(4)]
    (tmp_path / "visits.csv").write_text("\n".join(["user,poi", *rows, rows[0]]) + "\n")
    told = json.loads(call("data", "describe", tmp_path, "--json").stdout)["notes"]
    assert any("1 duplicate visit" in text for text in told)
    assert call("data", "describe", tmp_path, "--strict").exit_code == 3
