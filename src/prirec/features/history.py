"""What a place is to a person's own history: how near their other places are, and how like them it is (decisions/0019).

Made and used on the device. The history is where the person's training visits were, each place once. The place of the
record itself never counts: whether somebody has been to it would give a training visit away, and in a test it would
give the drawing of negatives away.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Self, TypeVar

import numpy as np

from prirec.config import Data
from prirec.data.dataset import Visits
from prirec.features.encoding import Affinity, Closeness, Density, Encoding, Nearest
from prirec.types import BoolArray, FeatureArray, IndexArray, OffsetArray, RealArray, TimeArray
from prirec.util.geography import EARTH_RADIUS_KM
from prirec.util.jit import inlined, kernel, numpy_of

FEW = 1_000_000  # distances, which NumPy has in a fifth of a second
UNKNOWN = np.iinfo(np.int64).max  # the time of a visit that has none: it is not known to be before anything
_Number = TypeVar("_Number", float, RealArray)


def only_earlier(data: Data) -> bool:
    """Whether a training record is encoded without the visits that came after it.

    Where the test is of later records, a training record that knew its own future would be easier than any test record.
    A random split has no such order: test records know visits from before and after, and so do training records."""
    return data.split == "time"


@dataclass(frozen=True, slots=True)
class History:
    """Where people have been: person i at places[offsets[i]:offsets[i + 1]], ascending. Private; on a device there is
    one person."""

    encoding: Encoding
    points: RealArray = field(repr=False)  # (J, 3): places on the unit sphere, NaN where unknown
    features: FeatureArray = field(repr=False)  # (J, n): X^j, static, and possibly more columns behind
    offsets: OffsetArray = field(repr=False)  # (I + 1,)
    places: IndexArray = field(repr=False)
    first: TimeArray = field(repr=False)  # when the person was there for the first time

    @classmethod
    def of(
        cls, encoding: Encoding, visits: Visits, *, people: int, features: FeatureArray, points: RealArray | None
    ) -> Self:  # fmt: skip
        """From the visits that may be looked at; `points` is None where places have no coordinates."""
        wanted = visits.label > 0 if encoding.history else np.zeros(0, dtype=np.int64)  # nothing is sorted for nothing
        visited = visits.take(wanted)
        time = np.full(len(visited), UNKNOWN) if visited.time is None else visited.time
        order = np.lexsort((time, visited.place, visited.person))
        person, place = visited.person[order], visited.place[order]
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (person[1:] != person[:-1]) | (place[1:] != place[:-1])
        offsets = np.concatenate([[0], np.cumsum(np.bincount(person[new], minlength=people))]).astype(np.int64)
        known = np.full((len(features), 3), np.nan) if points is None else points
        return cls(encoding, known, features, offsets, place[new].astype(np.int32), time[order][new])

    def encode(self, person: IndexArray, place: IndexArray, *, before: TimeArray | None = None) -> list[FeatureArray]:
        """The features of these records, (R, width) for each block of `Encoding.history`. With `before`, (R,), only
        places where the person was before that time count."""
        return list(self._encode(person, place, before)) if self.encoding.history else []

    def _encode(self, person: IndexArray, place: IndexArray, before: TimeArray | None) -> Iterator[FeatureArray]:
        scales = next((block.scales_km for block in self.encoding.history if isinstance(block, Density)), ())
        distances = cache(partial(self._distances, person, place, before, scales=scales))  # once, where they are wanted
        others = _Others.of(self, person, place, before)
        for block in self.encoding.history:
            if isinstance(block, Nearest):
                square, _, _ = distances()
                yield block.encode_km(2 * EARTH_RADIUS_KM * np.arcsin(np.minimum(np.sqrt(square) / 2, 1.0)))
            elif isinstance(block, Density):
                _, faded, located = distances()
                with np.errstate(invalid="ignore"):  # 0 / 0 where there is no other place
                    yield block.encode_mean(faded / located[:, None])
            elif isinstance(block, Affinity):
                yield block.encode_ratio(self._log_ratio(block, others))
            else:
                yield block.encode_apart(self._apart(block, others))

    def _distances(
        self, person: IndexArray, place: IndexArray, before: TimeArray | None, *, scales: tuple[float, ...]
    ) -> tuple[RealArray, RealArray, RealArray]:
        """Of the chords to the person's other places the square of the shortest, (R,), NaN where there is none; the
        sums of exp(-km / scale), (R, scales); and how many there are, (R,)."""
        square, faded, located = np.empty(len(place)), np.zeros((len(place), len(scales))), np.zeros(len(place))
        first, until = self.first, before
        if until is None:  # then all are before
            first, until = np.zeros_like(first), np.ones(len(place), dtype=np.int64)
        # one person's records are not worth the time that it takes to load the compiler
        add = _add_few if np.diff(self.offsets)[person].sum() <= FEW else _add
        where = (self.points, self.offsets, self.places, first)
        add(*where, person, place, until, np.array(scales, dtype=np.float64), square, faded, located)
        return square, faded, located

    def _log_ratio(self, block: Affinity, others: "_Others") -> RealArray:
        """(R,): the mean over the place's words of how much more of the person's other places have the word than of
        all places, as a logarithm. PRIOR places of the average kind are added, so that no history gives 0."""
        total, words = np.zeros(len(others.place)), np.zeros(len(others.place))
        columns = self.encoding.place_columns(block.of)
        for has, share in zip((self.features[:, columns.start : columns.stop] > 0).T, block.shares, strict=True):
            rows = np.flatnonzero(has[others.place])
            count = others.total(has, rows)
            total[rows] += np.log((count + block.PRIOR * share) / ((others.count[rows] + block.PRIOR) * share))
            words[rows] += 1
        return total / np.maximum(words, 1)

    def _apart(self, block: Closeness, others: "_Others") -> RealArray:
        """(R,): how far the place's number is from the mean of the person's other places; NaN where either is unknown,
        which is what 0, the catalogue's mean, stands for."""
        values = self.features[:, self.encoding.place_columns(block.of)[0]].astype(np.float64)
        # whole numbers, which add up to the same in any order
        total = others.total(np.rint(values * 2.0**16).astype(np.int64)) * 2.0**-16
        count = others.total(values != 0)
        both = (values[others.place] != 0) & (count > 0)
        apart: RealArray = np.abs(values[others.place] - total / np.maximum(count, 1))
        return np.where(both, apart, np.nan)


