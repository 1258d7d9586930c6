"""What a training within a budget says of its price, and what its operator would read."""

import json
import re

import numpy as np
import pytest

from prirec.config import PRIVATE
from prirec.features.columns import ModelSize
from prirec.privacy.accountant import Adjacency
from prirec.privacy.plan import plan_for
from support import messages, shell
from support.shell import flat

DROWNING = ("--set", "privacy.quality=0.05")
ANSWERS = ("--preset", "rounds", "--set", "popularity.mechanism=randomized-response")


def call(*arguments: object):
    done = shell.call(*arguments)
    assert done.exit_code == 0, done.output
    return done


def prirec(*arguments: object) -> str:
    return call(*arguments).stdout


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("price") / "city"
    prirec("data", "make", folder, "--people", 400, "--places", 150, "--records", 8000)
    return folder


def test_a_private_training_says_what_it_would_cost_each_person(city, tmp_path):
    shown = flat(prirec("train", city, "--out", tmp_path / "run", "--iterations", 2))
    assert "would cost each person ε = 1 for life (δ = 1e-06; 2.123 between any two contributions);" in shown
    assert "operator" not in shown
    assert "a year" not in shown


def test_with_a_period_a_training_says_what_a_year_comes_to_as_the_plan_does(city, tmp_path):
    period = ("--set", "privacy.period_days=30")
    done = call("train", city, "--out", tmp_path / "a", "--iterations", 2, *period)
    found = json.loads(prirec("train", city, "--out", tmp_path / "b", "--iterations", 2, *period, "--json"))["privacy"]
    planned_terms = json.loads(prirec("privacy", "plan", city, "--set", "iterations=2", *period, "--json"))["terms"]
    assert found["period_days"] == 30
    for one, other in zip(found["terms"], planned_terms, strict=True):
        assert (one["when"], one["days"], one["plans"]) == (other["when"], other["days"], other["plans"])
        assert one["epsilon"] == pytest.approx(other["epsilon"], rel=1e-6)
    assert found["epsilon"] == found["terms"][0]["epsilon"]
    assert "ε = 1 in any 30 days (δ = 1e-06; 2.123 between any two contributions)" in flat(done.stdout)
    assert "and ε = 4.084 if it goes on for a year (9.095 between any two contributions)" in flat(done.stdout)
    price = [line for line in done.stdout.splitlines() if "ε" in line]
    assert all(len(line) <= 80 for line in price)


def test_the_price_is_that_of_the_plan(city, tmp_path):
    flags = ("--iterations", 2, "--set", "privacy.epsilon_per_user=2", "--json")
    found = json.loads(prirec("train", city, "--out", tmp_path / "run", *flags))
    assert found["privacy"]["epsilon"] == pytest.approx(2.0, rel=1e-6)
    assert (found["privacy"]["figures"], found["privacy"]["period_days"]) == (None, None)
    assert [term["when"] for term in found["privacy"]["terms"]] == ["for life"]
    plan = plan_for(PRIVATE, people=400, pois=150, size=ModelSize.assumed(50))
    assert found["privacy"]["epsilon_replace_one"] > 2 * plan.loss(Adjacency.ZERO_OUT).epsilon


def test_without_a_budget_there_is_no_price(city, tmp_path):
    flags = ("--preset", "rounds", "--iterations", 1)
    assert json.loads(prirec("train", city, "--out", tmp_path / "a", *flags, "--json"))["privacy"] is None
    assert "would cost" not in prirec("train", city, "--out", tmp_path / "b", *flags)


def test_quality_figures_are_read_where_they_have_a_part(city, tmp_path):
    """With a budget that nobody should have, so that 400 people are enough to read anything."""
    flags = ("--iterations", 1, "--set", "privacy.quality=1.0", "--set", "privacy.epsilon_per_user=50")
    found = json.loads(prirec("train", city, "--out", tmp_path / "run", *flags, "--json"))["privacy"]["figures"]
    for name in ("auc", "log_loss", "base_rate"):
        read, error = found["read"][name]["value"], found["read"][name]["noise"]
        assert abs(read - found["true"][name]) < 5 * error + 0.02
    shown = prirec("train", city, "--out", tmp_path / "again", *flags)
    assert "as the operator reads it" in shown
    assert f"{found['true']['auc']:.4f}" in shown


def test_a_training_is_saved_though_its_quality_figures_drown(city, tmp_path):
    flags = ("--iterations", 1, *DROWNING)
    done = call("train", city, "--out", tmp_path / "run", *flags)
    assert shell.says(done.stderr, messages.joined(messages.NO_QUALITY_FIGURE, messages.FIGURES_DROWNED))
    assert "would cost each person" in done.stdout
    assert "saved to" in done.stdout
    assert (tmp_path / "run" / "run.json").is_file()
    assert not (tmp_path / "run.checkpoint").exists()
    found = json.loads(prirec("train", city, "--out", tmp_path / "again", *flags, "--json"))
    assert found["privacy"]["figures"] is None
    assert len([text for text in found["notes"] if "quality figure" in text]) == 2  # before and after


def test_a_training_is_saved_though_too_few_are_left_for_its_quality_figures(city, tmp_path, monkeypatch):
    def half(keys: np.ndarray, settings: object, *, of: str) -> np.ndarray:
        assert of == "quality"
        return np.arange(len(keys)) < len(keys) // 2

    monkeypatch.setattr("prirec.simulate.private_figures.left_in_collection", half)
    flags = ("--iterations", 1, "--set", "privacy.quality=1.0", "--set", "privacy.epsilon_per_user=50")
    done = call("train", city, "--out", tmp_path / "run", *flags)
    assert shell.says(done.stderr, messages.devices_left_for_quality(176, devices=353))
    assert (tmp_path / "run").is_dir()


def test_quality_figures_that_noise_will_drown_are_noted_before_training(city, tmp_path, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("prirec.simulate.setup.run", stopped)
    done = shell.call("train", city, "--out", tmp_path / "run", *DROWNING)
    assert done.exit_code == 130
    assert shell.says(done.stderr, messages.NO_FIGURE_WILL_BE_READ)


def test_no_note_on_quality_figures_that_can_be_read_or_are_not_wanted(city, tmp_path):
    wanted = ("--set", "privacy.quality=1.0", "--set", "privacy.epsilon_per_user=50")
    for name, flags in (("wanted", wanted), ("not", ())):
        assert "quality figure" not in call("train", city, "--out", tmp_path / name, "--iterations", 1, *flags).stderr


def test_the_plan_says_which_figures_would_drown():
    words = ("privacy", "plan", "--places", 100, "--set", "privacy.quality=0.3", "--json")
    few, some, many = (json.loads(prirec(*words, "--people", people))["notes"] for people in (200, 300, 10_000))
    assert any("too much to read any of them" in text for text in few)
    (takes,) = (re.search(r"too much to read AUC or log loss: it takes about ([0-9,]+) people", text) for text in some)
    assert takes is not None
    enough = int(takes[1].replace(",", ""))
    notes = [json.loads(prirec(*words, "--people", people))["notes"] for people in (enough - 1, enough)]
    assert (len(notes[0]), notes[1], many) == (1, [], [])


@pytest.mark.parametrize("more", [(), ("--set", "popularity.reporters=those-with-a-record")])
def test_where_only_people_with_a_record_answer_training_says_that_answering_reveals_the_visit(city, tmp_path, more):
    done = call("train", city, "--out", tmp_path / "run", "--iterations", 1, *ANSWERS, *more)
    assert shell.says(done.stderr, messages.REPORTERS_ARE_KNOWN) == bool(more)
