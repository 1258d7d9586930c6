"""Quality figures of a deployment (AUC, log loss, base rate, hit rate) from one noisy secure sum over everyone.

From its held-out records, with scores and labels, a device makes
    P_k  the share of its positives whose score is in bin k, and N_k that of its negatives,
    whether its list of ten new places holds a held-out one: (0, 1) if so, (1, 0) if not, (0, 0) if none was held out,
    1 if it has records at all, the share b of positives among them, and its mean log loss, clipped at a public cap.
P and N are divided by the person's own number of positives and of negatives, so that everyone counts once whatever they
have, and rare positives are not drowned. The AUC of the sums is that of a random positive of a random person against
a random negative of a random person: a person-weighted AUC. Log loss and base rate are means over people of their own,
and the hit rate is the share of people with a hit, of those with a new place held out.

Privacy. A histogram of shares has norm at most 1, and so has hit or miss; |b − ½| is at most ½ and the capped loss at
most cap − ½ from ½; each is weighted by the root of its part of the norm, and the parts add up to 1. So no vector is
longer than Δ, whatever the records, and none has to be shortened: a weight that depended on scores would bias the
figures (measured: an AUC lower by 0.006). The norm leaves room for rounding, and is checked in whole numbers (norm.py).
The noise is the device's share, as in every secure sum (noise.py).

Bins. Noise in the AUC grows with the root of their number, and ties within bins, once corrected for (`read` does), cost
with the fourth power of their width: few bins are best. A calibrated model whose scores are normal has scores of
variance 2m around ±m and AUC Φ(√m); 12 bins, at 1.25 times the log odds of k/12, are then off by less than 0.001 for an
AUC from 0.7 to 0.95, by 0.003 at 0.6 and by 0.008 at most, at half the noise of 48 bins.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from prirec.errors import UsageError
from prirec.privacy.norm import Norm, clipped
from prirec.types import LabelArray, OffsetArray, RealArray

# shares of the squared norm: positives and negatives have HISTOGRAM each, and all add up to 1
HISTOGRAM, LIST, COUNT, BASE, LOSS = 0.27, 0.10, 0.06, 0.06, 0.24
FIRST = 10  # places of a list in which a hit is looked for
FIGURES = {
    "auc": "AUC", "log_loss": "log loss", "base_rate": "share of positives", "hit_rate": "hit rate in the first ten",
}  # fmt: skip
NO_LIST = -1  # of a person without a new place that was held out
COIN_RATE = LOSS_CENTRE = 0.5  # the vector holds the distance of each mean from here
_BINS, _SPREAD = 12, 1.25


@dataclass(frozen=True, slots=True)
class QualityTerms:
    """The public parameters of the vector."""

    edges: tuple[float, ...] = tuple(_SPREAD * math.log(k / (_BINS - k)) for k in range(1, _BINS))  # of scores
    loss_cap: float = 2.5  # of a person's mean log loss

    def __post_init__(self) -> None:
        rising = all(low < high for low, high in zip(self.edges, self.edges[1:], strict=False))
        if not self.edges or not rising or not all(map(math.isfinite, self.edges)):
            raise UsageError("bins of scores need at least one edge, each finite and above the one before")
        if not 2 * LOSS_CENTRE <= self.loss_cap < math.inf:
            raise UsageError("the cap of a person's mean log loss is finite and at least 1")

    @property
    def bins(self) -> int:
        return len(self.edges) + 1

    @property
    def length(self) -> int:
        """Positives and negatives in each bin, then misses and hits, count, base rate and loss."""
        return 2 * self.bins + 5

    def weights(self) -> RealArray:
        """(L,): what each share, miss, hit, 1, b − ½ and loss − ½ are multiplied by, before Δ."""
        parts = [HISTOGRAM] * (2 * self.bins) + [LIST, LIST, COUNT, BASE, LOSS]
        widest = [1.0] * (2 * self.bins) + [1.0, 1.0, 1.0, COIN_RATE, self.loss_cap - LOSS_CENTRE]
        weights: RealArray = np.sqrt(parts) / np.array(widest)
        return weights

    def reach(self, norm: Norm) -> float:
        """Δ − √L / 2^(f+1): the norm before rounding."""
        left = norm.sensitivity - math.sqrt(self.length) / 2.0 ** (norm.fraction_bits + 1)
        if left < norm.sensitivity / 2:
            raise UsageError("with so few fraction bits rounding would take half of the norm; give more")
        return left


USUAL = QualityTerms()


def contribution(
    labels: LabelArray, scores: RealArray, *, hit: bool | None, norm: Norm, terms: QualityTerms = USUAL
) -> OffsetArray:  # fmt: skip
    """One device's vector (L,) in units of 2^-f, of norm at most Δ; zeros without records. Without noise yet. `hit`:
    whether the first ten places of its list hold one that was held out; None: no new place was."""
    found = np.array([NO_LIST if hit is None else hit], dtype=np.int8)
    own: OffsetArray = contributions(labels, scores, found, offsets=np.array([0, len(labels)]), norm=norm, terms=terms)[
        0
    ]
    return own


def contributions(
    labels: LabelArray, scores: RealArray, hits: LabelArray, *, offsets: OffsetArray, norm: Norm,
    terms: QualityTerms = USUAL,
) -> OffsetArray:  # fmt: skip
    """Vectors of many people (I, L), person i having the records offsets[i] to offsets[i + 1], and hits (I,) of 1, 0 or
    NO_LIST. For simulation."""
    _check(labels, scores, hits, offsets)
    vectors = _means(labels, scores, hits, offsets, terms) * (terms.weights() * terms.reach(norm))
    whole: OffsetArray = np.rint(vectors * 2.0**norm.fraction_bits).astype(np.int64)
    # by construction no vector is longer than Δ; rounding is checked all the same, and clips what is
    for person in np.flatnonzero((whole * whole).sum(axis=1) > int(norm.units**2)).tolist():
        whole[person] = clipped(vectors[person], norm)
    return whole


def _means(
    labels: LabelArray, scores: RealArray, hits: LabelArray, offsets: OffsetArray, terms: QualityTerms
) -> RealArray:  # fmt: skip
    """(I, L): shares of positives and negatives in bins, miss, hit, 1, b − ½ and capped mean loss − ½, all 0 without
    records."""
    people, bins = len(offsets) - 1, terms.bins
    records = np.diff(offsets)
    person = np.repeat(np.arange(people), records)
    column = np.searchsorted(terms.edges, scores, side="right") + np.where(labels > 0, 0, bins)
    counts = np.bincount(person * 2 * bins + column, minlength=people * 2 * bins).reshape(people, 2, bins)
    of_class = counts.sum(axis=2)
    shares = (counts / np.maximum(of_class, 1)[:, :, None]).reshape(people, 2 * bins)
    each = np.maximum(records, 1)
    loss = np.bincount(person, np.logaddexp(0.0, -(labels * scores)), people) / each
    rest = [
        hits == 0,
        hits == 1,
        np.ones(people),
        of_class[:, 0] / each - COIN_RATE,
        np.minimum(loss, terms.loss_cap) - LOSS_CENTRE,
    ]
    return np.column_stack([shares, np.column_stack(rest) * (records > 0)[:, None]])


def _check(labels: LabelArray, scores: RealArray, hits: LabelArray, offsets: OffsetArray) -> None:
    if labels.ndim != 1 or labels.shape != scores.shape or offsets[-1] != len(labels):
        raise UsageError("there is one score and one label for each record")
    if hits.shape != (len(offsets) - 1,) or not np.isin(hits, (0, 1, NO_LIST)).all():
        raise UsageError("each person has a hit, 1 or 0, or -1 if no new place was held out")
    if not ((labels == 1) | (labels == -1)).all():
        raise UsageError("labels must be +1 and -1; turn 0/1 labels into 2 * label - 1")
    if np.isnan(scores).any():
        raise UsageError("a score is NaN: the model has diverged, and nothing was made of it")


# --- Reading the opened sum: post-processing, it costs no privacy ---------------------------------------------------
#
# AUC = PᵀMN / (ΣP ΣN), M being 1 where the positive's bin is above, ½ in the same bin, 0 below. Within a bin a positive
# is above a negative a little more often than half of the time: for smooth densities by (P'N − PN') / 12 bin widths,
# and with central differences that makes M ± 1/12 in neighbouring bins. Noise in P and in N is independent and has mean
# 0, so PᵀMN stays unbiased; clipping negative entries, or forcing an order on them, would bias it. What noise in the
# denominators adds on average (1 / (n + e) is 1/n + σ²/n³) is subtracted.
#
# Errors. With noise of standard deviation σ in every entry the delta method gives
#     AUC        σ √(Σ (MN/ΣN − AUC)² / ΣP² + Σ (MᵀP/ΣP − AUC)² / ΣN²), less what the noise in MN and MᵀP itself adds,
#     a mean s/n σ √(1 + (s/n)²) / n, each entry divided by its weight,
#     a share h/(h + m) of hits in hits and misses, σ √(share² + (1 − share)²) / (h + m).
# That is the error for those who took part. For the population that they were drawn from there is a second one: values
# from 0 to c with mean x have a variance of x (c − x) at most, and the AUC is off by the mean over those with positives
# and by the mean over those with negatives, which at worst go together.

_CLEAR = 5.0  # standard deviations that a denominator must be away from 0
_USEFUL = 0.1  # a figure with a larger standard error says nothing
_WITHIN = 1 / 12  # of M in neighbouring bins


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure and its standard errors."""

    value: float
    noise: float  # from the noise, for those who took part
    sampling: float  # at most, from who took part, for the population

    @property
    def error(self) -> float:
        return math.hypot(self.noise, self.sampling)

    @property
    def words(self) -> str:
        """The figure ± twice its error."""
        return f"{self.value:.4f} ± {2 * self.error:.3f}"


