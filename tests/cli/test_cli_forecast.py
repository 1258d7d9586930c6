"""prirec privacy forecast: a made-up city or a given one, for people and for programs."""

import json
from functools import partial

import pytest

from prirec.config import PRIVATE
from prirec.data.folder import read_folder
from prirec.privacy.plan import chosen_parts
from prirec.simulate.forecast import FIXED, VARIANTS, made_up
from prirec.simulate.setup import columns_of
from support import messages, shell

SMALL = ("--people", 200, "--places", 20, "--visits-per-person", 4)
call = partial(shell.call, "privacy", "forecast", columns=100)


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "city"
    made = shell.call("data", "make", folder, "--people", 300, "--places", 30, "--records", 9000)
    assert made.exit_code == 0
    return folder


def test_the_forecast_lists_every_mechanism_and_says_that_the_city_is_made_up():
    found = call(*SMALL)
    assert found.exit_code == 0
    assert all(one.name in found.stdout for one in VARIANTS)
    assert "ε = 1, δ = 1e-06 per user" in found.stdout
    assert "weaker promises, or none" in found.stdout
    assert "who reports" in found.stdout
    assert shell.says(found.stderr, messages.CITY_IS_MADE_UP)
    assert shell.says(found.stderr, messages.AUC_OF_POPULARITY_ALONE)
    assert shell.says(found.stderr, messages.epsilon_of_bits(20))


def test_json_is_one_object_with_every_row_and_the_notes():
    found = call(*SMALL, "--epsilon", 0.5, "--epsilon", 4, "--delta", 1e-5, "--json")
    told = json.loads(found.stdout)
    assert found.exit_code == 0
    assert (told["people"], told["places"], told["delta"], told["made_up"]) == (200, 20, 1e-5, True)
    assert len(told["rows"]) == 2 * (len(VARIANTS) - len(FIXED)) + len(FIXED)
    assert {row["epsilon_per_user"] for row in told["rows"]} == {0.5, 4.0, None}
    assert any("simulation" in text for text in told["notes"])


def test_the_first_row_is_the_plan_of_the_settings():
    told = json.loads(call(*SMALL, "--json").stdout)
    row, whole = told["as_planned"], told["rows"][0]
    entries = columns_of(made_up(people=200, places=20, visits_per_person=4).dataset, PRIVATE).entries
    assert (row["mechanism"], whole["mechanism"]) == ("as planned", "secure sum, posterior")
    assert row["error"] > whole["error"]  # it has a part of the budget, the other has all of it
    assert told["part_for_popularity"] == chosen_parts(people=200, places=20, entries=entries)["popularity"]
    assert [term["when"] for term in told["terms"]] == ["for life"]
    assert told["trained"] is None
    shown = call(*SMALL).stdout
    part = f"{100 * told['part_for_popularity']:.3g} %"
    assert shown.index(f"as planned: {part} of the budget") < shown.index("secure sum, posterior")


