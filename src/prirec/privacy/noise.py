"""Noise in secure sums: each device's share, why the sum of shares is private, and the exact sampler that draws it.

A device adds its share to its rounded vector; what leaves the device is that vector under pads, and only the noisy sum
is opened. Shares are Skellam, the difference of two Poisson draws, because a sum of Skellam shares is exactly Skellam,
however small or large they are. Sums of discrete Gaussians are not discrete Gaussian: their distance to one would have
to be bounded and paid for.

The sampler is exact, in integers: a floating-point sampler has gaps between its values that depend on the secret it is
added to, which is an attack on textbook implementations (Mironov 2012).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from prirec.config import HARD_FLOOR
from prirec.errors import PolicyError, UsageError
from prirec.proofs.parameters import MODULUS
from prirec.sharing.keys import SEED, derive, stretch
from prirec.types import BoolArray, OffsetArray, RingArray
from prirec.util.jit import inlined, kernel
from prirec.util.shown import counted

# Exact random integers from a 32-byte secret seed: no floats, and no value likelier than it should be.
#
# A stream is the AES-256-CTR key streams of keys derived from the seed, end to end, so that it never runs out; without
# the seed it cannot be distinguished from uniform words. One seed, one purpose, one release. Kernels use a variable
# number of words for each answer. A kernel that runs out of words in the middle of an answer starts that answer again
# on the SAME words with more behind them: on fresh words, answers that need few of them would become likelier.


Answers = TypeVar("Answers", bound=NDArray[Any])
# (words, answers, done, *parameters) -> (answers done, words used)
Drawing: TypeAlias = Callable[..., tuple[int, int]]

LARGEST = np.uint64(2**64 - 1)
ONE = np.uint64(1)
ZERO = np.uint64(0)
_FIRST_PIECE, _DOUBLINGS = 2**10, 10  # words: short streams are cheap, and no piece is over 8 MB


class Stream:
    """The random words of one seed, each used once."""

    __slots__ = ("_pieces", "_seed", "_words")

    def __init__(self, seed: bytes) -> None:
        if not isinstance(seed, bytes) or len(seed) != SEED:
            raise UsageError(f"a seed is {SEED} bytes, all of them secret")
        self._seed = seed
        self._pieces = 0
        self._words: RingArray = np.empty(0, dtype=np.uint64)

    def words(self, count: int) -> RingArray:
        """`count` uniform words of 64 bits."""
        if count < 0:
            raise UsageError("no fewer than 0 words can be drawn")
        while len(self._words) < count:
            self._lengthen()
        taken, self._words = self._words[:count], self._words[count:]
        return taken

    def bernoulli(self, numerator: int, count: int) -> BoolArray:
        """`count` coins of exactly numerator / 2^64: every mechanism here rounds its probabilities to that."""
        if not 0 <= numerator <= 2**64:
            raise UsageError("a probability over 2^64 has a numerator from 0 to 2^64")
        if numerator == 2**64:
            return np.ones(count, dtype=np.bool_)
        hits: BoolArray = self.words(count) < np.uint64(numerator)
        return hits

    def below(self, bounds: int | OffsetArray, count: int | None = None) -> OffsetArray:
        """Uniform on 0 .. bound - 1, exactly, by rejection: `count` draws for one bound, or one for each of many."""
        limits = np.asarray(bounds, dtype=np.int64)
        limits = np.full(1 if count is None else count, limits, dtype=np.int64) if limits.ndim == 0 else limits
        if np.any(limits < 1):
            raise UsageError("a number is drawn below a bound of at least 1")
        return self.draw(_below_each, np.empty(limits.size, dtype=np.int64), limits)

    def draw(self, drawing: Drawing, answers: Answers, *parameters: object) -> Answers:
        """Fill `answers` with a kernel that returns how many answers are done, and words used, when its words end."""
        done = 0
        while True:
            done, used = drawing(self._words, answers, done, *parameters)
            self._words = self._words[used:]
            if done == len(answers):
                return answers
            self._lengthen()

    def _lengthen(self) -> None:
        size = _FIRST_PIECE << min(self._pieces, _DOUBLINGS)
        piece = stretch(derive(self._seed, "prirec privacy stream", self._pieces), size)
        self._pieces += 1
        self._words = np.concatenate([self._words, piece])

    def __repr__(self) -> str:
        return "Stream(secret)"


@inlined
def below(words: RingArray, at: int, bound: np.uint64) -> tuple[np.uint64, int]:
    """Uniform on 0 .. bound - 1 and the next position; a position behind the end says that the words ran out."""
    while at < len(words):
        word = words[at]
        at += 1
        rest = word % bound
        # rejection: the last 2^64 mod bound words would make small answers likelier
        if word - rest <= LARGEST - (bound - ONE):
            return rest, at
    return ZERO, len(words) + 1


@kernel
def _below_each(words: RingArray, answers: OffsetArray, done: int, bounds: OffsetArray) -> tuple[int, int]:
    at = 0
    for i in range(done, len(answers)):
        value, after = below(words, at, np.uint64(bounds[i]))
        if after > len(words):
            return i, at
        answers[i], at = np.int64(value), after
    return len(answers), at


# --- Shares of the noise ----------------------------------------------------------------------------------------------
#
# A sum of s vectors carries exactly Skellam noise of s shares' variance. A share is sized so that the honest among the
# fewest survivors, m − c, bring the wanted variance together: c colluders can subtract their own shares, and nobody
# else's.
#
# Theorem. Skellam noise of variance v ≥ 5 on whole vectors, of any length, hides a shift at least as well as Gaussian
# noise of variance v − 3/2. Proof, with p(k) = e^-v I_k(v), F(k) = P(Z ≤ k), q_k = Φ^-1(F(k)), w = 1/(v − 3/2):
#
# 1. p is not too peaked: p(k)² ≤ e^τ p(k-1) p(k+1) with τ = w − w²/4. Let y = v e^(-τ/2). For r_k = I_k+1 / I_k, k ≥ 1,
#    1/r_k-1 = 2k/v + r_k, and p(k-1) p(k+1) / p(k)² = r_k (2k/v + r_k) is at least y²/v² if r_k ≥ b_k = (√(k²+y²) −
#    k)/v. That holds for large k (r_k ~ v/2k, b_k ~ y²/2kv) and carries over from k+1 to k-1, because b_k-1 is no more
#    than 1 / (2k/v + 1/(2(k+1)/v + b_k+1)): for B_k = √(k²+y²), B_k+1 − B_k-1 = 4k / (B_k+1 + B_k-1) ≤ 2k/y ≤ 2k (1 −
#    y²/v²). The last step is y² + v²/y ≤ v², or 1/v ≤ 2 e^-τ sinh(τ/2), for which e^τ ≤ vτ is enough: e^τ ≤ 1 + w +
#    w²/4, and that is at most (1 + 3w/2) (1 − w/4) = vτ for w ≤ 2/5. Negative k are the mirror image, and 0 follows
#    from 1.
# 2. So no gap D = q_k − q_k-1 is wide. Gaps go to 0 for large |k|, where −ln P(Z > k) grows by ln k a step and q_k like
#    √(2k ln k); take the widest. The gaps beside it are no wider, so p(k∓1) ≤ N(a∓D) with a = q_k-1 and N(a) = Φ(a+D) −
#    Φ(a) = p(k). Step 1 gives τ ≥ ln N(a)² / (N(a-D) N(a+D)) = ∫ (D − |t|) (1 − Var) dt over |t| ≤ D, Var that of a
#    normal cut to [a+t, a+t+D]. Var ≤ D²/4 gives D² (1 − D²/4) ≤ τ = w (1 − w/4). And D² > 2 cannot be: for t in at
#    least half of that length 0 is outside the cut, where Var ≤ 1 − 2/π, the half-normal's, since a smaller cut of a
#    log-concave law has less; even the half with the least weight, |t| ≥ D/2, makes the integral at least (2/π) D²/4 >
#    0.31, but τ < 0.27 from v = 5 on. Hence D² ≤ w.
# 3. Z is log-concave (a convolution of two Poisson laws), so thresholds are the best tests of Z + n against Z. "Above
#    k" errs with 1 − F(k) and F(k−n) = Φ(q_k−n) ≥ Φ(q_k − nD), as for normals nD apart. A test that tosses a coin at k
#    lies on the chord between two of these, and the normals' curve is convex: below it. Z is symmetric, so −n is the
#    same. By the composition of such curves (Dong, Roth and Su 2022) entries and rounds, chosen in the light of one
#    another, add up as for Gaussian noise: squares add.

LEAVES_THE_RING = 2.0**-60  # probability, for any entry of a sum
_LESS = Fraction(3, 2)  # of the theorem
_LEAST = 5
_MOST = 2**52
_PIECE = 2**40  # of variance: the most that one draw may have
_FINE, _LARGE = 2**16, 2**20  # shares are multiples of 2^-16, and even numbers where that costs nothing


@dataclass(frozen=True, slots=True)
class Participants:
    """The size of one sum's roster, the fewest that may be summed, and the shares that may drop out or collude."""

    size: int
    floor: int = 100  # a sum over fewer people is never opened
    lost: float = 0.2  # share of the roster that may drop out
    corrupt: float = 0.05  # share of the roster that may work for the server
    operators: int = 1  # with 2 each of them adds all of the noise, and any number of devices may drop out or collude

    def __post_init__(self) -> None:
        if not (0 <= self.lost < 1 and 0 <= self.corrupt < 1):  # false for NaN as well
            raise UsageError("lost and corrupt are shares of a roster, from 0 to below 1")
        if self.floor < HARD_FLOOR:
            raise PolicyError(f"floor must be at least {HARD_FLOOR}: a sum over fewer people can be taken apart")
        if self.size < self.floor:
            raise PolicyError(
                f"{counted(self.size, 'device')}, and the floor for an opened sum is {self.floor}; in an experiment "
                "the filter data.keep may have left some out"
            )
        if self.survivors <= self.colluders:
            raise UsageError(
                f"of {self.survivors} survivors {self.colluders} may collude, and nobody's noise is left; at least one "
                "more is needed: take more devices, or smaller shares of lost and corrupt"
            )

    @property
    def survivors(self) -> int:
        """m: the fewest with which the sum may be opened, as protocols.mask_graph.least_survivors has it."""
        return self.floor if self.operators == 2 else max(self.floor, self.size - _count(self.lost, self.size))

    @property
    def colluders(self) -> int:
        """c: how many of them may collude; they know their own shares of the noise and can subtract them."""
        return 0 if self.operators == 2 else _count(self.corrupt, self.size)

    def noise(self, wanted: Fraction) -> "NoiseShare":
        """What each device adds, or each of two operators, so that the wanted variance hides a contribution."""
        kind = OperatorNoise if self.operators == 2 else NoiseShare
        return kind(wanted, self.survivors, self.colluders)