@dataclass(frozen=True, slots=True)
class QualityFigures:
    """How well a deployment works, each person weighing the same; None where noise drowns a figure. Public."""

    auc: Estimate | None  # person-weighted: a random positive of anyone against a random negative of anyone
    log_loss: Estimate | None  # mean over people of their mean loss, clipped at the cap
    base_rate: Estimate | None  # mean over people of their share of positives
    hit_rate: Estimate | None  # of people with a new place held out, the share whose first ten places hold one
    people: float  # with records; noisy
    lists: float  # people with a new place held out; noisy
    positives: RealArray = field(repr=False)  # (B,) noisy sums of people's shares of positives
    negatives: RealArray = field(repr=False)  # (B,)
    sigma: float  # of the noise in each of them


def read(total: OffsetArray, *, norm: Norm, noise_variance: Fraction, terms: QualityTerms = USUAL) -> QualityFigures:
    """The figures in an opened sum (L,) with noise of this variance (NoiseShare.total_variance), in units of 2^-f."""
    if total.shape != (terms.length,):
        raise UsageError(f"a sum of quality figures with {terms.bins} bins has {terms.length} entries")
    unit = terms.reach(norm) * 2.0**norm.fraction_bits * terms.weights()  # of each entry
    sums, sigmas = total / unit, math.sqrt(noise_variance) / unit
    bins = terms.bins
    positives, negatives = sums[:bins], sums[bins : 2 * bins]
    missed, hit, count, base, loss = sums[2 * bins :].tolist()
    of_count, of_base, of_loss = sigmas[-3:].tolist()
    if not count > _CLEAR * of_count:
        raise UsageError("no figure can be read under this noise: it takes more devices, or a larger privacy.quality")
    return QualityFigures(
        auc=_auc(positives, negatives, float(sigmas[0])),
        log_loss=_mean(loss, (of_loss, of_count), count, around=LOSS_CENTRE, top=terms.loss_cap),
        base_rate=_mean(base, (of_base, of_count), count, around=COIN_RATE, top=1.0),
        hit_rate=_share(hit, missed, float(sigmas[2 * bins])),
        people=count,
        lists=hit + missed,
        positives=positives,
        negatives=negatives,
        sigma=float(sigmas[0]),
    )


