"""prirec data describe: Table 2, and what is wrong with a data folder."""

import json
import re

import pytest

from prirec.config import apply, load
from prirec.data.folder import read_folder
from prirec.simulate.setup import set_up
from support import messages
from support.shell import call, make_city_by_command, says


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return make_city_by_command(tmp_path_factory.mktemp("made") / "city")


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
    assert told["features"] == len(set_up(read_folder(city).dataset, load()).encoding.names())


def test_describe_follows_settings_as_training_does(city, tmp_path):
    (tmp_path / "mine.toml").write_text("[data]\nat_least = 7\n[features]\ncontext = false\ndynamic = false\n")
    for flags, changes in (
        (("--set", "data.at_least=6"), {"data": {"at_least": 6}}),
        (("--set", "features.words=5"), {"features": {"words": 5}}),
        (
            ("--settings", tmp_path / "mine.toml"),
            {"data": {"at_least": 7}, "features": {"context": False, "dynamic": False}},
        ),
    ):
        told = json.loads(call("data", "describe", city, "--json", *flags).stdout)
        made = set_up(read_folder(city).dataset, apply(load(), changes))
        kept = made.prepared.dataset
        assert (told["people"], told["places"], told["records"]) == (
            len(kept.people), len(kept.places), len(kept.visits),
        )  # fmt: skip
        assert told["features"] == len(made.encoding.names())


@pytest.mark.parametrize(
    "name", ["model.dimension=3", "seed=3", "data.split=time", "iterations=2", "privacy.quality=1"]
)
def test_describe_refuses_settings_that_it_does_not_read(city, name):
    found = call("data", "describe", city, "--set", name)
    assert found.exit_code == 2
    assert says(found.stderr, messages.makes_no_difference(name.partition("=")[0]))


def test_describe_refuses_a_filter_that_is_given_twice(city):
    found = call("data", "describe", city, "--filter", "none", "--set", "data.keep=paper")
    assert found.exit_code == 2
    assert says(found.stderr, messages.setting_given_twice("data.keep"))
    assert json.loads(call("data", "describe", city, "--set", "data.keep=all", "--json").stdout)["filter"] == "none"


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
    assert any("data.keep = 'all'" in text for text in told["notes"]) == (keep == "paper")
    assert call("data", "describe", tmp_path, "--filter", keep).exit_code == 0


BAD = {
    "missing column": ("user,whereabouts\na,b\n", messages.in_column("poi", messages.NO_SUCH_COLUMN)),
    "bad label": ("user,poi,label\na,b,7\n", messages.in_column("label", line=2)),
    "not a time": ("user,poi,time\na,b,yesterday\n", messages.in_column("time", line=2)),
    "infinite context": ("user,poi,spent\na,b,inf\n", messages.in_column("spent")),
    "empty file": ("", messages.TABLE_EMPTY),
    "no rows": ("user,poi\n", messages.TABLE_OF_NO_ROWS),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_visits_are_a_data_error_that_names_the_place_and_no_value(name, tmp_path):
    text, message = BAD[name]
    (tmp_path / "visits.csv").write_text(text)
    found = call("data", "describe", tmp_path)
    assert found.exit_code == 3
    assert says(found.stderr, message)
    assert "yesterday" not in found.stderr


def test_swapped_coordinates_are_a_data_error(tmp_path):
    (tmp_path / "visits.csv").write_text("user,poi\na,b\n")
    (tmp_path / "pois.csv").write_text("poi,lat,lon\nb,139.7,35.6\n")
    found = call("data", "describe", tmp_path)
    assert found.exit_code == 3
    assert says(found.stderr, messages.joined(messages.in_column("lat"), messages.LATITUDE_OUT_OF_RANGE))


def test_repeated_visits_are_counted_or_refused_when_strict(tmp_path):
    rows = [f"u{user},p{place}" for user in range(20) for place in range(4)]
    (tmp_path / "visits.csv").write_text("\n".join(["user,poi", *rows, rows[0]]) + "\n")
    told = json.loads(call("data", "describe", tmp_path, "--json").stdout)["notes"]
    assert any("1 duplicate visit" in text for text in told)
    assert call("data", "describe", tmp_path, "--strict").exit_code == 3


def test_one_of_a_thing_is_not_several(tmp_path):
    one = tmp_path / "one"
    printed = [
        call("data", "make", one, "--people", 1, "--places", 1, "--records", 1, "--districts", 1, "--categories", 1),
        call("data", "describe", one, "--filter", "none"),
        call("data", "check", one),
        call("data", "partition", one, tmp_path / "parts", "--parts", 1),
    ]
    assert [found.exit_code for found in printed] == [0, 0, 0, 0]
    for found in printed:
        assert not re.search(r"\b1 (people|\w+s)\b", found.output), found.output
    assert "wrote 1 person, 1 place and 1 record to" in printed[0].stdout
