"""prirec train: what nothing would read is refused, and what a reader would not expect is said."""

import shutil

import pytest

from prirec.config import READ_BY, ROUNDS
from prirec.simulate.saved_runs import load_run, names_of_files
from support import messages
from support.shell import call, says, write_city


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return write_city(tmp_path_factory.mktemp("words") / "city")


@pytest.mark.parametrize(
    ("preset", "setting", "reader"),
    [
        ("rounds", "neighbours.weights=exponential", "the paper's schedule"),
        ("private", "order=windows", "the paper's schedule"),
        ("private", "neighbours.count=50", "the paper's schedule"),
        ("rounds", "linear.gamma=0.5", "the paper's schedule"),
        ("private", "model.dimension=8", "the paper's schedule and the baseline"),
        ("rounds", "privacy.delta=1e-5", "a budget (privacy.epsilon_per_user)"),
        ("rounds", "popularity.epsilon_per_bit=3", "randomized-response (popularity.mechanism)"),
        ("rounds", "stopping.share=0.2", "early stopping (stopping.patience)"),
        ("paper", "neighbours.scale_km=5", "neighbours.weights by distance"),
        ("paper", "sums.lost=0.1", "rounds with sums.operators 1"),
        ("fm", "participation.online=0.5", "rounds and the paper's schedule"),
    ],
)
def test_a_setting_that_this_training_does_not_read_is_refused(city, tmp_path, preset, setting, reader):
    found = call("train", city, "--out", tmp_path / "r", "--preset", preset, "--set", setting)
    assert (found.exit_code, found.stdout) == (2, "")
    assert says(found.stderr, messages.read_by_others_only(setting.split("=")[0], reader=reader))


def test_an_engine_for_the_centralised_model_is_refused(city, tmp_path):
    found = call("train", city, "--out", tmp_path / "r", "--preset", "fm", "--engine", "plain")
    assert (found.exit_code, found.stdout) == (2, "")
    assert says(found.stderr, messages.ENGINE_OF_A_CENTRALISED_MODEL)


def test_a_city_without_coordinates_is_learnt_in_the_papers_way_with_neighbours_at_random(city, tmp_path):
    (tmp_path / "plain").mkdir()
    shutil.copy(city / "visits.csv", tmp_path / "plain")
    found = call("train", tmp_path / "plain", "--out", tmp_path / "r", "--preset", "paper", "--iterations", 1)
    assert found.exit_code == 0, found.stderr
    assert says(found.stderr, messages.NEIGHBOURS_DRAWN_ANEW)
    assert load_run(tmp_path / "r").settings.neighbours.kind == "random"
    assert call("evaluate", tmp_path / "r", tmp_path / "plain").exit_code == 0


def test_weights_of_one_are_refused_with_the_reason_and_by_name_watched_as_they_diverge(city, tmp_path):
    words = ("train", city, "--out", tmp_path / "r", "--preset", "paper", "--set")
    refused = call(*words, "neighbours.weights=ones")
    assert refused.exit_code == 2
    assert says(refused.stderr, messages.joined(messages.WEIGHTS_OF_ONE_DIVERGE, messages.WEIGHTS_OF_ONE_BY_NAME))
    watched = call(*words, "neighbours.weights=ones-diverges")
    assert watched.exit_code == 2
    assert says(watched.stderr, messages.NO_LEARNING_RATE_HELPS)
    assert says(watched.stderr, messages.BEYOND_THE_BOUND)


@pytest.mark.parametrize("preset", ["private", "rounds", "paper", "fm"])
def test_the_settings_that_a_run_has_saved_train_another(city, tmp_path, preset):
    assert call("train", city, "--out", tmp_path / "one", "--iterations", 1, "--preset", preset).exit_code == 0
    again = call("train", city, "--out", tmp_path / "other", "--settings", tmp_path / "one" / "settings.toml")
    assert again.exit_code == 0, again.stderr
    for file in names_of_files(load_run(tmp_path / "one").settings)[-2:]:
        assert (tmp_path / "other" / file).read_bytes() == (tmp_path / "one" / file).read_bytes()


@pytest.mark.parametrize("name", READ_BY)
def test_every_setting_that_only_some_trainings_read_exists(name):
    section, _, key = name.rpartition(".")
    assert hasattr(getattr(ROUNDS, section) if section else ROUNDS, key)
