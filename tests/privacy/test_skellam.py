"""Poisson and Skellam draws against their exact laws, and against a twin in whole numbers."""

import itertools
from fractions import Fraction
from math import isqrt, prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from prirec.errors import UsageError
from prirec.privacy import noise
from prirec.privacy.noise import Poisson, Skellam, Stream
from support.exact_figures import Words, chi_square_p, fresh, poisson_law, skellam_law
from support.hypothesis_settings import FEW

ODDS = 1e-9
SEEDS = st.binary(min_size=32, max_size=32)
F = Fraction


class Twin(Words):
    def coin(self, x: int, y: int) -> bool:
        return self.below(y) < x

    def product(self, count: int, *coins) -> bool:
        """Whether the run is even; `coins` say c x_p as a product of fractions, each a function of (c, p)."""
        even = True
        while count:
            p = self.below(count)
            if not all(self.coin(*coin(count, p)) for coin in coins):
                break
            even, count = not even, p
        return even

    def pieces(self, first: int, last: int, length: int, *coins) -> bool:
        """A product over first < i <= last, cut into pieces; the coins are functions of (c, i)."""
        starts = range(first, last, length)
        return all(
            self.product(min(length, last - s), *[lambda c, p, f=f, s=s: f(c, s + p + 1) for f in coins])
            for s in starts
        )

    def whole(self, m: int) -> int:
        k = isqrt(m - 1) + 1
        size = (m + k) // k

        def power(n):
            return self.product(n, lambda c, p: (c * k, m + k))

        while True:
            left = self.below(2)
            place = next(p for p in iter(lambda: self.below(size), None) if power(p))
            j = place + size * next(n for n in itertools.count() if not power(size))
            first, last = sorted((j, k))
            length = max(1, (m + k) // max(1, last - first))
            if not self.pieces(first, last, length, lambda c, i: (c * abs(i - k), m + max(i, k))):
                continue
            if not left:
                return m + j
            squares = (lambda c, i: (c * i, m), lambda c, i: (i, m))
            if j < m and self.pieces(0, j, max(1, m // max(1, j)), *squares):
                return m - 1 - j

    def part(self, x: int, y: int) -> int:
        while True:
            n = next(n for n in itertools.count() if not self.coin(1, 2))
            kept = self.coin(1, 2) if n == 0 else True
            if kept and all(self.coin(x, y) and (i < 3 or self.coin(2, i)) for i in range(1, n + 1)):
                return n


@FEW
@given(seed=SEEDS, m=st.one_of(st.integers(1, 50), st.integers(1, 2**40)))
def test_whole_rates_equal_their_twin(seed, m):
    words = Twin(seed)
    assert Poisson(F(m)).draw(Stream(seed), 100).tolist() == [words.whole(m) for _ in range(100)]


@FEW
@given(seed=SEEDS, x=st.integers(1, 10**6), more=st.integers(1, 10**6))
def test_rates_below_one_equal_their_twin(seed, x, more):
    rate, words = F(x, x + more), Twin(seed)
    twin = [words.part(rate.numerator, rate.denominator) for _ in range(300)]
    assert Poisson(rate).draw(Stream(seed), 300).tolist() == twin


@pytest.mark.statistical  # false alarm 1e-9 each; must notice a rate off by 10 %
@pytest.mark.parametrize("rate", [F(1, 3), F(1), F(2), F(7, 2), F(100)])
def test_poisson_draws_follow_the_exact_law(rate):
    draws = Poisson(rate).draw(fresh(), 100_000)
    assert chi_square_p(draws, poisson_law(rate, 300)) > ODDS
    assert chi_square_p(draws, poisson_law(rate * F(11, 10), 300)) < ODDS


@pytest.mark.statistical  # false alarm 1e-9 each; must notice a variance off by a fifth
@pytest.mark.parametrize("variance", [F(1, 2), F(3), F(50)])
def test_skellam_draws_follow_the_exact_law(variance):
    draws = Skellam(variance).draw(fresh(), 100_000)
    assert chi_square_p(draws, skellam_law(variance, 60)) > ODDS
    assert chi_square_p(draws, skellam_law(variance * F(6, 5), 60)) < ODDS


@given(x=st.lists(st.fractions(0, F(1, 6)), max_size=6))
def test_an_even_run_has_the_probability_of_the_product(x):
    def even(count):
        # stop at once, or go on from a p below the count and be odd from there
        onward = [F(1, count) * (count * x[p]) for p in range(count)]
        return 1 - sum(onward) + sum(chance * (1 - even(p)) for p, chance in enumerate(onward))

    assert even(len(x)) == prod(1 - each for each in x)


@pytest.mark.statistical  # false alarm 1e-9 each; must notice a σ off by 3 % and a shift of a twentieth of σ
@pytest.mark.parametrize("sigma", [300, 10**4, 10**6])
def test_large_skellam_draws_fall_into_bins_as_they_should(sigma):
    draws = Skellam(F(sigma) ** 2).draw(fresh(), 200_000)

    def p_value(scale, shift=0.0):
        # at this σ the law is the normal one to within 1/σ² of a bin
        edges = norm.ppf(np.linspace(0, 1, 21)) * scale + shift
        counts = np.histogram(draws, bins=np.floor(edges) + 0.5)[0]
        chances = np.diff(norm.cdf((np.floor(edges) + 0.5) / scale - shift / scale))
        return chi2.sf(((counts - 200_000 * chances) ** 2 / (200_000 * chances)).sum(), 19)

    assert p_value(sigma) > ODDS
    assert p_value(1.03 * sigma) < ODDS
    assert p_value(sigma, shift=0.05 * sigma) < ODDS


@pytest.mark.parametrize("variance", [F(1), F(10**6), F(10**12)])
def test_a_share_takes_a_few_random_words_however_large_the_noise_is(variance, monkeypatch):
    drawn, real = [], noise.stretch
    monkeypatch.setattr(noise, "stretch", lambda seed, size: drawn.append(size) or real(seed, size))
    stream = fresh()
    Skellam(variance).draw(stream, 20_000)
    assert (sum(drawn) - len(stream._words)) / 20_000 < 100  # 56 from 10^6 on; drawing by counting would take 10^12


@pytest.mark.statistical  # false alarm 1e-9; must notice that one of ten shares is missing
def test_shares_add_up_to_the_whole_law():
    shares = Skellam(F(1, 2)).draw(fresh(), 1_000_000).reshape(10, -1)
    assert chi_square_p(shares.sum(axis=0), skellam_law(F(5), 60)) > ODDS
    assert chi_square_p(shares[1:].sum(axis=0), skellam_law(F(5), 60)) < ODDS


@pytest.mark.parametrize("rate", [F(0), F(-1), F(2**40 + 1), F(1, 2**63)])
def test_rates_that_cannot_be_drawn_exactly_are_refused(rate):
    with pytest.raises(UsageError):
        Poisson(rate)
    with pytest.raises(UsageError):
        Skellam(2 * rate)
