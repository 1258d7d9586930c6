"""Exact Skellam noise, the difference of two Poisson draws, in 64-bit integers and without a float.

A sum of Skellam shares is exactly Skellam, however small or large the shares are: no bound on the distance to some
other law is needed, as it is for sums of discrete Gaussians.

Poisson(m), m a whole number: P(m+j) / P(m) = T(j) = Π_{i ≤ j} m/(m+i) and P(m-1-j) / P(m) = T(j) Π_{i ≤ j} (1-i²/m²).
So toss for the side, propose j with probability ∝ ρ^j, ρ = m/(m+k), k = ⌈√m⌉, and keep it with probability
T(j) ρ^(k-j) / T(k), which is Π (1 - |i-k| / (m + max(i, k))) over the i between j and k; on the left, times
Π_{i ≤ j} (1-i²/m²).
A coin of a product Π_{i < c} (1 - x_i) costs a few words, whatever c is, as long as c · max x ≤ 1: pick p < c
uniformly, go on with p in place of c with probability c · x_p, and say whether the number of times that this went on
is even. That has the right probability E(c), since E(c) = 1 - Σ_{p < c} x_p E(p) holds for it as for the product.
Longer products are cut into pieces.
Poisson(γ), γ ≤ 1: propose n with probability 2^-(n+1), keep with γ^n 2^(n-1)/n!.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

import numpy as np

from prirec.compiled import inlined, kernel
from prirec.errors import UsageError
from prirec.privacy.randomness import ONE, ZERO, Stream, below
from prirec.types import OffsetArray, RingArray

_LARGEST_RATE = 2**40
_TWO = np.uint64(2)


@dataclass(frozen=True, slots=True)
class Poisson:
    """P(n) = e^-λ λ^n / n!, for a rational λ > 0."""

    rate: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.rate <= _LARGEST_RATE or self.rate.denominator >= 2**63:
            raise UsageError("a Poisson rate is a fraction above 0 and up to 2^40 with a denominator below 2^63")

    def draw(self, stream: Stream, count: int) -> OffsetArray:
        """`count` independent draws: one of the whole part of the rate and one of what is left, added up."""
        whole, part = divmod(self.rate, 1)
        total = np.zeros(count, dtype=np.int64)
        if whole:
            total += stream.draw(_wholes, np.empty_like(total), np.uint64(whole), np.uint64(isqrt(whole - 1) + 1))
        if part:
            total += stream.draw(_parts, np.empty_like(total), np.uint64(part.numerator), np.uint64(part.denominator))
        return total


@dataclass(frozen=True, slots=True)
class Skellam:
    """The difference of two Poisson draws of rate σ²/2: mean 0, variance σ²; shares add up to the same law."""

    variance: Fraction

    def __post_init__(self) -> None:
        Poisson(self.variance / 2)

    def draw(self, stream: Stream, count: int) -> OffsetArray:
        """`count` independent draws: about 1 µs each, whatever σ is."""
        poisson = Poisson(self.variance / 2)
        return poisson.draw(stream, count) - poisson.draw(stream, count)


@inlined
def _coin(words: RingArray, at: int, x: np.uint64, y: np.uint64) -> tuple[bool, int]:
    """x/y."""
    drawn, at = below(words, at, y)
    return bool(drawn < x), at


@inlined
def _power(words: RingArray, at: int, n: np.uint64, m: np.uint64, k: np.uint64) -> tuple[bool, int]:
    """A coin of ρ^n = (1 - k/(m+k))^n, for n k ≤ m + k."""
    even, more, c = True, True, n
    while more and c > ZERO and at <= len(words):
        p, at = below(words, at, c)
        more, at = _coin(words, at, c * k, m + k)
        if more:
            even, c = not even, p
    return even, at


@inlined
def _proposed(words: RingArray, at: int, m: np.uint64, k: np.uint64) -> tuple[np.uint64, int]:
    """j with probability ∝ ρ^j: a place in a piece as long as `_power` can take, and how many pieces come before."""
    length = (m + k) // k
    place, kept = ZERO, False
    while not kept and at <= len(words):
        place, at = below(words, at, length)
        kept, at = _power(words, at, place, m, k)
    pieces, more = ZERO, True
    while more and at <= len(words):
        more, at = _power(words, at, length, m, k)
        pieces += ONE if more else ZERO
    return place + length * pieces, at


@inlined
def _kept(words: RingArray, at: int, m: np.uint64, k: np.uint64, j: np.uint64) -> tuple[bool, int]:
    """A coin of T(j) ρ^(k-j) / T(k)."""
    done, last = min(j, k), max(j, k)
    length = max(ONE, (m + k) // max(ONE, last - done))
    even = True
    while even and done < last and at <= len(words):
        c, more = min(length, last - done), True
        while more and c > ZERO and at <= len(words):
            p, at = below(words, at, c)
            i = done + p + ONE
            more, at = _coin(words, at, c * (max(i, k) - min(i, k)), m + max(i, k))
            if more:
                even, c = not even, p
        done = min(done + length, last)
    return even, at


@inlined
def _kept_on_the_left(words: RingArray, at: int, m: np.uint64, j: np.uint64) -> tuple[bool, int]:
    """A coin of Π (1 - i²/m²) over i ≤ j; c i²/m² as c i/m and i/m, so that nothing wraps."""
    even, done, length = bool(j < m), ZERO, max(ONE, m // max(ONE, j))
    while even and done < j and at <= len(words):
        c, more = min(length, j - done), True
        while more and c > ZERO and at <= len(words):
            p, at = below(words, at, c)
            i = done + p + ONE
            more, at = _coin(words, at, c * i, m)
            if more:
                more, at = _coin(words, at, i, m)
            if more:
                even, c = not even, p
        done = min(done + length, j)
    return even, at


@inlined
def _whole(words: RingArray, at: int, m: np.uint64, k: np.uint64) -> tuple[np.int64, int]:
    """One draw of Poisson(m)."""
    while at <= len(words):
        left, at = below(words, at, _TWO)
        j, at = _proposed(words, at, m, k)
        kept, at = _kept(words, at, m, k, j)
        if kept and left == ONE:
            kept, at = _kept_on_the_left(words, at, m, j)
        if kept:
            return np.int64(m) - np.int64(j) - 1 if left == ONE else np.int64(m + j), at
    return np.int64(0), at


@inlined
def _part(words: RingArray, at: int, x: np.uint64, y: np.uint64) -> tuple[np.int64, int]:
    """One draw of Poisson(x/y), x/y ≤ 1."""
    n, kept = ZERO, False
    while not kept and at <= len(words):
        n, more = ZERO, True
        while more and at <= len(words):
            more, at = _coin(words, at, ONE, _TWO)
            n += ONE if more else ZERO
        kept, i = True, ZERO
        if n == ZERO:
            kept, at = _coin(words, at, ONE, _TWO)
        while kept and i < n and at <= len(words):
            i += ONE
            kept, at = _coin(words, at, x, y)
            if kept and i > _TWO:
                kept, at = _coin(words, at, _TWO, i)
    return np.int64(n), at


@kernel
def _wholes(words: RingArray, answers: OffsetArray, done: int, m: np.uint64, k: np.uint64) -> tuple[int, int]:
    at = 0
    for i in range(done, len(answers)):
        draw, after = _whole(words, at, m, k)
        if after > len(words):
            return i, at
        answers[i], at = draw, after
    return len(answers), at


@kernel
def _parts(words: RingArray, answers: OffsetArray, done: int, x: np.uint64, y: np.uint64) -> tuple[int, int]:
    at = 0
    for i in range(done, len(answers)):
        draw, after = _part(words, at, x, y)
        if after > len(words):
            return i, at
        answers[i], at = draw, after
    return len(answers), at
