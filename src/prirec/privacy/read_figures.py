"""From the opened noisy sum to AUC, log loss and base rate, each with its error: post-processing, it spends nothing.

AUC = PᵀMN / (ΣP ΣN), M being 1 where the positive's bin is above, ½ in the same bin, 0 below. Within a bin a positive
is above a negative a little more often than half of the time: for smooth densities by (P'N − PN') / 12 bin widths, and
with central differences that makes M ± 1/12 in neighbouring bins. Noise in P and in N is independent and has mean 0,
so PᵀMN stays unbiased; to cut negative entries off, or to force an order on them, would not be. What noise in the sums
below the line adds on average (1 / (n + e) is 1/n + σ²/n³) is taken off.

Errors. With noise of standard deviation σ in every entry the delta method gives
    AUC        σ √(Σ (MN/ΣN − AUC)² / ΣP² + Σ (MᵀP/ΣP − AUC)² / ΣN²), less what the noise in MN and MᵀP itself adds,
    a mean s/n σ √(1 + (s/n)²) / n, each entry divided by its weight.
That is the error as to those who took part. As to all whom they were drawn from there is a second one: values from 0 to
c with mean x have a variance of x (c − x) at most, and the AUC is off by the mean over those with positives and by the
mean over those with negatives, which at worst go together.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from scipy.special import ndtr, ndtri

from prirec.errors import UsageError
from prirec.privacy.norm import Norm
from prirec.privacy.quality_figures import COIN_RATE, LOSS_CENTRE, USUAL, QualityTerms
from prirec.types import OffsetArray, RealArray

DROWNED = "the noise drowns it: it takes more devices, or a larger part of the budget (privacy.quality)"
_CLEAR = 5.0  # standard deviations: what is divided by must be as far from 0
_USEFUL = 0.1  # a figure with more noise says nothing
_WITHIN = 1 / 12


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its standard errors."""

    value: float
    noise: float  # by the noise: as to those who took part
    sampling: float  # at most, by who took part: as to all who might have

    @property
    def error(self) -> float:
        return math.hypot(self.noise, self.sampling)


@dataclass(frozen=True, slots=True)
class QualityFigures:
    """How well a deployment works, everyone counting once; None where the noise drowns a figure. Public."""

    auc: Estimate | None  # person-weighted: a random positive of anyone against a random negative of anyone
    log_loss: Estimate | None  # the mean over people of their mean loss, held at the cap
    base_rate: Estimate | None  # the mean over people of their share of positives
    people: float  # with records, about
    positives: RealArray = field(repr=False)  # (B,) people's positives in each bin, with noise
    negatives: RealArray = field(repr=False)  # (B,)
    sigma: float  # of the noise in each of them


def read(total: OffsetArray, *, norm: Norm, noise_variance: Fraction, terms: QualityTerms = USUAL) -> QualityFigures:
    """The figures in a sum (L,) of contributions with noise of this variance, both in units of 2^-f.

    The variance is that of all survivors' shares: NoiseShare.total_variance."""
    if total.shape != (terms.length,):
        raise UsageError(f"a sum of quality figures with {terms.bins} bins has {terms.length} entries")
    unit = terms.reach(norm) * 2.0**norm.fraction_bits * terms.weights()  # of each entry
    sums, sigmas = total / unit, math.sqrt(noise_variance) / unit
    bins = terms.bins
    positives, negatives, (count, base, loss) = sums[:bins], sums[bins:-3], sums[-3:].tolist()
    of_count, of_base, of_loss = sigmas[-3:].tolist()
    if not count > _CLEAR * of_count:
        raise UsageError(f"no figure can be read: {DROWNED}")
    return QualityFigures(
        auc=_auc(positives, negatives, float(sigmas[0])),
        log_loss=_mean(loss, (of_loss, of_count), count, around=LOSS_CENTRE, top=terms.loss_cap),
        base_rate=_mean(base, (of_base, of_count), count, around=COIN_RATE, top=1.0),
        people=count,
        positives=positives,
        negatives=negatives,
        sigma=float(sigmas[0]),
    )


def foreseen(
    people: int, *, norm: Norm, noise_variance: Fraction, terms: QualityTerms = USUAL, auc: float = 0.8
) -> QualityFigures:  # fmt: skip
    """What could be read if so many people had as many positives as negatives, and a calibrated model this AUC.

    Nothing of anyone's is in it, so it may be looked at, and refused, before anything is spent."""
    if not 0.5 < auc < 1:
        raise UsageError("the AUC to be foreseen is above 0.5 and below 1")
    m = float(ndtri(auc)) ** 2
    edges = np.concatenate([[-np.inf], terms.edges, [np.inf]])
    positives, negatives = (np.diff(ndtr((edges - centre) / math.sqrt(2 * m))) for centre in (m, -m))
    points, heights = np.polynomial.hermite_e.hermegauss(80)
    loss = float(np.average(np.logaddexp(0.0, -(m + math.sqrt(2 * m) * points)), weights=heights))
    means = np.concatenate([positives, negatives, [1.0, 0.0, loss - LOSS_CENTRE]])
    total = np.rint(people * means * terms.weights() * terms.reach(norm) * 2.0**norm.fraction_bits).astype(np.int64)
    return read(total, norm=norm, noise_variance=noise_variance, terms=terms)


def auc_of_bins(positives: RealArray, negatives: RealArray, within: float = _WITHIN) -> float:
    """PᵀMN / (ΣP ΣN); with `within` 0 every pair in one bin is a tie and counts half."""
    return float(positives @ _above(len(positives), within) @ negatives / (positives.sum() * negatives.sum()))


def _above(bins: int, within: float) -> RealArray:
    """M: rows are bins of positives, columns bins of negatives."""
    nearby = within * (np.eye(bins, k=-1) - np.eye(bins, k=1))
    kernel: RealArray = np.tri(bins, k=-1) + 0.5 * np.eye(bins) + nearby
    return kernel


def _auc(positives: RealArray, negatives: RealArray, sigma: float) -> Estimate | None:
    M, P, N = _above(len(positives), _WITHIN), float(positives.sum()), float(negatives.sum())
    if min(P, N) <= _CLEAR * sigma * math.sqrt(len(positives)):
        return None
    value = auc_of_bins(positives, negatives)
    wins, losses = (M @ negatives) / N - value, (positives @ M) / P - value  # as P and N move it
    first = (wins**2).sum() / P**2 + (losses**2).sum() / N**2
    second = sigma**2 * ((M - value) ** 2).sum() / (P * N) ** 2
    noise = sigma * math.sqrt(max(float(first - second), float(first) / 2))
    value += sigma**2 * float(wins.sum() / P**2 + losses.sum() / N**2)
    return _useful(value, noise, top=1.0, people=(P**-0.5 + N**-0.5) ** -2)


def _mean(total: float, sigmas: tuple[float, float], people: float, *, around: float, top: float) -> Estimate | None:
    shift = total / people * (1 - (sigmas[1] / people) ** 2)
    return _useful(around + shift, math.hypot(sigmas[0], shift * sigmas[1]) / people, top=top, people=people)


def _useful(value: float, noise: float, *, top: float, people: float) -> Estimate | None:
    held = min(max(value, 0.0), top)
    return Estimate(held, noise, math.sqrt(held * (top - held) / people)) if noise <= _USEFUL else None
