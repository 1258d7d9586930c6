"""What a newcomer tries: slips that are told in plain words, and answers that say what they are not."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from prirec.cli.output import program
from prirec.cli.recommend import show_suggestions
from prirec.data.folder import read_folder
from prirec.protocols.prediction import Suggestion
from prirec.protocols.reasons import Reason
from prirec.simulate.setup import KNOWING_NOTHING
from prirec.util.geography import haversine_km
from support import messages, shell

SCRIPT = Path(sys.executable).with_name("prirec")
call = partial(shell.call, columns=200)


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return shell.write_city(tmp_path_factory.mktemp("newcomer") / "city")


@pytest.fixture(scope="module")
def run(city):
    assert call("train", city, "--out", city.parent / "run", "--preset", "rounds", "--iterations", 12).exit_code == 0
    return city.parent / "run"


@pytest.fixture(scope="module")
def someone(city):
    return read_folder(city).dataset.people.ids[7]


@pytest.mark.parametrize("out", [".", "", "/", "./"])
def test_a_run_folder_without_a_name_is_refused_before_anything_is_read(tmp_path, out):
    found = call("train", tmp_path / "no such data", "--out", out, "--settings", tmp_path / "no such file")
    assert (found.exit_code, found.stdout) == (2, "")
    assert shell.says(found.stderr, messages.OUT_WITHOUT_A_NAME)


def near_place(city, row=4):
    lat, lon = read_folder(city).dataset.places.location[row]
    return f"{lat},{lon}"


def test_places_beyond_the_radius_are_announced_with_how_few_are_within(run, city, someone):
    dataset = read_folder(city).dataset
    here = dataset.places.location[4]
    nearest = np.sort(haversine_km(here, dataset.places.location))
    words = ("recommend", run, city, "--person", someone, "--near", near_place(city), "-k", 80)
    radius = f"{nearest[9]:.3f}"
    answer = json.loads(call(*words, "--radius-km", radius, "--json").stdout)
    within = sum(place["distance_km"] <= float(radius) for place in answer["places"])
    assert 1 < within < len(answer["places"])  # k is the whole catalogue: every new place is in the answer
    message = messages.joined(messages.new_places_within(within), messages.nearest_beyond_are_shown(float(radius)))
    assert any(shell.says(note, message) for note in answer["notes"])
    assert shell.says(call(*words, "--radius-km", radius).stderr, message)


def test_nothing_is_announced_when_all_lie_within_the_radius(run, city, someone):
    words = ("recommend", run, city, "--person", someone, "--near", near_place(city), "-k", 3, "--radius-km", 1000)
    answer = json.loads(call(*words, "--json").stdout)
    assert (len(answer["places"]), answer["notes"]) == (3, [])


def test_a_radius_without_any_new_place_is_announced_from_home_too(run, city, someone):
    answer = json.loads(call("recommend", run, city, "--person", someone, "--radius-km", 0, "--json").stdout)
    message = messages.joined(messages.NO_NEW_PLACE, messages.nearest_beyond_are_shown(0))
    assert any(shell.says(note, message) for note in answer["notes"])


def test_a_point_far_from_every_place_is_refused_and_not_repeated(run, city, someone):
    words = ("recommend", run, city, "--person", someone, "--near", "-41.2875,12.625")
    found = call(*words)
    assert (found.exit_code, found.stdout) == (2, "")
    assert shell.says(found.stderr, messages.no_place_within(100))
    assert "41.2875" not in found.stderr
    assert "12.625" not in found.stderr
    assert call(*words, "--radius-km", 20000).exit_code == 0  # who asks for so wide a circle means it


def unlabelled(folder, *, timed):
    """Visits to random places: nothing can be learnt but how many records a person has."""
    rng = np.random.default_rng(0)
    rows = [
        f"u{u},p{p}" + (f",2024-01-{1 + at % 28:02d}T10:00:00" if timed else "")
        for u in range(200)
        for at, p in enumerate(rng.choice(40, size=8, replace=False))
    ]
    folder.mkdir()
    (folder / "visits.csv").write_text("\n".join(["user,poi,time" if timed else "user,poi", *rows]) + "\n")
    return folder


@pytest.mark.parametrize(("timed", "split", "why", "way_out"), [
    (True, "record", True, True),
    (False, "record", True, False),
    (True, "time", False, False),
])  # fmt: skip
def test_a_log_loss_above_that_of_a_constant_is_noted_with_advice_where_there_is_any(
    tmp_path, timed, split, why, way_out
):
    data, out = unlabelled(tmp_path / "data", timed=timed), tmp_path / "r"
    words = ("--preset", "fm", "--iterations", 20, "--set", "linear.alpha=0.3", "--set", f"data.split={split}")
    trained = json.loads(call("train", data, "--out", out, *words, "--json").stdout)
    measured = json.loads(call("evaluate", out, data, "--json").stdout)
    assert trained["quality"]["log_loss"] > KNOWING_NOTHING
    for told in (" ".join(answer["notes"]) for answer in (trained, measured)):
        assert shell.says(told, messages.WORSE_THAN_KNOWING_NOTHING)
        assert ("decisions/0009" in told, "data.split = 'time'" in told) == (why, way_out)
    assert shell.says(call("evaluate", out, data).stderr, messages.WORSE_THAN_KNOWING_NOTHING)


def test_no_note_on_a_log_loss_below_that_of_a_constant(run, city):
    answer = json.loads(call("evaluate", run, city, "--json").stdout)
    assert answer["quality"]["log_loss"] < KNOWING_NOTHING
    assert answer["notes"] == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only where there is a device that is always full")
@pytest.mark.parametrize("words", [["settings"], ["--help"], ["--version"]])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_to_a_full_disk_is_a_state_error_in_one_line(words, unbuffered):
    with Path("/dev/full").open("w") as full:
        found = subprocess.run(
            [SCRIPT, *words],
            check=False,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    assert (found.returncode, len(found.stderr.splitlines())) == (5, 1)
    assert shell.says(found.stderr, messages.joined(messages.OUTPUT_NOT_WRITTEN, messages.Foreign.NO_SPACE_LEFT))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only where there is a device that is always full")
def test_output_and_errors_to_a_full_disk_still_give_the_exit_code():
    with Path("/dev/full").open("w") as full:
        assert subprocess.run([SCRIPT, "settings"], check=False, stdout=full, stderr=full).returncode == 5


HUGE = 99999999999999999999


@pytest.mark.parametrize("words", [
    ("evaluate", "r", "d", "--ranking", "-k", HUGE),
    ("evaluate", "r", "d", "--ranking", "--people", HUGE),
    ("recommend", "r", "d", "--person", "u", "-k", 100_001),
    ("train", "d", "--out", "r", "--threads", HUGE),
    ("train", "d", "--out", "r", "--threads", 257),
])  # fmt: skip
def test_numbers_beyond_the_limit_of_an_option_are_usage_errors(words):
    found = call(*words)
    assert (found.exit_code, found.stdout) == (2, "")
    assert shell.says(found.stderr, messages.OPTION_ABOVE_ITS_LIMIT)


def test_ranking_flags_without_ranking_are_noted_as_unused(run, city):
    found = call("evaluate", run, city, "-k", 5, "--people", 9)
    assert found.exit_code == 0
    assert shell.says(found.stderr, messages.made_no_difference("-k, --people"))
    assert call("evaluate", run, city, "--ranking", "-k", 5).stderr == ""
    assert call("evaluate", run, city).stderr == ""


@pytest.mark.parametrize("where", ["prirec.cli.options.changes_from", "prirec.data.folder.read_folder"])
def test_ctrl_c_before_the_first_checkpoint_says_that_nothing_was_saved(city, tmp_path, monkeypatch, where):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(where, stopped)
    found = call("train", city, "--out", tmp_path / "r")
    assert (found.exit_code, found.stdout) == (130, "")
    assert shell.says(found.stderr, messages.STOPPED_BEFORE_A_CHECKPOINT)
    assert list(tmp_path.iterdir()) == []


def test_the_next_step_is_printed_as_a_shell_would_find_the_program(city, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/opt/my tools/prirec", "train"])
    monkeypatch.setenv("PATH", str(tmp_path))
    found = call("train", city, "--out", tmp_path / "my run", "--iterations", 1)
    assert f"next: '/opt/my tools/prirec' recommend '{tmp_path / 'my run'}' {city} --person ID\n" in found.stdout
    monkeypatch.setattr(sys, "argv", ["/somewhere/prirec/cli/main.py", "train"])
    assert program() == (sys.executable, "-m", "prirec.cli.main")
    (tmp_path / "prirec").touch(mode=0o755)
    assert program() == ("prirec",)


def test_reasons_are_told_in_words_and_what_speaks_against_comes_last(capsys):
    reasons = (Reason("visitors", 0.3, "many visitors"), Reason("distance", -0.1, "far from home"))
    show_suggestions([Suggestion("p1", "cafe", 1.0, 0.5, reasons)], origin="home")
    said = " ".join(capsys.readouterr().out.split())
    assert "many visitors; but far from home" in said
    assert "0.3" not in said
    assert said.endswith("km: from home")


def test_reasons_that_lift_a_place_come_before_those_against(run, city, someone):
    places = json.loads(call("recommend", run, city, "--person", someone, "--json").stdout)["places"]
    against = [[reason["pull"] < 0 for reason in place["reasons"]] for place in places]
    assert any(len(set(signs)) == 2 for signs in against)
    assert all(signs == sorted(signs) for signs in against)
