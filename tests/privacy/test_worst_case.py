"""What a sum is worth where more of a roster are dishonest than the plan allows for, up to all but one: against the
exact law of the noise that is left, of which the accountant's bound by Gaussian noise knows nothing."""

import pytest

from prirec.config import PRIVATE
from prirec.features.columns import ModelSize
from prirec.privacy.accountant import GRAINS, Spent, total
from prirec.privacy.noise import NoiseShare
from prirec.privacy.plan import Kind, Plan, cost, plan_for
from prirec.simulate.privacy_plan import Counts, make_plan
from support.accounting import epsilon_by_pld
from support.cities import change
from support.hockey_stick import epsilon_of_one_share

DELTA = 1e-6


def plan_of(people: int) -> Plan:
    return plan_for(PRIVATE, people=people, pois=2000, size=ModelSize.assumed(50))


@pytest.mark.parametrize("kind", [Kind.POPULARITY, Kind.MOMENTS, Kind.INTERACTION])
@pytest.mark.parametrize("people", [100, 1000, 20_000])
def test_the_worst_case_is_that_of_the_exact_noise(people: int, kind: Kind) -> None:
    """The shift is along one entry. Skellam noise hides a shift over several no better: its bound is by the norm."""
    release = plan_of(people).release(kind)
    claimed = release.cost_if_honest(1).epsilon(DELTA)
    exact = epsilon_of_one_share(release.noise().variance, int(release.norm.units), delta=DELTA)
    assert exact <= claimed <= 1.01 * exact
    by_grid = epsilon_by_pld([release.cost_if_honest(1)], DELTA, grid=1e-4 * claimed)
    assert by_grid == pytest.approx(claimed, rel=1e-3)


def test_the_exact_law_notices_a_share_with_a_tenth_less_noise() -> None:
    """Or the test above would accept any share."""
    release = plan_of(100).release(Kind.POPULARITY)
    claimed = release.cost_if_honest(1).epsilon(DELTA)
    less = release.noise().variance * 9 / 10
    assert epsilon_of_one_share(less, int(release.norm.units), delta=DELTA) > claimed


def test_the_figure_grows_from_the_promise_to_the_worst_case_with_the_dishonest() -> None:
    release = plan_of(1000).release(Kind.POPULARITY)
    m, c = release.of.crowd.survivors, release.of.crowd.colluders
    figures = [release.cost_if_honest(m - dishonest).epsilon(DELTA) for dishonest in range(c, m)]
    promised = release.spent.loss(DELTA).epsilon
    assert figures[0] == pytest.approx(promised, rel=1e-4)
    assert figures[0] <= promised
    assert figures == sorted(figures)
    assert figures[-1] == next(row for row in plan_of(1000).rows() if row.what is Kind.POPULARITY).epsilon_at_worst


def test_all_sums_together_are_counted_together() -> None:
    plan = plan_of(1000)
    worst = [Spent(one.cost_if_honest(1).grains * one.of.releases) for one in plan.releases]
    assert plan.epsilon_at_worst() == total(worst).epsilon(DELTA)
    assert max(row.epsilon_at_worst for row in plan.rows()) < plan.epsilon_at_worst()


def test_a_share_too_small_for_the_bound_hides_nothing() -> None:
    """The theorem is for a variance of 5 and more; below it no figure is claimed."""
    share = NoiseShare(wanted=plan_of(100).release(Kind.POPULARITY).wanted, survivors=10**10, colluders=0)
    assert (share.hides(1), share.hides(10_000) > 0) == (0, True)
    nothing = cost(plan_of(100).release(Kind.POPULARITY).norm, share.hides(1))
    assert nothing.grains > 2**100 * (GRAINS >> 56)
    assert nothing.epsilon(DELTA) == 2**20


def test_a_plan_says_what_its_figures_rest_on() -> None:
    plan = make_plan(PRIVATE, Counts.assumed(people=20_000, places=15_000, features=50))
    assert plan.plan is not None
    worst = plan.plan.epsilon_at_worst()
    assert f"{worst:,.1f}" in plan.assumption
    assert "at most 5 % of each roster work with the operator" in plan.assumption
    assert plan.assumption in list(plan.panels())
    assert plan.to_dict()["epsilon_at_worst"] == worst
    nothing = make_plan(change(PRIVATE, privacy={"epsilon_per_user": None}), plan.counts)
    assert (nothing.assumption, nothing.to_dict()["epsilon_at_worst"]) == ("", None)
