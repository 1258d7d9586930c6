"""How popular a place is: the paper's dynamic POI features, here plain counts over the training records.

Plain counts are for simulation and for the comparison with centralised FM. A private mechanism gives a Popularity too
(what is released, and what each device knows that it added), so that nothing after this file sees a difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from prirec.data.dataset import Dataset, Declared, Numbers, Visits
from prirec.errors import DataError, UsageError
from prirec.types import DAY, IndexArray, OffsetArray, RealArray

Counts: TypeAlias = Mapping[str, RealArray]


class WhoAndWhere(Protocol):
    """Visits, or records made of them."""

    @property
    def person(self) -> IndexArray: ...
    @property
    def place(self) -> IndexArray: ...


@dataclass(frozen=True, slots=True)
class OwnCounts:
    """How much each person added to the count of each place; in a deployment every device knows its own rows only."""

    places: int
    pairs: OffsetArray = field(repr=False)  # ascending person * places + place
    counts: RealArray = field(repr=False)  # beside pairs

    @classmethod
    def of(cls, visits: Visits, *, places: int) -> "OwnCounts":
        """How often each person is at each place in these visits."""
        # one number a pair: a sort of integers is several times as fast as a lexicographic one of two columns
        pairs = np.sort(visits.person.astype(np.int64) * places + visits.place)
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        return cls(places, pairs[first], np.diff(first, append=len(pairs)).astype(np.float64))

    def at(self, visits: WhoAndWhere) -> RealArray:
        """(R,): what each visit's person added to the count of its place; 0 for whoever was never there."""
        return self.at_pairs(visits.person.astype(np.int64) * self.places + visits.place)

    def at_pairs(self, wanted: OffsetArray) -> RealArray:
        """What was added at each of these pairs, person * places + place; 0 where nothing was."""
        if not len(self.pairs):
            return np.zeros(len(wanted))
        found = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        return np.where(self.pairs[found] == wanted, self.counts[found], 0.0)

    def of_person(self, row: int) -> "OwnCounts":
        """Counts of this person alone, in row 0."""
        first, last = np.searchsorted(self.pairs, [row * self.places, (row + 1) * self.places])
        return OwnCounts(self.places, self.pairs[first:last] - row * self.places, self.counts[first:last])

    def once(self) -> "OwnCounts":
        """Everyone counted once a place: distinct visitors."""
        return OwnCounts(self.places, self.pairs, np.ones(len(self.pairs)))

    def total(self) -> RealArray:
        """(J,): the count of each place."""
        return np.bincount(self.pairs % self.places, self.counts, self.places).astype(np.float64)


class Opened(NamedTuple):
    """What a secure sum opened, and what was predicted from it. All of it is public: with it and what a device added,
    the device works out its own part, whenever it likes."""

    sums: RealArray  # (S J,): noisy, in units of a person's norm; of each statistic after another
    sigma: float  # standard deviation of the noise in each
    predicted: RealArray  # (J,)
    weight: RealArray  # (J,): of the own sum in the prediction
    shape: float  # of the prior


@dataclass(frozen=True, slots=True)
class Popularity:
    """Released counts, and the part of them that each person contributed.

    A device leaves its own part out, of what it learns from as of what it considers: otherwise a rarely visited place
    gives its training visits away, and nothing else (decisions/0006).
    """

    released: Counts = field(repr=False, default_factory=dict)  # name -> (J,), public
    own: Mapping[str, OwnCounts] = field(repr=False, default_factory=dict)  # private; empty to leave nothing out
    opened: Opened | None = field(repr=False, default=None)  # where they came from a secure sum

    def of_person(self, row: int) -> "Popularity":
        """Popularity as the device of this person has it, in row 0."""
        return replace(self, own={name: own.of_person(row) for name, own in self.own.items()})

    def seen_by(self, visits: WhoAndWhere) -> Counts:
        """name -> (R,): the popularity of each visit's place as its own person sees it."""
        return {
            name: counts[visits.place] - (self.own[name].at(visits) if name in self.own else 0.0)
            for name, counts in self.released.items()
        }


class CountBasis(NamedTuple):
    """What all people together decide about plain counts: which columns there are, and where recent days begin."""

    twice: bool  # whether anyone came to a place twice
    newest: int | None  # the last time of a training record; None without times, or where nobody was anywhere

    @classmethod
    def of(cls, train: Visits) -> "CountBasis":
        positive = train.take(train.label > 0)
        visits = OwnCounts.of(positive, places=int(train.place.max(initial=0)) + 1)
        newest = int(train.time.max()) if train.time is not None and len(positive) else None
        return cls(bool((visits.counts > 1).any()), newest)

    def plus(self, other: "CountBasis") -> "CountBasis":
        known = [one.newest for one in (self, other) if one.newest is not None]
        return CountBasis(self.twice or other.twice, max(known, default=None))