@dataclass(frozen=True, slots=True)
class NoiseShare:
    """The noise that one device adds to each entry of its vector, in units of 2^-f."""

    wanted: Fraction  # variance of the Gaussian noise to be matched
    survivors: int  # m, the fewest with which a sum may be opened
    colluders: int  # c, those of them whose noise does not count

    def __post_init__(self) -> None:
        if not 0 < self.wanted <= _MOST:
            raise UsageError(
                "noise has a standard deviation above 0 and below 2^26 units of 2^-f; beyond that nothing would be "
                "learnt: take fewer rounds, a larger share of the budget or a larger epsilon"
            )
        if self.colluders < 0 or self.survivors <= self.colluders:
            raise UsageError(
                f"noise is shared by the survivors of a sum who do not collude: {self.survivors} survivors less "
                f"{self.colluders} colluders leave nobody; take more devices or a smaller sums.corrupt"
            )

    @property
    def variance(self) -> Fraction:
        """Variance of one share: (wanted + 3/2) / (m − c), rounded up."""
        exact = max(self.wanted + _LESS, Fraction(_LEAST)) / (self.survivors - self.colluders)
        return Fraction(2 * math.ceil(exact / 2)) if exact >= _LARGE else Fraction(math.ceil(exact * _FINE), _FINE)

    def draw(self, stream: Stream, count: int) -> OffsetArray:
        """One device's share for a vector of `count` entries, drawn exactly. It never leaves the device by itself."""
        return _drawn(self.variance, stream, count)

    def total_variance(self, survivors: int) -> Fraction:
        """Variance of the noise in the sum of so many survivors' shares."""
        if survivors < self.survivors:
            raise UsageError(f"a sum with fewer than {self.survivors} survivors is not opened")
        return self.variance * survivors

    def total(self, stream: Stream, *, survivors: int, count: int) -> OffsetArray:
        """The sum of the survivors' shares, drawn at once from its own law. For simulation: it protects nobody."""
        return _drawn(self.total_variance(survivors), stream, count)

    def hides(self, honest: int | None = None) -> Fraction:
        """Variance of the Gaussian noise that the shares of so many honest survivors match at least; 0 where that is
        none. By default of all but c among m survivors: then it is at least `wanted`."""
        variance = self.variance * (self.survivors - self.colluders if honest is None else honest)
        return variance - _LESS if variance >= _LEAST else Fraction(0)

    def tail(self, *, survivors: int, count: int) -> int:
        """A bound on the noise in all `count` entries, with probability 1 − 2^-60: Bernstein for Poisson jumps.

        P(|Z| ≥ t) ≤ 2 exp(-t² / 2(v + t/3)), since ln E e^λZ = v (cosh λ − 1) ≤ λ² v / 2(1 − λ/3)."""
        log = math.log(2 * count / LEAVES_THE_RING)
        return math.ceil(log / 3 + math.sqrt(log * log / 9 + 2 * log * float(self.total_variance(survivors)))) + 1

    def check_ring(self, *, summands: int, largest: Fraction, count: int, ring_bits: int = 64) -> None:
        """UsageError for a sum that could wrap: n (B 2^f + 1/2) + noise ≤ 2^(l-1) − 1, `largest` being B 2^f."""
        noise = self.tail(survivors=max(summands, self.survivors), count=count)
        if summands * (largest + Fraction(1, 2)) + noise > 2 ** (ring_bits - 1) - 1:
            raise UsageError(
                f"the noisy sum could wrap: n (B 2^f + 1/2) + noise <= 2^(l-1) - 1 fails for n = {summands}, "
                f"B 2^f = {float(largest):g}, noise = {noise}, l = {ring_bits}; use fewer fraction bits"
            )


