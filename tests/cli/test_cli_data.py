"""prirec data: make, import."""

import inspect
import json

import numpy as np
import pytest

from prirec.cli.data import make
from prirec.data.folder import read_folder
from prirec.data.published import FORMATS
from prirec.data.synthetic import TOKYO, CityPlan
from support import messages
from support.full_disk import largest_file
from support.shell import call, make_city_by_command, says


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return make_city_by_command(tmp_path_factory.mktemp("made") / "city")


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


def test_a_city_is_made_where_and_as_large_as_was_asked(tmp_path):
    flags = ("--days", 7, "--span-km", 4, "--centre", "-33.87,151.21", "--ignored-per-click", 1)
    assert call("data", "make", tmp_path / "x", "--people", 300, "--records", 3000, *flags).exit_code == 0
    dataset = read_folder(tmp_path / "x").dataset
    assert np.abs(dataset.places.location - (-33.87, 151.21)).max() < 0.03
    assert int(np.ptp(dataset.visits.time)) < 7 * 86_400
    assert 0.4 < np.mean(dataset.visits.label > 0) < 0.6


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("--days", 49_711, messages.days_at_most(49_710)),
        ("--days", 0, messages.is_at_least("--days", 1)),
        ("--span-km", 501, messages.size_of_a_city(0.1, 500)),
        ("--centre", "Sydney", messages.takes_a_point("--centre")),
        ("--centre", "85,0", messages.size_of_a_city(-80, 80)),
        ("--ignored-per-click", 0, messages.size_of_a_city(0.01, 1000)),
    ],
)
def test_an_impossible_city_is_a_usage_error_with_the_limit(flag, value, message, tmp_path):
    found = call("data", "make", tmp_path / "x", flag, value)
    assert found.exit_code == 2
    assert says(found.stderr, message)
    assert not (tmp_path / "x").exists()


def test_a_made_city_is_in_tokyo_by_default(city):
    assert np.abs(read_folder(city).dataset.places.location - TOKYO).max() < 0.2


def test_making_a_city_speaks_json_alone(tmp_path):
    found = call("data", "make", tmp_path / "x", "--people", 50, "--places", 20, "--records", 200, "--json")
    expected = {"people": 50, "places": 20, "records": 200, "seed": 0, "target": str(tmp_path / "x")}
    assert json.loads(found.stdout) == expected
    assert (tmp_path / "x" / "visits.csv").is_file()


def test_parquet_is_written_when_asked_for(tmp_path):
    call("data", "make", tmp_path / "p", "--people", 50, "--places", 20, "--records", 200, "--format", "parquet")
    assert {file.suffix for file in (tmp_path / "p").glob("*s.*")} == {".parquet"}


def test_a_folder_that_is_not_empty_is_not_overwritten(city):
    before = {file: file.read_bytes() for file in city.iterdir()}
    found = call("data", "make", city)
    assert (found.exit_code, found.stdout) == (2, "")
    assert says(found.stderr, messages.FOLDER_NOT_EMPTY)
    assert {file: file.read_bytes() for file in city.iterdir()} == before


@pytest.mark.parametrize("table_format", ["csv", "parquet"])
def test_a_full_disk_has_the_code_of_state(city, tmp_path, table_format):
    with largest_file(2_000):
        made = call("data", "make", tmp_path / "x", "--people", 50, "--records", 2000, "--format", table_format)
        cut = call("data", "partition", city, tmp_path / "y")
    for found in (made, cut):
        assert (found.exit_code, found.stdout) == (5, "")
        assert says(found.stderr, messages.DISK_FULL)
    assert list(tmp_path.iterdir()) == []


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


def test_an_import_in_json_lists_what_was_left_out(tmp_path):
    (tmp_path / "visits.csv").write_text("user,poi\n2,6\n10,6\n")
    (tmp_path / "users.csv").write_text("user,friend_count\n1,14\n2,27\n10,3\n")
    found = call("data", "import", "foursquare-tokyo", tmp_path, tmp_path / "new", "--json")
    assert found.stderr == ""
    assert json.loads(found.stdout) == {
        "format": "foursquare-tokyo",
        "people": 2,
        "places": 1,
        "records": 2,
        "notes": ["users.csv: 1 user without a visit left out"],
        "target": str(tmp_path / "new"),
    }


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("gowala", 2, messages.did_you_mean("gowalla")),
        ("gowalla", 3, messages.published_folder_needs("loc-gowalla_totalCheckins.txt")),
    ],
)
def test_an_unknown_format_and_a_missing_source_are_refused(name, code, message, tmp_path):
    found = call("data", "import", name, tmp_path / "nothing", tmp_path / "target")
    assert found.exit_code == code
    assert says(found.stderr, message)
    assert not (tmp_path / "target").exists()
