"""Contributions under a budget: no longer than their norm in exact integers."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from prirec.errors import PolicyError, UsageError
from prirec.features.columns import ModelSize
from prirec.model.equations import shrink
from prirec.privacy.norm import Norm, clipped
from prirec.privacy.plan import Kind, cost, participants, plan_for
from prirec.protocols.roster import acceptable, graph_for
from prirec.protocols.terms import (
    RingCode,
    cost_at_worst,
    double_masks,
    noise_share,
    over_two_operators,
    paper_codes,
    privacy_cost,
    round_codes,
)
from prirec.protocols.two_operators import Device
from prirec.sharing.fixed_point import FixedPoint
from prirec.simulate.setup import columns_of
from support import messages
from support.cities import SMALL_PAPER, SMALL_PRIVATE, SMALL_ROUNDS, change, small_city
from support.hypothesis_settings import PATIENT
from support.joint_sums import joint_task, person

SIZE = columns_of(small_city(people=60, places=8, records=240), SMALL_PRIVATE).size
CODES = round_codes(SMALL_PRIVATE, people=60, places=8, size=SIZE)
NORM = Norm(1.0, 11)
MIXED = RingCode(FixedPoint(summands=60, bound=1.001, fraction_bits=11), 1.0, 2048**2, 5)
# 28 entries of 0.6 units each round up, and one of almost all of the norm too: length 2048 becomes more
JUST_ONE = np.append(np.full(28, 0.6), math.sqrt(2048**2 - 28 * 0.36)) / 2048


def squares(ring: np.ndarray) -> int:
    """In Python's integers."""
    return sum(int(q) ** 2 for q in ring.view(np.int64 if ring.dtype == np.uint64 else np.int32))


def clip_to(values: np.ndarray, clip: float) -> np.ndarray:
    out = np.empty_like(values)
    shrink(values, clip, out)
    return out


def test_codes_are_what_the_plan_says():
    plan = plan_for(SMALL_PRIVATE, people=60, pois=8, size=SIZE)
    for kind, code, length, releases, norm in (
        (Kind.MOMENTS, CODES.moments, SIZE.moments, 1, SIZE.moments_norm),
        (Kind.INTERACTION, CODES.interaction, SIZE.entries, SMALL_PRIVATE.iterations, 1.0),
    ):
        release = plan.release(kind)
        assert release.of.releases == releases
        assert code.noise == math.ceil(release.wanted) > 0
        assert code.most == math.floor(release.norm.units**2)
        assert (code.ring.fraction_bits, code.ring.summands) == (release.norm.fraction_bits, 60)
        assert code.clip == release.norm.sensitivity - math.sqrt(length) / 2 / code.ring.scale
        assert code.ring.bound >= norm


@pytest.mark.parametrize(
    "codes", [round_codes(SMALL_ROUNDS, people=60, places=8, size=SIZE), paper_codes(SMALL_PAPER)],
    ids=["rounds", "samples"],
)  # fmt: skip
def test_without_a_budget_nothing_is_noisy_and_any_length_is_written_as_it_is(codes):
    values = np.random.default_rng(0).normal(size=7) / 10
    for code in codes:
        assert (code.noise, code.most) == (0, 0)
        assert code.write(values).tolist() == code.ring.encode(values).tolist()


@PATIENT
@given(values=arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e6, 1e6)), bits=st.integers(8, 20))
def test_no_contribution_is_longer_than_its_norm_after_rounding(values, bits):
    norm = Norm(0.2, bits)
    clip = max(0.2 - math.sqrt(len(values)) / 2 ** (bits + 1), 0.1)
    code = RingCode(FixedPoint(summands=9, bound=0.2002, fraction_bits=bits), clip, int(norm.units**2), 1)
    contribution = clip_to(values, clip)
    assert squares(code.write(contribution)) <= norm.units**2


@PATIENT
@given(values=arrays(np.float64, 29, elements=st.floats(0.01, 9)), sign=st.sampled_from([-1.0, 1.0]))
def test_a_contribution_is_what_a_device_would_make_of_it_but_for_one_unit(values, sign):
    """privacy.norm.clipped knows which entries are 0 and rounds on another path: a unit an entry, never the norm."""
    code = RingCode(MIXED.ring, 1 - math.sqrt(29) / 4096, MIXED.most, 1)
    written = code.write(clip_to(sign * values, code.clip)).view(np.int64)
    assert np.abs(written - clipped(sign * values, NORM)).max() <= 1


def test_rounding_alone_would_make_it_longer():
    """The planted mistake: a contribution of norm 1 that is only rounded. The check in whole numbers catches it."""
    assert np.linalg.norm(JUST_ONE) == pytest.approx(1, abs=1e-12)
    unchecked = RingCode(MIXED.ring, MIXED.clip)
    assert squares(unchecked.write(JUST_ONE)) > 2048**2 >= squares(MIXED.write(JUST_ONE))


