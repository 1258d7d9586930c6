"""How often the next new place is among the k recommended. Only a simulation can run this: it sees everyone's tests.

A person's test places that are not among the candidates are misses: what matching leaves out is not forgiven. Places
excluded because the person already knows them are no question at all: they are neither recommended nor expected.
A person without an expected place is not counted. Ties count against us.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Self

import numpy as np

from prirec.engines.randomness import generator
from prirec.errors import UsageError
from prirec.features.samples import Records
from prirec.protocols.prediction import top
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray


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
    """Where each person was, in these records."""
    there = [part.label > 0 for part in parts]
    person = np.concatenate([part.person[was] for part, was in zip(parts, there, strict=True)])
    place = np.concatenate([part.place[was] for part, was in zip(parts, there, strict=True)])
    return PlaceLists.of(person=person, place=place, people=len(parts[0].offsets) - 1)


def asked(test: Records, count: int, *, seed: int) -> IndexArray:
    """Some of the people who have a visit in the test, in ascending rows."""
    able = np.unique(test.person[test.label > 0])
    if count >= len(able):
        return able
    return np.sort(generator(seed, "people asked").choice(able, size=count, replace=False))


@dataclass(frozen=True, slots=True)
class RankQuality:
    """Means over people; nan without any."""

    hit_rate: float  # people with at least one expected place in the top k
    ndcg: float
    recall: float  # expected places that are in the top k, of all expected ones
    people: int

    def as_dict(self) -> dict[str, float | int]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class RankFigures:
    """Figures of each person who has an expected place. Private, unlike their means."""

    person: OffsetArray = field(repr=False)  # (n,) rows of these people, in the order asked
    hit: RealArray = field(repr=False)  # (n,)
    ndcg: RealArray = field(repr=False)  # (n,)
    recall: RealArray = field(repr=False)  # (n,)


def rank_quality(
    score_candidates: Callable[[int, IndexArray], RealArray],
    *,
    tests: PlaceLists,
    candidates: Callable[[int], IndexArray],
    exclude: PlaceLists,
    k: int = 10,
    people: IndexArray | None = None,
) -> RankQuality:
    """The means of `rank_figures` over people."""
    of = rank_figures(score_candidates, tests=tests, candidates=candidates, exclude=exclude, k=k, people=people)
    if not len(of.person):
        return RankQuality(hit_rate=math.nan, ndcg=math.nan, recall=math.nan, people=0)
    hit_rate, ndcg, recall = np.mean(np.stack([of.hit, of.ndcg, of.recall], axis=1), axis=0).tolist()
    return RankQuality(hit_rate=hit_rate, ndcg=ndcg, recall=recall, people=len(of.person))


def rank_figures(
    score_candidates: Callable[[int, IndexArray], RealArray],
    *,
    tests: PlaceLists,
    candidates: Callable[[int], IndexArray],
    exclude: PlaceLists,
    k: int = 10,
    people: IndexArray | None = None,
) -> RankFigures:
    """Hit, NDCG and recall at k of each person by the scores that `score_candidates(person, places)` gives.

    `candidates(person)` names each candidate once: the whole catalogue, or the matched places of Algorithm 3. `tests`
    are positives held out, `exclude` the positives trained on; `people` are the rows to ask, everyone by default.
    """
    if len(tests) != len(exclude):
        raise UsageError("tests and excluded places must be of the same people")
    if k < 1:
        raise UsageError("k must be at least 1")
    asked = np.arange(len(tests)) if people is None else people
    if len(asked) and (asked.min() < 0 or asked.max() >= len(tests)):
        raise UsageError("people must be rows of those who have tests")
    rows, figures = [], []
    for person in asked.tolist():
        expected = np.setdiff1d(tests[person], exclude[person])
        if len(expected):
            offered = _without(candidates(person), exclude[person])
            scores = score_candidates(person, offered)
            found = hits(offered, scores, expected=expected, k=k)
            rows.append(person)
            figures.append(_figures(found, expected=len(expected), k=k))
    hit, ndcg, recall = np.array(figures, dtype=np.float64).reshape(-1, 3).T
    return RankFigures(np.array(rows, dtype=np.int64), hit, ndcg, recall)


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
