"""Intervals: over people for all figures of a comparison, and standard errors of AUCs. For simulations.

Standard errors after DeLong, DeLong and Clarke-Pearson (1988). They take records as independent of each other; the
records of one person are not quite, so the true errors are a little larger. Intervals over people (bootstrap.py) take
only people as independent.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from prirec.evaluate.bootstrap import (
    Estimate,
    Interval,
    Resampled,
    Resampling,
    differences,
    estimates,
    resample_lists,
    resample_scores,
    together,
)
from prirec.features.samples import Records, Samples
from prirec.metrics import RankFigures
from prirec.simulate.compare import Entry
from prirec.simulate.setup import Setup
from prirec.types import IndexArray, LabelArray, RealArray

Z_95 = 1.96  # standard errors on each side of a 95 % interval


@dataclass(frozen=True, slots=True)
class Scored:
    """The test records of one model with their scores."""

    test: Records
    scores: RealArray = field(repr=False)  # (R,)
    training_records: np.ndarray = field(repr=False)  # (I,)

    @classmethod
    def of(cls, entry: Entry) -> Self:
        samples = entry.outcome.setup.samples
        return cls(samples.test, entry.outcome.test_scores, samples.train.counts())

    def usable(self) -> bool:
        """A model that diverged has scores that cannot be ranked; it has no line in the plots."""
        return bool(len(self.test)) and bool(np.isfinite(self.scores).all())


# What a person feels (decisions/0018), in the order of tables. The first three are about the places nearby.
FELT = {"ndcg": "NDCG@10", "recall": "recall@10", "auc_nearby": "AUC nearby", "gauc": "GAUC"}
WORTH = {
    "recall": "of 100 new places that people go to, their lists of ten hold",
    "gauc": "of 100 pairs of a place visited and one not, within a person, the right one is first in",
}
FIGURES = (*FELT, "hit_rate", "auc", "log_loss")


class Judged:
    """All figures of some entries with 95 % intervals over people, and differences between entries."""

    def __init__(self, entries: Sequence[Entry]):
        self.entries, self._drawn = tuple(entries), [_resampled(entry) for entry in entries]
        self.estimates = [
            _without_intervals(entry) if drawn is None else estimates(drawn)
            for entry, drawn in zip(self.entries, self._drawn, strict=True)
        ]

    def difference(self, ours: int, theirs: int, figure: str) -> Interval | None:
        """Of two entries; None if they were tested on other records, or if a model's scores are no numbers."""
        first, second = self._drawn[ours], self._drawn[theirs]
        if (
            first is None
            or second is None
            or not _same_records(*(self.entries[at].outcome.setup.samples.test for at in (ours, theirs)))
        ):
            return None
        return differences(first, second)[figure]

    def worth(self) -> str:
        """One sentence on what privacy costs the person, by the private model and by the best one that collects
        everything: new places found in a list of ten, and pairs of test records in the right order; empty unless there
        are both models."""
        ours, theirs = self._ours(), self._central()
        if ours is None or theirs is None:
            return ""
        first, second = (self.entries[at].contender.name for at in (ours, theirs))
        told = []
        for figure, words in WORTH.items():
            between, mine, other = self.difference(ours, theirs, figure), *(
                100 * self.estimates[at][figure].value for at in (ours, theirs)
            )  # fmt: skip
            if between is not None and math.isfinite(between.low):
                ends = f"difference {_signed(100 * between.low)} to {_signed(100 * between.high)}"
                chance = "" if between.low > 0 or between.high < 0 else ", which may be chance"
                told.append(f"{words} {mine:.1f} by '{first}' and {other:.1f} by '{second}' ({ends}{chance})")
        return f"What the difference is worth: {', and '.join(told)}." if told else ""

    def _ours(self) -> int | None:
        own = [at for at, entry in enumerate(self.entries) if entry.trained is not None and not _centralised(entry)]
        private = [at for at in own if self.entries[at].contender.settings.privacy.epsilon_per_user is not None]
        return max(private or own, default=None)

    def _central(self) -> int | None:
        known = [at for at, e in enumerate(self.entries) if _centralised(e) and math.isfinite(e.outcome.quality.auc)]
        return max(known, key=lambda at: self.estimates[at]["recall"].value, default=None)


def _signed(value: float) -> str:
    return f"{value:+.1f}".replace("-", "−")


def tested_on(setup: Setup) -> str:
    """Which records the test has, and what a later split would ask where there are times."""
    split, timed = setup.settings.data.split, setup.prepared.dataset.visits.time is not None
    if split == "time":
        return "each person's latest"
    kind = "whole moments, drawn at random" if split == "moment" else "drawn at random"
    return f"{kind} (data.split = 'time' asks about later ones)" if timed else kind


def _centralised(entry: Entry) -> bool:
    return entry.trained is not None and entry.contender.settings.schedule == "centralised"


def list_intervals(figures: RankFigures, *, people: int) -> dict[str, tuple[float, float]]:
    """95 % intervals over people of the means of these figures; none where fewer than two people are there."""
    if people < 2 or not len(figures.person):
        return {}
    found = estimates(resample_lists(figures, Resampling(people)))
    return {name: (one.low, one.high) for name, one in found.items() if math.isfinite(one.value)}


