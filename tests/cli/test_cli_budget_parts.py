"""Every command that plans or trains within a budget says how it is divided, and how noisy the shared model is."""

import json

import pytest

from prirec.config import PRIVATE, load
from prirec.data.folder import read_folder
from prirec.features.columns import ModelSize
from prirec.privacy.plan import chosen_parts
from prirec.simulate.privacy_plan import MOST_NOISE
from prirec.simulate.saved_runs import load_run
from prirec.simulate.setup import columns_of, set_up
from support import messages
from support.cities import change
from support.shell import call, flat, says, told

SIZE = ("--people", 20_000, "--places", 150, "--features", 34)
PARTS = ("--set", "privacy.popularity=2", "--set", "privacy.moments=1", "--set", "privacy.interaction=5")
RICH = ("--set", "privacy.epsilon_per_user=40", "--iterations", 2)


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts") / "city"
    assert call("data", "make", folder, "--people", 500, "--places", 80, "--records", 9000).exit_code == 0
    return folder


def shares(found: dict) -> dict[str, float]:
    return {line["what"]: line["share"] for line in found["sums"]}


def test_the_plan_chooses_the_parts_and_says_why():
    found, text = told("privacy", "plan", *SIZE), flat(call("privacy", "plan", *SIZE).stdout)
    size = ModelSize.assumed(34)
    assert shares(found) == pytest.approx(chosen_parts(people=20_000, places=150, entries=size.entries))
    assert found["parts"] in text
    assert f"Popularity gets {100 * shares(found)['popularity']:.3g} % of the budget, as the plan chooses" in text
    assert f"(it has {size.entries:,} numbers;" in text


def test_more_to_learn_or_fewer_people_for_a_place_leave_popularity_less():
    usual, many, crowded = (
        shares(told("privacy", "plan", *words))["popularity"]
        for words in (SIZE, (*SIZE[:-1], 80), ("--people", 20_000, "--places", 90_000, "--features", 34))
    )
    assert many < usual
    assert crowded < usual


def test_parts_that_the_settings_name_stay():
    found, text = told("privacy", "plan", *SIZE, *PARTS), flat(call("privacy", "plan", *SIZE, *PARTS).stdout)
    assert shares(found) == pytest.approx({"popularity": 0.25, "moments": 0.125, "interaction": 0.625})
    assert "Parts of the budget are those of the settings: popularity of places 25 %" in text


def test_without_dynamic_features_nothing_is_spent_on_visits():
    found = told("privacy", "plan", *SIZE, "--set", "features.dynamic=false")
    assert shares(found).keys() == {"moments", "interaction"}
    assert "no dynamic features" in found["parts"]


def test_one_part_alone_is_refused():
    found = call("privacy", "plan", *SIZE, "--set", "privacy.popularity=0.5")
    assert (found.exit_code, found.stdout) == (2, "")
    assert says(found.stderr, messages.PARTS_OF_ONE_WHOLE)


def test_the_plan_says_what_a_device_sends_in_a_round():
    found, entries = told("privacy", "plan", *SIZE), ModelSize.assumed(34).entries
    assert found["shared_model"] == {"entries": entries, "bytes_a_round": 8 * entries}
    assert found["sums"][-1]["entries"] == entries
    shown = flat(call("privacy", "plan", *SIZE).stdout)
    assert f"A device sends {entries:,} numbers a round, 8 bytes each: {entries * 8 / 1000:.1f} kB." in shown


def test_where_there_are_too_few_people_the_plan_says_that_noise_costs_more():
    words = ("privacy", "plan", "--people", 400, "--places", 150, "--features", 34)
    found, shown = json.loads(call(*words, "--json").stdout), call(*words)
    assert shown.stdout.startswith("Noisy: ")
    assert f"Noise in the shared model moves scores by {found['noise']['in_scores']:.2g};" in flat(shown.stdout)
    needed = found["noise"]["people"]
    assert f"Usable below about 0.5; you need about {needed:,} people for that." in flat(shown.stdout)
    enough, fewer = (
        json.loads(call(*words, "--people", people, "--json").stdout) for people in (needed, int(0.8 * needed))
    )
    assert (found["usable"], fewer["usable"], enough["usable"]) == (False, False, True)
    assert 0.8 * MOST_NOISE < enough["noise"]["in_scores"] <= MOST_NOISE
    assert found["verdict"] in flat(shown.stdout)


def test_a_plan_without_a_budget_mentions_no_parts():
    found = told("privacy", "plan", *SIZE, "--preset", "rounds")
    assert (found["noise"], found["parts"]) == (None, "")
    assert "moves scores" not in call("privacy", "plan", *SIZE, "--preset", "fm").stdout


def test_a_forecast_tells_the_noise_of_the_plan_for_its_city(city):
    found, shown = told("privacy", "forecast", city), call("privacy", "forecast", city)
    people, places = found["people"], found["places"]
    planned = told("privacy", "plan", city, "--people", people, "--places", places)
    assert found["noise"] == planned["noise"]
    assert found["part_for_popularity"] == pytest.approx(shares(planned)["popularity"])
    assert f"you need about {found['noise']['people']:,} people for that" in flat(shown.stdout)
    assert told("privacy", "forecast", city, "--preset", "rounds")["noise"] is None


def test_a_run_says_how_noisy_it_is_and_keeps_the_parts_that_the_plan_chose(city, tmp_path):
    run = tmp_path / "run"
    shown = flat(call("train", city, "--out", run, *RICH).stdout)
    found = told("train", city, "--out", tmp_path / "again", *RICH)
    dataset = read_folder(city).dataset
    kept = set_up(dataset, load()).prepared.dataset
    entries = columns_of(dataset, load()).size.entries
    parts = chosen_parts(people=len(kept.people), places=len(kept.places), entries=entries)
    assert f"Noise in the shared model moves scores by {found['privacy']['noise']['in_scores']:.2g};" in shown
    assert {name: found["settings"]["privacy"][name] for name in parts} == parts
    assert load_run(run).settings == change(PRIVATE, iterations=2, privacy={"epsilon_per_user": 40.0, **parts})


def test_a_run_that_was_cut_short_goes_on_with_the_parts_it_had(city, tmp_path, monkeypatch):
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
    for file in ("settings.toml", "scales.json", "shared.npy"):
        assert (tmp_path / "run" / file).read_bytes() == (whole / file).read_bytes()
