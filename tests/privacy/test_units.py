"""A loss has a unit and an adjacency, and e^ε is never taken for more than it is."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.privacy.accountant import (
    Adjacency,
    PrivacyLoss,
    Unit,
    checked_epsilon,
    exp_below,
    local_loss,
    words_at_least,
)
from support import messages
from support.exact_figures import exp_at_most


def test_replacing_a_contribution_goes_through_the_empty_one():
    loss = PrivacyLoss(1.0, Unit.USER, 1e-6).replace_one()
    assert loss.adjacency is Adjacency.REPLACE_ONE
    assert loss.epsilon == 2.0
    assert loss.delta == pytest.approx(1e-6 * (1 + math.e))
    assert loss.replace_one() is loss


def test_a_delta_never_exceeds_one_and_none_stays_none():
    assert PrivacyLoss(1000.0, Unit.USER, 0.5).replace_one().delta == 1
    assert PrivacyLoss(1000.0, Unit.USER).replace_one().delta == 0
    assert PrivacyLoss(1.0, Unit.BIT, 0.5).times(3, Unit.USER).delta == 1


def test_a_loss_reads_with_its_unit_and_its_worlds():
    assert str(PrivacyLoss(1.0, Unit.USER, 1e-6)) == "ε = 1, δ = 1e-06 per user (a contribution or none)"
    assert str(local_loss(0.5, Unit.BIT)) == "ε = 0.5 per bit (a contribution or any other)"


@given(epsilon=st.floats(1e-12, 64))
def test_the_fraction_is_at_most_e_to_the_epsilon_and_hardly_less(epsilon):
    series = exp_at_most(epsilon)
    assert exp_below(epsilon) <= series
    assert exp_below(epsilon) >= series * (1 - Fraction(1, 10**50))


def test_beyond_64_the_fraction_stays():
    assert exp_below(1e300) == exp_below(64)


@given(probability=st.fractions(0, 1))
def test_words_are_the_least_that_suffice(probability):
    words = words_at_least(probability)
    assert Fraction(words, 2**64) >= probability > Fraction(words - 1, 2**64)


@pytest.mark.parametrize("epsilon", [-1.0, math.nan, math.inf])
def test_a_loss_that_is_no_number_is_refused(epsilon):
    with pytest.raises(UsageError):
        PrivacyLoss(epsilon, Unit.USER)
    with pytest.raises(UsageError, match=messages.not_positive("epsilon_per_user")):
        checked_epsilon(epsilon, "epsilon_per_user")


@pytest.mark.parametrize("delta", [-0.1, 1.1, math.nan])
def test_a_delta_is_a_probability(delta):
    with pytest.raises(UsageError):
        PrivacyLoss(1.0, Unit.USER, delta)


def test_losses_are_not_counted_backwards():
    with pytest.raises(UsageError):
        PrivacyLoss(1.0, Unit.BIT).times(-1, Unit.USER)
