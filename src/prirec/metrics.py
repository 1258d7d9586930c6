"""Metrics: how well scores separate visited places from ignored ones. In simulation only: they need all labels.

Labels are +1 and -1, scores any real number or an infinity; a figure that has no meaning (one class is missing) is nan.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Self

import numpy as np

from prirec.errors import UsageError
from prirec.features.samples import Records
from prirec.protocols.prediction import top
from prirec.types import BoolArray, IndexArray, LabelArray, OffsetArray, RealArray
from prirec.util.keyed_random import generator
from prirec.util.shown import Shown, Table, number


@dataclass(frozen=True, slots=True, repr=False)
class Quality(Shown):
    """The figures of one model on one test set."""

    auc: float  # probability that a visited place scores above an ignored one
    log_loss: float
    gauc: float  # AUC within each person's records, averaged over people by their number of records
    auc_few: float  # AUC of the quarter of people with fewest training records
    records: int  # test records
    # Pairs of person and place that the training records have too: a device may remember them, and need not have learnt
    seen: float = 0.0  # their share of the test records
    auc_new: float = math.nan  # AUC of the other records; `auc` itself where there is no such pair

    def to_dict(self) -> dict[str, float | int]:
        """Ready for JSON."""
        return asdict(self)

    def panels(self) -> Iterator[str | Table]:
        apart = [
            ("new pairs, AUC", number(self.auc_new), "records of places that the person's training records have not"),
            ("seen pairs", f"{100 * self.seen:.1f} %", "of the test records: a device may remember those"),
        ]  # fmt: skip
        yield Table(("test", ">figure", "meaning"), [
            ("AUC", number(self.auc), "a visited place scores above an ignored one"),
            ("log loss", number(self.log_loss), "lower is better"),
            ("GAUC", number(self.gauc), "AUC within each person"),
            ("AUC of few", number(self.auc_few), "the quarter of people with fewest records"),
            *(apart if self.seen else []),
            ("records", f"{self.records:,}", "in the test set"),
        ])  # fmt: skip


def measure(scores: RealArray, *, train: Records, test: Records, probabilities: bool = True) -> Quality:
    """All figures at once of the test records' scores (R,). Scores that are no log-odds have no log loss."""
    labels, person, seen = test.label, test.person, seen_pairs(train, test)
    whole, new = auc(labels, scores), ~seen
    return Quality(
        auc=whole,
        log_loss=log_loss(labels, scores) if probabilities else math.nan,
        gauc=gauc(labels, scores, person=person),
        auc_few=auc_of_few(labels, scores, person=person, training_records=train.counts()),
        records=len(labels),
        seen=float(seen.mean()) if len(seen) else 0.0,
        auc_new=auc(labels[new], scores[new]) if seen.any() else whole,
    )


def seen_pairs(train: Records, test: Records) -> BoolArray:
    """(R,): which test records are of a person and a place that some training record has together, whatever its
    label."""
    places = 1 + max((int(part.place.max()) for part in (train, test) if len(part)), default=0)
    known, asked = (part.person.astype(np.int64) * places + part.place for part in (train, test))
    return np.isin(asked, known)


def auc(labels: LabelArray, scores: RealArray) -> float:
    """The chance that a random positive scores above a random negative, a tie counting half; nan with one class.

    Wins are counted in exact integers. Each class is sorted by itself, without indices: five to fifteen times as fast
    as scikit-learn on 200,000 records (heavy ties, rare positives).
    """
    _check(labels, scores)
    positive, negative = (np.sort(scores[np.flatnonzero(side)]) for side in (labels > 0, labels < 0))
    pairs = len(positive) * len(negative)
    if pairs == 0:
        return math.nan
    if len(positive) <= len(negative):
        return _below(positive, negative) / (2 * pairs)
    return 1.0 - _below(negative, positive) / (2 * pairs)


def log_loss(labels: LabelArray, scores: RealArray) -> float:
    """The mean of -ln sigma(y * score), the loss of Eq. (2) without penalties; nan without records."""
    _check(labels, scores)
    return float(np.logaddexp(0.0, -(labels * scores)).mean()) if len(labels) else math.nan


@dataclass(frozen=True, slots=True)
class WithinPeople:
    """The AUC within each person who has test records of both classes."""

    person: IndexArray = field(repr=False)  # (n,) rows of these people, ascending
    auc: RealArray = field(repr=False)  # (n,)
    records: OffsetArray = field(repr=False)  # (n,): the weight that a person has in GAUC


