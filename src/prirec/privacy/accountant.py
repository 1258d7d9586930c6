"""What several releases about one person come to: Gaussian noise composed exactly, local answers on top of it.

Adjacency ZERO_OUT: one person's contribution replaced by zero, the roster public. No amplification by sampling.

Gaussian parts. A release with noise of σ times the norm Δ of a contribution is a test of N(0, 1) against N(1/σ, 1);
several, chosen in the light of one another, are one test of N(0, 1) against N(μ, 1), μ² = Σ 1/σ² (Dong, Roth and Su
2022). δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), with equality (Balle and Wang 2018). Between any two contributions the
shift is 2Δ at most, so μ doubles. Skellam noise counts as Gaussian with a variance that is less by 3/2: noise_share.py.

Local parts. Whatever is (ε₀, δ₀)-private tells no more than this: with δ₀ everything, else a coin that is right with
e^ε₀ / (1 + e^ε₀) (Kairouz, Oh and Viswanath 2015). So the total is exactly δ(ε) = E δ_Gauss(ε − L) over the coins' log
ratios L, and not the sum of all ε₀. Where the coins would have too many outcomes, those left are taken as one of the
summed ε₀: basic composition.

μ² is counted in whole grains of 2^-56, so that the rounds of a plan add up to the plan exactly.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, reduce
from importlib import import_module
from typing import Any

import numpy as np

from prirec.errors import UsageError
from prirec.privacy.units import Adjacency, PrivacyLoss, Unit, local_loss
from prirec.types import RealArray

GRAINS = 2**56  # in a μ² of 1
MOST_GRAINS = 2**62  # in one release, and in what a plan may spend
_MOST_OUTCOMES = 4096
_SAFE = 1 - 1e-9  # of δ: floating point is off by less than that from _FEWEST grains on
_FEWEST = 2**24  # less is counted as so much
_LARGEST = 2.0**20  # a coin with a larger ε₀ is as good as the truth
_Coins = tuple[RealArray, RealArray]  # log ratios (n,) and their probabilities (n,)


@dataclass(frozen=True, slots=True)
class Spent:
    """What one or more releases tell of a person (or of a smaller unit): μ² of the Gaussian ones, and local losses."""

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
        """σ / Δ of one Gaussian release that tells as much as the Gaussian ones together; inf where there are none."""
        return math.sqrt(GRAINS / self.grains) if self.grains else math.inf

    def replace_one(self) -> "Spent":
        """The same between any two contributions: the Gaussian shift doubles, and so does a local ZERO_OUT loss."""
        return Spent(4 * self.grains, tuple(loss.replace_one() for loss in self.local), self.unit)

    def delta(self, epsilon: float) -> float:
        """The δ for this ε: an equality for Gaussian parts, a bound that can be reached for the rest."""
        ratios, chances = _coins(self.local)
        told = reduce(lambda all_of_it, loss: all_of_it + loss.delta * (1 - all_of_it), self.local, 0.0)
        return told + (1 - told) * float(np.dot(chances, _gaussian_delta(self.grains, epsilon - ratios)))

    def within(self, epsilon: float, delta: float) -> bool:
        """Whether all of it together is (ε, δ)-private, rounding included."""
        return self.delta(epsilon) <= delta * _SAFE

    def loss(self, delta: float, adjacency: Adjacency = Adjacency.ZERO_OUT) -> PrivacyLoss:
        """The least ε for this δ, rounded up. UsageError if no ε will do: local losses with a larger δ of their own."""
        _check_delta(delta)
        total = self if adjacency is Adjacency.ZERO_OUT else self.replace_one()
        if not total.within(_LARGEST, delta):
            raise UsageError(
                "no epsilon will do for this delta: too much was told, or local losses have a larger delta"
            )
        return PrivacyLoss(total._epsilon(delta), self.unit, delta, adjacency)

    def _epsilon(self, delta: float) -> float:
        low, high = 0.0, _LARGEST
        if self.within(0.0, delta):
            return 0.0
        while low < (middle := (low + high) / 2) < high:
            low, high = (low, middle) if self.within(middle, delta) else (middle, high)
        return high


def gaussian(noise_multiplier: float) -> Spent:
    """One release with Gaussian noise of so many times the norm of a contribution; rounded up by a grain."""
    if not 2.0**-3 <= noise_multiplier < math.inf:
        raise UsageError("noise must be finite, and at least 1/8 of the norm of a contribution")
    return Spent(math.ceil(GRAINS / Fraction(noise_multiplier) ** 2))


def total(spent: Iterable[Spent], unit: Unit = Unit.USER) -> Spent:
    """Everything together."""
    return reduce(Spent.__add__, spent, Spent(unit=unit))


@lru_cache(maxsize=64)
def affordable(epsilon_per_user: float, delta: float, *, local: float = 0.0) -> Spent:
    """The most that Gaussian releases about one person may tell together within (ε, δ), rounded down to a grain, beside
    local answers that cost the ε `local` together: only ledgers of earlier versions hold some."""
    _check_epsilon(epsilon_per_user)
    _check_delta(delta)
    if not 0 <= local <= epsilon_per_user:
        raise UsageError("the part of an epsilon for local answers is from 0 to all of it")
    answers = (local_loss(local, Unit.USER),)
    low, high = 0, MOST_GRAINS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Spent(middle, answers).within(epsilon_per_user, delta) else (low, middle)
    return Spent(low)


def noise_multiplier(epsilon_per_user: float, delta: float) -> float:
    """σ for one Gaussian release of sensitivity 1: 4.225 for ε = 1 and δ = 1e-6."""
    return affordable(epsilon_per_user, delta).noise_multiplier


def epsilon_by_pld(releases: Sequence[Spent], delta: float) -> float:
    """The same total by dp-accounting's privacy loss distributions, release by release: an upper bound on a grid."""
    try:
        pld: Any = import_module("dp_accounting.pld.privacy_loss_distribution")
    except ImportError:
        raise UsageError("this needs dp-accounting; install the extra 'accounting'") from None
    parts = [
        pld.from_gaussian_mechanism(Spent(grains).noise_multiplier).self_compose(times)
        for grains, times in Counter(one.grains for one in releases if one.grains).items()
    ]
    local = Counter((loss.epsilon, loss.delta) for one in releases for loss in one.local)
    for (epsilon, own), times in local.items():
        common: Any = import_module("dp_accounting.pld.common")
        parts.append(
            pld.from_privacy_parameters(common.DifferentialPrivacyParameters(epsilon, own)).self_compose(times)
        )
    return float(reduce(lambda one, other: one.compose(other), parts).get_epsilon_for_delta(delta))


