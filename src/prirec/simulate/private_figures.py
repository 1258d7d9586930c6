"""Quality figures by a secure sum with noise, simulated, beside the true figures that only a simulation can see.

Every vector is rounded as a device rounds it, and the noise has the exact law of the sum of all shares that are left.
It comes from the run's seed and protects nobody.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from prirec.config import Settings
from prirec.errors import PolicyError, UsageError
from prirec.features.samples import Records, Samples
from prirec.model.scoring import Models
from prirec.model.scoring import scores as score_records
from prirec.privacy.plan import Kind, Release, plan_for
from prirec.privacy.quality_figures import (
    FIGURES,
    FIRST,
    NO_LIST,
    USUAL,
    Estimate,
    QualityFigures,
    QualityTerms,
    contributions,
    read,
)
from prirec.rounds.definition import left_in_collection, noise_shares, opens, simulated_noise
from prirec.simulate.privacy_plan import people_for_figures
from prirec.simulate.recommend import Advisor, hits_of_all
from prirec.simulate.setup import Setup
from prirec.types import BoolArray, LabelArray, OffsetArray, RealArray
from prirec.util.shown import Shown, Table

_BLOCK = 1 << 16  # people at a time


@dataclass(frozen=True, slots=True)
class TrueFigures:
    """AUC, log loss, base rate and hit rate without bins, cap, rounding and noise; nan where there is no record."""

    auc: float
    log_loss: float
    base_rate: float
    hit_rate: float


@dataclass(frozen=True, slots=True, repr=False)
class PrivateFigures(Shown):
    """What the recommender reads off the noisy sum, and the truth."""

    read: QualityFigures
    true: TrueFigures
    takes: int  # people for all figures to be readable with this part of the budget

    def panels(self) -> Iterator[str | Table]:
        found = [(words, getattr(self.read, name), getattr(self.true, name)) for name, words in FIGURES.items()]
        yield Table(("quality, each person counting once", ">as the operator reads it", ">as it is"), [
            (words, _estimated(read), "-" if math.isnan(true) else f"{true:.4f}") for words, read, true in found
        ])  # fmt: skip
        if any(read is None for _, read, _ in found):
            yield f"drowned: {_drowned(self.takes)}"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        found = {name: getattr(self.read, name) for name in FIGURES}
        return {
            "read": {name: None if one is None else asdict(one) for name, one in found.items()},
            "true": asdict(self.true),
        }


def _estimated(estimate: Estimate | None) -> str:
    return "drowned" if estimate is None else estimate.words


def _drowned(takes: int) -> str:
    return f"the noise drowns it; this part of the budget (privacy.quality) takes about {takes:,} people"


def operator_figures(setup: Setup, models: Models) -> tuple[PrivateFigures | None, tuple[str, ...]]:
    """The quality figures that a recommender would read of these models, or None and the reason in a sentence."""
    samples, settings = setup.samples, setup.settings
    if not settings.privacy.quality:
        return None, ()
    left = left_in_collection(samples.keys, settings, of="quality")
    scores, release = score_records(models, samples, samples.test), quality_release(settings, samples)
    hits = hits_of_all(Advisor.of(setup, models), k=FIRST)
    try:
        return private_figures(samples.test, scores, hits, release=release, settings=settings, left=left), ()
    except UsageError:
        return None, (f"no quality figure can be read: {_drowned(people_for_figures(release))}",)
    except PolicyError as closed:
        return None, (str(closed),)


def quality_release(settings: Settings, samples: Samples) -> Release:
    """The planned release of quality figures; PolicyError where settings give them no part of the budget."""
    if not settings.privacy.quality:
        raise PolicyError(
            "quality figures have no part of the privacy budget: give them one, privacy.quality = 0.1 say, which is "
            "taken from all the other parts"
        )
    people, pois = len(samples.ids), len(samples.places)
    return plan_for(settings, people=people, pois=pois, size=samples.columns.size).release(Kind.QUALITY)


def private_figures(
    test: Records,
    scores: RealArray,
    hits: LabelArray,
    *,
    release: Release,
    settings: Settings,
    terms: QualityTerms = USUAL,
    left: BoolArray | None = None,
) -> PrivateFigures:
    """One release over everyone who is left (I,), also those without test records, who give zeros and their share of
    the noise; without `left` nobody is lost. The true figures are everyone's."""
    people = len(test.offsets) - 1
    there = np.ones(people, dtype=np.bool_) if left is None else left
    if people != release.of.crowd.size or terms.length > release.of.length:
        raise UsageError("the plan for quality figures is for another number of people, or for a shorter vector")
    if scores.shape != test.label.shape or hits.shape != (people,) or there.shape != (people,):
        raise UsageError("there is one score for each test record, one hit for each person, who is left or lost")
    survivors = int(there.sum())
    if not opens(survivors, rostered=people, settings=settings):
        raise PolicyError(f"quality figures are not opened: {survivors} of {people} devices are left")
    total = _total(test, scores, hits, release=release, terms=terms, there=there)
    total += simulated_noise(
        release.wanted_whole, terms.length, rostered=people, survivors=survivors, settings=settings, where=("quality",)
    ).view(np.int64)
    noise = noise_shares(release.wanted_whole, rostered=people, settings=settings).total_variance(survivors)
    found = read(total, norm=release.norm, noise_variance=noise, terms=terms)
    return PrivateFigures(found, true_figures(test, scores, hits), people_for_figures(release))


def true_figures(test: Records, scores: RealArray, hits: LabelArray) -> TrueFigures:
    """The person-weighted AUC, the means over people of their mean log loss and their share of positives, and the share
    of lists with a hit."""
    people, records = len(test.offsets) - 1, test.counts()
    positive = test.label > 0
    positives = np.bincount(test.person, positive, people)
    of_class = np.where(positive, positives[test.person], (records - positives)[test.person])
    loss = np.bincount(test.person, np.logaddexp(0.0, -(test.label * scores)), people)
    some, lists = records > 0, hits != NO_LIST
    return TrueFigures(
        auc=_weighted_auc(scores, 1 / of_class, positive=positive),
        log_loss=float((loss[some] / records[some]).mean()) if some.any() else math.nan,
        base_rate=float((positives[some] / records[some]).mean()) if some.any() else math.nan,
        hit_rate=float(hits[lists].mean()) if lists.any() else math.nan,
    )


def _total(
    test: Records, scores: RealArray, hits: LabelArray, *, release: Release, terms: QualityTerms, there: BoolArray
) -> OffsetArray:  # fmt: skip
    """The exact sum of the whole numbers of all who are there."""
    total = np.zeros(terms.length, dtype=np.int64)
    for first in range(0, len(test.offsets) - 1, _BLOCK):
        offsets = test.offsets[first : first + _BLOCK + 1]
        rows, some = slice(int(offsets[0]), int(offsets[-1])), slice(first, first + _BLOCK)
        own = contributions(
            test.label[rows], scores[rows], hits[some], offsets=offsets - offsets[0], norm=release.norm, terms=terms
        )
        total += own[there[some]].sum(axis=0)
    return total


def _weighted_auc(scores: RealArray, weights: RealArray, *, positive: np.ndarray) -> float:
    """The chance that a positive, drawn by weight, scores above a negative, drawn by weight, a tie counting half."""
    _, value = np.unique(scores, return_inverse=True)
    values = int(value.max(initial=-1)) + 1
    P, N = (np.bincount(value[side], weights[side], values) for side in (positive, ~positive))
    if not P.any() or not N.any():
        return math.nan
    return float(P @ (np.cumsum(N) - N / 2) / (P.sum() * N.sum()))
