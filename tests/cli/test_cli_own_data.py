"""A newcomer's own data by the commands: checked, described with bad rows left out, trained on, recommended from."""

import json

import numpy as np
import pytest

import prirec
from prirec.data.synthetic import CityPlan, make_city
from support import messages
from support.full_disk import largest_file
from support.shell import call, flat, says

FM = ("--preset", "fm", "--iterations", "1", "--set", "data.keep=all")


def own_folder(path, *, homes=True):
    """Tables as other programs write them: their own names for ids, times and coordinates, and a few bad rows."""
    made = make_city(CityPlan(people=60, places=30, records=900), np.random.default_rng(1))
    path.mkdir()
    places, people, visits = made.places, made.people, made.visits
    pois = [
        f"{name},{lat:.5f},{lon:.5f},Chez {name}" for name, (lat, lon) in zip(places.ids, places.location, strict=True)
    ]
    users = [f"{name},{lat:.5f},{lon:.5f}" for name, (lat, lon) in zip(people.ids, people.location, strict=True)]
    rows = [
        f"{people.ids[i]},{places.ids[j]},{t},{max(y, 0)}"
        for i, j, t, y in zip(visits.person, visits.place, visits.time, visits.label, strict=True)
    ]
    rows[3:3] = ["nobody,nowhere,soon,1"]
    write(path / "pois.csv", "venue_id,latitude,lng,title", pois)
    write(path / "visits.csv", "user_id,venue_id,timestamp,clicked", rows)
    if homes:
        write(path / "users.csv", "user_id,latitude,longitude", users)
    return path


def write(file, header, rows):
    file.write_text("\n".join([header, *rows]) + "\n")


def test_check_lists_problems_with_the_code_of_bad_data(tmp_path):
    city = own_folder(tmp_path / "city")
    found = call("data", "check", city)
    assert found.exit_code == 3
    assert "1 problem, 4 doubts" in flat(found.stdout)
    assert "visits.csv, line 5" in flat(found.stdout)
    assert '[visits.user_id]\nkind = "user"' in found.stdout
    answer = json.loads(call("data", "check", city, "--json").stdout)
    assert [one["rows"] for one in answer["problems"]] == [1]
    assert set(answer) == {"problems", "doubts", "schema"}


def test_a_schema_that_does_not_fit_on_the_disk_is_not_there(tmp_path):
    city = own_folder(tmp_path / "city")
    with largest_file(16):
        found = call("data", "check", city, "--skip-bad", "--write-schema")
    assert found.exit_code == 5
    assert sorted(file.name for file in city.iterdir()) == ["pois.csv", "users.csv", "visits.csv"]


def test_check_writes_the_schema_once_and_is_content_without_bad_rows(tmp_path):
    city = own_folder(tmp_path / "city")
    found = call("data", "check", city, "--skip-bad", "--write-schema")
    assert found.exit_code == 0
    assert f"wrote {city / 'schema.toml'}" in flat(found.stdout).replace("schema. toml", "schema.toml")
    assert '[pois.title]\nkind = "name"' in (city / "schema.toml").read_text()
    found = call("data", "check", city, "--skip-bad", "--write-schema")
    assert (found.exit_code, "proposed" in found.stdout, "wrote" in found.stdout) == (0, False, False)


def test_a_missing_folder_and_a_file_are_errors_of_data(tmp_path):
    assert call("data", "check", tmp_path / "nowhere").exit_code == 3
    (tmp_path / "visits.csv").write_text("user,poi\na,b\n")
    for words in (("data", "check"), ("data", "describe"), ("train", "--out", tmp_path / "run")):
        found = call(*words, tmp_path / "visits.csv")
        assert found.exit_code == 3
        assert says(found.stderr, messages.FILE_FOR_A_FOLDER)


@pytest.mark.parametrize("homes", [True, False])
def test_bad_rows_are_left_out_by_every_command_that_reads_data(tmp_path, homes):
    city, run = own_folder(tmp_path / "city", homes=homes), tmp_path / "run"
    assert call("data", "describe", city).exit_code == 3
    told = json.loads(call("data", "describe", city, "--skip-bad", "--filter", "none", "--json").stdout)
    assert told["records"] == 900
    assert any("1 row left out" in note for note in told["notes"])
    assert call("train", city, "--out", run, *FM).exit_code == 3
    trained = call("train", city, "--out", run, *FM, "--skip-bad")
    assert (trained.exit_code, "--person ID --skip-bad" in flat(trained.stdout)) == (0, True)
    assert call("evaluate", run, city).exit_code == 3
    assert call("evaluate", run, city, "--skip-bad").exit_code == 0
    someone = prirec.load(run, prirec.read_folder(city, skip_bad=True)).typical_person
    found = call("recommend", run, city, "--person", someone, "--skip-bad", columns=200)
    assert found.exit_code == 0
    assert "Chez p" in found.stdout
    # a home that nobody has given is not called one
    assert ("km: from home" in found.stdout) == homes
    assert ("km: from the middle of the visits" in found.stdout) != homes


def test_no_distance_is_announced_where_there_are_no_coordinates(tmp_path):
    city = prirec.City([{"user": f"u{n % 20}", "poi": f"p{n % 7}", "mood": n % 3} for n in range(200)])
    fit = prirec.fit(city, prirec.settings("fm", iterations=1, data={"keep": "all"}))
    found = fit.recommend("u1")
    assert found.distance_from is None
    assert " km" not in repr(found)
