"""Shares of noise: their sum has the stated law, hides what it claims to hide, and fits the ring."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ive, ndtri

from prirec.errors import PolicyError, UsageError
from prirec.privacy.accountant import GRAINS, Spent
from prirec.privacy.noise import NoiseShare, OperatorNoise, Participants, Stream
from prirec.protocols.mask_graph import least_survivors
from support import messages
from support.accounting import gaussian
from support.exact_figures import chi_square_p, fresh, skellam_law

ODDS = 1e-9
F = Fraction


def mass(variance: float, reach: float = 34) -> np.ndarray:
    """p(k) for k = 0 .. as many standard deviations; e^-v I_k(v)."""
    return ive(np.arange(int(reach * math.sqrt(variance)) + 30), variance)


def gaps(variance: float) -> np.ndarray:
    """q_k − q_k-1 for k = 0, 1, ...; the other half is the same by symmetry."""
    p = mass(variance)
    beyond = np.append(p[::-1].cumsum()[::-1][1:], 0.0)  # P(Z > k)
    beyond = beyond[: int(30 * math.sqrt(variance))]  # what lies behind the end of the table no longer counts
    q = -ndtri(np.minimum(beyond, (1 - p[0]) / 2))
    return np.append(2 * q[0], np.diff(q))


# How private it is: the three steps of the proof


@pytest.mark.parametrize("variance", [5, 6.5, 20, 300, 12_345])
def test_step_1_skellam_noise_is_no_more_peaked_than_claimed(variance):
    v, y = variance, variance - 0.5
    while y * y + v * v / y > v * v:
        y -= 1e-3 / v
    p = mass(variance, 12)
    peaks = p[1:-1] ** 2 / (p[:-2] * p[2:])
    assert max(peaks.max(), (p[0] / p[1]) ** 2) <= (v / y) ** 2 * (1 + 1e-12)


@pytest.mark.parametrize("variance", [5, 6.5, 20, 300, 12_345])
def test_step_2_every_gap_is_below_that_of_gaussian_noise_of_variance_less_by_three_halves(variance):
    widest = gaps(variance).max()
    assert widest**2 <= 1 / (variance - 1.5)
    assert widest**2 > 1 / variance  # as good as Gaussian noise of its own variance it is not


def test_step_2_the_bound_of_the_proof_is_met_for_every_variance_from_5_on():
    for v in np.concatenate([np.linspace(5, 50, 500), np.logspace(1.7, 5, 200)]):
        y = v - 0.5 - 0.375 / v
        while y * y + v * v / y > v * v:
            y -= 1e-3 / v
        tau = 2 * math.log(v / y)
        assert tau < 0.26
        assert 2 * tau / (1 + math.sqrt(1 - tau)) <= 1 / (v - 1.5)  # 2 (1 − √(1-τ)), written without cancellation


@pytest.mark.parametrize("shift", [(1,), (3,), (2, 1), (1, 1, 1)])
def test_step_3_the_exact_delta_of_any_shift_is_below_the_gaussian_one(shift):
    variance, squared = 30.0, sum(s * s for s in shift)
    half = mass(variance, 10)
    p = np.concatenate([half[:0:-1], half])
    here, there = np.ones(1), np.ones(1)
    for s in shift:
        moved, still = np.concatenate([np.zeros(s), p]), np.concatenate([p, np.zeros(s)])
        here, there = np.multiply.outer(here, moved).ravel(), np.multiply.outer(there, still).ravel()
        keep = here + there > 1e-25
        here, there = here[keep], there[keep]
    for epsilon in (0.0, 0.1, 0.5, 1.0, 1.5):
        delta = np.maximum(0, here - math.exp(epsilon) * there).sum()
        claimed = Spent(math.ceil(GRAINS * squared / (variance - 1.5))).delta(epsilon)
        assert delta <= claimed
        if epsilon == 0:  # and not far below, where one value more or less does not matter
            assert delta > 0.95 * Spent(math.floor(GRAINS * squared / variance)).delta(epsilon)


def renyi_epsilon(curve, delta: float) -> float:
    """Canonne, Kamath and Steinke 2020, Proposition 12, over whole orders, for which the Skellam bound is proven."""
    orders = np.arange(2, 4000)
    found = curve(orders) + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)
    return float(found.min())


@pytest.mark.parametrize("bits", [8, 10, 12])
@pytest.mark.parametrize("sigma", [1.2, 5.05, 35.0])
def test_at_8_to_12_bits_skellam_costs_what_gaussian_noise_costs(bits, sigma):
    """Agarwal, Kairouz and Liu 2021: ε(α) ≤ αΔ²/2μ + min(((2α−1)Δ² + 6Δ₁) / 4μ², 3Δ₁ / 2μ), with Δ₁ ≤ Δ² for whole
    vectors. By their bound, too, it is within a hundredth of a percent of Gaussian noise; ours is below theirs."""
    length = 2.0**bits
    mu, squared = (sigma * length) ** 2, length**2
    gauss = renyi_epsilon(lambda a: a * squared / (2 * mu), 1e-6)
    theirs = renyi_epsilon(
        lambda a: (
            a * squared / (2 * mu)
            + np.minimum(((2 * a - 1) * squared + 6 * squared) / (4 * mu**2), 3 * squared / (2 * mu))
        ),
        1e-6,
    )
    assert gauss <= theirs < gauss * 1.0001
    ours = Spent(math.ceil(GRAINS * squared / (mu - 1.5))).loss(1e-6).epsilon
    exact = gaussian(sigma).loss(1e-6).epsilon
    assert exact * (1 - 1e-8) < ours < exact * 1.0001
    assert ours < theirs


# Sizes


@given(wanted=st.fractions(F(1, 100), 10**9), survivors=st.integers(2, 10**6), share=st.floats(0, 0.9))
def test_honest_survivors_always_bring_enough_together(wanted, survivors, share):
    noise = NoiseShare(wanted, survivors, int(share * survivors))
    honest = survivors - noise.colluders
    assert noise.hides() >= wanted
    assert noise.variance * honest >= 5
    assert noise.variance * honest <= max(wanted + F(3, 2), F(5)) * (1 + F(1, 2**18)) + honest * F(1, 2**16)


def test_a_share_missing_or_a_colluder_more_is_too_little():
    noise = NoiseShare(F(10**6), 75, 5)
    assert noise.variance * 69 - F(3, 2) < noise.wanted


def test_large_shares_are_even_numbers_which_are_drawn_faster():
    assert NoiseShare(F(10**9), 10, 0).variance == 100_000_002
    assert NoiseShare(F(100), 10, 0).variance == F(math.ceil(F(203, 20) * 2**16), 2**16)


def test_invalid_noise_is_refused():
    for wanted in (F(0), F(-1), F(2**52 + 1)):
        with pytest.raises(UsageError, match=messages.NOISE_OUT_OF_RANGE):
            NoiseShare(wanted, 10, 0)
    for survivors, colluders in ((5, 5), (5, 6), (5, -1), (0, 0)):
        with pytest.raises(UsageError, match=messages.ALL_SURVIVORS_COLLUDE):
            NoiseShare(F(1), survivors, colluders)
    with pytest.raises(UsageError, match=messages.sum_not_opened(10)):
        NoiseShare(F(1), 10, 0).total_variance(9)


@pytest.mark.parametrize("size", [100, 117, 1000, 85_466])
@pytest.mark.parametrize("lost", [0.0, 0.1, 0.29, 0.45])
def test_the_fewest_survivors_are_those_of_the_protocol(size, lost):
    crowd = Participants(size, lost=lost, corrupt=0.29)
    assert crowd.survivors == least_survivors(size, floor=100, lost=lost)
    assert crowd.colluders == size * 29 // 100


def test_invalid_crowds_are_refused():
    for lost, corrupt in ((-0.1, 0), (1.0, 0), (math.nan, 0), (0, -0.1), (0, 1.0), (0, math.nan)):
        with pytest.raises(UsageError, match=messages.LOST_OR_CORRUPT_OUT_OF_RANGE):
            Participants(1000, lost=lost, corrupt=corrupt)
    with pytest.raises(PolicyError, match=messages.floor_too_low(50)):
        Participants(1000, floor=49)
    with pytest.raises(PolicyError, match=messages.too_few_devices(99, floor=100)):
        Participants(99)
    with pytest.raises(UsageError, match=messages.survivors_may_collude(500, 600)):
        Participants(1000, lost=0.5, corrupt=0.6)


# Draws


@pytest.mark.statistical  # false alarm 1e-9 each; must notice that one of six shares is missing
def test_the_total_has_the_law_of_the_shares_added_up():
    noise = NoiseShare(F(12), 5, 1)
    shares = np.array([noise.draw(fresh(u), 60_000) for u in range(6)])
    at_once = noise.total(fresh(), survivors=6, count=60_000)
    law = skellam_law(noise.total_variance(6), 60)
    assert chi_square_p(at_once, law) > ODDS
    assert chi_square_p(shares.sum(axis=0), law) > ODDS
    assert chi_square_p(shares[1:].sum(axis=0), law) < ODDS


@pytest.mark.statistical  # false alarm 1e-9; must notice a variance off by 10 %
def test_a_total_beyond_one_draw_is_drawn_in_pieces():
    noise = NoiseShare(F(2**43), 100, 0)
    draws = noise.total(fresh(), survivors=150, count=20_000) / math.sqrt(noise.total_variance(150))
    assert draws.dtype == np.float64
    assert abs((draws**2).mean() - 1) < 6.2 * math.sqrt(2 / 20_000)  # 6.2 % of 1: a tenth more is 4 sd beyond


def test_totals_follow_from_the_seed():
    noise = NoiseShare(F(50), 10, 1)
    one, again, other = (noise.total(Stream(bytes([k]) * 32), survivors=10, count=50).tolist() for k in (1, 1, 2))
    assert one == again != other


# The ring


@pytest.mark.parametrize("variance", [5.0, 100.0, 10_000.0])
def test_the_tail_is_as_rare_as_it_says(variance):
    noise = NoiseShare(F(variance) - F(3, 2), 1, 0)
    t = noise.tail(survivors=1, count=1)
    p = mass(variance, 60)
    assert 2 * p[t:].sum() <= 2.0**-60
    assert 2 * p[t // 2 :].sum() > 2.0**-60  # and not far beyond


def test_more_entries_and_more_survivors_need_more_room():
    noise = NoiseShare(F(10**6), 10, 0)
    assert (
        noise.tail(survivors=10, count=1)
        < noise.tail(survivors=10, count=10**5)
        < noise.tail(survivors=40, count=10**5)
    )


def test_a_ring_that_could_wrap_is_refused_with_the_inequality():
    noise = NoiseShare(F(10**6), 10, 0)
    room = noise.tail(survivors=10, count=7)
    largest = F(2**31 - 1 - room, 10) - F(1, 2)
    noise.check_ring(summands=10, largest=largest, count=7, ring_bits=32)
    with pytest.raises(UsageError, match=messages.noisy_sum_could_wrap(10)):
        noise.check_ring(summands=10, largest=largest + F(1, 10), count=7, ring_bits=32)
    with pytest.raises(UsageError):
        noise.check_ring(summands=10, largest=F(2**60), count=7)


# Two operators


@pytest.mark.parametrize("wanted", [Fraction(1), Fraction(10), Fraction(12345), Fraction(2**40 + 1)])
def test_each_of_two_operators_brings_all_that_is_wanted_whoever_comes(wanted):
    among = Participants(1000, floor=100, operators=2)
    noise = among.noise(wanted)
    assert isinstance(noise, OperatorNoise)
    assert (among.survivors, among.colluders) == (100, 0)
    assert noise.variance == NoiseShare(wanted, 1, 0).variance
    assert noise.hides() == noise.hides(1) >= wanted
    assert {noise.total_variance(many) for many in (100, 500, 1000)} == {2 * noise.variance}
    with pytest.raises(UsageError, match=messages.sum_not_opened(100)):
        noise.total_variance(99)


def test_two_operators_draw_by_themselves():
    noise, seeds = OperatorNoise(Fraction(10**6), 100, 0), [bytes([1] * 32), bytes([2] * 32)]
    both = noise.draws(seeds, 4000)
    assert both.tolist() == sum(noise.draw(Stream(seed), 4000) for seed in seeds).tolist()
    assert 1.8e6 < both.var() < 2.2e6  # within 4.5 sd of twice the variance, and far from once or thrice


def test_a_sum_that_could_pass_half_of_the_field_is_refused():
    noise = OperatorNoise(Fraction(10**6), 100, 0)
    most = (2**64 - 2**32 + 1) // 2 - noise.tail(survivors=100, count=3)
    noise.check_ring(summands=1, largest=Fraction(most), count=3)
    with pytest.raises(UsageError, match=messages.FIELD_COULD_WRAP):
        noise.check_ring(summands=1, largest=Fraction(most + 1), count=3)