def test_writing_leaves_what_it_was_given_alone():
    before = JUST_ONE.copy()
    MIXED.write(JUST_ONE)
    assert JUST_ONE.tolist() == before.tolist()


@pytest.mark.parametrize("most", [0, 2048**2])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1.1, -1.1])
def test_what_no_ring_was_sized_for_is_refused(bad, most):
    code, values = RingCode(MIXED.ring, 1.0, most), np.array([0.1, bad])
    with pytest.raises(UsageError, match=messages.BEYOND_THE_BOUND):
        code.write(values)


# The ring, and what devices agree to


def noisy(norm: float, **privacy: float) -> RingCode:
    """Of the sum of moments, if a contribution to it were so long."""
    settings = change(SMALL_PRIVATE, iterations=1, ring={"bits": 32}, privacy=privacy)
    return round_codes(settings, people=60, places=8, size=ModelSize(SIZE.entries, SIZE.moments, norm)).moments


def test_a_noisy_sum_that_could_wrap_is_refused():
    noisy(1.0)
    with pytest.raises(UsageError, match=messages.SUM_COULD_WRAP):
        noisy(200_000.0, epsilon_per_user=30.0)
    with pytest.raises(UsageError, match=messages.NOISE_OUT_OF_RANGE):
        noisy(200_000.0)


@pytest.mark.parametrize("epsilon", [3.0, 30.0])
def test_what_a_simulation_may_sum_devices_agree_to_sum(epsilon):
    """At the longest that is not refused: otherwise a simulation opens sums which no device would take part in."""
    low, high = 1.0, 2.0**24
    while high - low > 1:
        middle = (low + high) / 2
        try:
            noisy(middle, epsilon_per_user=epsilon)
            low = middle
        except UsageError:
            high = middle
    code = noisy(low, epsilon_per_user=epsilon)
    agreed = {"length": SIZE.moments, "floor": 50, "noise": code.noise}
    terms = double_masks(code.ring, sums=SMALL_PRIVATE.sums, **agreed)
    assert acceptable(graph_for(terms, 60), terms)


@pytest.mark.parametrize("size", [50, 51, 60, 199, 1000])
def test_a_devices_share_is_that_of_the_plan_for_its_roster(size):
    plan = plan_for(SMALL_PRIVATE, people=1000, pois=8, size=SIZE)
    release = plan.release(Kind.MOMENTS)
    terms = double_masks(CODES.moments.ring, length=5, floor=50, sums=SMALL_PRIVATE.sums, noise=release.wanted_whole)
    share = noise_share(terms, size)
    assert share == release.noise(participants(SMALL_PRIVATE, size))
    assert share.hides() >= release.wanted
    assert share.total_variance(share.survivors) >= Fraction(release.wanted_whole)
    alone, among = cost_at_worst(terms, size, norm=release.norm), privacy_cost(terms, norm=release.norm)
    assert alone == cost(release.norm, share.hides(1))
    assert alone.epsilon(1e-6) > among.epsilon(1e-6)  # with made-up names around it, a device is worth less noise


def test_over_two_operators_every_contribution_is_within_the_norm_that_is_proved():
    settings = change(SMALL_PRIVATE, sums={"operators": 2})
    plan, rng = plan_for(settings, people=60, pois=8, size=SIZE), np.random.default_rng(5)
    codes = round_codes(settings, people=60, places=8, size=SIZE)
    for code, kind in zip(codes, (Kind.MOMENTS, Kind.INTERACTION), strict=True):
        release = plan.release(kind)
        terms = over_two_operators(code, length=release.of.length, floor=50)
        assert terms.bound == int(release.norm.units)
        assert terms.bound**2 == code.most <= release.norm.units**2
        assert terms.noise == release.wanted_whole
        task = joint_task(terms, people=60)
        for _ in range(20):
            vector = rng.normal(size=release.of.length)
            written = code.write(vector * code.clip / np.linalg.norm(vector))
            assert sum(int(x) ** 2 for x in written.view(np.int64)) <= terms.bound**2
        sent = Device(task, identity=person(0), value=written, draw=rng.bytes).report()[-1]
        assert len(sent.message.public) == 128
        # made-up names change nothing: devices have no part in the noise
        assert cost_at_worst(terms, 60, norm=release.norm) == privacy_cost(terms, norm=release.norm)


def test_fewer_people_than_the_floor_have_no_codes():
    with pytest.raises(PolicyError, match=messages.too_few_devices(60, floor=61)):
        round_codes(change(SMALL_PRIVATE, floor=61), people=60, places=8, size=SIZE)
