"""What a device tells of how well it is served: one vector, of which only a noisy sum over everyone is opened.

From its held-out records, with scores and labels, a device makes
    P_k  the share of its positives whose score is in bin k, and N_k that of its negatives,
    1 if it has records at all, the share b of positives among them, and its mean log loss, held at a public cap.
P and N are divided by the person's own number of positives and of negatives, so that everyone counts once whatever they
have, and rare positives are not drowned. The AUC of the sums is that of a random positive of a random person against
a random negative of a random person: a person-weighted AUC. Log loss and base rate are means over people of their own.

Privacy. A histogram of shares has norm at most 1, |b − ½| is at most ½ and the capped loss at most cap − ½ from ½; each
is weighted by the root of its part of the norm, and the parts add up to 1. So no vector is longer than Δ, whatever the
records, and none has to be shortened: a weight that depended on scores would bend the figures (measured: an AUC lower
by 0.006). Rounding has its room, and the norm of the whole numbers is checked: norm.py. The noise is the device's share
as in every secure sum: noise_share.py.

Bins. Noise in the AUC grows with the root of their number, and ties within bins, once corrected for (read_figures
does), cost with the fourth power of their width: few bins are best. A calibrated model whose scores are normal has
scores of variance 2m around ±m and AUC Φ(√m); 12 bins, at 1.25 times the log odds of k/12, are then off by less than
0.001 for an AUC from 0.7 to 0.95, by 0.003 at 0.6 and by 0.008 at most, at half the noise of 48 bins.
"""

import math
from dataclasses import dataclass

import numpy as np

from prirec.errors import UsageError
from prirec.privacy.norm import Norm, clipped
from prirec.types import LabelArray, OffsetArray, RealArray

# parts of the squared norm; positives and negatives have one of HISTOGRAM each, and all add up to 1
HISTOGRAM, COUNT, BASE, LOSS = 0.30, 0.06, 0.06, 0.28
COIN_RATE = LOSS_CENTRE = 0.5  # what is told is how far a mean is from here
_BINS, _SPREAD = 12, 1.25


@dataclass(frozen=True, slots=True)
class QualityTerms:
    """What is public about the vector."""

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
        """Positives and negatives in each bin, then count, base rate and loss."""
        return 2 * self.bins + 3

    def weights(self) -> RealArray:
        """(L,): what each share, 1, b − ½ and loss − ½ are multiplied by, before Δ."""
        parts = [HISTOGRAM] * (2 * self.bins) + [COUNT, BASE, LOSS]
        widest = [1.0] * (2 * self.bins) + [1.0, COIN_RATE, self.loss_cap - LOSS_CENTRE]
        weights: RealArray = np.sqrt(parts) / np.array(widest)
        return weights

    def reach(self, norm: Norm) -> float:
        """Δ − √L / 2^(f+1): how long a vector may be before it is rounded."""
        left = norm.sensitivity - math.sqrt(self.length) / 2.0 ** (norm.fraction_bits + 1)
        if left < norm.sensitivity / 2:
            raise UsageError("with so few fraction bits rounding would take half of the norm; give more")
        return left


USUAL = QualityTerms()


def contribution(labels: LabelArray, scores: RealArray, *, norm: Norm, terms: QualityTerms = USUAL) -> OffsetArray:
    """One device's vector (L,) in units of 2^-f, no longer than Δ; zeros without records. Noise is still to come."""
    own: OffsetArray = contributions(labels, scores, offsets=np.array([0, len(labels)]), norm=norm, terms=terms)[0]
    return own


def contributions(
    labels: LabelArray, scores: RealArray, *, offsets: OffsetArray, norm: Norm, terms: QualityTerms = USUAL
) -> OffsetArray:
    """The same for many people (I, L), person i having the records offsets[i] to offsets[i + 1]: for simulation."""
    _check(labels, scores, offsets)
    vectors = _means(labels, scores, offsets, terms) * (terms.weights() * terms.reach(norm))
    whole: OffsetArray = np.rint(vectors * 2.0**norm.fraction_bits).astype(np.int64)
    for person in np.flatnonzero((whole * whole).sum(axis=1) > int(norm.units**2)).tolist():
        whole[person] = clipped(vectors[person], norm)
    return whole


def _means(labels: LabelArray, scores: RealArray, offsets: OffsetArray, terms: QualityTerms) -> RealArray:
    """(I, L): shares of positives and negatives in bins, 1, b − ½ and capped mean loss − ½, all 0 without records."""
    people, bins = len(offsets) - 1, terms.bins
    records = np.diff(offsets)
    person = np.repeat(np.arange(people), records)
    column = np.searchsorted(terms.edges, scores, side="right") + np.where(labels > 0, 0, bins)
    counts = np.bincount(person * 2 * bins + column, minlength=people * 2 * bins).reshape(people, 2, bins)
    of_class = counts.sum(axis=2)
    shares = (counts / np.maximum(of_class, 1)[:, :, None]).reshape(people, 2 * bins)
    each = np.maximum(records, 1)
    loss = np.bincount(person, np.logaddexp(0.0, -(labels * scores)), people) / each
    rest = [np.ones(people), of_class[:, 0] / each - COIN_RATE, np.minimum(loss, terms.loss_cap) - LOSS_CENTRE]
    return np.column_stack([shares, np.column_stack(rest) * (records > 0)[:, None]])


def _check(labels: LabelArray, scores: RealArray, offsets: OffsetArray) -> None:
    if labels.ndim != 1 or labels.shape != scores.shape or offsets[-1] != len(labels):
        raise UsageError("there is one score and one label for each record")
    if not ((labels == 1) | (labels == -1)).all():
        raise UsageError("labels must be +1 and -1; turn 0/1 labels into 2 * label - 1")
    if np.isnan(scores).any():
        raise UsageError("a score is NaN: the model has diverged, and nothing was made of it")
