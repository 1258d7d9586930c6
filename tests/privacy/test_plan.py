"""One (ε, δ) for a person becomes the noise of every release, and the releases cost exactly that."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.config import FM, PAPER, PRIVATE, ROUNDS, budget_parts
from prirec.errors import PolicyError, UsageError
from prirec.features.columns import ModelSize
from prirec.privacy.accountant import Adjacency, affordable, noise_multiplier
from prirec.privacy.noise import Participants
from prirec.privacy.plan import (
    CLEAR_AT,
    EQUAL_AT,
    MOMENTS_PART,
    MOST_FOR_POPULARITY,
    Kind,
    Sum,
    chosen_parts,
    plan,
    plan_for,
    sums_of,
    with_parts,
)
from support import messages
from support.accounting import epsilon_by_pld
from support.cities import change
from support.exact_figures import fresh
from support.hypothesis_settings import FEW

YELP = ModelSize(entries=700, moments=40, moments_norm=3.0)
PARTS = {"popularity": 0.7, "moments": 0.05, "interaction": 0.25}


def usual(rounds: int = 10, *, people: int = 85_466, floor: int = 100, **parts: float) -> tuple[Sum, ...]:
    """The sums of a city as large as Yelp's."""
    settings = change(PRIVATE, iterations=rounds, floor=floor, privacy=PARTS | parts)
    return sums_of(settings, people=people, pois=10_000, size=YELP)


def test_the_budget_is_split_by_its_parts():
    """ε = 1, δ = 1e-6, 70/5/25 of Σ 1/σ² = 1/4.225², 10 rounds."""
    found = plan(usual())
    assert [(row.what, row.releases) for row in found.rows()] == [
        ("popularity", 1),
        ("moments", 1),
        ("interaction", 10),
    ]
    sigma = [row.noise_multiplier for row in found.rows()]
    assert sigma == pytest.approx([4.225 / 0.7**0.5, 4.225 / 0.05**0.5, 4.225 * (10 / 0.25) ** 0.5], rel=1e-3)
    assert sum(row.releases / row.noise_multiplier**2 for row in found.rows()) == pytest.approx(1 / 4.2247**2, rel=1e-4)
    assert [(row.entries, row.longest_contribution) for row in found.rows()] == [(10_000, 1.0), (40, 3.0), (700, 1.0)]


@FEW
@given(
    epsilon=st.floats(0.2, 8),
    exponent=st.floats(-9, -3),
    rounds=st.integers(1, 300),
    weights=st.tuples(*[st.floats(0.05, 1)] * 4),
)
def test_a_plan_costs_its_epsilon_and_never_more(epsilon, exponent, rounds, weights):
    parts = dict(zip(("popularity", "moments", "interaction", "quality"), weights, strict=True))
    found = plan(usual(rounds, **parts), epsilon_per_user=epsilon, delta=10**exponent)
    assert len(found.releases) == 4
    assert found.spent.grains <= affordable(epsilon, 10**exponent).grains
    assert found.spent.delta(epsilon) <= 10**exponent
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
    with pytest.raises(UsageError, match=messages.no_budget_for("quality")):
        found.release(Kind.QUALITY)


def test_the_predicted_errors_are_those_of_the_noise():
    found = plan(usual(people=1000))
    counts, moments, gradient = (found.release(kind) for kind in (Kind.POPULARITY, Kind.MOMENTS, Kind.INTERACTION))
    # all 1,000 add shares that 750 would have been enough for
    assert counts.sd_of_sum() == pytest.approx(counts.noise_multiplier * math.sqrt(1000 / 750), rel=1e-4)
    assert moments.sd_of_sum() == pytest.approx(3 * moments.noise_multiplier * math.sqrt(1000 / 750), rel=1e-4)
    assert gradient.sd_of_mean(800) == pytest.approx(gradient.noise_multiplier * math.sqrt(800 / 750) / 800, rel=1e-4)
    row = found.rows()[2]
    assert (row.sd_of_mean, row.sd_of_mean_at_worst) == (gradient.sd_of_mean(), gradient.sd_of_mean(800))


@pytest.mark.statistical  # false alarm 1e-9; must notice an error off by 5 %
def test_the_predicted_standard_deviation_is_observed():
    release = plan(usual()).release(Kind.POPULARITY)
    draws = release.noise().total(fresh(), survivors=85_466, count=100_000) / 2.0**release.norm.fraction_bits
    ratio = np.sqrt((draws**2).mean()) / release.sd_of_sum()
    assert abs(ratio - 1) < 6.1 / math.sqrt(2 * 100_000)  # 1.4 %


def test_a_larger_roster_gets_smaller_shares_for_the_same_promise():
    release = plan(usual(people=1000)).release(Kind.MOMENTS)
    planned, larger = release.noise(), release.noise(Participants(1900))
    assert larger.variance < planned.variance
    assert min(planned.hides(), larger.hides()) >= planned.wanted == larger.wanted
    assert planned.wanted == math.ceil(
        (release.norm.units * Fraction(release.noise_multiplier)) ** 2 * (1 - Fraction(1, 10**12))
    )


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
        usual(people=99)
    with pytest.raises(PolicyError, match=messages.floor_too_low(50)):
        usual(people=99, floor=20)


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


# The parts of the budget, where settings leave them to the plan