def plain_counts(train: Visits, *, places: int, recent_days: int, basis: CountBasis | None = None) -> Popularity:
    """Distinct visitors; visits, where anyone came twice; visits in the last days, where there are times."""
    positive = train.take(train.label > 0)
    visits = OwnCounts.of(positive, places=places)
    basis = CountBasis.of(train) if basis is None else basis
    own = {"visitors": visits.once()}
    if basis.twice:
        own["visits"] = visits
    if positive.time is not None and basis.newest is not None:
        late = positive.time > basis.newest - recent_days * DAY
        own["recent visits"] = OwnCounts.of(positive.take(late), places=places)
    return Popularity({name: counts.total() for name, counts in own.items()}, own)


def nothing_left_out(popularity: Popularity) -> Popularity:
    """Popularity as if devices did not know what they added: everyone sees the whole count."""
    return Popularity(popularity.released)


# What visits to a place are like on average: the paper's average spend, or any number that a visit has.
#
# A device takes the mean u of its own visits to a place, on a public scale from -1 to 1, so that everyone counts once a
# place. An average needs two sums: Σ x_ij of who was there and Σ x_ij u_ij, whatever weights x a mechanism has.


LARGEST_RANGE = 1e9  # of a number that is averaged


@dataclass(frozen=True, slots=True)
class Scale:
    """The public range of a number that visits have, mapped to -1 to 1: noise is sized for values of at most 1."""

    low: float
    high: float

    def inward(self, values: RealArray) -> RealArray:
        """Values on the scale from -1 to 1; those outside the public range are clipped."""
        return np.clip((2 * values - self.low - self.high) / (self.high - self.low), -1.0, 1.0)

    def outward(self, values: RealArray) -> RealArray:
        """Back to the number's own units."""
        return (np.clip(values, -1.0, 1.0) * (self.high - self.low) + self.low + self.high) / 2


def scale_of(dataset: Dataset, column: str) -> Scale:
    """From what schema.toml declares; a range taken from the visits themselves would tell of them."""
    return declared_scale(
        column, dataset.declared, is_number=isinstance(dataset.visits.context.get(column), Numbers)
    )  # fmt: skip


def declared_scale(column: str, by_name: Mapping[str, Declared], *, is_number: bool) -> Scale:
    """The declared range of a number of visits, where no visits are at hand, as in a deployment."""
    if not is_number:
        raise UsageError(f"features.averages names '{column}', and visits have no such column of numbers")
    declared = by_name.get(f"visits.{column}")
    if declared is None or declared.low is None or declared.high is None or not declared.low < declared.high:
        raise DataError(
            f"an average of visits.{column} needs a public range; declare low and high for it in schema.toml"
        )
    if max(abs(declared.low), abs(declared.high)) > LARGEST_RANGE:
        raise DataError(f"the range of visits.{column} in schema.toml is beyond all numbers that could be averaged")
    return Scale(declared.low, declared.high)


def average_column(name: str) -> str:
    """Name of the column of places that holds the average of this number of visits."""
    return f"average {name}"


def own_means(visits: Visits, column: str, scale: Scale, *, places: int) -> OwnCounts:
    """u_ij for each person and place with a known value, from positive visits."""
    values = visits.context[column]
    if not isinstance(values, Numbers):
        raise UsageError(f"visits.{column} is no column of numbers")
    known = (visits.label > 0) & ~np.isnan(values.values)
    scaled = scale.inward(values.values[known])
    pairs = visits.person[known].astype(np.int64) * places + visits.place[known]
    unique, where, times = np.unique(pairs, return_inverse=True, return_counts=True)
    return OwnCounts(places, unique, np.bincount(where, scaled, len(unique)) / times)


def plain_average(own: OwnCounts, scale: Scale, *, name: str) -> Popularity:
    """The mean over visitors, and over all where nobody was; a device leaves its own value out."""
    visitors, total = own.once().total(), own.total()
    city = float(own.counts.mean()) if len(own.counts) else 0.0
    average = np.where(visitors > 0, total / np.maximum(visitors, 1), city)
    places = own.pairs % own.places
    fewer = visitors[places] - 1
    others = np.where(fewer > 0, (total[places] - own.counts) / np.maximum(fewer, 1), city)
    part = OwnCounts(own.places, own.pairs, scale.outward(average)[places] - scale.outward(others))
    return Popularity({name: scale.outward(average)}, {name: part})
