"""prirec privacy forecast: a made-up city or a given one, for people and for programs."""

import json

import pytest
from typer.testing import CliRunner

from prirec.cli.main import app
from prirec.data.folder import read_folder
from prirec.evaluate.mechanisms import FIXED, MECHANISMS

SMALL = ("--people", 200, "--places", 20, "--visits-per-person", 4)


def call(*words):
    return CliRunner().invoke(app, ["privacy", "forecast", *map(str, words)], env={"COLUMNS": "100"})


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "city"
    words = ["data", "make", str(folder), "--people", "300", "--places", "30", "--records", "9000"]
    assert CliRunner().invoke(app, words).exit_code == 0
    return folder


def test_it_tells_every_mechanism_and_that_it_is_a_simulation_of_a_made_up_city():
    found = call(*SMALL)
    assert found.exit_code == 0
    assert all(one.name in found.stdout for one in MECHANISMS)
    assert "ε = 1, δ = 1e-06 per user" in found.stdout
    assert "not that promise" in found.stdout
    assert "who reports" in found.stdout
    assert "a simulation that collects nothing and protects nobody; this city is made up" in found.stderr
    assert "popularity alone, not of a model" in found.stderr
    assert "an epsilon of 20 per user" in found.stderr


def test_json_is_one_object_with_every_row_and_the_notes():
    found = call(*SMALL, "--epsilon", 0.5, "--epsilon", 4, "--delta", 1e-5, "--json")
    told = json.loads(found.stdout)
    assert found.exit_code == 0
    assert (told["people"], told["places"], told["delta"], told["made_up"]) == (200, 20, 1e-5, True)
    assert len(told["rows"]) == 2 * (len(MECHANISMS) - len(FIXED)) + len(FIXED)
    assert {row["epsilon_per_user"] for row in told["rows"]} == {0.5, 4.0, None}
    assert any("simulation" in text for text in told["notes"])


def test_a_given_city_is_simulated_on_and_shows_nobody(city):
    found = call(city)
    people = read_folder(city).dataset.people.ids
    assert found.exit_code == 0
    assert "30 places" in found.stdout
    assert "made up" not in found.stderr
    assert not any(person in found.stdout + found.stderr for person in people)


def test_the_same_seed_says_the_same():
    one, again, other = (call(*SMALL, "--json", "--seed", seed).stdout for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "give a data folder, or --people"),
        (("city", "--people", 100), 2, "and not both"),
        (("city", "--places", 100), 2, "and not both"),
        (("--places", 100), 2, "give a data folder, or --people"),
        (("nowhere",), 3, "nowhere"),
        (("--people", 20), 4, "floor of 100"),
        (("--people", 2_000_000), 2, "at most 4,000,000 visits"),
        ((*SMALL, "--epsilon", 0), 2, "epsilon must be a number above 0"),
        ((*SMALL, "--epsilon", "nan"), 2, "epsilon must be a number above 0"),
        ((*SMALL, "--epsilon", 1, "--epsilon", 1), 2, "none twice"),
        ((*SMALL, "--delta", 0), 2, "delta must be above 0"),
    ],
)
def test_what_cannot_be_forecast_is_refused_in_one_line(words, code, text):
    found = call(*words)
    assert (found.exit_code, found.stdout) == (code, "")
    assert text in found.stderr
    assert len(found.stderr.splitlines()) == 1
