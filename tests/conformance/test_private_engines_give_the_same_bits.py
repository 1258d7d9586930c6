"""Under a budget, too, the fast engine equals the oracle bit for bit: noise included."""

import numpy as np
import pytest

from prirec.engines.train import train
from prirec.rounds import definition
from prirec.rounds.definition import simulated_noise
from support.cities import (
    SMALL_PRIVATE,
    after,
    change,
    in_another_order,
    same_state,
    samples_of,
    small_city,
    without_coordinates,
)
from support.engine_twins import UNUSUAL_CITIES, assert_equal_runs, city, different_models
from support.setting_variants import PRIVATE_ROUNDS as ROUNDS


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("changes", ROUNDS.values(), ids=ROUNDS)
def test_rounds_under_a_budget_have_the_bits_of_the_oracle(changes, threads):
    settings = change(SMALL_PRIVATE, **changes)
    assert_equal_runs(samples_of(city(), settings), settings, threads=threads)


@pytest.mark.parametrize("made", UNUSUAL_CITIES.values(), ids=UNUSUAL_CITIES)
def test_rounds_under_a_budget_in_unusual_cities(made):
    settings = change(SMALL_PRIVATE, participation={"online": 0.9, "dropout": 0.1})
    assert_equal_runs(samples_of(made(), settings), settings, threads=2)


def test_the_settings_of_this_suite_make_a_difference():
    assert different_models(change(SMALL_PRIVATE, **changes) for changes in ROUNDS.values()) == len(ROUNDS)


def test_some_rounds_of_this_suite_open_their_sum_and_others_do_not():
    histories = []
    for changes in ROUNDS.values():
        settings = change(SMALL_PRIVATE, **changes)
        histories += train(samples_of(city(), settings), settings).history
    assert {passed.opened for passed in histories} == {True, False}


# Mistakes of one engine, planted


def no_noise(wanted: int, count: int, **where: object) -> np.ndarray:
    return np.zeros(count, dtype=np.uint64)


def no_noise_in_moments(wanted: int, count: int, *, where: tuple, **rest: object) -> np.ndarray:
    return no_noise(wanted, count) if where[0] == "moments" else simulated_noise(wanted, count, where=where, **rest)


def no_noise_in_gradients(wanted: int, count: int, *, where: tuple, **rest: object) -> np.ndarray:
    return no_noise(wanted, count) if where[0] == "interaction" else simulated_noise(wanted, count, where=where, **rest)


def the_same_every_round(wanted: int, count: int, *, where: tuple, **rest: object) -> np.ndarray:
    return simulated_noise(wanted, count, where=(where[0], 0), **rest)


def one_kind_for_all(wanted: int, count: int, *, where: tuple, **rest: object) -> np.ndarray:
    return simulated_noise(wanted, count, where=("interaction", *where[1:]), **rest)


def for_everyone_who_was_asked(wanted: int, count: int, *, survivors: int, rostered: int, **rest) -> np.ndarray:
    return simulated_noise(wanted, count, survivors=rostered, rostered=rostered, **rest)


MISTAKES = [
    no_noise,
    no_noise_in_moments,
    no_noise_in_gradients,
    the_same_every_round,
    one_kind_for_all,
    for_everyone_who_was_asked,
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.__name__)
def test_a_mistake_with_noise_in_one_engine_is_noticed(mistake, monkeypatch):
    settings = change(SMALL_PRIVATE, participation={"dropout": 0.1})
    samples = samples_of(city(), settings)
    monkeypatch.setattr(definition, "simulated_noise", mistake)
    with pytest.raises(AssertionError):
        assert_equal_runs(samples, settings, threads=2)


# Who stands where


@pytest.mark.parametrize(
    "changes",
    [{}, {"participation": {"online": 0.9}}, {"participation": {"dropout": 0.1}}, {"popularity": {"cap": 2}}],
    ids=["as preset", "some offline", "some lost", "a cap"],
)
@pytest.mark.parametrize("made", [small_city, lambda: without_coordinates(small_city())], ids=["coordinates", "none"])
def test_people_in_other_rows_come_to_the_same_shared_model(made, changes):
    settings = change(SMALL_PRIVATE, **changes)
    town = made()
    order = np.random.default_rng(5).permutation(len(town.people))
    here, there = samples_of(town, settings), samples_of(in_another_order(town, order), settings)
    a, b = (after("local", samples, settings, iterations=2) for samples in (here, there))
    assert same_state(a, b)
