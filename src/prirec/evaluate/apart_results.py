"""What shards do when a training over parts is done: find the rows in which their people would stand in the whole,
write their models there, and measure.

The order of rows is that of features/samples.py: along a Z-order curve of homes, then as in the tables. Nobody holds
all of it: every shard hears the sorted codes of every other, and counts how many come before each of its own.
"""

import os
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prirec.evaluate.apart import Apart
from prirec.evaluate.metrics import auc_within_people
from prirec.features.samples import Records
from prirec.model.models import Models
from prirec.model.scoring import mean_loss, scores
from prirec.types import BoolArray, KeyArray, OffsetArray, RealArray
from prirec.zorder import morton

_TOGETHER = 4096  # rows that are written by one call
_ROWS = 31  # bits for the number of a row; a code of morton has up to 33


class Tested(NamedTuple):
    """Sums over test records."""

    losses: float
    records: int
    weighted: float  # AUC within each person, times the person's records
    within: int
    people: OffsetArray  # (n,): how many tested people have so many training records

    def plus(self, other: "Tested") -> "Tested":
        longest = max(len(self.people), len(other.people))
        people = sum(np.pad(one.people, (0, longest - len(one.people))) for one in (self, other))
        sums = (a + b for a, b in zip(self[:4], other[:4], strict=True))
        return Tested(*sums, people)  # type: ignore[call-arg, arg-type]


class Wins(NamedTuple):
    """Of positives over negatives, doubled so that a tie is one."""

    won: int
    positives: int
    negatives: int

    def plus(self, other: "Wins") -> "Wins":
        return Wins(*(a + b for a, b in zip(self, other, strict=True)))

    def auc(self) -> float:
        """As metrics.auc has it, to the bit."""
        pairs = self.positives * self.negatives
        if pairs == 0:
            return float("nan")
        if self.positives <= self.negatives:
            return self.won / (2 * pairs)
        return 1.0 - (2 * pairs - self.won) / (2 * pairs)


class Finished(Apart):
    """Parts with a shard that was moved to the end."""

    # Where everyone stands

    def begin_ranks(self) -> None:
        rows, home = self.rows.astype(np.uint64), self.samples.home
        self._codes: KeyArray = rows if home is None else (morton(home) << np.uint64(_ROWS)) | rows
        self.rank: OffsetArray = np.zeros(len(rows), dtype=np.int64)

    def codes(self) -> KeyArray:
        return np.sort(self._codes)

    def count_before(self, others: KeyArray) -> None:
        self.rank += np.searchsorted(others, self._codes)

    # What is written in these rows

    def write(self, folder: str) -> None:
        """Models, whose they are, and how many records everyone has."""
        for name, values in (
            ("linear", self.shard.state.linear),
            ("people", self.samples.keys),
            ("train counts", self.samples.train.counts()),
            ("test counts", self.samples.test.counts()),
        ):
            _write(Path(folder) / f"{name}.npy", self.rank, values)

    def write_records(self, folder: str, side: str) -> None:
        """Places and labels of everyone, from where the file of offsets says."""
        records: Records = getattr(self.samples, side)
        begin = np.load(Path(folder) / f"{side} offsets.npy", mmap_mode="r")[self.rank]
        at = np.repeat(begin - records.offsets[:-1], records.counts()) + np.arange(len(records))
        _write(Path(folder) / f"{side} place.npy", at, records.place)
        _write(Path(folder) / f"{side} label.npy", at, records.label)

    # How good it is

    def test(self, V: RealArray) -> Tested:
        samples, test = self.samples, self.samples.test
        self._scores = scores(Models(self.shard.state.linear, V), samples, test)
        within = auc_within_people(test.label, self._scores, person=test.person)
        tested = np.flatnonzero(test.counts() > 0)
        return Tested(
            mean_loss(test, self._scores) * len(test) if len(test) else 0.0,
            len(test),
            float(within.auc @ within.records),
            int(within.records.sum()),
            np.bincount(samples.train.counts()[tested]),
        )

    def begin_wins(self, most: int | None) -> None:
        """Among people with at most so many training records; None: all."""
        samples, test = self.samples, self.samples.test
        few: BoolArray = np.ones(len(samples.ids), dtype=np.bool_) if most is None else samples.train.counts() <= most
        label, found = test.label[few[test.person]], self._scores[few[test.person]]
        self._positive, self._negative = np.sort(found[label > 0]), np.sort(found[label < 0])
        self._won = 0

    def negatives(self) -> RealArray:
        return self._negative

    def count_wins(self, negative: RealArray) -> None:
        below = np.searchsorted(negative, self._positive, side="left").sum()
        self._won += int(below) + int(np.searchsorted(negative, self._positive, side="right").sum())  # a tie: once

    def wins(self) -> Wins:
        return Wins(self._won, len(self._positive), len(self._negative))


def _write(file: Path, at: OffsetArray, values: Any) -> None:
    """Rows of a file that other shards write in too, each by its place: pages of a file that is mapped would be written
    back whole, and on another node with what they held before."""
    order = np.argsort(at, kind="stable")
    places, there = at[order], np.load(file, mmap_mode="r")
    begin, kind = there.offset, there.dtype
    edges = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(at)]
    with file.open("r+b", buffering=0) as out:
        for first, end in pairwise(edges):
            for a in range(first, end, _TOGETHER):
                some = np.ascontiguousarray(values[order[a : min(a + _TOGETHER, end)]], dtype=kind)
                _put(out.fileno(), memoryview(some.tobytes()), begin + int(places[a]) * some[0].nbytes)
        os.fsync(out.fileno())


def _put(handle: int, content: memoryview, offset: int) -> None:
    while content:
        done = os.pwrite(handle, content, offset)
        content, offset = content[done:], offset + done
