"""People cut into shards: by geography, whole cohorts together where that can be."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Self

import numpy as np

from prirec.engines.shard import Share, Whole
from prirec.errors import UsageError
from prirec.features.samples import Records, Samples
from prirec.types import IndexArray, OffsetArray

UNEVEN = 0.1  # how much of a shard's work may be moved to a neighbour, so that a cohort stays whole


def rows_of_shards(cohort: IndexArray, records: OffsetArray, *, shards: int) -> list[OffsetArray]:
    """Rows of people for each shard, with about as much work each. Cohorts are numbered along the map, so that a shard
    is a region. A cut falls between two cohorts unless that would be uneven."""
    if shards < 1:
        raise UsageError("there must be at least one shard")
    shards = min(shards, len(cohort))
    order = np.argsort(cohort, kind="stable")
    effort = np.cumsum(records[order] + 1)
    even = effort[-1] / shards
    borders = 1 + np.flatnonzero(np.diff(cohort[order]))  # where a new cohort begins
    cuts = [0]
    for wanted in even * np.arange(1, shards):
        at = int(np.searchsorted(effort, wanted)) + 1
        near = borders[np.argmin(np.abs(effort[borders - 1] - wanted))] if len(borders) else at
        whole = abs(effort[near - 1] - wanted) <= UNEVEN * even
        last = len(order) - (shards - len(cuts))  # everyone after this one still gets somebody
        cuts.append(min(max(int(near) if whole else at, cuts[-1] + 1), last))
    return [np.sort(order[a:b]) for a, b in pairwise([*cuts, len(order)])]


@dataclass(frozen=True, slots=True)
class Cut:
    """All people of a run, and which of them are in which shard."""

    samples: Samples = field(repr=False)
    cohort: IndexArray = field(repr=False)  # (I,)
    rows: list[OffsetArray] = field(repr=False)
    split: OffsetArray = field(repr=False)  # cohorts that are in more than one shard

    @classmethod
    def of(cls, samples: Samples, cohort: IndexArray, *, shards: int) -> Self:
        return cls.at(samples, cohort, rows_of_shards(cohort, samples.train.counts(), shards=shards))

    @classmethod
    def at(cls, samples: Samples, cohort: IndexArray, rows: list[OffsetArray]) -> Self:
        """With these people in each."""
        return cls(samples, cohort, rows, split_cohorts([np.unique(cohort[part]) for part in rows]))

    @property
    def whole(self) -> Whole:
        s = self.samples
        return Whole(len(s.ids), len(s.places), s.features, int(self.cohort.max()) + 1)

    def share(self, at: int) -> Share:
        """What this shard starts from."""
        rows = self.rows[at]
        mine = self.cohort[rows]
        return Share(part_of(self.samples, rows), mine, np.intersect1d(self.split, mine), self.whole)


def split_cohorts(numbers: list[OffsetArray]) -> OffsetArray:
    """Cohorts that more than one shard has somebody of, from the cohorts of each."""
    found, times = np.unique(np.concatenate(numbers), return_counts=True)
    return found[times > 1].astype(np.int64)


def part_of(samples: Samples, rows: OffsetArray) -> Samples:
    """These people only. Their ids stay behind: keys say who they are. Test records too."""
    none = np.empty(0, dtype=np.int64)
    return replace(
        samples,
        ids=("",) * len(rows),
        keys=samples.keys[rows],
        home=None if samples.home is None else samples.home[rows],
        people=np.ascontiguousarray(samples.people[rows]),
        train=_records(samples.train, rows),
        test=_records(samples.test, none),
    )


def _records(records: Records, rows: OffsetArray) -> Records:
    counts = records.counts()[rows]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    at = np.repeat(records.offsets[:-1][rows] - offsets[:-1], counts) + np.arange(offsets[-1])
    person = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    return Records(offsets, person, records.place[at], records.label[at], records.context[at])
