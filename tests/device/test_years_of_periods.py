"""With privacy.period_days a deployment goes on for years: campaign after campaign, each person as far as their own
budget allows. Only time is the test's."""

import re
from pathlib import Path

import pytest

from prirec.privacy.accountant import total
from prirec.privacy.ledger import Account, Budget, account
from prirec.types import DAY
from prirec.wire.campaign import Campaign
from support import messages
from support.cities import change
from support.dishonest_operators import JOINT, NOW, Dishonest2, steps, target_of
from support.dishonest_recommender import Target
from support.fault_injection import FEW
from support.low_floors import low_floor

PERIOD, YEAR = 30, 360
ASKED = change(JOINT, privacy={"epsilon_per_user": 2.0, "period_days": PERIOD})


@pytest.fixture(autouse=True)
def _few_people(monkeypatch: pytest.MonkeyPatch) -> None:
    low_floor(monkeypatch, FEW)


def begin(recommender: Dishonest2, campaign: int, *, on: int) -> None:
    """A campaign so many days after the first, in the window of its sum of visits."""
    recommender.now = NOW + on * DAY
    begun = Campaign.of(recommender.charter(settings=ASKED, campaign=campaign))
    recommender.window(begun, opens=recommender.now - 60, closes=recommender.now + DAY)


def spent(target: Target, budget: Budget) -> Account:
    return account(target.paid.ledger(), budget=budget, day=target.line.recommender.now // DAY)


def price_of_a_sum(folder: Path) -> float:
    recommender = Dishonest2()
    recommender.join()
    target = target_of(recommender, folder, visits=("a",))
    begin(recommender, 1, on=0)
    assert len(steps(target)) == 1
    return spent(target, Budget(epsilon=200.0)).lifetime.epsilon


def test_charges_leave_the_period_and_a_lifetime_adds_up_as_far_as_each_person_allows(tmp_path: Path) -> None:
    one = price_of_a_sum(tmp_path / "price")
    monthly, once = Budget(epsilon=1.1 * one, period_days=PERIOD), Budget(epsilon=1.1 * one)
    recommender = Dishonest2()
    recommender.join()
    careful, for_life, generous = (
        target_of(recommender, tmp_path / name, visits=("a",), budget=budget)
        for name, budget in (("careful", monthly), ("for life", once), ("generous", Budget(epsilon=200.0)))
    )
    for campaign, on in enumerate(range(0, YEAR, PERIOD), start=1):
        begin(recommender, 2 * campaign - 1, on=on)
        assert len(steps(careful)) == 1
        assert len(steps(for_life)) == (1 if campaign == 1 else 0)
        assert len(steps(generous)) == 1
        found = spent(careful, monthly)
        assert found.period is not None
        assert (found.period.releases, found.lifetime.releases) == (1, campaign)
        assert found.period.epsilon == pytest.approx(one)
        assert found.covered_again_in_days == PERIOD

        # another campaign in the same period: the careful person stays out of it, and it goes on with the others
        begin(recommender, 2 * campaign, on=on + PERIOD - 1)
        for target in (careful, for_life):
            assert steps(target) == []
            assert re.search(messages.BUDGET_DOES_NOT_COVER_A_ROUND, str(target.agent.windows.declined))
        assert len(steps(generous)) == 1
        again = spent(careful, monthly)
        assert again.nothing_left
        assert again.covered_again_in_days == 1
    year = spent(careful, monthly)
    charges = careful.paid.ledger().entries
    assert len(charges) == YEAR // PERIOD
    assert year.lifetime.epsilon == total(paid.charge.cost for paid in charges).loss(monthly.delta).epsilon
    assert monthly.epsilon < year.lifetime.epsilon < one * len(charges)
    assert not year.overspent
    assert spent(for_life, once).lifetime.epsilon == pytest.approx(one)
