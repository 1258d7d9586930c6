"""One-bit mean estimation under local privacy (Ding, Kulkarni and Yekhanin 2017), for Section 3.3's real values.

A value x in [low, high] is g of G steps above low. It is rounded to one of the two bounds by a threshold α, uniform
on 0 .. G-1: up if α < g. Whether it went up, one bit, is then randomised by Eq. (5) with flip probability q.

Proof. P(1 | x) = q + (1-2q) g/G lies in [q, 1-q] for every x, so that no answer favours one value over another by
more than (1-q)/q ≤ e^ε. E[(bit - q)/(1-2q)] = g/G: the estimated sum is unbiased for values on the grid, which has
steps of 2^-32 of the range.
Fresh bits about the same value add up: a second collection costs a second ε.
"""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from prirec.errors import UsageError
from prirec.features.popularity import OwnCounts
from prirec.privacy.accountant import PrivacyLoss, Unit, checked_epsilon, local_loss
from prirec.privacy.noise import Stream
from prirec.privacy.randomized_response import RandomizedResponse, estimate
from prirec.types import BoolArray, OffsetArray, RealArray

GRID_BITS = 32
GRID = 2**GRID_BITS  # G: a power of two, so that the high bits of a random word are an exact threshold
_DROPPED = np.uint64(64 - GRID_BITS)


@dataclass(frozen=True, slots=True)
class OneBitMean:
    """The mechanism for values in [low, high], public bounds that were chosen without looking at anyone's values."""

    low: float
    high: float
    epsilon_per_value: float
    coin: RandomizedResponse = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.high - self.low < np.inf:  # false for NaN as well
            raise UsageError("the public bounds of a value are finite, and the lower is below the higher")
        checked_epsilon(self.epsilon_per_value, "epsilon_per_value")
        object.__setattr__(self, "coin", RandomizedResponse(self.epsilon_per_value))

    def likelihood_ratio(self) -> Fraction:
        """Between the two bounds, the values that an answer distinguishes best: at most e^ε."""
        return self.coin.likelihood_ratio()

    def loss(self) -> PrivacyLoss:
        return local_loss(self.epsilon_per_value, Unit.VALUE)

    def bits(self, values: RealArray, stream: Stream) -> BoolArray:
        """One fresh bit for each value (any shape). Runs on the device; the bits may leave it."""
        # one threshold and one coin for each value: reusing either would make two bits about a person dependent
        thresholds = (stream.words(values.size) >> _DROPPED).astype(np.int64).reshape(values.shape)
        flips = stream.bernoulli(self.coin.flip_words, values.size).reshape(values.shape)
        bits: BoolArray = (thresholds < self.steps(values)) ^ flips
        return bits

    def steps(self, values: RealArray) -> OffsetArray:
        """g: how many of G steps each value is above `low`, to nearest; a value outside the bounds is refused."""
        if not np.all((values >= self.low) & (values <= self.high)):  # false for NaN as well
            raise UsageError("a value is not a number or outside its public bounds; clip it on the device first")
        position = np.rint((values - self.low) / (self.high - self.low) * GRID).astype(np.int64)
        steps: OffsetArray = np.clip(position, 0, GRID)
        return steps

    def chance_of_one(self, values: RealArray) -> RealArray:
        """P(1 | x) = q + (1-2q) g/G."""
        q = float(self.coin.flip)
        return np.asarray(q + (1 - 2 * q) * (self.steps(values) / GRID), dtype=np.float64)

    def simulate_ones(self, own: OwnCounts, *, reports: int | OffsetArray, rng: np.random.Generator) -> OffsetArray:
        """The number of ones about each place (J,), drawn from its exact law; `own` holds the values that people have.

        Everyone else reports the lower bound: with the higher bound, it is the value with the least noise. For
        simulation: it protects nobody."""
        about = own.pairs % own.places
        others = reports - np.bincount(about, minlength=own.places)
        if np.any(others < 0):
            raise UsageError("those who have a value at a place are no more than those who report about it")
        ones = np.bincount(about[rng.random(len(about)) < self.chance_of_one(own.counts)], minlength=own.places)
        total: OffsetArray = ones + rng.binomial(others, float(self.coin.flip))
        return total

    def estimated_sum(self, ones: OffsetArray, *, reports: int | OffsetArray) -> RealArray:
        """The sum of all reported values for each place, from its count of ones; unbiased."""
        up = estimate(ones, reports=reports, mechanism=self.coin)  # Eq. (6): how many were rounded up
        return np.asarray(reports * self.low + (self.high - self.low) * up, dtype=np.float64)

    def standard_deviation(self, values: RealArray) -> float:
        """Standard deviation of the estimated sum over people who have these values."""
        ones = self.chance_of_one(values)
        return self._per_bit() * float(np.sqrt(np.sum(ones * (1 - ones))))

    def largest_deviation(self, with_a_value: RealArray, *, reports: int | OffsetArray) -> RealArray:
        """An upper bound on the standard deviation of each estimated sum (J,), computed from nobody's values.

        So many of `reports` have some value, all others the lower bound: a bit has a variance of q (1-q) at a bound,
        and of at most 1/4 elsewhere."""
        q, some = float(self.coin.flip), np.clip(with_a_value, 0, reports)
        return np.asarray(self._per_bit() * np.sqrt(some / 4 + (reports - some) * q * (1 - q)), dtype=np.float64)

    def _per_bit(self) -> float:
        """How far one bit moves the estimated sum."""
        return (self.high - self.low) / float(1 - 2 * self.coin.flip)
