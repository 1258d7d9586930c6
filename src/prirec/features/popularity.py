"""How popular a place is: the paper's dynamic POI features, here plain counts over the training records.

Plain counts are for simulation and for the comparison with centralised FM. Whatever makes them private gives the same
two things, so nothing after this file knows the difference: what is released, and what each device knows that it added.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from prirec.data.dataset import Visits
from prirec.features.blocks import DAY
from prirec.types import BoolArray, OffsetArray, RealArray

Counts: TypeAlias = Mapping[str, RealArray]


@dataclass(frozen=True, slots=True)
class Popularity:
    """Released counts, and the part of them that a training record's own person contributed.

    A device that learns from a visit leaves its own part out, as the count of a place it has not been to has none:
    otherwise a rarely visited place gives its training visits away, and nothing else (decisions/0006).
    """

    released: Counts = field(repr=False, default_factory=dict)  # name -> (J,), public
    own: Counts = field(repr=False, default_factory=dict)  # name -> (R,), beside the training records; private

    def others(self, name: str, place: np.ndarray) -> RealArray:
        """The count of each training record's place, less what its own person added."""
        others: RealArray = self.released[name][place] - self.own[name]
        return others


def plain_counts(train: Visits, *, places: int, recent_days: int) -> Popularity:
    """Distinct visitors; visits, where anyone came twice; visits in the last days, where there are times."""
    positive = train.label > 0
    visits, own_visits = _count(train, positive, places)
    visitors, own_visitors = _count(train, _first_of_pair(train, positive, places), places)
    released, own = {"visitors": visitors}, {"visitors": own_visitors}
    if (visits != visitors).any():
        released["visits"], own["visits"] = visits, own_visits
    if train.time is not None and positive.any():
        late = train.time > train.time.max() - recent_days * DAY
        released["recent visits"], own["recent visits"] = _count(train, positive & late, places)
    return Popularity(released, own)


def without_own(popularity: Popularity) -> Popularity:
    """The same, as if devices did not know what they added: every training record sees the whole count."""
    return Popularity(popularity.released, {name: np.zeros_like(own) for name, own in popularity.own.items()})


def _count(train: Visits, counted: BoolArray, places: int) -> tuple[RealArray, RealArray]:
    """How often each place is among the counted records, (J,), and how often by each record's own person, (R,)."""
    pair, order = _pairs(train, places)
    counts: OffsetArray = np.bincount(pair, weights=counted[order]).astype(np.int64)
    own = np.empty(len(order))
    own[order] = counts[pair]
    return np.bincount(train.place[counted], minlength=places).astype(np.float64), own


def _pairs(train: Visits, places: int) -> tuple[OffsetArray, OffsetArray]:
    """For the records in the order of (person, place): the number of the pair, and that order."""
    key = train.person.astype(np.int64) * places + train.place
    order = np.argsort(key, kind="stable")
    new = np.diff(key[order], prepend=-1) != 0
    return np.cumsum(new) - 1, order


def _first_of_pair(train: Visits, positive: BoolArray, places: int) -> BoolArray:
    """The positive records that are the first of their person at their place."""
    rows = np.flatnonzero(positive)
    _, order = _pairs(train.take(rows), places)
    key = (train.person.astype(np.int64) * places + train.place)[rows[order]]
    first = np.zeros(len(train), dtype=bool)
    first[rows[order[np.diff(key, prepend=-1) != 0]]] = True
    return first
