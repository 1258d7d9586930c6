"""One bit or one cell about a real number: bounds, grids, and every cell's exact probability."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from prirec.errors import UsageError
from prirec.privacy.one_bit_mean import GRID, OneBitMean, grid_steps
from prirec.privacy.piecewise import CELLS, Piecewise
from prirec.privacy.units import Unit
from support.exact import exp_at_most, fresh
from support.patience import FEW


@FEW
@given(epsilon=st.floats(0.01, 12), places=st.tuples(st.floats(0, 1), st.floats(0, 1)), cell=st.integers(0, CELLS - 1))
def test_every_cell_is_about_as_likely_from_any_value(epsilon, places, cell):
    mechanism = Piecewise(0.0, 1.0, epsilon)
    here, there = (int(place * (CELLS - mechanism.width)) for place in places)
    ratio = mechanism.cell_probability(cell, here) / mechanism.cell_probability(cell, there)
    assert ratio in {1, mechanism.likelihood_ratio(), 1 / mechanism.likelihood_ratio()}
    assert ratio <= exp_at_most(epsilon)


@pytest.mark.parametrize("place", [0, 12_345, None])
def test_the_cells_add_up_to_one_and_their_mean_is_where_the_estimate_expects_it(place):
    mechanism = Piecewise(0.0, 1.0, 1.0)
    rest = CELLS - mechanism.width
    place = rest if place is None else place
    inside, outside = mechanism.cell_probability(place, place), mechanism.outside / rest
    assert inside * mechanism.width + outside * rest == 1
    every, window = Fraction(CELLS * (CELLS - 1), 2), mechanism.width * (2 * place + mechanism.width - 1) // 2
    mean = inside * window + outside * (every - window)
    slope, start = mechanism._line()
    assert slope * place + start == mean


@pytest.mark.statistical  # false alarm 1e-9; must notice an ε off by 10 %
def test_answers_fall_into_the_window_and_around_it_as_they_should():
    mechanism, wrong = Piecewise(-1.0, 1.0, 1.0), Piecewise(-1.0, 1.0, 1.1)
    place = (CELLS - mechanism.width) // 2
    cells = mechanism.answers(np.zeros(200_000), fresh())
    edges = [0, place // 2, place, place + mechanism.width // 3, place + mechanism.width, CELLS]
    counts = np.histogram(cells, bins=edges)[0]

    def expected(law):
        sizes = np.diff(edges)
        inside = [False, False, True, True, False]
        chance = [float(law.cell_probability(place if i else 0 if place else 1, place)) for i in inside]
        weights = sizes * np.array(chance)
        return 200_000 * weights / weights.sum()

    assert cells.min() >= 0
    assert cells.max() < CELLS
    assert chisquare(counts, expected(mechanism)).pvalue > 1e-9
    assert chisquare(counts, expected(wrong)).pvalue < 1e-9


def test_at_a_high_price_the_answer_is_close_to_the_value():
    mechanism = Piecewise(0.0, 100.0, 40.0)
    values = np.linspace(0, 100, 11).reshape(1, 11)
    assert mechanism.estimates(mechanism.answers(values, fresh())) == pytest.approx(values, abs=1e-3)


def test_piecewise_is_narrower_than_one_bit_from_a_middling_epsilon_on():
    values = np.full(100, 0.5)
    assert Piecewise(0, 1, 4.0).standard_deviation(values) < OneBitMean(0, 1, 4.0).standard_deviation(values)


def test_values_are_put_on_the_grid_to_nearest_and_the_bounds_are_on_it():
    steps = grid_steps(np.array([-3.0, -1.0, 1.0]), low=-3.0, high=1.0, steps=GRID)
    assert steps.tolist() == [0, GRID // 2, GRID]


def test_losses_are_for_each_value():
    for mechanism in (OneBitMean(0.0, 1.0, 0.5), Piecewise(0.0, 1.0, 0.5)):
        assert (mechanism.loss().epsilon, mechanism.loss().unit) == (0.5, Unit.VALUE)


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0), (np.nan, 1.0), (0.0, np.inf), (-1.7e308, 1.7e308)])
@pytest.mark.parametrize("mechanism", [OneBitMean, Piecewise])
def test_bounds_that_hold_nothing_are_refused(mechanism, bounds):
    with pytest.raises(UsageError, match="public bounds"):
        mechanism(*bounds, 1.0)


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, np.inf])
def test_a_value_outside_its_bounds_is_refused_and_not_told(value):
    with pytest.raises(UsageError, match="outside its public bounds") as caught:
        OneBitMean(0.0, 1.0, 1.0).bits(np.array([0.5, value]), fresh())
    assert str(value) not in str(caught.value)
