"""prirec train: what nothing would read is refused, and what a reader would not expect is said."""

import shutil

import pytest

from prirec.config import ROUNDS
from prirec.simulate.popularity import MECHANISMS
from prirec.simulate.saved_runs import load_run
from prirec.simulate.unused_settings import READ_BY
from support import messages
from support.shell import call, flat, says, write_city


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return write_city(tmp_path_factory.mktemp("words") / "city")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--preset", "rounds", "--set", "neighbours.weights=exponential"], "read by the paper's schedule alone"),
        (["--set", "order=windows"], "order is read by the paper's schedule alone"),
        (["--set", "neighbours.count=50"], "neighbours.count is read by the paper's schedule alone"),
        (["--preset", "rounds", "--set", "linear.gamma=0.5"], "read by linear.mixing 'fixed' alone"),
        (["--preset", "rounds", "--set", "latent.alpha=0.1"], "read by a latent part"),
        (["--preset", "rounds", "--set", "privacy.delta=1e-5"], "read by a budget"),
        (["--preset", "rounds", "--set", "popularity.epsilon_per_bit=3"], "read by randomized-response"),
        (["--preset", "rounds", "--set", "stopping.share=0.2"], "read by early stopping"),
        (["--preset", "paper", "--set", "neighbours.size=500"], "neighbours.size is read by rounds alone"),
        (["--preset", "paper", "--set", "neighbours.scale_km=5"], "read by neighbours.weights by distance alone"),
        (["--preset", "paper", "--set", "linear.clip=2"], "linear.clip is read by rounds alone"),
        (["--preset", "fm", "--set", "participation.online=0.5"], "rounds and the paper's schedule alone"),
        (["--preset", "fm", "--engine", "plain"], "the centralised model has one engine"),
    ],
)
def test_what_nothing_would_read_is_refused(city, tmp_path, words, text):
    found = call("train", city, "--out", tmp_path / "r", *words, columns=200)
    assert (found.exit_code, found.stdout) == (2, "")
    assert text in found.stderr


def test_a_city_without_coordinates_is_learnt_in_the_papers_way_with_neighbours_at_random(city, tmp_path):
    (tmp_path / "plain").mkdir()
    shutil.copy(city / "visits.csv", tmp_path / "plain")
    found = call("train", tmp_path / "plain", "--out", tmp_path / "r", "--preset", "paper", "--iterations", 1)
    assert found.exit_code == 0, found.stderr
    assert "has no coordinates: neighbours are drawn anew" in flat(found.stderr)
    assert load_run(tmp_path / "r").settings.neighbours.kind == "random"
    assert call("evaluate", tmp_path / "r", tmp_path / "plain").exit_code == 0


def test_weights_of_one_are_refused_with_the_reason_and_by_name_watched_as_they_diverge(city, tmp_path):
    words = ("train", city, "--out", tmp_path / "r", "--preset", "paper", "--set")
    refused = call(*words, "neighbours.weights=ones")
    assert refused.exit_code == 2
    assert "from 0.01 past 10^11 in ten steps" in flat(refused.stderr)
    watched = call(*words, "neighbours.weights=ones-diverges")
    assert watched.exit_code == 2
    assert "no learning rate helps" in flat(watched.stderr)
    assert says(watched.stderr, messages.BEYOND_THE_BOUND)


@pytest.mark.parametrize(
    "words", [("--preset", "rounds", "--neighbours", 120), ("--preset", "paper"), ("--preset", "fm")]
)
def test_the_settings_that_a_run_has_saved_train_another(city, tmp_path, words):
    assert call("train", city, "--out", tmp_path / "one", "--iterations", 1, *words).exit_code == 0
    again = call("train", city, "--out", tmp_path / "other", "--settings", tmp_path / "one" / "settings.toml")
    assert again.exit_code == 0, again.stderr
    for file in ("interaction.npy", "linear.npy"):
        assert (tmp_path / "other" / file).read_bytes() == (tmp_path / "one" / file).read_bytes()


@pytest.mark.parametrize("name", [*READ_BY, *(name for one in MECHANISMS.values() for name in one.reads)])
def test_every_setting_that_only_some_trainings_read_is_one(name):
    section, _, key = name.rpartition(".")
    assert hasattr(getattr(ROUNDS, section) if section else ROUNDS, key)
