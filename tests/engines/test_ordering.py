"""The order in which a pass takes the samples."""

import numpy as np
import pytest

from prirec.engines.plain import sample_order
from support.cities import SMALL_PAPER, change, samples_of, small_city

SAMPLES = samples_of(small_city(), SMALL_PAPER)
PEOPLE = len(SAMPLES.ids)
SOME = np.arange(PEOPLE) % 3 > 0


def order_of(kind: str, *, iteration: int = 0, seed: int = 0, online: np.ndarray = SOME) -> np.ndarray:
    return sample_order(SAMPLES, change(SMALL_PAPER, order=kind, seed=seed), iteration=iteration, online=online)


@pytest.mark.parametrize("kind", ["shuffled", "windows"])
def test_every_record_of_those_online_comes_once(kind):
    assert sorted(order_of(kind)) == np.flatnonzero(SOME[SAMPLES.train.person]).tolist()
    everyone = order_of(kind, online=np.ones(PEOPLE, dtype=bool))
    assert sorted(everyone) == list(range(len(SAMPLES.train)))
    assert order_of(kind, online=np.zeros(PEOPLE, dtype=bool)).size == 0


@pytest.mark.parametrize("kind", ["shuffled", "windows"])
def test_the_order_follows_seed_and_iteration_alone(kind):
    first = order_of(kind).tolist()
    assert first == order_of(kind).tolist()
    assert first != order_of(kind, iteration=1).tolist()
    assert first != order_of(kind, seed=1).tolist()


def test_windows_take_the_same_samples_a_stretch_at_a_time_along_the_curve():
    shuffled, windows, width = order_of("shuffled"), order_of("windows"), PEOPLE
    assert len(shuffled) > 2 * width
    for begin in range(0, len(shuffled), width):
        stretch = slice(begin, begin + width)
        assert sorted(windows[stretch]) == sorted(shuffled[stretch])
    step = [np.abs(np.diff(SAMPLES.train.person[order])).mean() for order in (shuffled, windows)]
    assert step[1] < step[0] / 3


def test_shuffled_is_not_sorted():
    assert (np.diff(order_of("shuffled")) < 0).mean() == pytest.approx(0.5, abs=0.1)


def test_windows_put_nobody_twice_in_a_row():
    """With gamma = 1, Eq. (8) forgets the own model: the first of two steps in a row is lost before anyone sees it."""
    shuffled, windows = (SAMPLES.train.person[order_of(kind)] for kind in ("shuffled", "windows"))
    assert (np.diff(windows) == 0).mean() <= (np.diff(shuffled) == 0).mean() + 0.02