@dataclass(frozen=True, slots=True)
class OperatorNoise(NoiseShare):
    """The noise that each of two operators adds to the sum: all that is wanted, whoever the devices are and however
    many come. An operator can subtract its own, so the sum has twice the variance that is needed. `survivors` is the
    fewest reports that a sum is opened over; there are no colluders to allow for."""

    @property
    def variance(self) -> Fraction:
        """Variance of one operator's noise: wanted + 3/2, rounded up."""
        return NoiseShare(self.wanted, 1, 0).variance

    def total_variance(self, survivors: int) -> Fraction:
        if survivors < self.survivors:
            raise UsageError(f"a sum with fewer than {self.survivors} survivors is not opened")
        return 2 * self.variance

    def hides(self, honest: int | None = None) -> Fraction:
        """Variance of the Gaussian noise that the honest operator's noise matches; devices have no part in it."""
        return self.variance - _LESS

    def draws(self, seeds: Iterable[bytes], count: int) -> OffsetArray:
        """Sum of the noise of operators with these seeds, each drawn by itself."""
        total = np.zeros(count, dtype=np.int64)
        for seed in seeds:
            total += self.draw(Stream(seed), count)
        return total

    def check_ring(self, *, summands: int, largest: Fraction, count: int, ring_bits: int = 64) -> None:
        """UsageError for a sum that could pass p/2 in the field, `largest` being the largest entry."""
        noise = self.tail(survivors=self.survivors, count=count)
        if summands * largest + noise > MODULUS // 2:
            raise UsageError(
                f"the noisy sum could wrap: n B 2^f + noise <= p/2 fails for n = {summands}, B 2^f = "
                f"{float(largest):g}, noise = {noise}; use fewer fraction bits"
            )