def gauc(labels: LabelArray, scores: RealArray, *, person: IndexArray) -> float:
    """The AUC within each person, averaged by the person's records over people with both classes; nan without any."""
    within = auc_within_people(labels, scores, person=person)
    return float(np.average(within.auc, weights=within.records)) if len(within.auc) else math.nan


def auc_within_people(labels: LabelArray, scores: RealArray, *, person: IndexArray) -> WithinPeople:
    """The AUC of each person who has both classes: what GAUC averages."""
    _check(labels, scores, person)
    if len(labels) == 0:
        return WithinPeople(person, np.zeros(0), np.zeros(0, dtype=np.int64))
    order = np.lexsort((scores, person))
    new_person = _changes(person[order])
    runs = np.flatnonzero(new_person | _changes(scores[order]))  # where equal scores of one person begin
    people = np.flatnonzero(new_person[runs])  # the first run of each person
    positive = np.add.reduceat(labels[order] > 0, runs, dtype=np.int64)
    negative = np.diff(runs, append=len(labels)) - positive
    wins = np.add.reduceat(_wins(positive, negative, people), people)
    positive, negative = np.add.reduceat(positive, people), np.add.reduceat(negative, people)
    both = (positive > 0) & (negative > 0)
    who = person[order][runs[people]][both]
    return WithinPeople(who, wins[both] / (2 * positive * negative)[both], (positive + negative)[both])


def auc_of_few(
    labels: LabelArray, scores: RealArray, *,
    person: IndexArray, training_records: IndexArray | OffsetArray, share: float = 0.25,
) -> float:  # fmt: skip
    """The AUC over the test records of the share of people who have the fewest training records, (I,)."""
    _check(labels, scores, person)
    few = with_fewest_records(person, training_records=training_records, share=share)
    return auc(labels[few], scores[few])


def with_fewest_records(
    person: IndexArray, *, training_records: IndexArray | OffsetArray, share: float = 0.25
) -> BoolArray:
    """(R,): which test records are of the people with the fewest training records, to show any figure for them alone.

    The share is taken of people who have test records. Everyone at or below the quantile is in, so that ties never
    depend on the order of people, and the group may be larger than the share. training_records is (I,).
    """
    if not 0.0 < share <= 1.0:
        raise UsageError("the share of people with few records must be above 0 and at most 1")
    if len(person) == 0:
        return np.zeros(0, dtype=np.bool_)
    if person.min() < 0 or person.max() >= len(training_records):
        raise UsageError("training_records must have an entry for every person in the test records")
    tested = np.bincount(person, minlength=len(training_records)) > 0
    limit = np.quantile(training_records[tested], share, method="inverted_cdf")
    few: BoolArray = (training_records <= limit)[person]
    return few


def _wins(positive: OffsetArray, negative: OffsetArray, people: OffsetArray) -> OffsetArray:
    """Doubled wins of each run's positives: over negatives in the person's earlier runs, and half of its own run's."""
    earlier = np.cumsum(negative) - negative
    earlier -= np.repeat(earlier[people], np.diff(people, append=len(negative)))
    return positive * (2 * earlier + negative)


def _below(few: RealArray, many: RealArray) -> int:
    """Twice the number of pairs in which the one of `few` is larger, a tie counting once; both sorted.

    Searching the smaller class in the larger one keeps an unbalanced test set fast.
    """
    strictly = np.searchsorted(many, few, side="left")
    tied = many[np.minimum(strictly, len(many) - 1)] == few
    ties = np.searchsorted(many, few[tied], side="right") - strictly[tied]
    return 2 * int(strictly.sum()) + int(ties.sum())


def _changes(values: RealArray | IndexArray) -> BoolArray:
    """Where a sorted array starts a new value."""
    return np.concatenate([[True], values[1:] != values[:-1]])


def _check(labels: LabelArray, scores: RealArray, person: IndexArray | None = None) -> None:
    lengths = {array.shape for array in (labels, scores, person) if array is not None}
    if len(lengths) != 1 or labels.ndim != 1:
        raise UsageError("labels, scores and people must be flat arrays of the same length, one entry a test record")
    if not ((labels == 1) | (labels == -1)).all():
        raise UsageError("labels must be +1 and -1; turn 0/1 labels into 2 * label - 1")
    if np.isnan(scores).any():
        raise UsageError("a score is NaN: the model has diverged; lower the learning rate or check the features")


