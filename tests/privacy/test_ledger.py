"""The rules of one person's ledger: charged once, never refunded, never overspent."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.config import PRIVATE
from prirec.errors import PolicyError, StateError, UsageError
from prirec.features.columns import ModelSize
from prirec.privacy.accountant import GRAINS, MOST_GRAINS, PrivacyLoss, Spent, Unit, affordable, local_loss
from prirec.privacy.ledger import (
    ASSUMED,
    ASSUMED_OF_TWO,
    Budget,
    Charge,
    Ledger,
    LedgerEntry,
    Verdict,
    account,
    admit,
    fits,
    how_many_more,
)
from prirec.privacy.noise import Participants
from prirec.privacy.plan import plan_for
from support import messages
from support.accounting import gaussian
from support.cities import change

ONE_ROUND = Spent(affordable(1.0, 1e-6).grains // 10)
BUDGET = Budget(1.0, 1e-6)


def charge(number: int = 1, *, attempt: int = 0, kind: str = "interaction", cost: Spent = ONE_ROUND) -> Charge:
    return Charge(bytes(16), kind, number, attempt, "learning", cost)


def paid(*charges: Charge, day: int = 100) -> Ledger:
    return Ledger(tuple(LedgerEntry(one, day) for one in charges))


def test_the_rounds_of_a_plan_cost_the_plan_and_one_more_is_refused():
    found = plan_for(change(PRIVATE, iterations=17), people=5000, pois=1000, size=ModelSize.assumed(19))
    ledger = Ledger()
    for release in found.releases:
        for number in range(release.of.releases):
            one = Charge(bytes(16), release.of.kind, number, 0, release.of.kind, release.each)
            assert admit(ledger, one, budget=BUDGET, day=5) is Verdict.CHARGE
            ledger = Ledger((*ledger.entries, LedgerEntry(one, 5)))
    assert ledger.spent(BUDGET) == found.spent
    assert account(ledger, budget=BUDGET, day=5).lifetime.epsilon == found.loss().epsilon
    with pytest.raises(PolicyError, match=messages.BUDGET_EXHAUSTED):
        admit(ledger, charge(999, cost=found.releases[-1].each), budget=BUDGET, day=10**6)


@given(costs=st.lists(st.integers(1, GRAINS // 100), min_size=1, max_size=40))
def test_what_was_admitted_is_always_within_the_budget(costs):
    ledger = Ledger()
    for number, grains in enumerate(costs):
        one = charge(number, cost=Spent(grains))
        try:
            admit(ledger, one, budget=BUDGET, day=0)
        except PolicyError:
            assert not (ledger.spent(BUDGET) + one.cost).within(1.0, 1e-6)
        else:
            ledger = Ledger((*ledger.entries, LedgerEntry(one, 0)))
    assert ledger.spent(BUDGET).within(1.0, 1e-6)


def test_a_resend_is_known_even_when_nothing_is_left():
    full = paid(*(charge(n) for n in range(10)))
    assert admit(full, charge(3), budget=BUDGET, day=101) is Verdict.KNOWN
    with pytest.raises(PolicyError):
        admit(full, charge(11), budget=BUDGET, day=101)


def test_a_new_attempt_another_kind_and_another_deployment_cost_in_full():
    ledger = paid(charge(1))
    others = (charge(1, attempt=1), charge(1, kind="moments"), replace(charge(1), deployment=b"\1" * 16))
    for one in others:
        assert admit(ledger, one, budget=BUDGET, day=100) is Verdict.CHARGE
    assert paid(charge(1), *others).spent(BUDGET).grains == 4 * ONE_ROUND.grains


def test_the_same_release_at_another_price_is_refused():
    with pytest.raises(StateError, match=messages.CHARGED_AT_ANOTHER_PRICE):
        admit(paid(charge(1)), charge(1, cost=gaussian(50)), budget=BUDGET, day=100)


def test_a_period_forgets_for_the_budget_but_not_for_the_lifetime():
    monthly = Budget(1.0, 1e-6, period_days=30)
    full = paid(*(charge(n) for n in range(10)), day=100)
    for day in (0, 99, 100, 129):  # a clock that was set back opens nothing
        with pytest.raises(PolicyError, match=messages.budget_exhausted_in_any(30)):
            admit(full, charge(11), budget=monthly, day=day)
    assert admit(full, charge(11), budget=monthly, day=130) is Verdict.CHARGE
    told = account(full, budget=monthly, day=130)
    assert told.period is not None
    assert told.period.epsilon == 0
    assert told.lifetime.epsilon == pytest.approx(1.0, rel=1e-6)
    assert account(full, budget=BUDGET, day=130).period is None


def test_an_account_says_what_was_spent_on_what_at_which_unit():
    event = Spent(0, (local_loss(0.5, Unit.EVENT),), Unit.EVENT)
    answers = Spent(0, (local_loss(0.2, Unit.USER),))
    ledger = paid(
        charge(1), charge(2), replace(charge(1, kind="a", cost=answers), what="visited in June"),
        replace(charge(1, kind="b", cost=event), what="visited in July"),
    )  # fmt: skip
    told = account(ledger, budget=Budget(3.0, 1e-6), day=100)
    assert [(item.what, item.releases, item.unit) for item in told.items] == [
        ("learning", 2, Unit.USER),
        ("visited in July", 1, Unit.EVENT),
        ("visited in June", 1, Unit.USER),
    ]
    assert told.items[2].epsilon == pytest.approx(0.2, rel=1e-4)
    assert told.counted_per is Unit.EVENT
    assert told.lifetime.epsilon < sum(item.epsilon for item in told.items)
    assert told.lifetime.epsilon < told.lifetime.epsilon_replace_one


def test_a_loss_per_event_is_not_charged_to_a_budget_per_user():
    event = Spent(5, unit=Unit.EVENT)
    with pytest.raises(UsageError, match=messages.LOSS_OF_ANOTHER_UNIT):
        admit(Ledger(), charge(cost=event), budget=BUDGET, day=0)
    assert admit(Ledger(), charge(), budget=Budget(1.0, 1e-6, unit=Unit.EVENT), day=0) is Verdict.CHARGE


def answer(epsilon: float, number: int = 1, delta: float = 0.0) -> Charge:
    return charge(number, kind="visited", cost=Spent(0, (PrivacyLoss(epsilon, Unit.USER, delta),)))


def test_noisy_sums_get_what_local_answers_of_an_earlier_version_left():
    answered, left = (answer(0.3), answer(0.1, 2)), affordable(1.0, 1e-6, local=0.4)
    assert left.grains < affordable(1.0, 1e-6).grains
    assert admit(paid(*answered), charge(9, cost=left), budget=BUDGET, day=100) is Verdict.CHARGE
    assert paid(*answered, charge(9, cost=left)).spent(BUDGET).within(1.0, 1e-6)
    with pytest.raises(PolicyError, match=messages.BUDGET_EXHAUSTED):
        admit(paid(*answered), charge(9, cost=Spent(left.grains + 1)), budget=BUDGET, day=100)
    assert how_many_more(paid(*answered), ONE_ROUND, budget=BUDGET, day=100) == left.grains // ONE_ROUND.grains < 10


@pytest.mark.parametrize("one", [answer(1.1), answer(0.1, delta=1e-12)])
def test_answers_beyond_the_budget_or_with_a_delta_leave_nothing_for_sums(one):
    assert not fits(one.cost, BUDGET)
    assert how_many_more(paid(one), Spent(1), budget=BUDGET, day=100) == 0
    with pytest.raises(PolicyError):
        admit(paid(one), charge(9, cost=Spent(1)), budget=BUDGET, day=100)


@pytest.mark.parametrize("cost", [answer(0.01).cost, answer(0.0, delta=1e-9).cost, ONE_ROUND + answer(0.01).cost])
def test_no_new_charge_for_a_local_answer_is_admitted(cost):
    """A recommender that may choose between a sum and an answer after a telling output could double delta."""
    with pytest.raises(UsageError, match=messages.LOCAL_ANSWERS_NOT_CHARGED):
        admit(Ledger(), charge(cost=cost), budget=Budget(50.0, 1e-6), day=100)
    assert how_many_more(Ledger(), cost, budget=Budget(50.0, 1e-6), day=100) == 0
    assert admit(paid(charge(cost=cost)), charge(cost=cost), budget=BUDGET, day=100) is Verdict.KNOWN


def test_how_many_more_is_what_is_then_admitted():
    assert how_many_more(Ledger(), ONE_ROUND, budget=BUDGET, day=0) == 10
    assert how_many_more(paid(*(charge(n) for n in range(7))), ONE_ROUND, budget=BUDGET, day=0) == 3
    assert how_many_more(paid(*(charge(n) for n in range(10))), ONE_ROUND, budget=BUDGET, day=0) == 0
    assert how_many_more(Ledger(), Spent(1), budget=BUDGET, day=0) == 2**16


def test_invalid_charges_and_budgets_are_refused():
    twice = PrivacyLoss(0.1, Unit.USER)
    for cost in (Spent(), Spent(unit=Unit.EVENT), Spent(0, (twice, twice)), Spent(MOST_GRAINS + 1)):
        with pytest.raises(UsageError, match=messages.CHARGE_NOT_FOR_ONE_RELEASE):
            charge(cost=cost)
    for epsilon, delta in ((0, 1e-6), (math.nan, 1e-6), (math.inf, 1e-6), (1, 0), (1, 1), (1, math.nan)):
        with pytest.raises(UsageError):
            Budget(epsilon, delta)
    with pytest.raises(UsageError, match=messages.PERIOD_TOO_SHORT):
        Budget(1.0, 1e-6, period_days=0)


def test_of_one_day_and_one_device_the_singular_is_used():
    assert "in any 1 day" in Budget(1.0, 1e-6, period_days=1).words
    assert "days" not in Budget(1.0, 1e-6, period_days=1).words
    with pytest.raises(PolicyError, match=messages.too_few_devices("1 device", floor=100)):
        Participants(1)


def test_a_ledger_says_what_its_releases_rest_on():
    masks, operators = replace(charge(1), at_worst=Spent(50 * ONE_ROUND.grains)), replace(charge(2), at_worst=ONE_ROUND)
    unknown = charge(3)
    for charges, by_operators, says in [
        ([masks], 0, (True, False)),
        ([operators], 1, (False, True)),
        ([masks, operators, unknown], 1, (True, True)),
    ]:
        found = account(paid(*charges), budget=BUDGET, day=100)
        assert found.by_two_operators == by_operators
        assert (ASSUMED in list(found.panels()), ASSUMED_OF_TWO in list(found.panels())) == says
