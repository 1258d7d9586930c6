"""How popular a place is: the paper's dynamic POI features, here plain counts over the training records.

Plain counts are for simulation and for the comparison with centralised FM. Whatever makes them private gives the same
two things, so nothing after this file knows the difference: what is released, and what each device knows that it added.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from prirec.data.dataset import Visits
from prirec.features.blocks import DAY
from prirec.types import OffsetArray, RealArray

Counts: TypeAlias = Mapping[str, RealArray]


@dataclass(frozen=True, slots=True)
class OwnCounts:
    """How much each person added to the count of each place; in a deployment every device knows its own rows only."""

    places: int
    pairs: OffsetArray = field(repr=False)  # ascending person * places + place
    counts: RealArray = field(repr=False)  # beside pairs

    @classmethod
    def of(cls, visits: Visits, *, places: int) -> "OwnCounts":
        """How often each person is at each place in these visits."""
        pairs = np.sort(visits.person.astype(np.int64) * places + visits.place)
        first = np.flatnonzero(np.diff(pairs, prepend=-1))
        return cls(places, pairs[first], np.diff(first, append=len(pairs)).astype(np.float64))

    def at(self, visits: Visits) -> RealArray:
        """(R,): what each visit's person added to the count of its place; 0 for whoever was never there."""
        if not len(self.pairs):
            return np.zeros(len(visits))
        wanted = visits.person.astype(np.int64) * self.places + visits.place
        found = np.minimum(np.searchsorted(self.pairs, wanted), len(self.pairs) - 1)
        return np.where(self.pairs[found] == wanted, self.counts[found], 0.0)

    def once(self) -> "OwnCounts":
        """The same with everyone counted once a place: distinct visitors."""
        return OwnCounts(self.places, self.pairs, np.ones(len(self.pairs)))

    def total(self) -> RealArray:
        """(J,): the count of each place."""
        return np.bincount(self.pairs % self.places, self.counts, self.places).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Popularity:
    """Released counts, and the part of them that each person contributed.

    A device leaves its own part out, of what it learns from as of what it considers: otherwise a rarely visited place
    gives its training visits away, and nothing else (decisions/0006).
    """

    released: Counts = field(repr=False, default_factory=dict)  # name -> (J,), public
    own: Mapping[str, OwnCounts] = field(repr=False, default_factory=dict)  # private; empty to leave nothing out

    def seen_by(self, visits: Visits) -> Counts:
        """name -> (R,): the popularity of each visit's place as its own person sees it."""
        return {
            name: counts[visits.place] - (self.own[name].at(visits) if name in self.own else 0.0)
            for name, counts in self.released.items()
        }


class Among(NamedTuple):
    """What the columns of plain counts depend on, of all people together."""

    twice: bool  # whether anyone came to a place twice
    newest: int | None  # the last time of a training record; None without times, or where nobody was anywhere

    @classmethod
    def of(cls, train: Visits) -> "Among":
        positive = train.take(train.label > 0)
        pairs = np.sort(positive.person.astype(np.int64) * (int(train.place.max(initial=0)) + 1) + positive.place)
        timed = train.time is not None and len(positive) > 0
        newest = int(train.time.max()) if timed and train.time is not None else None
        return cls(bool((np.diff(pairs) == 0).any()), newest)

    def plus(self, other: "Among") -> "Among":
        known = [one.newest for one in (self, other) if one.newest is not None]
        return Among(self.twice or other.twice, max(known, default=None))


def plain_counts(train: Visits, *, places: int, recent_days: int, among: Among | None = None) -> Popularity:
    """Distinct visitors; visits, where anyone came twice; visits in the last days, where there are times."""
    positive = train.take(train.label > 0)
    visits = OwnCounts.of(positive, places=places)
    all_of_them = Among.of(train) if among is None else among
    own = {"visitors": visits.once()}
    if all_of_them.twice:
        own["visits"] = visits
    if positive.time is not None and all_of_them.newest is not None:
        late = positive.time > all_of_them.newest - recent_days * DAY
        own["recent visits"] = OwnCounts.of(positive.take(late), places=places)
    return Popularity({name: counts.total() for name, counts in own.items()}, own)


def nothing_left_out(popularity: Popularity) -> Popularity:
    """The same, as if devices did not know what they added: everyone sees the whole count."""
    return Popularity(popularity.released)
