"""Every engine equals the oracle, engines/plain.py, bit for bit: all models, moments, averages and the history."""

from dataclasses import replace

import numpy as np
import pytest

from support.cities import SMALL_PAPER, SMALL_ROUNDS, change, samples_of, small_city
from support.engine_twins import UNUSUAL_CITIES, assert_equal_runs, city, different_models
from support.setting_variants import ROUNDS

PAPER = {
    "as preset": {},
    "some offline": {"participation": {"online": 0.7}},
    "random": {"neighbours": {"kind": "random"}},
    "random, some offline": {"neighbours": {"kind": "random"}, "participation": {"online": 0.7}},
    "random, fewer online than N": {"neighbours": {"kind": "random", "count": 40}, "participation": {"online": 0.2}},
    "fixed": {"neighbours": {"kind": "fixed"}},
    "fixed, some offline": {"neighbours": {"kind": "fixed"}, "participation": {"online": 0.3}},
    "among": {"neighbours": {"among": 20}},
    "metropolis": {"neighbours": {"weights": "metropolis"}},
    "metropolis, fixed, some offline": {
        "neighbours": {"kind": "fixed", "weights": "metropolis"}, "participation": {"online": 0.3}
    },
    "exponential": {"neighbours": {"weights": "exponential"}},
    "gaussian": {"neighbours": {"weights": "gaussian"}},
    "inverse": {"neighbours": {"weights": "inverse"}},
    "in windows": {"order": "windows"},
    "in windows, some offline, batch 7": {
        "order": "windows", "participation": {"online": 0.7}, "interaction": {"batch": 7}
    },
    "gamma 0": {"linear": {"gamma": 0.0}},
    "gamma 0.3": {"linear": {"gamma": 0.3}},
    "batch 7": {"interaction": {"batch": 7}},
    "K = 1": {"model": {"dimension": 1}},
    "K = 6, batch 7": {"model": {"dimension": 6}, "interaction": {"batch": 7}},
    "32 bits": {"ring": {"bits": 32, "fraction_bits": 16, "bound": 1000.0}},
    "32 bits, weights": {
        "ring": {"bits": 32, "fraction_bits": 16, "bound": 1000.0}, "neighbours": {"weights": "inverse"}
    },
}  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("changes", ROUNDS.values(), ids=ROUNDS)
def test_rounds_have_the_bits_of_the_oracle(changes, threads):
    settings = change(SMALL_ROUNDS, **changes)
    assert_equal_runs(samples_of(city(), settings), settings, threads=threads)


@pytest.mark.parametrize("changes", PAPER.values(), ids=PAPER)
def test_the_papers_schedule_has_the_bits_of_the_oracle(changes):
    settings = change(SMALL_PAPER, **changes)
    assert_equal_runs(samples_of(city(), settings), settings, threads=2, iterations=2)


@pytest.mark.parametrize("made", UNUSUAL_CITIES.values(), ids=UNUSUAL_CITIES)
def test_rounds_in_unusual_cities(made):
    settings = change(SMALL_ROUNDS, participation={"online": 0.9, "dropout": 0.1})
    assert_equal_runs(samples_of(made(), settings), settings, threads=2)


def test_rounds_before_anybody_has_a_record():
    samples = samples_of(city(), SMALL_ROUNDS)
    train, nothing = samples.train, slice(0, 0)
    empty = replace(
        train, offsets=np.zeros_like(train.offsets), person=train.person[nothing], place=train.place[nothing],
        label=train.label[nothing], context=train.context[nothing],
    )  # fmt: skip
    assert_equal_runs(replace(samples, train=empty), SMALL_ROUNDS, threads=2)


@pytest.mark.parametrize("made", UNUSUAL_CITIES.values(), ids=UNUSUAL_CITIES)
def test_samples_in_unusual_cities(made):
    unusual = made()
    kind = "nearest" if unusual.places.location is not None else "random"
    settings = change(SMALL_PAPER, neighbours={"kind": kind})
    assert_equal_runs(samples_of(unusual, settings), settings, threads=2)


def test_rounds_with_more_threads_than_people():
    settings = change(SMALL_ROUNDS, floor=2)
    assert_equal_runs(samples_of(small_city(people=7, records=30), settings), settings, threads=12)


def test_the_settings_of_this_suite_make_a_difference():
    assert different_models(change(SMALL_ROUNDS, **changes) for changes in ROUNDS.values()) == len(ROUNDS)