def foreseen(
    people: int, *, norm: Norm, noise_variance: Fraction, terms: QualityTerms = USUAL, auc: float = 0.8,
    hit_rate: float = 0.1,
) -> QualityFigures:  # fmt: skip
    """The figures to expect if so many people had as many positives as negatives, and a calibrated model this AUC.

    Computed from nobody's data, so a plan may be judged by it before anything is spent."""
    from scipy.special import ndtr, ndtri

    if not 0.5 < auc < 1:
        raise UsageError("the AUC to be foreseen is above 0.5 and below 1")
    m = float(ndtri(auc)) ** 2
    edges = np.concatenate([[-np.inf], terms.edges, [np.inf]])
    positives, negatives = (np.diff(ndtr((edges - centre) / math.sqrt(2 * m))) for centre in (m, -m))
    points, heights = np.polynomial.hermite_e.hermegauss(80)
    loss = float(np.average(np.logaddexp(0.0, -(m + math.sqrt(2 * m) * points)), weights=heights))
    means = np.concatenate([positives, negatives, [1.0 - hit_rate, hit_rate, 1.0, 0.0, loss - LOSS_CENTRE]])
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
    wins, losses = (M @ negatives) / N - value, (positives @ M) / P - value  # derivatives by the entries of P and of N
    first = (wins**2).sum() / P**2 + (losses**2).sum() / N**2
    second = sigma**2 * ((M - value) ** 2).sum() / (P * N) ** 2
    noise = sigma * math.sqrt(max(float(first - second), float(first) / 2))
    value += sigma**2 * float(wins.sum() / P**2 + losses.sum() / N**2)
    return _useful(value, noise, top=1.0, people=(P**-0.5 + N**-0.5) ** -2)


def _mean(total: float, sigmas: tuple[float, float], people: float, *, around: float, top: float) -> Estimate | None:
    shift = total / people * (1 - (sigmas[1] / people) ** 2)
    return _useful(around + shift, math.hypot(sigmas[0], shift * sigmas[1]) / people, top=top, people=people)


def _share(some: float, others: float, sigma: float) -> Estimate | None:
    both = some + others
    if not both > _CLEAR * sigma * math.sqrt(2):
        return None
    share = some / both
    noise = sigma * math.hypot(share, 1 - share) / both
    share += (1 - 2 * share) * (sigma / both) ** 2  # what noise in the denominator takes away on average
    return _useful(share, noise, top=1.0, people=both)


def _useful(value: float, noise: float, *, top: float, people: float) -> Estimate | None:
    held = min(max(value, 0.0), top)
    return Estimate(held, noise, math.sqrt(held * (top - held) / people)) if noise <= _USEFUL else None
