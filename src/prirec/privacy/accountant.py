"""The privacy accountant: the (ε, δ) of several releases about one person, composed exactly.

Adjacency ZERO_OUT: one person's contribution replaced by zero, the roster public. No amplification by sampling, since
rosters are public and the recommender knows who took part.

Gaussian parts. A release with noise of σ times the norm Δ of a contribution is a test of N(0, 1) against N(1/σ, 1);
several, each chosen after seeing the others' outputs, are one test of N(0, 1) against N(μ, 1), μ² = Σ 1/σ² (Dong, Roth
and Su 2022). δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), with equality (Balle and Wang 2018). Between any two
contributions the shift is 2Δ at most, so μ doubles. Skellam noise counts as Gaussian with a variance that is less by
3/2: noise.py.

Local parts (randomised response, in ledgers of earlier versions). Whatever is (ε₀, δ₀)-private reveals no more than
this: with δ₀ everything, else a coin that is right with e^ε₀ / (1 + e^ε₀) (Kairouz, Oh and Viswanath 2015). So the
total is exactly δ(ε) = E δ_Gauss(ε − L) over the coins' log ratios L, and not the sum of all ε₀. Where the coins would
have too many outcomes, those left are taken as one of the summed ε₀: basic composition.

μ² is counted in whole grains of 2^-56, so that the rounds of a plan add up to the plan exactly: with floats the last
round could fail for want of 1e-17.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache, reduce

import numpy as np

from prirec.errors import UsageError
from prirec.types import RealArray

# Privacy losses: (ε, δ) with the unit that it is counted for and the adjacency that it holds under.
#
# Adjacency. ZERO_OUT: one person's contribution is replaced by zero, and the roster is public: (ε, δ) bounds how well
# anyone can distinguish taking part with these records from taking part with none. REPLACE_ONE: it is replaced by any
# other one. The second follows from the first through the empty contribution: P(x) ≤ e^ε P(0) + δ ≤ e^2ε P(x') + (1 +
# e^ε) δ. A loss that holds for REPLACE_ONE holds for ZERO_OUT as it stands, since nothing is one of the contributions.


WORDS = 2**64  # how many values a random word has: the denominator of every probability on a device

_DIGITS = Context(prec=60)
_LARGEST = 64  # e^64 > 2^64: beyond it a word cannot tell one ε from another


class Unit(StrEnum):
    """What one loss is counted for, from the smallest to the largest."""

    BIT = "bit"
    VALUE = "value"
    EVENT = "event"
    USER_DAY = "user-day"
    USER = "user"


class Adjacency(StrEnum):
    """Which two worlds the loss is counted between."""

    ZERO_OUT = "a contribution or none"
    REPLACE_ONE = "a contribution or any other"


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """(ε, δ) for one bit, value, event, user-day or user."""

    epsilon: float
    unit: Unit
    delta: float = 0.0
    adjacency: Adjacency = Adjacency.ZERO_OUT

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < math.inf or not 0 <= self.delta <= 1:
            raise UsageError("a privacy loss has a finite epsilon of at least 0 and a delta between 0 and 1")

    def replace_one(self) -> "PrivacyLoss":
        """The loss between any two contributions: 2ε and (1 + e^ε) δ where only ZERO_OUT was known."""
        if self.adjacency is Adjacency.REPLACE_ONE:
            return self
        # (1 + e^ε) δ through logarithms, since e^ε of a large ε overflows before δ makes it small again
        delta = min(1.0, math.exp(min(0.0, math.log(self.delta) + self.epsilon)) + self.delta) if self.delta else 0.0
        return PrivacyLoss(2 * self.epsilon, self.unit, delta, Adjacency.REPLACE_ONE)

    def times(self, count: int, unit: Unit) -> "PrivacyLoss":
        """`count` such losses as one of a larger unit: basic composition."""
        if count < 0:
            raise UsageError("losses are counted from 0")
        return PrivacyLoss(self.epsilon * count, unit, min(1.0, self.delta * count), self.adjacency)

    def __str__(self) -> str:
        delta = f", δ = {self.delta:g}" if self.delta else ""
        return f"ε = {self.epsilon:g}{delta} per {self.unit} ({self.adjacency})"


def local_loss(epsilon: float, unit: Unit) -> PrivacyLoss:
    """The loss of a local mechanism: its ratio is bounded between any two inputs, with δ = 0."""
    return PrivacyLoss(epsilon, unit, adjacency=Adjacency.REPLACE_ONE)


def checked_epsilon(epsilon: float, name: str) -> float:
    """The ε, if it is positive and finite; otherwise a UsageError that names it."""
    if not 0 < epsilon < math.inf:
        raise UsageError(f"{name} must be a number above 0, and finite")
    return epsilon


def exp_below(epsilon: float) -> Fraction:
    """A fraction of at most e^ε, and within 10^-58 of it (of e^64 for a larger ε); a float is read exactly."""
    # Decimal.exp is correctly rounded, so one unit in the last place below it is below e^ε
    rounded = Decimal(min(epsilon, _LARGEST)).exp(_DIGITS)
    return Fraction(rounded.next_minus(_DIGITS))


def words_at_least(probability: Fraction) -> int:
    """The least n with n / 2^64 ≥ probability: "a random word below n" has that probability or a little more."""
    return math.ceil(probability * WORDS)


GRAINS = 2**56  # in a μ² of 1
MOST_GRAINS = 2**62  # in one release, and in what a plan may spend
_MOST_OUTCOMES = 4096
_SAFE = 1 - 1e-9  # margin on δ: rounding errors are smaller than that from _FEWEST grains on
_FEWEST = 2**24  # fewer grains count as this many
# What ε = 1 and δ = 1e-6 afford, as the bisection finds it (a test compares). Written down because every command of a
# device needs it, and the bisection needs SciPy, whose import takes longer than the command.
_DEFAULT_BUDGET = 4_037_312_329_294_167
_LARGEST_EPSILON = 2.0**20  # with a larger ε₀ a coin reveals the truth anyway
_Coins = tuple[RealArray, RealArray]  # log ratios (n,) and their probabilities (n,)


@dataclass(frozen=True, slots=True)
class Spent:
    """The privacy cost of releases, for a person or a smaller unit: μ² of the Gaussian ones, and local losses."""

    grains: int = 0  # Σ 1/σ², in units of 2^-56
    local: tuple[PrivacyLoss, ...] = ()
    unit: Unit = Unit.USER

    def __post_init__(self) -> None:
        if self.grains < 0:
            raise UsageError("what was spent has a sum of 1/σ² of at least 0")
        if any(loss.unit is not self.unit for loss in self.local):
            raise UsageError(f"what is spent per {self.unit} has local losses per {self.unit}; convert them with times")

    def __add__(self, other: "Spent") -> "Spent":
        if self.unit is not other.unit:
            raise UsageError(f"what is spent per {self.unit} and what is spent per {other.unit} do not add up")
        return Spent(self.grains + other.grains, self.local + other.local, self.unit)

    @property
    def noise_multiplier(self) -> float:
        """σ / Δ of the one Gaussian release that costs as much as all Gaussian ones together; inf without any."""
        return math.sqrt(GRAINS / self.grains) if self.grains else math.inf

    def replace_one(self) -> "Spent":
        """The cost under REPLACE_ONE: the Gaussian shift doubles (μ² × 4), and so does a local ZERO_OUT loss."""
        return Spent(4 * self.grains, tuple(loss.replace_one() for loss in self.local), self.unit)

    def delta(self, epsilon: float) -> float:
        """δ(ε): exact for Gaussian parts, a tight bound with local ones."""
        ratios, chances = _coins(self.local)
        revealed = reduce(lambda before, loss: before + loss.delta * (1 - before), self.local, 0.0)
        return revealed + (1 - revealed) * float(np.dot(chances, _gaussian_delta(self.grains, epsilon - ratios)))

    def within(self, epsilon: float, delta: float) -> bool:
        """Whether everything together is (ε, δ)-private, with a margin for rounding errors."""
        return self.delta(epsilon) <= delta * _SAFE

    def loss(self, delta: float, adjacency: Adjacency = Adjacency.ZERO_OUT) -> PrivacyLoss:
        """The least ε for this δ, rounded up. UsageError if there is none: local losses have a larger δ."""
        _check_delta(delta)
        total = self if adjacency is Adjacency.ZERO_OUT else self.replace_one()
        if not total.within(_LARGEST_EPSILON, delta):
            raise UsageError(
                "no epsilon will do for this delta: too much was told, or local losses have a larger delta"
            )
        return PrivacyLoss(total._epsilon(delta), self.unit, delta, adjacency)

    def epsilon(self, delta: float) -> float:
        """The least ε for this δ, for worst cases: 2^20 stands for all that is larger."""
        return self.loss(delta).epsilon if self.within(_LARGEST_EPSILON, delta) else _LARGEST_EPSILON

    def _epsilon(self, delta: float) -> float:
        # bisection to neighbouring floats; `high` always satisfies `within`, so the answer is never too small
        low, high = 0.0, _LARGEST_EPSILON
        if self.within(0.0, delta):
            return 0.0
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if self.within(middle, delta) else (middle, high)
        return high


def total(spent: Iterable[Spent], unit: Unit = Unit.USER) -> Spent:
    """The cost of several releases together: composition adds costs up."""
    return reduce(Spent.__add__, spent, Spent(unit=unit))


@lru_cache(maxsize=64)  # every charge asks again for the same budget, and a bisection over 2^62 is slow
def affordable(epsilon_per_user: float, delta: float, *, local: float = 0.0) -> Spent:
    """The most that Gaussian releases about one person may cost together within (ε, δ), rounded down to a grain.

    `local` is the ε that local answers have cost already: only ledgers of earlier versions hold some."""
    check_budget(epsilon_per_user, delta)
    if not 0 <= local <= epsilon_per_user:
        raise UsageError("the part of an epsilon for local answers is from 0 to all of it")
    if (epsilon_per_user, delta, local) == (1.0, 1e-6, 0.0):
        return Spent(_DEFAULT_BUDGET)
    # all answers as one coin of the summed ε: basic composition, so that a ledger's order does not matter
    answers = (local_loss(local, Unit.USER),)
    low, high = 0, MOST_GRAINS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Spent(middle, answers).within(epsilon_per_user, delta) else (low, middle)
    return Spent(low)


def check_budget(epsilon: float, delta: float) -> None:
    """UsageError for an ε or δ that cannot be a budget."""
    checked_epsilon(epsilon, "epsilon")
    _check_delta(delta)


def noise_multiplier(epsilon_per_user: float, delta: float) -> float:
    """σ for one Gaussian release of sensitivity 1: 4.225 for ε = 1 and δ = 1e-6."""
    return affordable(epsilon_per_user, delta).noise_multiplier


def _gaussian_delta(grains: int, epsilons: RealArray) -> RealArray:
    """δ(ε) for each ε, of either sign. With a, b = ε/μ ∓ μ/2 it is φ(a) (R(a) − R(b)), R being Mills' ratio: in the
    tail the two terms of the textbook formula cancel, those of this one do not."""
    if grains == 0:
        return np.maximum(0.0, -np.expm1(np.minimum(epsilons, 0.0)))
    from scipy.special import erfcx, log_ndtr, ndtr

    mu = math.sqrt(max(grains, _FEWEST) / GRAINS)
    a, b = epsilons / mu - mu / 2, epsilons / mu + mu / 2
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        far = np.exp(-a * a / 2) / 2 * (erfcx(a / math.sqrt(2)) - erfcx(b / math.sqrt(2)))
        near = ndtr(-a) - np.exp(epsilons + log_ndtr(-b))
    delta: RealArray = np.maximum(0.0, np.where(a > 0, far, near))
    return delta


def _coins(losses: Sequence[PrivacyLoss]) -> _Coins:
    """The distribution of the summed log likelihood ratio of all local answers."""
    coins: _Coins = (np.zeros(1), np.ones(1))
    # the largest ε₀ first: what is left when outcomes run out is composed crudely, and should be small
    groups = sorted(Counter(loss.epsilon for loss in losses if loss.epsilon).items(), reverse=True)
    for at, (epsilon, times) in enumerate(groups):
        if len(coins[0]) * (times + 1) > _MOST_OUTCOMES:
            rest = math.fsum(one * count for one, count in groups[at:])
            return _product(coins, _equal_coins(rest, 1))
        coins = _product(coins, _equal_coins(epsilon, times))
    return coins


def _equal_coins(epsilon: float, times: int) -> _Coins:
    """`times` coins of one ε₀: the number of right ones is binomial."""
    n = np.arange(times + 1)
    right = -float(np.logaddexp(0.0, -epsilon))
    wrong = right - epsilon
    ways = np.array([math.lgamma(times + 1) - math.lgamma(k + 1) - math.lgamma(times - k + 1) for k in n.tolist()])
    ratios = np.asarray((2 * n - times) * epsilon, dtype=np.float64)
    chances: RealArray = np.exp(ways + n * right + (times - n) * wrong)
    return ratios, chances


def _product(one: _Coins, other: _Coins) -> _Coins:
    return np.add.outer(one[0], other[0]).ravel(), np.multiply.outer(one[1], other[1]).ravel()


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise UsageError("delta must be above 0 and below 1")
