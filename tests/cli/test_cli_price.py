"""What a training within a budget says of its price, and what its operator would read."""

import json

import pytest
from typer.testing import CliRunner

from prirec.cli.main import app
from prirec.privacy.budget import planned
from prirec.privacy.units import Adjacency
from prirec.settings import PRIVATE


def prirec(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("price") / "city"
    prirec("data", "make", folder, "--people", 400, "--places", 150, "--records", 8000)
    return folder


def test_a_private_training_says_what_it_would_cost_each_person(city, tmp_path):
    shown = prirec("train", city, "--out", tmp_path / "run", "--iterations", 2)
    assert "would cost each person ε = 1 in all (δ = 1e-06; 2.123 between any two contributions)" in shown
    assert "operator" not in shown


def test_the_price_is_that_of_the_plan(city, tmp_path):
    flags = ("--iterations", 2, "--set", "privacy.epsilon_per_user=2", "--json")
    found = json.loads(prirec("train", city, "--out", tmp_path / "run", *flags))
    assert found["privacy"]["epsilon"] == pytest.approx(2.0, rel=1e-6)
    assert found["privacy"]["figures"] is None
    plan = planned(PRIVATE, people=400, pois=150)
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
