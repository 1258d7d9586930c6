"""One (ε, δ) for a person becomes the noise of every release, and the releases cost exactly that."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.config import PRIVATE
from prirec.errors import PolicyError, UsageError
from prirec.privacy.accountant import Adjacency, noise_multiplier
from prirec.privacy.noise import Participants
from prirec.privacy.plan import Kind, Sum, plan, sums_of
from support import messages
from support.accounting import epsilon_by_pld
from support.cities import change
from support.exact_figures import fresh
from support.hypothesis_settings import FEW


def usual(rounds: int = 10, *, cohort: int = 1000, floor: int = 100, **parts: float) -> tuple[Sum, ...]:
    """The sums of a city as large as Yelp's."""
    settings = change(
        PRIVATE, iterations=rounds, floor=floor, linear={"clip": 3.0}, neighbours={"size": cohort}, privacy=parts
    )
    return sums_of(settings, people=85_466, pois=10_000, features=89)


def test_the_default_plan_is_the_one_that_was_measured():
    """ε = 1, δ = 1e-6, 70/15/15 of Σ 1/σ² = 1/4.225², 10 rounds, in the first of which nobody mixes."""
    found = plan(usual())
    assert [row.what for row in found.rows()] == ["popularity", "linear", "interaction"]
    sigma = [row.noise_multiplier for row in found.rows()]
    assert sigma == pytest.approx([4.225 / 0.7**0.5, 4.225 * (9 / 0.15) ** 0.5, 4.225 * (10 / 0.15) ** 0.5], rel=1e-3)
    assert sum(row.releases / row.noise_multiplier**2 for row in found.rows()) == pytest.approx(1 / 4.2247**2, rel=1e-4)


@FEW
@given(
    epsilon=st.floats(0.2, 8),
    exponent=st.floats(-9, -3),
    rounds=st.integers(1, 300),
    weights=st.tuples(*[st.floats(0.05, 1)] * 4),
)
def test_a_plan_costs_its_epsilon_and_never_more(epsilon, exponent, rounds, weights):
    parts = dict(zip(("popularity", "mixing", "interaction", "quality"), weights, strict=True))
    found = plan(usual(rounds, **parts), epsilon_per_user=epsilon, delta=10**exponent)
    assert len(found.releases) == 4
    assert found.spent.within(epsilon, 10**exponent)
    assert found.loss().epsilon == pytest.approx(epsilon, rel=1e-6)


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("rounds", [1, 30])
def test_dp_accounting_finds_the_same_cost(epsilon, rounds):
    found = plan(usual(rounds), epsilon_per_user=epsilon)
    each = [release.each for release in found.releases for _ in range(release.of.releases)]
    assert epsilon_by_pld(each, 1e-6) == pytest.approx(epsilon, rel=1e-3)


def test_the_figure_between_any_two_contributions_is_at_twice_the_sensitivity():
    both = plan(usual()).loss(Adjacency.REPLACE_ONE)
    assert noise_multiplier(both.epsilon, 1e-6) == pytest.approx(noise_multiplier(1, 1e-6) / 2, rel=1e-6)


def test_what_has_no_share_releases_nothing():
    found = plan(usual())
    assert found.release(Kind.MIXING).of.releases == 9
    with pytest.raises(UsageError, match=messages.no_budget_for("quality")):
        found.release(Kind.QUALITY)


def test_the_predicted_errors_are_those_of_the_noise():
    found = plan(usual())
    counts, mixing, gradient = (found.release(kind) for kind in (Kind.POPULARITY, Kind.MIXING, Kind.INTERACTION))
    overhead = math.sqrt(85_466 / (68_373 - 4_273))
    assert counts.sd_of_sum() == pytest.approx(counts.noise_multiplier * overhead, rel=1e-4)
    # all 1,000 of a cohort add shares that 750 would have been enough for
    assert mixing.sd_of_mean() == pytest.approx(3 * mixing.noise_multiplier * math.sqrt(1000 / 750) / 1000, rel=1e-4)
    assert mixing.sd_of_mean(800) == pytest.approx(3 * mixing.noise_multiplier * math.sqrt(800 / 750) / 800, rel=1e-4)
    assert gradient.sd_of_mean() == pytest.approx(0.2 * gradient.noise_multiplier * overhead / 85_466, rel=1e-4)
    row = found.rows()[1]
    assert (row.sd_of_mean, row.sd_of_mean_at_worst) == (mixing.sd_of_mean(), mixing.sd_of_mean(800))


@pytest.mark.statistical  # false alarm 1e-9; must notice an error off by 5 %
def test_the_predicted_standard_deviation_is_observed():
    release = plan(usual()).release(Kind.POPULARITY)
    draws = release.noise().total(fresh(), survivors=85_466, count=100_000) / 2.0**release.norm.fraction_bits
    ratio = np.sqrt((draws**2).mean()) / release.sd_of_sum()
    assert abs(ratio - 1) < 6.1 / math.sqrt(2 * 100_000)  # 1.4 %


def test_a_larger_roster_gets_smaller_shares_for_the_same_promise():
    release = plan(usual()).release(Kind.MIXING)
    planned, larger = release.noise(), release.noise(Participants(1900))
    assert larger.variance < planned.variance
    assert min(planned.hides(), larger.hides()) >= planned.wanted == larger.wanted
    assert planned.wanted == math.ceil((3 * 2**10 * release.noise_multiplier) ** 2)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf])
def test_an_epsilon_out_of_range_is_refused(epsilon):
    with pytest.raises(UsageError, match=messages.not_positive("epsilon")):
        plan(usual(), epsilon_per_user=epsilon)


@pytest.mark.parametrize("delta", [0, 1, math.nan])
def test_a_delta_out_of_range_is_refused(delta):
    with pytest.raises(UsageError, match=messages.DELTA_OUT_OF_RANGE):
        plan(usual(), delta=delta)


def test_floors_are_policy():
    with pytest.raises(PolicyError, match=messages.too_few_devices(99, floor=100)):
        usual(cohort=99)
    with pytest.raises(PolicyError, match=messages.floor_too_low(50)):
        usual(cohort=99, floor=20)


def test_invalid_shares_and_sizes_are_refused():
    with pytest.raises(UsageError, match=messages.SHARES_OF_THE_BUDGET_DO_NOT_ADD_UP):
        plan(usual()[:2])
    with pytest.raises(UsageError, match=messages.SHARE_OF_THE_BUDGET_OUT_OF_RANGE):
        usual(popularity=-0.1)
    with pytest.raises(UsageError, match=messages.PLAN_OF_NOTHING):
        usual(rounds=0)
    with pytest.raises(UsageError, match=messages.PLAN_OF_NOTHING):
        replace(usual()[0], entries=0)
    with pytest.raises(UsageError, match=messages.KIND_OF_SUM_TWICE):
        plan([usual()[1], *usual()])
    with pytest.raises(UsageError, match=messages.BUDGET_TOO_SMALL_FOR_ITS_RELEASES):
        plan(usual(rounds=10**15))


def test_noise_that_no_sampler_can_draw_is_refused_before_anything_begins():
    fine = replace(usual()[1], sensitivity=100.0, entries=10**9, crowd=Participants(100))
    with pytest.raises(UsageError, match=messages.NOISE_OUT_OF_RANGE):
        plan([replace(fine, share=1.0, releases=10**7)])
