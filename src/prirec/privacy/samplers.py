"""Exact noise on the integers from random words: Canonne, Kamath and Steinke 2020, in 64-bit integers, without a float.

Bernoulli(e^-γ) for a rational γ ≤ 1: the run of successes of Bernoulli(γ/1), Bernoulli(γ/2), ... is even with
probability 1 - γ + γ²/2! - ... = e^-γ. Bernoulli(γ/k) is drawn as Bernoulli(γ) and Bernoulli(1/k): no product can
wrap.
Discrete Laplace: |Y| = U + tV with U kept with probability e^(-U/t) and V geometric.
Discrete Gaussian: a discrete Laplace draw of scale t = ⌊σ⌋ + 1, kept with probability exp(-(|Y| - σ²/t)² / 2σ²).

What is exact: given uniform words, each answer has exactly the probability of the law. What is not: σ² is first
rounded up to t·a / 2^b, so that all products fit 64 bits (by less than 2^-20 of itself from σ = 1/8 on); and sizes of
45 t and more are left out, which the law on all integers would give with probability below e^-1000.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, isqrt

import numpy as np

from prirec.compiled import inlined, kernel
from prirec.errors import UsageError
from prirec.privacy.randomness import ONE, ZERO, Stream, below
from prirec.types import BoolArray, OffsetArray, RingArray

_TAIL = 45  # in units of t
_ROOM = 2**32 // _TAIL  # t 2^b stays under it, so that (45 t 2^b)² < 2^64
_LARGEST_SCALE = 2**40
_TWO = np.uint64(2)


def bernoulli_rational(stream: Stream, probability: Fraction, count: int) -> BoolArray:
    """`count` coins that are True with exactly this probability, a fraction with a denominator below 2^63."""
    if not 0 <= probability <= 1 or probability.denominator >= 2**63:
        raise UsageError("a coin has a probability from 0 to 1, as a fraction with a denominator below 2^63")
    return stream.below(probability.denominator, count) < probability.numerator


def bernoulli_exp(stream: Stream, gamma: Fraction, count: int) -> BoolArray:
    """`count` coins that are True with probability e^-γ, for a fraction γ ≥ 0."""
    if gamma < 0 or max(gamma.numerator, gamma.denominator) >= 2**63:
        raise UsageError("e^-γ needs a fraction γ of at least 0 with both parts below 2^63")
    coins = np.empty(count, dtype=np.bool_)
    return stream.draw(_exp_coins, coins, np.uint64(gamma.numerator), np.uint64(gamma.denominator))


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """P(y) ∝ e^(-|y| / scale) on the integers."""

    scale: Fraction

    def __post_init__(self) -> None:
        if self.scale <= 0 or max(self.scale.numerator, self.scale.denominator) > _LARGEST_SCALE:
            raise UsageError("the scale of a discrete Laplace law is a fraction above 0 with both parts up to 2^40")

    def draw(self, stream: Stream, count: int) -> OffsetArray:
        """`count` independent draws."""
        answers = np.empty(count, dtype=np.int64)
        return stream.draw(_laplaces, answers, np.uint64(self.scale.numerator), np.uint64(self.scale.denominator))


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """P(y) ∝ e^(-y² / 2σ²) on the integers below 45 t: the noise share of a device. `asked` is the σ² wished for."""

    asked: Fraction
    t: int = field(init=False, repr=False)
    _a: int = field(init=False, repr=False)  # σ² = t a / 2^b
    _b: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.asked <= 0 or (t := isqrt(int(self.asked)) + 1) > _ROOM:
            raise UsageError(f"the variance of a discrete Gaussian is above 0, and its sd at most {_ROOM - 1}")
        b = (_ROOM // t).bit_length() - 1
        object.__setattr__(self, "t", t)
        object.__setattr__(self, "_b", b)
        object.__setattr__(self, "_a", ceil(self.asked * 2**b / t))

    @property
    def sigma_squared(self) -> Fraction:
        """The σ² that is drawn from: never under what was asked for."""
        return Fraction(self.t * self._a, 2**self._b)

    @property
    def largest(self) -> int:
        """No draw is further from 0: what a ring has to leave room for."""
        return _TAIL * self.t - 1

    def draw(self, stream: Stream, count: int) -> OffsetArray:
        """`count` independent draws: about 1 µs each, whatever σ is."""
        answers = np.empty(count, dtype=np.int64)
        t, a, b = (np.uint64(n) for n in (self.t, self._a, self._b))
        return stream.draw(_gaussians, answers, t, a, b)


@inlined
def _exp_of_one(words: RingArray, at: int) -> tuple[bool, int]:
    """A coin of e^-1."""
    k, won = ONE, ZERO
    while won == ZERO and at <= len(words):
        k += ONE
        won, at = below(words, at, k)
    return k % _TWO == ONE, at


@inlined
def _exp_of_part(words: RingArray, at: int, x: np.uint64, y: np.uint64) -> tuple[bool, int]:
    """A coin of e^(-x/y) for x ≤ y."""
    k = ONE
    while at <= len(words):
        drawn, at = below(words, at, y)
        if drawn >= x:
            break
        if k > ONE:
            drawn, at = below(words, at, k)
            if drawn != ZERO:
                break
        k += ONE
    return k % _TWO == ONE, at


@inlined
def _exp_coin(words: RingArray, at: int, x: np.uint64, y: np.uint64) -> tuple[bool, int]:
    """A coin of e^(-x/y): ⌊x/y⌋ coins of e^-1 and one of what is left must all come up."""
    coin, left = True, x
    while coin and left >= y and at <= len(words):
        coin, at = _exp_of_one(words, at)
        left -= y
    if coin and left > ZERO:
        coin, at = _exp_of_part(words, at, left, y)
    return coin, at


@inlined
def _laplace(words: RingArray, at: int, t: np.uint64, s: np.uint64) -> tuple[np.int64, int]:
    """One draw of e^(-|y| s/t)."""
    while at <= len(words):
        u, at = below(words, at, t)
        coin, at = _exp_of_part(words, at, u, t)
        if not coin:
            continue
        runs = ZERO
        while coin and at <= len(words):
            coin, at = _exp_of_one(words, at)
            runs += ONE if coin else ZERO
        size = np.int64((u + t * runs) // s)
        sign, at = below(words, at, _TWO)
        if sign == ZERO:
            return size, at
        if size > 0:  # 0 has one sign only
            return -size, at
    return np.int64(0), at


@inlined
def _gaussian(words: RingArray, at: int, t: np.uint64, a: np.uint64, b: np.uint64) -> tuple[np.int64, int]:
    """One draw of e^(-y² / 2σ²), σ² = t a / 2^b: γ = (|y| 2^b - a)² / (2^(b+1) t a)."""
    scale = (_TWO << b) * t * a
    while at <= len(words):
        y, at = _laplace(words, at, t, ONE)
        size = np.uint64(abs(y))
        if size >= np.uint64(_TAIL) * t:
            continue
        size <<= b
        gap = size - a if size >= a else a - size
        coin, at = _exp_coin(words, at, gap * gap, scale)
        if coin:
            return y, at
    return np.int64(0), at


@kernel
def _exp_coins(words: RingArray, answers: BoolArray, done: int, x: np.uint64, y: np.uint64) -> tuple[int, int]:
    at = 0
    for i in range(done, len(answers)):
        coin, after = _exp_coin(words, at, x, y)
        if after > len(words):
            return i, at
        answers[i], at = coin, after
    return len(answers), at


@kernel
def _laplaces(words: RingArray, answers: OffsetArray, done: int, t: np.uint64, s: np.uint64) -> tuple[int, int]:
    at = 0
    for i in range(done, len(answers)):
        draw, after = _laplace(words, at, t, s)
        if after > len(words):
            return i, at
        answers[i], at = draw, after
    return len(answers), at


@kernel
def _gaussians(
    words: RingArray, answers: OffsetArray, done: int, t: np.uint64, a: np.uint64, b: np.uint64
) -> tuple[int, int]:
    at = 0
    for i in range(done, len(answers)):
        draw, after = _gaussian(words, at, t, a, b)
        if after > len(words):
            return i, at
        answers[i], at = draw, after
    return len(answers), at