@dataclass(frozen=True, slots=True)
class _Others:
    """The other places of each record's person, to add something up over them. Private."""

    place: IndexArray = field(repr=False)  # (R,): of the record
    count: OffsetArray = field(repr=False)  # (R,): how many others
    ordered: IndexArray = field(repr=False)  # all places of all people, by person and then by time
    start: OffsetArray = field(repr=False)  # (R,): the record's are ordered[start:end]
    end: OffsetArray = field(repr=False)
    itself: BoolArray = field(repr=False)  # (R,): with the record's own place among them

    @classmethod
    def of(cls, history: History, person: IndexArray, place: IndexArray, before: TimeArray | None) -> Self:
        many, offsets, first = np.int64(len(history.features)), history.offsets, history.first
        whose = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        pairs, wanted = whose * many + history.places, person * many + place  # ascending
        at = np.searchsorted(pairs, wanted)
        itself = np.append(pairs, -1)[at] == wanted
        order, start, end = np.arange(len(whose)), offsets[person], offsets[person + 1]
        if before is not None:
            itself &= np.append(first, 0)[at] < before
            order, times = np.lexsort((first, whose)), np.unique(first)
            rank = whose * (len(times) + 1) + np.searchsorted(times, first)
            end = np.searchsorted(rank[order], person * np.int64(len(times) + 1) + np.searchsorted(times, before))
        return cls(place, end - start - itself, history.places[order], start, end, itself)

    def total(self, values: OffsetArray | BoolArray, rows: OffsetArray | slice = slice(None)) -> OffsetArray:
        """Whole numbers of places, (J,), added up over the others of these records."""
        sums = np.concatenate([[0], np.cumsum(values[self.ordered], dtype=np.int64)])
        mine = np.where(self.itself[rows], values[self.place[rows]], 0)
        total: OffsetArray = sums[self.end[rows]] - sums[self.start[rows]] - mine
        return total