def _resampled(entry: Entry) -> Resampled | None:
    """None for a model that diverged, and where one person alone is there to be drawn."""
    scored, people = Scored.of(entry), len(entry.outcome.setup.samples.ids)
    if not scored.usable() or people < 2:
        return None
    by, test = Resampling(people), scored.test
    figures = resample_scores(test.label, scored.scores, person=test.person, by=by)
    return together(figures, resample_lists(entry.ranked, by))


def _without_intervals(entry: Entry) -> dict[str, Estimate]:
    known = {**entry.outcome.quality.to_dict(), **entry.ranked.mean().to_dict()}
    return {name: Estimate(float(known[name]), math.nan, math.nan) for name in FIGURES}


def _same_records(ours: Records, theirs: Records) -> bool:
    return all(np.array_equal(getattr(ours, f), getattr(theirs, f)) for f in ("person", "place", "label"))


@dataclass(frozen=True, slots=True)
class RecordGroups:
    """Groups of people by how many training records they have, about equally many people in each."""

    upper: tuple[int, ...]  # the most training records in each group
    lower: tuple[int, ...]
    people: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.upper)

    @property
    def names(self) -> list[str]:
        return [f"{a}" if a == b else f"{a}–{b}" for a, b in zip(self.lower, self.upper, strict=True)]

    def of(self, counts: np.ndarray) -> IndexArray:
        """The group of a person with so many records; those beyond the last group's most are in the last."""
        return np.minimum(np.searchsorted(self.upper, counts), len(self) - 1).astype(np.int32)


@dataclass(frozen=True, slots=True)
class GroupAucs:
    """A figure and its standard error for each group; NaN where a class is missing."""

    auc: RealArray  # (G,)
    error: RealArray  # (G,)


def group_by_records(samples: Samples, *, groups: int = 5) -> RecordGroups:
    """Quantiles of the training records of the people who have test records; equal counts are never parted."""
    counts = np.sort(samples.train.counts()[np.unique(samples.test.person)])
    if not len(counts):
        return RecordGroups((), (), ())
    shares = np.arange(1, groups + 1) / groups
    upper = np.unique(np.quantile(counts, shares, method="inverted_cdf")).astype(np.int64)
    ends = np.searchsorted(counts, upper, side="right")
    starts = np.concatenate([[0], ends[:-1]])
    return RecordGroups(tuple(upper.tolist()), tuple(counts[starts].tolist()), tuple((ends - starts).tolist()))


def auc_with_error(scored: Scored) -> tuple[float, float]:
    """The AUC over all test records, and its standard error."""
    return _summary(_placements(scored.test.label, scored.scores)) if scored.usable() else (math.nan, math.nan)


def auc_by_group(groups: RecordGroups, scored: Scored) -> GroupAucs | None:
    """The AUC within each group; None for a model whose scores are no numbers."""
    return _by_group(groups, scored, [scored.scores]) if scored.usable() else None


def auc_difference_by_group(groups: RecordGroups, scored: Scored, reference: Scored) -> GroupAucs | None:
    """The difference of AUC from the reference within each group; None if the two were tested on other records."""
    if not (scored.usable() and reference.usable()):
        return None
    same = _same_records(scored.test, reference.test)
    return _by_group(groups, scored, [scored.scores, reference.scores]) if same else None


def clearly_different(ours: Scored, theirs: Scored) -> bool:
    """Whether the AUC of all test records differs by more than chance easily gives: 1.96 standard errors."""
    everyone = RecordGroups((np.iinfo(np.int64).max,), (0,), (len(ours.training_records),))
    gain = auc_difference_by_group(everyone, ours, theirs)
    return gain is not None and bool(abs(gain.auc[0]) > Z_95 * gain.error[0])


def _by_group(groups: RecordGroups, scored: Scored, scores: list[RealArray]) -> GroupAucs:
    group = groups.of(scored.training_records[scored.test.person])
    found = [_difference(scored.test.label, scores, np.flatnonzero(group == g)) for g in range(len(groups))]
    return GroupAucs(np.array([auc for auc, _ in found]), np.array([error for _, error in found]))


def _difference(label: LabelArray, scores: list[RealArray], rows: np.ndarray) -> tuple[float, float]:
    """The first scores' AUC, less the second's where there are any."""
    placed = [_placements(label[rows], score[rows]) for score in scores]
    if len(placed) == 1:
        return _summary(placed[0])
    return _summary((placed[0][0] - placed[1][0], placed[0][1] - placed[1][1]))


def _placements(label: LabelArray, scores: RealArray) -> tuple[RealArray, RealArray]:
    """For each positive the share of negatives it beats, for each negative the share of positives that beat it."""
    positive, negative = scores[label > 0], scores[label < 0]
    return share_below(positive, negative), 1.0 - share_below(negative, positive)


def share_below(values: RealArray, others: RealArray) -> RealArray:
    """The share of the others below each value, a tie counting half; NaN without others."""
    if not len(others):
        return np.full(len(values), np.nan)
    left, right = (np.searchsorted(np.sort(others), values, side=side) for side in ("left", "right"))
    return np.asarray((left + right) / (2 * len(others)), dtype=np.float64)


def _summary(placed: tuple[RealArray, RealArray]) -> tuple[float, float]:
    wins, losses = placed
    if not len(wins) or not len(losses):
        return math.nan, math.nan
    if min(len(wins), len(losses)) < 2:  # a figure, but of a single record no error
        return float(wins.mean()), math.nan
    variance = wins.var(ddof=1) / len(wins) + losses.var(ddof=1) / len(losses)
    return float(wins.mean()), math.sqrt(variance)