@given(people=st.integers(1, 10**8), places=st.integers(0, 10**8), entries=st.integers(1, 10**6))
def test_chosen_parts_are_parts_of_one(people, places, entries):
    parts = chosen_parts(people=people, places=places, entries=entries)
    assert set(parts) == {"popularity", "moments", "interaction"}
    assert sum(parts.values()) == pytest.approx(1.0, abs=1e-9)
    assert parts["moments"] == MOMENTS_PART
    assert 0 <= parts["popularity"] <= MOST_FOR_POPULARITY
    assert parts["interaction"] >= 1 - MOMENTS_PART - MOST_FOR_POPULARITY > 0


@given(
    people=st.integers(50, 10**6),
    places=st.integers(1, 10**6),
    entries=st.integers(1, 10**5),
    more=st.integers(1, 10**5),
)
def test_the_more_there_is_to_learn_and_the_fewer_people_a_place_has_the_less_is_for_popularity(
    people, places, entries, more
):
    here = chosen_parts(people=people, places=places, entries=entries)["popularity"]
    assert chosen_parts(people=people, places=places, entries=entries + more)["popularity"] <= here
    assert chosen_parts(people=people, places=places + more, entries=entries)["popularity"] <= here
    assert chosen_parts(people=people + more, places=places, entries=entries)["popularity"] >= here


def test_parts_at_the_points_that_the_constants_name():
    many = 10**9  # visitors for each place
    assert chosen_parts(people=many, places=1, entries=EQUAL_AT)["popularity"] == pytest.approx(
        (1 - MOMENTS_PART) / 2, abs=1e-4
    )
    crowded = chosen_parts(people=many, places=1, entries=100)["popularity"]
    at_edge = chosen_parts(people=1000, places=int(CLEAR_AT * 1000), entries=100)["popularity"]
    assert at_edge == pytest.approx(crowded / 2, abs=1e-3)
    assert chosen_parts(people=10, places=10**6, entries=100)["popularity"] == 0.0


def test_only_settings_with_a_budget_and_without_parts_get_them():
    sizes = {"people": 1000, "places": 200, "size": YELP}
    settled = with_parts(PRIVATE, **sizes)
    assert budget_parts(settled) == chosen_parts(people=1000, places=200, entries=700) | {"quality": 0.0}
    assert with_parts(settled, people=5, places=7, size=YELP) is settled  # once for a run
    for settings in (ROUNDS, PAPER, FM):
        assert with_parts(settings, **sizes) is settings


@FEW
@given(
    people=st.integers(50, 10**6),
    places=st.integers(1, 10**5),
    entries=st.integers(1, 10**4),
    quality=st.sampled_from([0.0, 0.1]),
)
def test_a_plan_with_chosen_parts_spends_the_budget_and_no_more(people, places, entries, quality):
    settings = change(PRIVATE, floor=50, privacy={"quality": quality})
    parts = chosen_parts(people=people, places=places, entries=entries)
    found = plan_for(settings, people=people, pois=places, size=ModelSize(entries, 30, 2.5))
    kinds = [row.what for row in found.rows()]
    assert kinds == [kind for kind in Kind if (parts | {"quality": quality})[kind] > 0]
    assert found.spent.within(1.0, 1e-6)
    assert found.loss().epsilon == pytest.approx(1.0, rel=1e-6)


def test_without_popularity_the_other_sums_have_its_part():
    settings = change(PRIVATE, features={"dynamic": False})
    found = plan_for(settings, people=1000, pois=200, size=YELP)
    assert [row.what for row in found.rows()] == ["moments", "interaction"]
    assert found.loss().epsilon == pytest.approx(1.0, rel=1e-6)


def test_a_plan_of_settings_needs_a_budget_and_parts_or_a_size():
    with pytest.raises(PolicyError, match=messages.NO_BUDGET_PROMISED):
        plan_for(ROUNDS, people=1000, pois=200, size=YELP)
    with pytest.raises(UsageError, match=messages.PARTS_WITHOUT_A_SIZE):
        plan_for(PRIVATE, people=1000, pois=200)
    named = change(PRIVATE, privacy=PARTS)
    counts = [plan_for(named, people=1000, pois=200, size=size).release(Kind.POPULARITY) for size in (None, YELP)]
    assert counts[0] == counts[1]


def test_a_size_is_assumed_where_only_the_number_of_features_is_known():
    found = ModelSize.assumed(30)
    assert found.entries == 21 * 11 + 78  # a third is the person's; pairs of twelve numbers
    assert found.moments == 48
    assert ModelSize.assumed(60).entries > 2 * found.entries


def test_over_two_operators_the_noise_is_twice_what_is_needed_and_rests_on_no_device():
    size = ModelSize.assumed(19)
    one, two = (plan_for(change(PRIVATE, sums={"operators": n}), people=5000, pois=1000, size=size) for n in (1, 2))
    assert two.loss() == one.loss()
    assert two.epsilon_at_worst() == pytest.approx(two.loss().epsilon, rel=1e-6)
    assert one.epsilon_at_worst() > 5 * one.loss().epsilon
    for before, after in zip(one.releases, two.releases, strict=True):
        assert after.wanted == before.wanted
        needed = math.sqrt(after.wanted) / 2**after.norm.fraction_bits
        assert after.sd_of_sum() == pytest.approx(math.sqrt(2) * needed, rel=1e-2)
        assert after.sd_of_sum(100) == after.sd_of_sum()
        assert before.sd_of_sum() < after.sd_of_sum()
    assert {(row.survivors, row.colluders) for row in two.rows()} == {(PRIVATE.floor, 0)}