def test_the_plan_is_that_of_the_settings(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("[privacy]\npopularity = 0.02\nmoments = 0.1\ninteraction = 0.88\nperiod_days = 30\n")
    usual, mine = (json.loads(call(*SMALL, *more, "--json").stdout) for more in ((), ("--settings", file)))
    assert mine["as_planned"]["error"] > 1.3 * usual["as_planned"]["error"]
    assert mine["rows"] == usual["rows"]
    assert [term["when"] for term in mine["terms"]] == ["in any 30 days", "if it goes on for a year"]
    dear = json.loads(call(*SMALL, "--set", "privacy.epsilon_per_user=8", "--delta", 1e-5, "--json").stdout)
    assert (dear["delta"], dear["rows"][0]["epsilon_per_user"]) == (1e-5, 8)  # without --epsilon, the plan's
    assert dear["as_planned"]["epsilon_per_user"] == pytest.approx(8, rel=1e-6)


def test_the_replace_one_figure_stands_beside_epsilon_in_plain_words():
    found = call(*SMALL)
    assert shell.says(found.stderr, messages.REPLACE_ONE_EXPLAINED)
    assert "2.123 between any two contributions" in " ".join(found.stdout.split())
    rows = {line[1:].split("  ")[0]: line.split()[-1] for line in found.stdout.splitlines() if line.split()}
    assert (rows["as planned"], rows["secure sum"]) == ("2.123", "2.123")


@pytest.mark.parametrize("more", [("--preset", "rounds"), ("--set", "features.dynamic=false")])
def test_where_no_popularity_is_planned_the_mechanisms_stand_alone(more):
    found = call(*SMALL, *more)
    assert found.exit_code == 0
    assert "as planned:" not in found.stdout
    assert shell.says(found.stderr, messages.NO_POPULARITY_WITHIN_A_BUDGET)
    assert json.loads(call(*SMALL, *more, "--json").stdout)["as_planned"] is None


def test_training_on_a_folder_shows_what_the_plan_costs(city, tmp_path):
    flags = ("--set", "iterations=3", "--set", "privacy.epsilon_per_user=4")
    told = json.loads(call(city, "--train", *flags, "--json").stdout)["trained"]
    run = shell.call("train", city, "--out", tmp_path / "run", *flags, "--json")
    assert told["auc"] == json.loads(run.stdout)["quality"]["auc"]
    assert told["cost"] == told["auc_without_a_budget"] - told["auc"] > 0
    found = call(city, "--train", *flags)
    assert f"{told['auc_without_a_budget']:.4f}" in found.stdout
    assert "the AUC cost of the plan" in found.stdout
    assert f"{told['cost']:.4f}" in found.stdout


def test_tables_fit_eighty_columns():
    found = call(*SMALL, "--set", "privacy.period_days=30", columns=80)
    assert all(len(line) <= 80 for line in found.stdout.splitlines())
    assert all(one.name in found.stdout for one in VARIANTS)  # none is folded


def test_a_forecast_on_a_data_folder_prints_no_id(city):
    found = call(city)
    people = read_folder(city).dataset.people.ids
    assert found.exit_code == 0
    assert "30 places" in found.stdout
    assert not shell.says(found.stderr, messages.CITY_IS_MADE_UP)
    assert not any(person in found.stdout + found.stderr for person in people)


def test_a_seed_determines_the_forecast():
    one, again, other = (call(*SMALL, "--json", "--seed", seed).stdout for seed in (1, 1, 2))
    assert one == again
    assert one != other


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("city", "--train", "--preset", "rounds"), 4, messages.NOTHING_PROMISED_TO_COMPARE),
        ((*SMALL, "--delta", 1e-5, "--set", "privacy.delta=1e-5"), 2, messages.setting_given_twice("privacy.delta")),
        ((*SMALL, "--set", "features.averages=['spend']"), 2, messages.AVERAGE_OF_NO_COLUMN),
        ((), 2, messages.FOLDER_OR_SIZE_OF_A_CITY),
        (("city", "--people", 100), 2, messages.FOLDER_OR_SIZE_OF_A_CITY),
        (("city", "--places", 100), 2, messages.FOLDER_OR_SIZE_OF_A_CITY),
        (("--places", 100), 2, messages.FOLDER_OR_SIZE_OF_A_CITY),
        (("nowhere",), 3, messages.in_file("nowhere", messages.NO_SUCH_FOLDER)),
        (("--people", 20), 4, messages.too_few_devices(20, floor=100)),
        (("--people", 2_000_000), 2, messages.visits_of_a_made_up_city(4_000_000)),
        ((*SMALL, "--epsilon", 0), 2, messages.not_positive("epsilon")),
        ((*SMALL, "--epsilon", "nan"), 2, messages.not_positive("epsilon")),
        ((*SMALL, "--epsilon", 1, "--epsilon", 1), 2, messages.EPSILONS_MISSING_OR_TWICE),
        ((*SMALL, "--delta", 0), 2, messages.setting_out_of_range("privacy.delta", "between 0 and 1")),
    ],
)
def test_invalid_forecasts_are_refused_in_one_line(words, code, message):
    found = call(*words)
    assert (found.exit_code, found.stdout) == (code, "")
    assert shell.says(found.stderr, message)
    assert len(found.stderr.splitlines()) == 1
