"""What the recommender makes of the noisy sums of a training: B, the shared model.

Columns of a and b have about mean 0 and variance 1, so the curvature of the loss is about the same in every direction,
and a gradient, divided by that curvature, points all the way to the optimum: each round is a noisy measurement of the
best B. The recommender averages measurements. The noise of the average is known exactly, and blocks of B that do not
rise above it are shrunk towards 0 (James and Stein 1961). All of it is public post-processing, and costs no budget.
"""

from dataclasses import dataclass, field
from math import sqrt
from typing import Self

import numpy as np

from prirec.features.columns import USUAL_POSITIVE, USUAL_ROOT_RECORDS, Columns, Moments, rounded
from prirec.model.shared_model import FINE_B, LARGEST_B
from prirec.types import IndexArray, RealArray

PACE = 5.0  # rounds that the average of measurements remembers at least
PLAUSIBLE = 0.25  # variance that one block of B may give to scores: columns have variance 1, so that it is its Σ x²
GUESS = 2.5  # the curvature in the first round, in units of that of records with random labels


@dataclass(frozen=True, slots=True)
class Estimate:
    """The average of noisy measurements of B, and how noisy that average is."""

    groups: IndexArray = field(repr=False)  # (1 + m, width): entries that are shrunk together; -1 where B has none
    curvature: float  # of the loss along a step: a guess, until the second round has measured it
    average: RealArray = field(repr=False)  # (1 + m, width)
    B: RealArray = field(repr=False)  # the shrunken average: what devices get
    first: RealArray = field(repr=False)  # the gradient at B = 0
    variance: float = 0.0  # of the noise in an entry of the average
    rounds: int = 0

    @classmethod
    def nothing(cls, columns: Columns, moments: Moments) -> Self:
        """Before the first round."""
        zeros = np.zeros(columns.groups.shape)
        curvature = _first_curvature(columns.entries, positive=moments.positive, root_records=moments.root_records)
        return cls(columns.groups, curvature, zeros, zeros, zeros)

    def after(self, mean: RealArray, noise: float) -> Self:
        """After a round: the mean of the contributions (entries,), with the standard deviation of the noise in each."""
        gradient = np.zeros(self.groups.shape)
        gradient[self.groups >= 0] = mean
        curvature = self.curvature if self.rounds != 1 else self._measured_curvature(gradient, noise)
        weight = PACE / (self.rounds + PACE)
        average = (1 - weight) * self.average + weight * (self.B - gradient / curvature)
        variance = (1 - weight) ** 2 * self.variance + weight**2 * (noise / curvature) ** 2
        kept = average * _kept(self.groups, average, variance)
        B = rounded(np.clip(kept, -LARGEST_B, LARGEST_B), FINE_B)
        first = gradient if self.rounds == 0 else self.first
        return type(self)(self.groups, curvature, average, B, first, variance, self.rounds + 1)

    def _measured_curvature(self, gradient: RealArray, noise: float) -> float:
        """How much the gradient changed along the first step. The step itself came from the noisy first gradient, so
        that its noise is in both: what that adds is known, and subtracted. A measurement that may be off by more than
        the guess counts for less than the guess: a curvature that noise made too large would keep that noise in B."""
        step = self.B  # from 0
        square = float((step**2).sum())
        if square == 0.0:
            return self.curvature
        kept = float(_kept(self.groups, self.average, self.variance)[self.groups >= 0].sum())
        change = float((step * (gradient - self.first)).sum()) - noise**2 / self.curvature * kept
        guess, off = self.curvature**2, 2 * noise**2 / square  # variances of the guess, and of what is measured
        return max((guess * change / square + off * self.curvature) / (guess + off), 0.3 * self.curvature)


def _first_curvature(entries: int, *, positive: float, root_records: float) -> float:
    return GUESS * root_records * sqrt(positive * (1 - positive)) / sqrt(entries)


def noise_in_scores(noise: float, *, entries: int, rounds: int) -> float:
    """Known beforehand: the standard deviation that noise gives to a score through B, before blocks are shrunk, where
    it has this standard deviation in each entry of the mean of a round. People have the usual number of records."""
    curvature, variance = _first_curvature(entries, positive=USUAL_POSITIVE, root_records=USUAL_ROOT_RECORDS), 0.0
    for done in range(rounds):
        weight = PACE / (done + PACE)
        variance = (1 - weight) ** 2 * variance + weight**2 * (noise / curvature) ** 2
    return sqrt(entries * variance)  # columns have variance 1


def _kept(groups: IndexArray, average: RealArray, variance: float) -> RealArray:
    """(1 + m, width): the factor of each block: 1 - (n - 2) σ² / Σ x², and never below 0. Nor above what it would be
    for the largest block that is plausible, so that a sum of noise alone does not get through by chance."""
    live = groups >= 0
    sizes = np.bincount(groups[live])
    energy = np.bincount(groups[live], average[live] ** 2)
    noise = np.maximum(sizes - 2, 0.5) * variance
    kept = np.maximum(0.0, 1 - np.divide(noise, energy, out=np.zeros(len(sizes)), where=energy > 0))
    kept = np.minimum(kept, PLAUSIBLE / (PLAUSIBLE + sizes * variance))
    return np.where(live, kept[groups], 0.0)
