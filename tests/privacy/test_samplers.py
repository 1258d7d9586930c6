"""Noise on the integers against its exact law, and against a twin in whole numbers that cannot overflow."""

import itertools
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2, norm

from prirec.errors import UsageError
from prirec.privacy.randomness import Stream
from prirec.privacy.samplers import DiscreteGaussian, DiscreteLaplace, _gaussians, bernoulli_exp, bernoulli_rational
from support.audit import epsilon_at_least
from support.exact import Words, chi_square_p, fresh, gaussian_law, laplace_law
from support.patience import FEW

ODDS = 1e-9
SEEDS = st.binary(min_size=32, max_size=32)
F = Fraction


class Twin(Words):
    """The algorithms of Canonne, Kamath and Steinke."""

    def exp_of_one(self) -> bool:
        return next(k for k in itertools.count(2) if self.below(k)) % 2 == 1

    def exp_of_part(self, gamma: Fraction) -> bool:
        k = 1
        while self.below(gamma.denominator) < gamma.numerator and (k == 1 or not self.below(k)):
            k += 1
        return k % 2 == 1

    def exp(self, x: int, y: int) -> bool:
        whole, part = divmod(x, y)
        return all(self.exp_of_one() for _ in range(whole)) and (part == 0 or self.exp_of_part(Unreduced(part, y)))

    def laplace(self, t: int, s: int) -> int:
        while True:
            u = self.below(t)
            if self.exp_of_part(Unreduced(u, t)):
                runs = next(n for n in itertools.count() if not self.exp_of_one())
                size, minus = (u + t * runs) // s, self.below(2)
                if size or not minus:
                    return -size if minus else size

    def gaussian(self, law: DiscreteGaussian) -> int:
        variance, t = law.sigma_squared, law.t
        y = 2 ** ((2**32 // 45 // t).bit_length() - 1)  # only what the words are compared with: γ itself is a fraction
        while True:
            draw = self.laplace(t, 1)
            gamma = (abs(draw) - variance / t) ** 2 / (2 * variance)
            scale = int(2 * y * y * variance)
            if abs(draw) <= law.largest and self.exp(int(gamma * scale), scale):
                assert gamma * scale == int(gamma * scale)
                return draw


class Unreduced:
    """A fraction that keeps its denominator, which decides how words are used."""

    def __init__(self, numerator: int, denominator: int):
        self.numerator, self.denominator = numerator, denominator


@FEW
@given(seed=SEEDS, x=st.integers(0, 2**62), y=st.integers(1, 2**62))
def test_exponential_coins_equal_their_twin(seed, x, y):
    gamma = F(x, y) % 20
    words = Twin(seed)
    twin = [words.exp(gamma.numerator, gamma.denominator) for _ in range(200)]
    assert bernoulli_exp(Stream(seed), gamma, 200).tolist() == twin


@FEW
@given(seed=SEEDS, t=st.integers(1, 2**40), s=st.integers(1, 50))
def test_laplace_draws_equal_their_twin(seed, t, s):
    scale, words = F(t, s), Twin(seed)
    twin = [words.laplace(scale.numerator, scale.denominator) for _ in range(200)]
    assert DiscreteLaplace(scale).draw(Stream(seed), 200).tolist() == twin


@FEW
@given(seed=SEEDS, variance=st.fractions(F(1, 50), 9 * 10**15))
def test_gaussian_draws_equal_their_twin_up_to_the_largest_sigma(seed, variance):
    law, words = DiscreteGaussian(variance), Twin(seed)
    assert law.draw(Stream(seed), 200).tolist() == [words.gaussian(law) for _ in range(200)]


@pytest.mark.statistical  # false alarm 1e-9 each; must notice an exponent off by 10 %
@pytest.mark.parametrize("gamma", [F(0), F(1, 3), F(1), F(7, 3)])
def test_exponential_coins_have_their_probability(gamma):
    hits = int(bernoulli_exp(fresh(), gamma, 200_000).sum())
    assert binomtest(hits, 200_000, np.exp(-float(gamma))).pvalue > ODDS
    if gamma:
        assert binomtest(hits, 200_000, np.exp(-1.1 * float(gamma))).pvalue < ODDS


@pytest.mark.statistical  # false alarm 1e-9 each; must notice a probability off by 10 %
@pytest.mark.parametrize("probability", [F(0), F(2, 7), F(1)])
def test_rational_coins_have_their_probability(probability):
    hits = int(bernoulli_rational(fresh(), probability, 100_000).sum())
    assert binomtest(hits, 100_000, float(probability)).pvalue > ODDS
    assert binomtest(hits, 100_000, 0.9 * float(probability) + 0.05).pvalue < ODDS


@pytest.mark.statistical  # false alarm 1e-9 each; must notice a scale off by 10 %
@pytest.mark.parametrize("scale", [F(1, 2), F(1), F(7, 2), F(20)])
def test_laplace_draws_follow_the_exact_law(scale):
    draws = DiscreteLaplace(scale).draw(fresh(), 200_000)
    assert chi_square_p(draws, laplace_law(scale, 800)) > ODDS
    assert chi_square_p(draws, laplace_law(scale * F(11, 10), 800)) < ODDS


@pytest.mark.statistical  # false alarm 1e-9 each; must notice a σ off by 10 %, and rounded continuous noise for small σ
@pytest.mark.parametrize("sigma", [F(3, 10), F(1), F(5, 2), F(21)])
def test_gaussian_draws_follow_the_exact_law(sigma):
    draws = DiscreteGaussian(sigma**2).draw(fresh(), 200_000)
    assert chi_square_p(draws, gaussian_law(sigma**2, 400)) > ODDS
    assert chi_square_p(draws, gaussian_law((sigma * F(11, 10)) ** 2, 400)) < ODDS
    rounded = {y: norm.cdf((y + 0.5) / float(sigma)) - norm.cdf((y - 0.5) / float(sigma)) for y in range(-400, 401)}
    assert sigma > 2 or chi_square_p(draws, rounded) < ODDS


@pytest.mark.statistical  # false alarm 1e-9 each; must notice a σ off by 3 % and a shift of a twentieth of σ
@pytest.mark.parametrize("sigma", [650, 10**4, 10**6, 9 * 10**7])
def test_large_gaussian_draws_fall_into_bins_as_they_should(sigma):
    draws = DiscreteGaussian(F(sigma) ** 2).draw(fresh(), 200_000)

    def p_value(scale, shift=0.0):
        # at this σ the discrete and the continuous law agree on a bin to within 1/σ² of it
        edges = norm.ppf(np.linspace(0, 1, 41)) * scale + shift
        counts = np.histogram(draws, bins=edges)[0]
        return chi2.sf(((counts - 5000) ** 2 / 5000).sum(), 39)

    assert p_value(sigma) > ODDS
    assert p_value(1.03 * sigma) < ODDS
    assert p_value(sigma, shift=0.05 * sigma) < ODDS


@FEW
@given(variance=st.fractions(F(1, 64), 9 * 10**15))
def test_the_gaussian_variance_is_never_under_what_was_asked_and_hardly_over(variance):
    used = DiscreteGaussian(variance).sigma_squared
    assert variance <= used <= variance * (1 + F(1, 2**20))


@pytest.mark.parametrize("sigma", [1, 10**6])
def test_no_gaussian_draw_is_beyond_the_largest(sigma):
    law = DiscreteGaussian(F(sigma) ** 2)
    assert law.largest == 45 * (sigma + 1) - 1
    assert np.abs(law.draw(fresh(), 50_000)).max() <= law.largest


def test_a_draw_beyond_the_largest_is_thrown_away_and_drawn_again():
    law = DiscreteGaussian(F(1))
    t, a = np.uint64(law.t), np.uint64(law.sigma_squared * 2**25 / law.t)
    # U = 0, kept; 45 coins of e^-1 that come up (0, then 1 of 3) and one that does not; the sign
    beyond = np.array([0, 0, *[0, 1] * 45, 1, 0], dtype=np.uint64)
    words = Stream(bytes(32)).words(500)
    first, again = np.empty(1, np.int64), np.empty(1, np.int64)
    _, used = _gaussians(words, first, 0, t, a, np.uint64(25))
    assert _gaussians(np.concatenate([beyond, words]), again, 0, t, a, np.uint64(25)) == (1, len(beyond) + used)
    assert first == again == law.draw(Stream(bytes(32)), 1)


@pytest.mark.statistical  # false alarm 2e-9; must notice a scale that is 10 % too small for the claim
def test_laplace_noise_shows_no_more_than_its_claim():
    def shown(scale):
        noise = DiscreteLaplace(scale).draw(fresh(), 400_000)
        return epsilon_at_least(noise[:200_000] + 1 >= 1, noise[200_000:] >= 1)

    assert 0.9 < shown(F(1)) <= 1.0
    assert shown(F(10, 11)) > 1.0


def test_a_device_draws_its_noise_share_in_under_a_second():
    law = DiscreteGaussian(F(650) ** 2)
    law.draw(fresh(), 1)  # compiled before the clock starts
    begin = time.process_time()
    law.draw(fresh(), 118_598)
    assert time.process_time() - begin < 1


def test_what_cannot_be_drawn_exactly_is_refused():
    stream = fresh()
    for refused in (
        lambda: bernoulli_rational(stream, F(3, 2), 1),
        lambda: bernoulli_rational(stream, F(1, 2**63), 1),
        lambda: bernoulli_exp(stream, F(-1), 1),
        lambda: bernoulli_exp(stream, F(2**63), 1),
        lambda: DiscreteLaplace(F(0)),
        lambda: DiscreteLaplace(F(2**40 + 1)),
        lambda: DiscreteGaussian(F(0)),
        lambda: DiscreteGaussian(F(10**16)),
    ):
        with pytest.raises(UsageError):
            refused()
