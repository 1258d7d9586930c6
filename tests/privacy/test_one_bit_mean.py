"""One bit about a real number: bounds, the grid, the law of totals. Ratio, centre and width: test_every_mechanism."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from prirec.errors import UsageError
from prirec.features.popularity import OwnCounts
from prirec.privacy.accountant import Unit
from prirec.privacy.one_bit_mean import GRID, OneBitMean
from support import messages
from support.exact_figures import fresh

UNIT = OneBitMean(0.0, 1.0, 0.5)


def test_values_are_put_on_the_grid_to_nearest_and_the_bounds_are_on_it() -> None:
    assert OneBitMean(-3.0, 1.0, 1.0).steps(np.array([-3.0, -1.0, 1.0])).tolist() == [0, GRID // 2, GRID]


def test_the_loss_is_for_each_value() -> None:
    assert (UNIT.loss().epsilon, UNIT.loss().unit) == (0.5, Unit.VALUE)


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0), (np.nan, 1.0), (0.0, np.inf), (-1.7e308, 1.7e308)])
def test_bounds_that_hold_nothing_are_refused(bounds: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match=messages.PUBLIC_BOUNDS_INVALID):
        OneBitMean(*bounds, 1.0)


@pytest.mark.parametrize("value", [-0.1, 1.1, np.nan, np.inf])
def test_a_value_outside_its_bounds_is_refused_and_not_shown(value: float) -> None:
    with pytest.raises(UsageError, match=messages.OUTSIDE_PUBLIC_BOUNDS) as caught:
        UNIT.bits(np.array([0.5, value]), fresh())
    assert str(value) not in str(caught.value)


def test_no_values_have_a_wider_sum_than_those_in_the_middle() -> None:
    mechanism = OneBitMean(-2.0, 4.0, 1.0)
    widest, nobody, crowd = mechanism.largest_deviation(np.array([9, 0, 100]), reports=9)
    assert mechanism.standard_deviation(np.full(9, 1.0)) == pytest.approx(widest)
    assert mechanism.standard_deviation(np.linspace(-2.0, 4.0, 9)) < widest
    assert mechanism.standard_deviation(np.full(9, -2.0)) == pytest.approx(nobody)
    assert crowd == widest  # an estimate can be above all who report


@pytest.mark.statistical  # false alarm 1e-9; must notice values of the opposite sign
def test_simulated_ones_have_the_law_of_single_bits_added_up() -> None:
    """Two of 20 people have a value, the others say the lower bound."""
    mechanism, runs, people, rng = OneBitMean(-1.0, 1.0, 2.0), 20_000, 20, np.random.default_rng()
    values = np.full((runs, people), -1.0)
    values[:, :2] = 1.0, 0.2
    single = mechanism.bits(values, fresh()).sum(axis=1)

    def simulated(sign: float) -> np.ndarray:
        # each run is a place of its own: its two visitors are people 0 and 1
        pairs = np.concatenate([np.arange(runs), runs + np.arange(runs)])
        own = OwnCounts(runs, pairs, sign * np.repeat([1.0, 0.2], runs))
        return mechanism.simulate_ones(own, reports=people, rng=rng)

    assert ks_2samp(single, simulated(1.0)).pvalue > 1e-9
    assert ks_2samp(single, simulated(-1.0)).pvalue < 1e-9


@pytest.mark.statistical  # false alarm 6e-7 (5 sd); must notice that one of three values is lost
@pytest.mark.parametrize("reports", [3, 50])
def test_the_sum_of_a_place_is_estimated_without_bias_whoever_reports(reports: int) -> None:
    """Of those who report about a place three have values; their mean is then the sum over a known number."""
    mechanism, places = OneBitMean(-1.0, 1.0, 3.0), 40_000
    own = OwnCounts(places, np.arange(3 * places), np.full(3 * places, 0.9))
    reported = np.full(places, reports)
    ones = mechanism.simulate_ones(own, reports=reported, rng=np.random.default_rng())
    found = mechanism.estimated_sum(ones, reports=reported)
    standard_error = mechanism.standard_deviation(np.r_[np.full(3, 0.9), np.full(reports - 3, -1.0)]) / places**0.5
    above = found + (reports - 3)  # what the three values come to, without the others' lower bounds
    assert abs(above.mean() - 3 * 0.9) < 5 * standard_error
    assert abs(above.mean() - 2 * 0.9) > 5 * standard_error  # 24 sd or more


def test_more_values_than_reports_are_refused() -> None:
    own = OwnCounts(1, np.arange(3), np.zeros(3))
    with pytest.raises(UsageError, match=messages.MORE_VALUES_THAN_REPORTS):
        UNIT.simulate_ones(own, reports=2, rng=np.random.default_rng(0))
