"""Every command that plans or trains within a budget says how large its cohorts are, and who chose that."""

import json

import pytest

from prirec.config import PRIVATE, load
from prirec.data.folder import read_folder
from prirec.privacy.plan import needed_cohort_size
from prirec.simulate.saved_runs import load_run
from prirec.simulate.setup import set_up
from support import messages
from support.cities import change
from support.shell import call, flat, says, told

SIZE = ("--people", 20_000, "--places", 150, "--features", 34)
RICH = ("--set", "privacy.epsilon_per_user=40", "--iterations", 2)  # so that 400 people make several cohorts


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cohorts") / "city"
    assert call("data", "make", folder, "--people", 500, "--places", 80, "--records", 9000).exit_code == 0
    return folder


def asked(epsilon: float) -> int:
    return needed_cohort_size(change(PRIVATE, privacy={"epsilon_per_user": epsilon}), features=34)


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_the_plan_says_which_size_it_asks_for(epsilon):
    words = ("privacy", "plan", *SIZE, "--set", f"privacy.epsilon_per_user={epsilon}")
    found, text = told(*words), flat(call(*words).stdout)
    cohorts, mixing = found["cohorts"], found["sums"][1]
    assert (mixing["what"], mixing["devices"]) == ("linear", asked(epsilon))
    assert (cohorts["people"], cohorts["size"], cohorts["needed"]) == (20_000, asked(epsilon), asked(epsilon))
    assert 0.33 < cohorts["noise_in_mean"] <= 1 / 3
    assert "Noise in a cohort mean: 0.33 × the clipping norm." in text
    assert f"Cohorts have at least {asked(epsilon):,} people, as the plan needs." in text


def test_a_size_that_the_settings_name_stays_and_the_plan_tells_what_it_would_ask_for():
    words = ("privacy", "plan", *SIZE, "--set", "neighbours.size=300")
    found, text = told(*words), flat(call(*words).stdout)
    assert found["sums"][1]["devices"] == found["cohorts"]["size"] == 300
    assert f"at least 300 people, as neighbours.size says; the plan needs {asked(1.0):,}." in text
    assert f"you need cohorts of about {asked(1.0):,} people for that." in text
    assert found["notes"] == []


def test_where_there_are_too_few_people_for_one_cohort_the_plan_says_that_noise_costs_more():
    words = ("privacy", "plan", "--people", 400, "--places", 150, "--features", 34)
    found, shown = json.loads(call(*words, "--json").stdout), call(*words)
    assert found["cohorts"]["size"] == found["sums"][1]["devices"] == 400
    assert shown.stdout.startswith("Noisy: ")
    assert f"Usable below about 0.33; you need about {asked(1.0):,} people for that." in flat(shown.stdout)
    assert "All 400 people are in one cohort." in flat(shown.stdout)
    enough = json.loads(call(*words, "--people", asked(1.0), "--json").stdout)
    assert (found["usable"], enough["usable"]) == (False, True)
    assert found["verdict"] in flat(shown.stdout)


def test_a_plan_without_a_budget_mentions_no_cohort():
    assert told("privacy", "plan", *SIZE, "--preset", "rounds")["cohorts"] is None
    assert "cohort" not in call("privacy", "plan", *SIZE, "--preset", "fm").stdout


def test_a_forecast_tells_the_size_of_the_plan_for_its_city(city):
    found, shown = call("privacy", "forecast", city, "--json"), call("privacy", "forecast", city)
    planned = json.loads(call("privacy", "plan", city, "--json").stdout)
    cohorts = json.loads(found.stdout)["cohorts"]
    assert cohorts["needed"] == planned["cohorts"]["needed"]
    assert f"All {cohorts['people']:,} people are in one cohort" in flat(shown.stdout)
    assert f"you need about {cohorts['needed']:,} people for that" in flat(shown.stdout)
    assert json.loads(call("privacy", "forecast", city, "--preset", "rounds", "--json").stdout)["cohorts"] is None


def test_a_run_says_which_size_it_took_and_keeps_it(city, tmp_path):
    run = tmp_path / "run"
    shown = flat(call("train", city, "--out", run, *RICH).stdout)
    found = told("train", city, "--out", tmp_path / "again", *RICH)
    samples = set_up(read_folder(city).dataset, load()).samples
    settings = change(PRIVATE, iterations=2, privacy={"epsilon_per_user": 40.0})
    size = needed_cohort_size(settings, features=samples.features)
    assert size <= len(samples.ids) // 2
    assert f"Cohorts have at least {size:,} people, as the plan needs" in shown
    assert found["settings"]["neighbours"]["size"] == found["privacy"]["cohorts"]["size"] == size
    assert load_run(run).settings == change(settings, neighbours={"size": size})
    assert f"size = {size}\n" in (run / "settings.toml").read_text(encoding="utf-8")


def test_a_run_that_was_cut_short_goes_on_with_the_size_it_had(city, tmp_path, monkeypatch):
    words = ("train", city, "--out", tmp_path / "run", *RICH, "--checkpoint-every", 1)
    whole = tmp_path / "whole"
    assert call("train", city, "--out", whole, *RICH).exit_code == 0

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("prirec.simulate.saved_runs.save_run", stopped)
        assert call(*words).exit_code == 130
    again = call(*words)
    assert says(again.stderr, messages.resuming_after(2, rounds=2))
    for file in ("settings.toml", "linear.npy"):
        assert (tmp_path / "run" / file).read_bytes() == (whole / file).read_bytes()


def test_a_file_may_name_a_size_or_leave_it_to_the_plan(city, tmp_path):
    file = tmp_path / "mine.toml"
    for size, taken in ((0, "as the plan needs"), (120, "as neighbours.size says")):
        file.write_text(f"[neighbours]\nsize = {size}\n", encoding="utf-8")
        shown = flat(call("train", city, "--out", tmp_path / f"{size}", "--settings", file, *RICH).stdout)
        assert taken in shown
    assert load_run(tmp_path / "120").settings.neighbours.size == 120


@pytest.mark.parametrize("preset", ["rounds", "paper", "fm"])
def test_without_a_budget_there_is_no_plan_to_choose_a_size(city, tmp_path, preset):
    found = call("train", city, "--out", tmp_path / "run", "--preset", preset, "--set", "neighbours.size=0")
    assert (found.exit_code, found.stdout) == (4, "")
    assert says(found.stderr, messages.COHORT_SIZE_WITHOUT_A_PLAN)
