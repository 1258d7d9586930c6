"""What releases come to together: against closed forms, slow twins and dp-accounting; never under."""

import itertools
import math
from collections import Counter
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from prirec.errors import UsageError
from prirec.privacy import accountant
from prirec.privacy.accountant import (
    GRAINS,
    Adjacency,
    PrivacyLoss,
    Spent,
    Unit,
    affordable,
    local_loss,
    noise_multiplier,
    total,
)
from support import messages
from support.accounting import epsilon_by_pld, gaussian


def local(*epsilons: float, delta: float = 0.0) -> Spent:
    return Spent(0, tuple(PrivacyLoss(e, Unit.USER, delta, Adjacency.REPLACE_ONE) for e in epsilons))


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.25, 15.41), (0.5, 8.06), (1, 4.225), (2, 2.23), (4, 1.194)])
def test_sigma_of_one_release_is_the_known_one(epsilon, sigma):
    assert noise_multiplier(epsilon, 1e-6) == pytest.approx(sigma, rel=6e-4)
    assert affordable(epsilon, 1e-6).loss(1e-6).epsilon == pytest.approx(epsilon, rel=1e-8)


def test_what_the_default_budget_affords_is_written_down_as_it_is_computed():
    written, answers = affordable(1.0, 1e-6).grains, (local_loss(0.0, Unit.USER),)
    assert Spent(written, answers).within(1.0, 1e-6)
    assert not Spent(written + 1, answers).within(1.0, 1e-6)


@given(epsilon=st.floats(0.01, 20), exponent=st.floats(-12, -1))
def test_what_is_affordable_is_within_and_a_little_more_is_not(epsilon, exponent):
    delta = 10**exponent
    most = affordable(epsilon, delta)
    assert most.within(epsilon, delta)
    assert not Spent(int(most.grains * (1 + 1e-6)) + 2).within(epsilon, delta)


@given(sigma=st.floats(0.2, 300), exponent=st.floats(-10, -2))
def test_epsilon_is_rounded_up_and_no_further(sigma, exponent):
    delta, spent = 10**exponent, gaussian(sigma)
    found = spent.loss(delta).epsilon
    assert spent.delta(found) <= delta
    assert found == 0 or spent.delta(found * (1 - 1e-6)) > delta * (1 - 2e-9)


@pytest.mark.parametrize("sigma", [0.5, 1.0, 4.2, 50.0])
@pytest.mark.parametrize("epsilon", [-1.0, 0.0, 0.3, 2.0])
def test_delta_is_the_integral_that_defines_it(sigma, epsilon):
    def excess(x: float) -> float:
        return max(0.0, norm.pdf(x, 1 / sigma) - math.exp(epsilon) * norm.pdf(x))

    crossing = sigma * epsilon + 1 / (2 * sigma)
    start = max(crossing, -30.0)
    integral = quad(excess, start, start + 20, limit=500, epsabs=0)[0] + quad(excess, start + 20, start + 70)[0]
    assert gaussian(sigma).delta(epsilon) == pytest.approx(integral, rel=1e-6, abs=1e-300)


def test_gaussian_releases_add_up_by_their_squares():
    parts = [gaussian(3.0), gaussian(4.0), gaussian(12.0)]
    whole = math.sqrt(1 / (1 / 9 + 1 / 16 + 1 / 144))
    assert total(parts).noise_multiplier == pytest.approx(whole, rel=1e-12)
    assert total(parts).grains >= GRAINS * (1 / 9 + 1 / 16 + 1 / 144)
    assert Spent().noise_multiplier == math.inf


def test_between_any_two_contributions_the_sensitivity_doubles():
    twice = gaussian(6.0).loss(1e-6, Adjacency.REPLACE_ONE)
    assert twice.adjacency is Adjacency.REPLACE_ONE
    assert twice.epsilon == pytest.approx(gaussian(3.0).loss(1e-6).epsilon, rel=1e-8)
    # tighter than what follows from (ε, δ) alone
    assert twice.epsilon < gaussian(6.0).loss(1e-6 / 4).replace_one().epsilon
    zero_out = Spent(0, (PrivacyLoss(0.5, Unit.USER),))
    assert zero_out.loss(1e-9, Adjacency.REPLACE_ONE).epsilon == pytest.approx(1.0, rel=1e-6)
    assert local(0.5).loss(1e-9, Adjacency.REPLACE_ONE).epsilon == pytest.approx(0.5, rel=1e-6)


def slow_delta(epsilons: list[float], spent: Spent, epsilon: float) -> float:
    """All outcomes of all coins, one by one."""
    found = 0.0
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        chance = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, epsilons, strict=True))
        ratio = sum(s * e for s, e in zip(signs, epsilons, strict=True))
        found += chance * spent.delta(epsilon - ratio)
    return found