def _drawn(variance: Fraction, stream: Stream, count: int) -> OffsetArray:
    """In as many pieces as the sampler needs: a sum of Skellam draws is a Skellam draw."""
    pieces = math.ceil(variance / _PIECE)
    law = Skellam(variance / pieces)
    noise = law.draw(stream, count)
    for _ in range(pieces - 1):
        noise += law.draw(stream, count)
    return noise


def _count(share: float, size: int) -> int:
    """⌊share · size⌋ as meant: 0.29 of 100 is 29, though the nearest float to 0.29 is a little below."""
    return int(share * size + 1e-6)


# --- The sampler ------------------------------------------------------------------------------------------------------
#
# Poisson(m), m a whole number: P(m+j) / P(m) = T(j) = Π_{i ≤ j} m/(m+i) and P(m-1-j) / P(m) = T(j) Π_{i ≤ j} (1-i²/m²).
# So toss for the side, propose j with probability ∝ ρ^j, ρ = m/(m+k), k = ⌈√m⌉, and accept it with probability
# T(j) ρ^(k-j) / T(k), which is Π (1 - |i-k| / (m + max(i, k))) over the i between j and k; on the left, times
# Π_{i ≤ j} (1-i²/m²).
# A coin of a product Π_{i < c} (1 - x_i) costs a few words, whatever c is, as long as c · max x ≤ 1: pick p < c
# uniformly, go on with p in place of c with probability c · x_p, and say whether the number of times that this went on
# is even. That has the right probability E(c), since E(c) = 1 - Σ_{p < c} x_p E(p) holds for it as for the product.
# Longer products are cut into pieces.
# Poisson(γ), γ ≤ 1: propose n with probability 2^-(n+1), accept with γ^n 2^(n-1)/n!.
#
# A kernel whose random words run out returns a position behind their end; `Stream.draw` then starts that answer again.

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
            total += stream.draw(_whole_draws, np.empty_like(total), np.uint64(whole), np.uint64(isqrt(whole - 1) + 1))
        if part:
            total += stream.draw(
                _part_draws, np.empty_like(total), np.uint64(part.numerator), np.uint64(part.denominator)
            )
        return total


