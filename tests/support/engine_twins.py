"""The fast engine beside the oracle: cities in which they could differ, and runs in which they must not."""

from collections.abc import Iterable
from functools import cache

import numpy as np

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.engines.train import make_engine
from prirec.features.samples import Samples
from support.cities import (
    after,
    same_state,
    samples_of,
    small_city,
    with_idle_people,
    with_moods,
    with_one_place,
    without_coordinates,
)

UNUSUAL_CITIES = {
    "people without records": lambda: with_idle_people(small_city()),
    "one place": lambda: with_one_place(small_city()),
    "context columns": lambda: with_moods(small_city(), np.random.default_rng(1)),
    "no coordinates": lambda: without_coordinates(small_city()),
}


@cache
def city() -> Dataset:
    return small_city()


def assert_equal_runs(samples: Samples, settings: Settings, *, threads: int, iterations: int = 3) -> None:
    """What engines start from, what they say of each iteration, and the state that it leaves: the same to the bit."""
    slow, fast = make_engine("plain", samples, settings), make_engine("local", samples, settings, threads=threads)
    oracle, state = slow.start(), fast.start()
    if not same_state(state, oracle):
        raise AssertionError("the engines start from different states")
    for _ in range(iterations):
        found, wanted = fast.advance(state), slow.advance(oracle)
        if found != wanted:
            raise AssertionError(f"the fast engine says {found}, the oracle says {wanted}")
        if not same_state(state, oracle):
            raise AssertionError(f"after iteration {oracle.iteration} the states differ")


def different_models(variants: Iterable[Settings]) -> int:
    """How many of these settings lead to models of their own. A suite whose variants all come to the same would prove
    nothing."""
    states = (after("local", samples_of(city(), settings), settings, iterations=2) for settings in variants)
    return len({b"".join(array.tobytes() for array in state.arrays().values()) for state in states})
