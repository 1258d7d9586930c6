"""The paper sets S_if = 1, which adds models up instead of averaging them (decisions/0001)."""

import numpy as np
import pytest

from prirec.errors import UsageError
from support import messages
from support.cities import SMALL_PAPER, after, change, samples_of, small_city

CITY = small_city(people=40, places=10, records=200)


@pytest.mark.parametrize("engine", ["plain", "local"])
def test_edge_weights_of_one_leave_the_ring_within_a_few_passes(engine):
    settings = change(SMALL_PAPER, neighbours={"weights": "ones-diverges"})
    samples = samples_of(CITY, settings)
    with pytest.raises(UsageError, match=messages.BEYOND_THE_BOUND):
        after(engine, samples, settings, iterations=4)


def test_weights_that_sum_to_one_stay_far_inside():
    settings = change(SMALL_PAPER, neighbours={"weights": "metropolis"})
    state = after("local", samples_of(CITY, settings), settings, iterations=4)
    assert np.abs(state.linear).max() < 10
