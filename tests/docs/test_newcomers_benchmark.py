"""People who were not there when the model was trained."""

import numpy as np
import pytest

from prirec import config
from prirec.data.synthetic import CityPlan, make_city
from prirec.errors import UsageError
from support import messages
from support.pages import page_writer

CITY = make_city(CityPlan(people=600, places=150, records=24_000), np.random.default_rng(4))
SETTINGS = config.load(changes={"preset": "rounds", "iterations": 8, "linear.alpha": 0.05})


@pytest.fixture
def newcomers(monkeypatch):
    return page_writer("benchmarks/newcomers.py", monkeypatch).newcomers


def test_the_mean_of_others_serves_newcomers_better_than_nothing(newcomers):
    found = newcomers(CITY, SETTINGS, share=0.2)
    nothing, everyone, own = found.values()
    assert min(everyone.at_once, own.at_once) > nothing.at_once + 0.02
    assert min(everyone.after_learning, own.after_learning) > nothing.at_once


def test_newcomers_without_a_latent_vector_are_served_as_well_and_learn_one(newcomers):
    settings = config.load(changes={"preset": "rounds", "iterations": 8, "linear.alpha": 0.05, "latent.dimension": 4})
    plain, found = newcomers(CITY, SETTINGS, share=0.2), newcomers(CITY, settings, share=0.2)
    own = "the mean of the own cell's cohorts"
    assert found[own].at_once == pytest.approx(plain[own].at_once, abs=0.02)
    assert found[own].after_learning != plain[own].after_learning
    assert found["zero"].after_learning > found["zero"].at_once


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_newcomers_are_some_and_not_all(newcomers, share):
    with pytest.raises(UsageError, match=messages.Foreign.SHARE_OF_NEWCOMERS_OUT_OF_RANGE):
        newcomers(CITY, SETTINGS, share=share)
