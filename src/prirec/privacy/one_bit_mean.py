"""One bit about a real number with public bounds: Ding, Kulkarni and Yekhanin 2017, with α-point rounding.

A value x in [low, high] is g of G steps above low. It is rounded to one of the two bounds by a threshold α, uniform
on 0 .. G-1: up if α < g. Whether it went up, one bit, is then randomised with flip probability q.
Proof. P(1 | x) = q + (1-2q) g/G lies in [q, 1-q] for every x, so that no answer favours one value over another by
more than (1-q)/q ≤ e^ε. E[(bit - q)/(1-2q)] = g/G: unbiased for the value on the grid (steps of 2^-32 of the range).

Average spend at a POI: everyone answers, with the lower bound where there is nothing to tell; the sum over people is
estimated here, the number of visitors by Eq. (6), and their ratio is the average.
"""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from prirec.errors import UsageError
from prirec.privacy.randomized_response import RandomizedResponse
from prirec.privacy.randomness import Stream
from prirec.privacy.units import PrivacyLoss, Unit, checked_epsilon, local_loss
from prirec.types import BoolArray, OffsetArray, RealArray

GRID_BITS = 32
GRID = 2**GRID_BITS  # G
_DROPPED = np.uint64(64 - GRID_BITS)


@dataclass(frozen=True, slots=True)
class OneBitMean:
    """The mechanism for values in [low, high]; both bounds are public and chosen without looking at anyone's values."""

    low: float
    high: float
    epsilon_per_value: float
    coin: RandomizedResponse = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_bounds(self.low, self.high)
        checked_epsilon(self.epsilon_per_value, "epsilon_per_value")
        object.__setattr__(self, "coin", RandomizedResponse(self.epsilon_per_value))

    def likelihood_ratio(self) -> Fraction:
        """Between the two bounds, which are the two values that an answer tells apart best: at most e^ε."""
        return self.coin.likelihood_ratio()

    def loss(self) -> PrivacyLoss:
        return local_loss(self.epsilon_per_value, Unit.VALUE)

    def bits(self, values: RealArray, stream: Stream) -> BoolArray:
        """One fresh bit for each value (any shape). Runs on the device; the bits may leave it."""
        steps = grid_steps(values, low=self.low, high=self.high, steps=GRID)
        thresholds = (stream.words(values.size) >> _DROPPED).astype(np.int64).reshape(values.shape)
        flips = stream.bernoulli(self.coin.flip_words, values.size).reshape(values.shape)
        bits: BoolArray = (thresholds < steps) ^ flips
        return bits

    def estimated_sum(self, ones: OffsetArray, *, reports: int) -> RealArray:
        """Σ of the values behind each count of ones, over all who reported; unbiased."""
        q = self.coin.flip
        up = (ones - float(reports * q)) / float(1 - 2 * q)
        return np.asarray(reports * self.low + (self.high - self.low) * up, dtype=np.float64)

    def estimated_mean(self, ones: OffsetArray, *, reports: int) -> RealArray:
        """The mean of the values behind each count of ones; unbiased."""
        return self.estimated_sum(ones, reports=reports) / reports

    def standard_deviation(self, values: RealArray) -> float:
        """Of the estimated sum over people with these values."""
        q = float(self.coin.flip)
        ones = q + (1 - 2 * q) * (values - self.low) / (self.high - self.low)
        return float((self.high - self.low) / (1 - 2 * q) * np.sqrt(np.sum(ones * (1 - ones))))


def check_bounds(low: float, high: float) -> None:
    if not 0 < high - low < np.inf:  # false for NaN as well
        raise UsageError("the public bounds of a value are finite, and the lower is below the higher")


def grid_steps(values: RealArray, *, low: float, high: float, steps: int) -> OffsetArray:
    """How many of `steps` equal steps each value is above `low`, to nearest; a value outside the bounds is refused."""
    if not np.all((values >= low) & (values <= high)):  # false for NaN as well
        raise UsageError("a value is not a number or outside its public bounds; clip it on the device first")
    position = np.rint((values - low) / (high - low) * steps).astype(np.int64)
    return np.clip(position, 0, steps)
