"""Popularity alone on the real data, by every mechanism: the figures that docs/mechanisms.md stands on."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from prirec.config import Settings
from prirec.data.prepare import Prepared, prepare
from prirec.data.published import FORMATS
from prirec.simulate.forecast import Price, gather, plain, popularity_auc
from prirec.simulate.setup import recipe
from prirec.util.keyed_random import generator
from prirec_experiments.unary import COMPARED

DATA = os.environ.get("PRIREC_DATA")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not DATA, reason="PRIREC_DATA does not name the folder with the real data"),
    pytest.mark.xdist_group("popularity"),
]
SEEDS = (0, 1, 2)
NAMED = {one.name: one for one in COMPARED}


@cache
def city(name: str, seed: int) -> Prepared:
    dataset = FORMATS[name].read(Path(str(DATA)) / name.replace("-", "_")).dataset
    return prepare(dataset, recipe(Settings().data, labelled=dataset.labelled), generator(seed, "data"))


@cache
def auc(name: str, by: str, epsilon_per_user: float = 1.0) -> float:
    """The mean over three splits, each with noise of its own."""
    found = []
    for seed in SEEDS:
        prepared = city(name, seed)
        collection = gather(prepared)
        if by == "plain":
            found.append(popularity_auc(plain(collection), prepared))
        else:
            simulated = NAMED[by].simulate(collection, Price(epsilon_per_user), generator(seed, "popularity"))
            found.append(popularity_auc(simulated.popularity, prepared))
    return float(np.mean(found))


def test_tokyo_plain_counts_are_the_ceiling() -> None:
    assert auc("foursquare-tokyo", "plain") == pytest.approx(0.780, abs=0.005)


def test_tokyo_secure_sum_at_epsilon_1_and_4() -> None:
    assert auc("foursquare-tokyo", "secure sum") >= 0.738
    assert auc("foursquare-tokyo", "secure sum", 4.0) >= 0.765


def test_tokyo_the_paper_s_two_readings() -> None:
    assert auc("foursquare-tokyo", "Eq. (6)") == pytest.approx(0.69, abs=0.01)
    assert auc("foursquare-tokyo", "records only") == pytest.approx(0.77, abs=0.01)


@pytest.mark.parametrize("name", ["foursquare-tokyo", "yelp"])
def test_at_epsilon_1_a_secure_sum_is_better_than_a_local_mechanism(name: str) -> None:
    local = auc(name, "unary encoding")
    assert auc(name, "secure sum") > local + 0.1
    assert auc(name, "secure sum, 20 places") > local + 0.05
    assert auc(name, "secure sum") > auc(name, "secure sum, 20 places") + 0.01


def test_in_tokyo_the_posterior_is_no_worse_than_the_noisy_sums() -> None:
    assert auc("foursquare-tokyo", "secure sum, posterior") >= auc("foursquare-tokyo", "secure sum") - 1e-6


@pytest.mark.long
def test_on_yelp_the_posterior_is_better_than_the_noisy_sums() -> None:
    assert auc("yelp", "secure sum, posterior") > auc("yelp", "secure sum") + 0.004
    assert auc("yelp", "secure sum, posterior", 0.25) > auc("yelp", "secure sum", 0.25) + 0.01