def _fade(x: _Number) -> _Number:
    """exp(-x) for x >= 0, to 1 part in 100,000 where it is above 0.001, by operations that every processor rounds
    alike: NumPy's exp and a compiler's differ in their last bits."""
    y = x * (1 / 64)
    power = 1 + y * (1 + y * (1 / 2 + y * (1 / 6 + y * (1 / 24))))
    for _ in range(6):
        power = power * power
    return 1 / power


_fade_compiled = inlined(_fade)


@kernel
def _add(
    points: RealArray, offsets: OffsetArray, places: IndexArray, first: TimeArray, person: IndexArray,
    place: IndexArray, before: TimeArray, scales: RealArray, square: RealArray, faded: RealArray, located: RealArray,
) -> None:  # fmt: skip
    """`History._distances`, in `square`, `faded` and `located`."""
    for row in range(place.size):
        here, best = place[row], np.inf
        for at in range(offsets[person[row]], offsets[person[row] + 1]):
            there = places[at]
            if there == here or first[at] >= before[row]:
                continue
            chord = 0.0
            for axis in range(3):
                apart = points[here, axis] - points[there, axis]
                chord += apart * apart
            if np.isnan(chord):
                continue
            best = min(best, chord)
            located[row] += 1
            for scale in range(scales.size):  # so near that a chord is as long as its arc
                faded[row, scale] += _fade_compiled(EARTH_RADIUS_KM * np.sqrt(chord) / scales[scale])
        square[row] = best if best < np.inf else np.nan


@np.errstate(over="ignore")  # 1 / inf is what exp(-x) of a far place comes to
def _add_few(
    points: RealArray, offsets: OffsetArray, places: IndexArray, first: TimeArray, person: IndexArray,
    place: IndexArray, before: TimeArray, scales: RealArray, square: RealArray, faded: RealArray, located: RealArray,
) -> None:  # fmt: skip
    """`_add` in NumPy, to the same bits, with all distances in memory at once."""
    counts = np.diff(offsets)[person]
    row = np.repeat(np.arange(len(place)), counts)
    at = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts - offsets[person], counts)
    apart = points[place[row]] - points[places[at]]
    chord = apart[:, 0] ** 2 + apart[:, 1] ** 2 + apart[:, 2] ** 2
    counted = (places[at] != place[row]) & (first[at] < before[row]) & ~np.isnan(chord)
    row, chord = row[counted], chord[counted]
    square[:] = np.inf
    np.minimum.at(square, row, chord)
    square[np.isinf(square)] = np.nan
    located += np.bincount(row, minlength=len(place))
    for scale, km in enumerate(scales):  # bincount adds in order, as a loop does
        faded[:, scale] = np.bincount(row, _fade(EARTH_RADIUS_KM * np.sqrt(chord) / km), minlength=len(place))


@numpy_of(_add)
def _add_in_parts(
    points: RealArray, offsets: OffsetArray, places: IndexArray, first: TimeArray, person: IndexArray,
    place: IndexArray, before: TimeArray, scales: RealArray, square: RealArray, faded: RealArray, located: RealArray,
) -> None:  # fmt: skip
    """`_add_few` for so many records at a time that their distances fit into memory."""
    pairs = np.cumsum(np.diff(offsets)[person])
    cuts = np.searchsorted(pairs, np.arange(FEW, pairs[-1], FEW)).tolist() if len(pairs) else []
    for part in map(slice, [0, *cuts], [*cuts, len(place)]):
        _add_few(
            points, offsets, places, first, person[part], place[part], before[part], scales, square[part], faded[part],
            located[part],
        )  # fmt: skip
