"""One suite for all local mechanisms: what they give away, what they estimate, and how well they say so themselves."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import UsageError
from support import messages
from support.audit import epsilon_at_least, highest, lowest
from support.exact_figures import exp_at_most, fresh
from support.hypothesis_settings import FEW
from support.mechanisms import CASES, COLLECTIONS, swapped

every_mechanism = pytest.mark.parametrize("case", CASES, ids=str)


@every_mechanism
@FEW
@given(epsilon=st.floats(1e-3, 12))
def test_no_answer_favours_one_input_by_more_than_e_to_the_epsilon(case, epsilon):
    mechanism = case.build(epsilon)
    # the series cut short is below e^ε itself, so this is exact; and hardly any of ε is left unused
    assert mechanism.likelihood_ratio() <= exp_at_most(epsilon)
    assert mechanism.likelihood_ratio() >= exp_at_most(epsilon) * (1 - Fraction(1, 10**9))


@every_mechanism
def test_a_large_epsilon_still_gives_a_bounded_ratio(case):
    assert 2**30 < case.build(1000.0).likelihood_ratio() <= exp_at_most(128.0)


@every_mechanism
@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf, 1e-25])
def test_an_epsilon_that_cannot_be_spent_is_refused_by_name(case, epsilon):
    with pytest.raises(
        UsageError, match=messages.any_of(messages.not_positive("epsilon_per_.*"), messages.EPSILON_TOO_SMALL)
    ):
        case.build(epsilon)


# 6 sd over 8,000 collections, as strict as 3 over 2,000: false alarm 2e-9 for each of 7 estimates; 5 % of a width:
# 3e-10 where there is one estimate, 1e-18 where there are three. Must notice an ε off by 10 %, with odds of 3e-10 to
# miss it in a width (8.5 to 11 % off) and of less in a centre (over 20 sd off), and p exchanged with 1 - p
@pytest.mark.statistical
@every_mechanism
def test_estimates_are_unbiased_and_as_wide_as_predicted(case):
    mechanism, wrong = case.build(1.0), case.build(1.1)
    answers = case.answers(mechanism, fresh())
    estimates = case.decode(mechanism, answers)
    assert estimates.shape == (COLLECTIONS, len(case.truth))
    assert off_centre(estimates, case.truth, case.sd(mechanism)) < 6
    assert off_centre(case.decode(wrong, answers), case.truth, case.sd(mechanism)) > 6
    assert abs(width(estimates, case.sd(mechanism)) - 1) < 0.05
    assert abs(width(estimates, case.sd(wrong)) - 1) > 0.05

    inside_out = case.decode(mechanism, case.answers(swapped(mechanism), fresh()))
    assert off_centre(inside_out, case.truth, case.sd(mechanism)) > 6


@pytest.mark.statistical  # false alarm 2e-9; must notice an ε of 1.1 sold as 1, which is 7 sd off at least
@every_mechanism
def test_runs_show_no_more_than_the_claim_and_more_once_epsilon_is_off(case):
    assert 0.9 < epsilon_at_least(*case.events(case.build(1.0), 200_000, fresh())) <= 1.0
    assert epsilon_at_least(*case.events(case.build(1.1), 200_000, fresh())) > 1.0


def off_centre(estimates: np.ndarray, truth: np.ndarray, sd: np.ndarray) -> float:
    """How many standard errors the mean over all collections is away, for the worst coordinate."""
    return float(np.max(np.abs(estimates.mean(axis=0) - truth) / sd * math.sqrt(COLLECTIONS)))


def width(estimates: np.ndarray, sd: np.ndarray) -> float:
    """Observed over predicted standard deviation, all coordinates together."""
    return float(np.sqrt(np.mean(estimates.var(axis=0, ddof=1) / sd**2)))


def test_the_audit_knows_its_limits():
    nothing, everything = np.zeros(100, bool), np.ones(100, bool)
    assert lowest(0, 100) == 0
    assert highest(100, 100) == 1
    assert epsilon_at_least(nothing, everything) == 0
    assert epsilon_at_least(everything, nothing) > 1
    # Clopper and Pearson's published interval for 10 of 100 at 95 %: 4.90 % to 17.62 %
    assert lowest(10, 100, 0.025) == pytest.approx(0.0490, abs=1e-4)
    assert highest(10, 100, 0.025) == pytest.approx(0.1762, abs=1e-4)
