"""A bit for every POI under one budget: never above it, and nothing of it left unused."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, ks_2samp

from prirec.errors import UsageError
from prirec.privacy.accountant import Spent
from prirec.privacy.sampling_pois import SampledPois, look_up
from prirec.privacy.units import Unit, local_loss
from prirec.privacy.whole_catalogue import delta_of_bits, epsilon_of_a_bit
from support.exact import exp_at_most, fresh
from support.patience import FEW


def exact_delta(epsilon_per_bit: float, pois: int, epsilon_per_user: float) -> Fraction:
    """The slow twin: over all numbers of right coins, in fractions."""
    e, whole = exp_at_most(epsilon_per_bit), exp_at_most(epsilon_per_user)
    right = e / (1 + e)
    told = Fraction(0)
    for k in range(pois + 1):
        own, other = (comb(pois, k) * p**k * (1 - p) ** (pois - k) for p in (right, 1 - right))
        told += max(Fraction(0), own - whole * other)
    return told


@FEW
@given(bit=st.floats(0.01, 2), pois=st.integers(1, 30), user=st.floats(0.1, 6))
def test_delta_is_the_sum_over_all_outcomes(bit: float, pois: int, user: float) -> None:
    assert delta_of_bits(bit, pois=pois, epsilon_per_user=user) == pytest.approx(
        float(exact_delta(bit, pois, user)), rel=1e-9, abs=1e-15
    )


@pytest.mark.parametrize("user", [0.25, 1.0, 8.0])
@pytest.mark.parametrize("pois", [2, 300, 4000])
def test_all_bits_together_keep_the_budget_and_a_little_more_would_not(pois: int, user: float) -> None:
    """The accountant composes them too, another way."""
    bit = epsilon_of_a_bit(user, delta=1e-6, pois=pois)
    assert bit.unit is Unit.BIT

    def all_of_them(epsilon: float) -> Spent:
        return Spent(local=(local_loss(epsilon, Unit.USER),) * pois)

    assert all_of_them(bit.epsilon).within(user, 1e-6)
    assert not all_of_them(bit.epsilon * 1.01).within(user, 1e-6)
    assert bit.epsilon >= user / pois * (1 - 1e-12)


def test_delta_buys_a_lot_for_a_large_catalogue() -> None:
    bit, right = epsilon_of_a_bit(1.0, delta=1e-6, pois=118_598).epsilon, np.arange(118_599)
    assert bit > 50 / 118_598
    ratio = (2 * right - 118_598) * bit
    told = binom.pmf(right, 118_598, 1 / (1 + np.exp(-bit))) * -np.expm1(np.minimum(1 - ratio, 0))
    assert told.sum() == pytest.approx(1e-6, rel=1e-5)
    assert told.sum() <= 1e-6
    assert epsilon_of_a_bit(1.0, delta=0.0, pois=118_598).epsilon == pytest.approx(1 / 118_598, rel=1e-9)
    assert epsilon_of_a_bit(1.0, delta=0.0, pois=118_598).epsilon * 118_598 <= 1


@pytest.mark.parametrize(("user", "delta", "pois"), [(1.0, 1e-6, 0), (1.0, 1.0, 5), (1.0, -0.1, 5), (0.0, 1e-6, 5)])
def test_what_cannot_be_priced_is_refused(user: float, delta: float, pois: int) -> None:
    with pytest.raises(UsageError):
        epsilon_of_a_bit(user, delta=delta, pois=pois)


# -- sampled POIs: totals -----------------------------------------------------------------------------------------


@pytest.mark.statistical  # false alarm 1e-9; must notice another k, and everyone asked about everything
def test_simulated_estimates_have_the_law_of_single_answers() -> None:
    people, visitors, pois, runs, rng = 40, 25, 3, 100_000, np.random.default_rng()
    mechanism = SampledPois(2.0, pois, sampled=2)
    # in every run the first 25 people were at POI 0, nobody was elsewhere
    there = np.tile(np.arange(people) < visitors, runs)
    starts = np.concatenate([[0], np.cumsum(there)])
    asked = mechanism.questions(runs * people, fresh())
    given_answers = mechanism.answers(
        look_up(asked, starts=starts, places=np.zeros(starts[-1], dtype=np.int32), pois=pois), fresh()
    )
    about, yes = ((asked == 0) & truth for truth in (True, given_answers))
    counts = [part.reshape(runs, -1).sum(axis=1) for part in (about, yes)]
    q = float(mechanism.coin.flip)
    one_by_one = (counts[1] - q * counts[0]) * pois / 2 / (1 - 2 * q)

    def at_once(other: SampledPois) -> np.ndarray:
        found = other.simulate(np.full(runs, visitors), people=people, rng=rng)  # as many POIs with the same law
        return found + rng.normal(0, 1e-6, runs)  # sums in another order differ in the last digit

    one_by_one = one_by_one + rng.normal(0, 1e-6, runs)
    assert ks_2samp(one_by_one, at_once(mechanism)).pvalue > 1e-9
    assert ks_2samp(one_by_one, at_once(SampledPois(2.0, pois, sampled=1))).pvalue < 1e-9
    assert ks_2samp(one_by_one, at_once(SampledPois(2.0, pois, sampled=3))).pvalue < 1e-9


def test_more_visitors_than_people_are_refused() -> None:
    for visitors in ([11], [-1]):
        with pytest.raises(UsageError, match="no more than all people"):
            SampledPois(1.0, 1).simulate(np.array(visitors), people=10, rng=np.random.default_rng(0))
