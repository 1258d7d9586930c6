"""What a true sum s of visits is likely to be, given its noisy one y ~ N(s, σ²) and what is predicted for its place, m.

σ² is known from the mechanism; the excess τ² is how far places truly lie from their predictions.
"""

from dataclasses import dataclass, field
from math import inf
from typing import Protocol

import numpy as np

from prirec.types import OffsetArray, RealArray

_BLOCK = 1 << 11  # sums whose posterior is integrated at a time: what that takes fits the processor's cache
_SHAPE = 0.02  # the least: a spread of seven times the mean
_STEPS = np.linspace(-6.0, 3.0, 101)
_FROM_MODE, _WEIGHT = np.sinh(_STEPS), np.cosh(_STEPS)  # in widths of the mode: fine around it, 200 to the left


class Prior(Protocol):
    """What is believed of each place before its own sum is looked at."""

    def mean(self, sums: RealArray, places: OffsetArray, less: RealArray | float = 0.0) -> RealArray:
        """E(s | y), never below 0, for noisy sums (n,) of these places (n,), with so much less predicted for each."""
        ...


@dataclass(frozen=True, slots=True)
class Gaussian:
    """s ~ N(m, τ²): m + w (y - m) with w = τ² / (τ² + σ²), cut at 0."""

    predicted: RealArray = field(repr=False)  # (J,)
    sigma: float
    excess: float  # τ²; below 0 it counts as 0

    def mean(self, sums: RealArray, places: OffsetArray, less: RealArray | float = 0.0) -> RealArray:
        m, tau = self.predicted[places] - less, max(self.excess, 0.0)
        w = tau / (tau + self.sigma**2) if tau > 0 else 0.0
        return np.maximum(m + w * (sums - m), 0.0)


@dataclass(frozen=True, slots=True)
class Gamma:
    """s ~ Gamma with mean m > 0 and shape k = E(m²) / τ²: positive, and the wider the more is predicted.

    The density of u = ln s is e^(ku - ks/m - (y - s)²/2σ²) up to a factor. It has one mode, at
    s = (b + √(b² + 4kσ²)) / 2 with b = y - kσ²/m, and curvature s √(b² + 4kσ²) / σ² there; the mean is a sum over steps
    around it, which lengthen, since small shapes reach far down. Without excess the prediction is all that is known;
    without noise the sum itself.
    """

    predicted: RealArray = field(repr=False)  # (J,), above 0
    sigma: float
    excess: float

    @property
    def shape(self) -> float:
        """k; ∞ where nothing but the prediction is known."""
        return max(float((self.predicted**2).mean()) / self.excess, _SHAPE) if self.excess > 0 else inf

    def mean(self, sums: RealArray, places: OffsetArray, less: RealArray | float = 0.0) -> RealArray:
        return Shaped(self.predicted, self.sigma, self.shape).mean(sums, places, less)


@dataclass(frozen=True, slots=True)
class Shaped:
    """The same with its shape given: it is a mean over all places, and a device may hold some of them."""

    predicted: RealArray = field(repr=False)  # (n,), above 0
    sigma: float
    shape: float  # above 0; ∞ without excess

    def mean(self, sums: RealArray, places: OffsetArray, less: RealArray | float = 0.0) -> RealArray:
        if self.sigma == 0:
            return np.maximum(sums, 0.0)
        m = np.maximum(self.predicted[places] - less, self.predicted[places] / 10)  # above 0
        if self.shape == inf:
            return m
        means = np.empty(len(sums))
        for start in range(0, len(sums), _BLOCK):
            some = slice(start, start + _BLOCK)
            means[some] = _mean(sums[some, None], m[some, None], sigma=self.sigma, shape=self.shape)
        return means


def prior_of(predicted: RealArray, *, sigma: float, shape: float) -> Prior:
    """A prior from what is published of it: a shape of 0 says that nothing rose out of the noise."""
    return Shaped(predicted, sigma, shape) if shape > 0 else Gaussian(np.zeros(len(predicted)), sigma, 0.0)


def _mean(y: RealArray, m: RealArray, *, sigma: float, shape: float) -> RealArray:
    """∫ s p(s | y) ds under the Gamma prior, for (r, 1) sums."""
    k = shape
    b = y - k * sigma**2 / m
    root = np.sqrt(b**2 + 4 * k * sigma**2)
    mode = np.where(b > 0, (b + root) / 2, 2 * k * sigma**2 / (root - b))  # the same number, without cancellation
    width = sigma / np.sqrt(mode * root)
    s = mode * np.exp(_FROM_MODE * width)  # (r, steps)
    logs = k * _FROM_MODE * width - (s - mode) * (k / m + (s + mode - 2 * y) / (2 * sigma**2))
    density = _WEIGHT * np.exp(logs - logs.max(axis=1, keepdims=True))
    mean: RealArray = np.einsum("rs,rs->r", density, s) / density.sum(axis=1)
    return mean