@given(
    epsilons=st.lists(st.sampled_from([0.1, 0.3, 0.31, 1.0, 2.0]), max_size=6),
    grains=st.sampled_from([0, GRAINS // 20, GRAINS]),
    epsilon=st.floats(0, 4),
)
def test_local_answers_compose_as_coins_do(epsilons, grains, epsilon):
    spent = Spent(grains) + local(*epsilons)
    assert spent.delta(epsilon) == pytest.approx(slow_delta(epsilons, Spent(grains), epsilon), rel=1e-9, abs=1e-14)
    assert spent.loss(1e-6).epsilon <= (Spent(grains).loss(1e-6).epsilon + sum(epsilons)) * (1 + 1e-8)


def test_many_small_answers_cost_less_than_their_sum_and_one_costs_itself():
    assert local(0.7).loss(1e-12).epsilon == pytest.approx(0.7, rel=1e-9)
    assert local(0.7).loss(1e-12).epsilon <= 0.7
    assert local(*[0.05] * 100).loss(1e-6).epsilon < 0.55 * 5


def test_too_many_outcomes_fall_back_on_the_sum_and_never_under(monkeypatch):
    parts = local(*[0.01 * k for k in range(1, 9)]) + gaussian(5.0)
    exact = parts.loss(1e-6).epsilon
    monkeypatch.setattr(accountant, "_MOST_OUTCOMES", 16)
    joined = parts.loss(1e-6).epsilon
    assert exact < joined < exact + 0.1
    monkeypatch.setattr(accountant, "_MOST_OUTCOMES", 0)
    assert joined < parts.loss(1e-6).epsilon <= gaussian(5.0).loss(1e-6).epsilon + 0.36


def test_a_delta_of_its_own_is_added_to_what_the_rest_has():
    leaky = local(0.5, delta=1e-7) + local(0.5, delta=1e-7)
    assert leaky.delta(10.0) == pytest.approx(2e-7, rel=1e-6)
    assert leaky.loss(1e-6).epsilon <= local(0.5, 0.5).loss(8e-7).epsilon * (1 + 1e-6)
    assert local(0.5, delta=1.0).delta(50) == 1
    with pytest.raises(UsageError, match=messages.NO_EPSILON_FOR_THIS_DELTA):
        leaky.loss(1e-7)


def test_no_release_costs_no_epsilon():
    assert Spent().loss(1e-6).epsilon == 0
    assert total([]) == Spent()
    assert local().delta(0) == 0
    assert gaussian(1e6).loss(0.1).epsilon == 0


def test_losses_of_different_units_do_not_add_up():
    with pytest.raises(UsageError, match=messages.LOCAL_LOSSES_OF_ANOTHER_UNIT):
        Spent(0, (local_loss(1.0, Unit.BIT),))
    event = Spent(0, (local_loss(1.0, Unit.EVENT),), Unit.EVENT)
    assert event.loss(1e-6).unit is Unit.EVENT
    with pytest.raises(UsageError, match=messages.SPENDING_OF_DIFFERENT_UNITS):
        event + Spent()
    assert total([event, event], Unit.EVENT).local == event.local * 2


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
def test_an_epsilon_that_cannot_be_spent_is_refused(epsilon):
    with pytest.raises(UsageError, match=messages.not_positive("epsilon")):
        affordable(epsilon, 1e-6)


@pytest.mark.parametrize("local", [-0.1, 1.1, math.nan])
def test_local_answers_cost_a_part_of_the_epsilon(local):
    with pytest.raises(UsageError, match=messages.PART_FOR_LOCAL_ANSWERS_OUT_OF_RANGE):
        affordable(1.0, 1e-6, local=local)


@pytest.mark.parametrize("delta", [0, 1, -1, math.nan, math.inf])
def test_a_delta_outside_0_and_1_is_refused(delta):
    for ask in (lambda: affordable(1, delta), lambda: gaussian(4).loss(delta)):
        with pytest.raises(UsageError, match=messages.DELTA_OUT_OF_RANGE):
            ask()


def test_what_was_spent_is_not_negative():
    with pytest.raises(UsageError, match=messages.SPENDING_NEGATIVE):
        Spent(-1)


# dp-accounting

PLANS = [
    [gaussian(noise_multiplier(1, 1e-6))],
    [gaussian(5.05)] + [gaussian(34.5)] * 20,
    [gaussian(1.194 / 0.7**0.5)] + [gaussian(1.194 * (30 / 0.15) ** 0.5)] * 60,
    [gaussian(60.0)] * 100,
    [gaussian(9.0), local(0.5)],
    [gaussian(20.0)] * 10 + [local(0.3)] * 5,
    [local(0.25)] * 8,
    [gaussian(6.0), local(0.4, delta=1e-8)],
]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("delta", [1e-5, 1e-6, 1e-7])
def test_plans_cost_what_dp_accounting_says_and_never_under(plan, delta):
    """Its grid is rounded up or down at will, so that the truth lies between: as ours does."""
    ours, above = total(plan).loss(delta).epsilon, epsilon_by_pld(plan, delta)
    assert ours == pytest.approx(above, rel=1e-3)
    assert ours >= rounded_down(plan, delta)
    assert ours >= above * (1 - 1e-5)


def rounded_down(plan: list[Spent], delta: float) -> float:
    """Local losses as the coins that they are, and without what they tell with a δ of their own."""
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism, from_randomized_response

    down = {"pessimistic_estimate": False}
    noisy = Counter(one.noise_multiplier for one in plan if one.grains)
    coins = Counter(loss.epsilon for one in plan for loss in one.local)
    parts = [from_gaussian_mechanism(s, use_connect_dots=False, **down).self_compose(n) for s, n in noisy.items()]
    parts += [from_randomized_response(2 / (1 + math.exp(e)), 2, **down).self_compose(n) for e, n in coins.items()]
    return reduce(lambda one, other: one.compose(other), parts).get_epsilon_for_delta(delta)


def test_epsilon_against_sigma_never_wavers():
    """A finer look at both formulas of δ(ε) and at where they meet."""
    found = np.array([gaussian(float(s)).loss(1e-6).epsilon for s in np.logspace(-0.5, 2.5, 200)])
    assert np.all(np.diff(found) < 0)