def _gaussian_delta(grains: int, epsilons: RealArray) -> RealArray:
    """δ(ε) for each ε, of either sign. With a, b = ε/μ ∓ μ/2 it is φ(a) (R(a) − R(b)), R being Mills' ratio."""
    from scipy.special import erfcx, log_ndtr, ndtr

    if grains == 0:
        return np.maximum(0.0, -np.expm1(np.minimum(epsilons, 0.0)))
    mu = math.sqrt(max(grains, _FEWEST) / GRAINS)
    a, b = epsilons / mu - mu / 2, epsilons / mu + mu / 2
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        far = np.exp(-a * a / 2) / 2 * (erfcx(a / math.sqrt(2)) - erfcx(b / math.sqrt(2)))
        near = ndtr(-a) - np.exp(epsilons + log_ndtr(-b))
    delta: RealArray = np.maximum(0.0, np.where(a > 0, far, near))
    return delta


def _coins(losses: Sequence[PrivacyLoss]) -> _Coins:
    """The log ratio that all local answers have together, with its law where each favours the person's own."""
    coins: _Coins = (np.zeros(1), np.ones(1))
    groups = sorted(Counter(loss.epsilon for loss in losses if loss.epsilon).items(), reverse=True)
    for at, (epsilon, times) in enumerate(groups):
        if len(coins[0]) * (times + 1) > _MOST_OUTCOMES:
            rest = math.fsum(one * count for one, count in groups[at:])
            return _together(coins, _alike(rest, 1))
        coins = _together(coins, _alike(epsilon, times))
    return coins


def _alike(epsilon: float, times: int) -> _Coins:
    """`times` coins of one ε₀: n of them right has the binomial law."""
    n = np.arange(times + 1)
    right = -float(np.logaddexp(0.0, -epsilon))
    wrong = right - epsilon
    ways = np.array([math.lgamma(times + 1) - math.lgamma(k + 1) - math.lgamma(times - k + 1) for k in n.tolist()])
    ratios = np.asarray((2 * n - times) * epsilon, dtype=np.float64)
    chances: RealArray = np.exp(ways + n * right + (times - n) * wrong)
    return ratios, chances


def _together(one: _Coins, other: _Coins) -> _Coins:
    return np.add.outer(one[0], other[0]).ravel(), np.multiply.outer(one[1], other[1]).ravel()


def _check_epsilon(epsilon: float) -> None:
    if not 0 < epsilon < math.inf:
        raise UsageError("epsilon must be a number above 0, and finite")


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise UsageError("delta must be above 0 and below 1")