# How often the next new place is among the k recommended. Only a simulation can run this: it sees everyone's tests.
#
# A person's test places that are not among the candidates are misses: what matching leaves out is not forgiven. Places
# excluded because the person already knows them are no question at all: they are neither recommended nor expected.
# A person without an expected place is not counted. Ties count against us.


@dataclass(frozen=True, slots=True)
class PlaceLists:
    """For each person some places: person i has places[offsets[i]:offsets[i + 1]]. Private."""

    offsets: OffsetArray = field(repr=False)  # (I + 1,)
    places: IndexArray = field(repr=False)

    @classmethod
    def of(cls, *, person: IndexArray, place: IndexArray, people: int) -> Self:
        """From (person, place) pairs in any order; repeats are harmless."""
        if person.ndim != 1 or person.shape != place.shape:
            raise UsageError("person and place must be flat arrays of the same length")
        if len(person) and (person.min() < 0 or person.max() >= people):
            raise UsageError("a row names a person outside 0, ..., people - 1")
        counts = np.bincount(person, minlength=people)
        return cls(np.concatenate([[0], np.cumsum(counts)]), place[np.argsort(person, kind="stable")])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, person: int) -> IndexArray:
        return self.places[self.offsets[person] : self.offsets[person + 1]]


def positives(*parts: Records) -> PlaceLists:
    """The places that each person visited in these records."""
    person = np.concatenate([part.person[part.label > 0] for part in parts])
    place = np.concatenate([part.place[part.label > 0] for part in parts])
    return PlaceLists.of(person=person, place=place, people=len(parts[0].offsets) - 1)


def some_tested_people(test: Records, count: int, *, seed: int) -> IndexArray:
    """Some of the people who have a visit in the test, in ascending rows."""
    able = np.unique(test.person[test.label > 0])
    if count >= len(able):
        return able
    return np.sort(generator(seed, "people asked").choice(able, size=count, replace=False))


@dataclass(frozen=True, slots=True, repr=False)
class RankQuality(Shown):
    """Hit rate, NDCG and recall at k, as means over people; nan without any."""

    hit_rate: float  # people with at least one expected place in the top k
    ndcg: float
    recall: float  # expected places that are in the top k, of all expected ones
    people: int
    auc_nearby: float = math.nan  # an expected place scores above another one of those around it
    ndcg_popularity: float = math.nan  # what exact popularity alone, which is not private, has
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # 95 %, over people

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def panels(self, *, k: int = 10, among: str = "the places near home") -> Iterator[str | Table]:
        rows = [
            (f"hit rate at {k}", "hit_rate", "people with a new place of theirs in the list"),
            (f"NDCG at {k}", "ndcg", "the same, higher in the list counts more"),
            ("", "ndcg_popularity", "NDCG of popularity alone, counted exactly, which is not private"),
            (f"recall at {k}", "recall", "new places that the list holds"),
            ("AUC nearby", "auc_nearby", "a new place scores above another one around it"),
        ]
        yield Table(("ranking", ">figure", ">95 %, over people", "meaning"), [
            *((title, number(getattr(self, name)), self._ends(name), meaning) for title, name, meaning in rows),
            ("people", f"{self.people:,}", "", f"in the sample; candidates are {among}"),
        ])  # fmt: skip

    def _ends(self, name: str) -> str:
        return " to ".join(map(number, self.intervals[name])) if name in self.intervals else ""


@dataclass(frozen=True, slots=True)
class RankFigures:
    """Figures of each person who has an expected place. Private, unlike their means."""

    person: OffsetArray = field(repr=False)  # (n,) rows of these people, in the order given
    hit_rate: RealArray = field(repr=False)  # (n,): 1 or 0
    ndcg: RealArray = field(repr=False)  # (n,)
    recall: RealArray = field(repr=False)  # (n,)
    auc_nearby: RealArray = field(repr=False)  # (n,); nan where nothing is around a person's expected places

    def mean(self) -> RankQuality:
        """Over people, each of whom counts the same."""
        if not len(self.person):
            return RankQuality(hit_rate=math.nan, ndcg=math.nan, recall=math.nan, people=0)
        hit_rate, ndcg, recall = np.mean(np.stack([self.hit_rate, self.ndcg, self.recall], axis=1), axis=0).tolist()
        known = self.auc_nearby[~np.isnan(self.auc_nearby)]
        nearby = float(known.mean()) if len(known) else math.nan
        return RankQuality(hit_rate=hit_rate, ndcg=ndcg, recall=recall, people=len(self.person), auc_nearby=nearby)