@dataclass(frozen=True, slots=True)
class Skellam:
    """The difference of two Poisson draws of rate σ²/2: mean 0, variance σ²; sums of shares have the same law."""

    variance: Fraction

    def __post_init__(self) -> None:
        Poisson(self.variance / 2)

    def draw(self, stream: Stream, count: int) -> OffsetArray:
        """`count` independent draws, about 1 µs each for any σ."""
        poisson = Poisson(self.variance / 2)
        return poisson.draw(stream, count) - poisson.draw(stream, count)


@inlined
def _coin(words: RingArray, at: int, x: np.uint64, y: np.uint64) -> tuple[bool, int]:
    """A coin that is heads with probability x/y."""
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
def _propose(words: RingArray, at: int, m: np.uint64, k: np.uint64) -> tuple[np.uint64, int]:
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
def _accepted(words: RingArray, at: int, m: np.uint64, k: np.uint64, j: np.uint64) -> tuple[bool, int]:
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
def _accepted_left(words: RingArray, at: int, m: np.uint64, j: np.uint64) -> tuple[bool, int]:
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
        j, at = _propose(words, at, m, k)
        kept, at = _accepted(words, at, m, k, j)
        if kept and left == ONE:
            kept, at = _accepted_left(words, at, m, j)
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
def _whole_draws(words: RingArray, answers: OffsetArray, done: int, m: np.uint64, k: np.uint64) -> tuple[int, int]:
    at = 0
    for i in range(done, len(answers)):
        draw, after = _whole(words, at, m, k)
        if after > len(words):
            return i, at
        answers[i], at = draw, after
    return len(answers), at


@kernel
def _part_draws(words: RingArray, answers: OffsetArray, done: int, x: np.uint64, y: np.uint64) -> tuple[int, int]:
    at = 0
    for i in range(done, len(answers)):
        draw, after = _part(words, at, x, y)
        if after > len(words):
            return i, at
        answers[i], at = draw, after
    return len(answers), at
