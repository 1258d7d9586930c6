"""Contributions under a budget: no longer than their norm in exact integers, in the oracle as in the kernels."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from prirec.model.block_steps import add_contribution, contribute_models

from prirec.errors import PolicyError, UsageError
from prirec.model.equations import shrink
from prirec.privacy.norm import Norm, clipped
from prirec.privacy.plan import Kind, cost, participants, plan_for
from prirec.protocols.roster import acceptable, graph_for
from prirec.protocols.terms import RingCode, cost_at_worst, double_masks, noise_share, privacy_cost, ring_codes
from prirec.sharing.fixed_point import FixedPoint
from support import messages
from support.cities import SMALL_PAPER, SMALL_PRIVATE, SMALL_ROUNDS, change, samples_of, small_city
from support.hypothesis_settings import PATIENT

SAMPLES = samples_of(small_city(people=60, places=8, records=240), SMALL_PRIVATE)
CODES = ring_codes(SAMPLES, SMALL_PRIVATE)
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
    plan = plan_for(SMALL_PRIVATE, people=60, pois=len(SAMPLES.places), features=SAMPLES.features)
    for kind, code, length, releases in (
        (Kind.MIXING, CODES.linear, SAMPLES.features + 1, SMALL_PRIVATE.iterations - 1),
        (
            Kind.INTERACTION,
            CODES.interaction,
            SAMPLES.features * SMALL_PRIVATE.model.dimension,
            SMALL_PRIVATE.iterations,
        ),
    ):
        release = plan.release(kind)
        assert release.of.releases == releases
        assert code.noise == math.ceil(release.wanted) > 0
        assert code.most == math.floor(release.norm.units**2)
        assert (code.ring.fraction_bits, code.ring.summands) == (release.norm.fraction_bits, 60)
        assert code.clip == release.norm.sensitivity - math.sqrt(length) / 2 / code.ring.scale
    assert CODES.linear.ring.bound >= SMALL_PRIVATE.linear.clip
    assert CODES.interaction.ring.bound >= SMALL_PRIVATE.interaction.clip


@pytest.mark.parametrize("settings", [SMALL_ROUNDS, SMALL_PAPER], ids=["rounds", "samples"])
def test_without_a_budget_nothing_is_noisy_and_any_length_is_written_as_it_is(settings):
    values = np.random.default_rng(0).normal(size=7) / 10
    for code in ring_codes(SAMPLES, settings):
        assert (code.noise, code.most) == (0, 0)
        assert code.write(values).tolist() == code.ring.encode(values).tolist()


@PATIENT
@given(values=arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e6, 1e6)), bits=st.integers(8, 20))
def test_no_contribution_is_longer_than_its_norm_after_rounding(values, bits):
    norm = Norm(0.2, bits)
    clip = max(0.2 - math.sqrt(len(values)) / 2 ** (bits + 1), 0.1)
    code = RingCode(FixedPoint(summands=9, bound=0.2002, fraction_bits=bits), clip, int(norm.units**2), 1)
    contribution = clip_to(values, clip)
    written = code.write(contribution)
    assert squares(written) <= norm.units**2
    total = code.ring.zeros(len(values))
    assert add_contribution(contribution.copy(), code.encoder, total)
    assert total.tolist() == written.tolist()


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
    total = MIXED.ring.zeros(29)
    assert add_contribution(JUST_ONE.copy(), unchecked.encoder, total)
    assert squares(total) > 2048**2


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
    assert not add_contribution(values, code.encoder, code.ring.zeros(2))


@pytest.mark.parametrize("long", [0.01, 1.0, 30.0])
def test_in_a_round_everyones_contribution_keeps_the_norm_and_is_that_of_the_oracle(long):
    """One person a block: what the kernel adds is clip(W_i - centre), written as a device writes it."""
    rng, length = np.random.default_rng(1), SAMPLES.features + 1
    W, centre, code = long * rng.normal(size=(60, length)), rng.normal(size=(2, length)), CODES.linear
    W[3], W[4] = centre[1] + 1.0 / math.sqrt(length), centre[0]
    cohort = (np.arange(60) % 2).astype(np.int32)
    for i in range(60):
        sums, members = code.ring.zeros((2, length)), np.zeros(2, dtype=np.int64)
        assert contribute_models(
            W, (i, i + 1), np.ones(60, dtype=bool), cohort, centre, code.clip, code.encoder,
            np.empty(length), sums, members,
        )  # fmt: skip
        assert members.tolist() == [int(i % 2 == 0), int(i % 2 == 1)]
        assert sums[i % 2].tolist() == code.write(clip_to(W[i] - centre[i % 2], code.clip)).tolist()
        assert not sums[1 - i % 2].any()
        assert squares(sums[i % 2]) <= code.most
    assert not code.write(clip_to(W[4] - centre[0], code.clip)).any()


def test_the_kernel_without_the_check_would_exceed_the_norm():
    """The planted mistake once more, where the fast engine would make it."""
    centre, code = np.zeros((1, 29)), RingCode(MIXED.ring, 1.0)
    sums, members = code.ring.zeros((1, 29)), np.zeros(1, dtype=np.int64)
    for checked, within in ((MIXED, True), (code, False)):
        sums[:] = 0
        contribute_models(
            JUST_ONE[None].copy(), (0, 1), np.ones(1, dtype=bool), np.zeros(1, dtype=np.int32), centre, 1.0,
            checked.encoder, np.empty(29), sums, members,
        )  # fmt: skip
        assert (squares(sums[0]) <= 2048**2) is within


# The ring, and what devices agree to


def noisy(clip: float, **privacy: float) -> RingCode:
    settings = change(SMALL_PRIVATE, iterations=1, linear={"clip": clip}, ring={"bits": 32}, privacy=privacy)
    return ring_codes(SAMPLES, settings).linear


def test_a_noisy_sum_that_could_wrap_is_refused():
    noisy(1.0)
    with pytest.raises(UsageError, match=messages.SUM_COULD_WRAP):
        noisy(200_000.0, epsilon_per_user=30.0)
    with pytest.raises(UsageError, match=messages.NOISE_OUT_OF_RANGE):
        noisy(200_000.0)


@pytest.mark.parametrize("epsilon", [3.0, 30.0])
def test_what_a_simulation_may_sum_devices_agree_to_sum(epsilon):
    """At the largest clip that is not refused: otherwise a simulation opens sums which no device would take part in."""
    low, high = 1.0, 2.0**24
    while high - low > 1:
        middle = (low + high) / 2
        try:
            noisy(middle, epsilon_per_user=epsilon)
            low = middle
        except UsageError:
            high = middle
    code = noisy(low, epsilon_per_user=epsilon)
    agreed = {"length": SAMPLES.features + 1, "floor": 50, "noise": code.noise}
    terms = double_masks(code.ring, opening="members", sums=SMALL_PRIVATE.sums, **agreed)
    assert acceptable(graph_for(terms, 60), terms)


@pytest.mark.parametrize("size", [50, 51, 60, 199, 1000])
def test_a_devices_share_is_that_of_the_plan_for_its_roster(size):
    plan = plan_for(SMALL_PRIVATE, people=1000, pois=8, features=SAMPLES.features)
    release = plan.release(Kind.MIXING)
    terms = double_masks(
        CODES.linear.ring, length=5, opening="members", floor=50, sums=SMALL_PRIVATE.sums, noise=release.wanted_whole
    )
    share = noise_share(terms, size)
    assert share == release.noise(participants(SMALL_PRIVATE, size))
    assert share.hides() >= release.wanted
    assert share.total_variance(share.survivors) >= Fraction(release.wanted_whole)
    alone, among = cost_at_worst(terms, size, norm=release.norm), privacy_cost(terms, norm=release.norm)
    assert alone == cost(release.norm, share.hides(1))
    assert alone.epsilon(1e-6) > among.epsilon(1e-6)  # with made-up names around it, a device is worth less noise


def test_fewer_people_than_the_floor_have_no_codes():
    with pytest.raises(PolicyError, match=messages.too_few_devices(60, floor=61)):
        ring_codes(SAMPLES, change(SMALL_PRIVATE, floor=61))