def rank_figures(
    score_candidates: Callable[[int, IndexArray], RealArray], *,
    tests: PlaceLists, candidates: Callable[[int], IndexArray], exclude: PlaceLists,
    k: int = 10, people: IndexArray | None = None, around: Callable[[int], IndexArray] | None = None,
) -> RankFigures:  # fmt: skip
    """Hit, NDCG and recall at k of each person by the scores that `score_candidates(person, places)` gives.

    `candidates(person)` names each candidate once: the whole catalogue, or the matched places of Algorithm 3. `tests`
    are positives held out, `exclude` the positives trained on; `people` are the rows to measure, everyone by default.
    With `around(place)`, the places near a place, each expected place is also compared with those around it.
    """
    if len(tests) != len(exclude):
        raise UsageError("tests and excluded places must be of the same people")
    if k < 1:
        raise UsageError("k must be at least 1")
    measured = np.arange(len(tests)) if people is None else people
    if len(measured) and (measured.min() < 0 or measured.max() >= len(tests)):
        raise UsageError("people must be rows of those who have tests")
    rows, figures = [], []
    for person in measured.tolist():
        expected = np.setdiff1d(tests[person], exclude[person])
        if len(expected):
            offered = _without(candidates(person), exclude[person])
            scores = score_candidates(person, offered)
            found = hits(offered, scores, expected=expected, k=k)
            rows.append(person)
            visited = np.concatenate([tests[person], exclude[person]])
            near = [] if around is None else [_without(around(place), visited) for place in expected.tolist()]
            beaten = _auc_nearby(partial(score_candidates, person), expected, near)
            figures.append((*_figures(found, expected=len(expected), k=k), beaten))
    hit, ndcg, recall, nearby = np.array(figures, dtype=np.float64).reshape(-1, 4).T
    return RankFigures(np.array(rows, dtype=np.int64), hit, ndcg, recall, nearby)


def _auc_nearby(score: Callable[[IndexArray], RealArray], expected: IndexArray, near: list[IndexArray]) -> float:
    """The mean over one person's expected places of the share of others around it that score below it, ties half."""
    if not any(map(len, near)):
        return math.nan
    places, where = np.unique(np.concatenate([expected, *near]), return_inverse=True)
    scores = score(places.astype(np.int32))[where]
    if np.isnan(scores).any():
        raise UsageError("every candidate needs one score, and none may be NaN")
    own, others = scores[: len(expected)], np.split(scores[len(expected) :], np.cumsum([len(one) for one in near])[:-1])
    shares = [
        float(np.mean((mine > theirs) + 0.5 * (mine == theirs)))
        for mine, theirs in zip(own, others, strict=True)
        if len(theirs)
    ]
    return float(np.mean(shares))


def hits(offered: IndexArray, scores: RealArray, *, expected: IndexArray, k: int) -> BoolArray:
    """Which of the top k are expected, best first; among equal scores the unexpected come first."""
    if scores.shape != offered.shape or np.isnan(scores).any():
        raise UsageError("every candidate needs one score, and none may be NaN")
    wanted = np.isin(offered, expected)
    best = top(scores, ties=wanted, k=k)
    if len(np.unique(offered[best])) < len(best):
        raise UsageError("a candidate is offered more than once; give each place once")
    found: BoolArray = wanted[best]
    return found


def _figures(found: BoolArray, *, expected: int, k: int) -> tuple[float, float, float]:
    """One person's hit, NDCG (gain 1, discount log2(rank + 1), ideal over min(k, expected)) and recall."""
    discounts = 1.0 / np.log2(np.arange(2, k + 2))
    ndcg = discounts[: len(found)][found].sum() / discounts[:expected].sum()
    return float(found.any()), float(ndcg), float(found.sum() / expected)


def _without(places: IndexArray, known: IndexArray) -> IndexArray:
    return places[~np.isin(places, known)] if len(known) else places
