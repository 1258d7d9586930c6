"""Samples X^ij, stored as people, places and moments, and put together only where they are used.

A table of all X^ij would need |O| x D numbers; this needs I x m + J x n + |O| x c.
"""

from dataclasses import dataclass, field

import numpy as np

from prirec.data.dataset import Dataset, Places, Visits
from prirec.errors import DataError
from prirec.features.columns import Columns
from prirec.features.encoding import Encoding, encode_columns, encode_context, encode_person, encode_popularity
from prirec.features.history import History
from prirec.features.location import areas, homes
from prirec.features.popularity import Counts, Popularity
from prirec.types import FeatureArray, IndexArray, KeyArray, LabelArray, OffsetArray, RealArray
from prirec.util.geography import haversine_km, morton, unit_vectors
from prirec.util.keyed_random import person_keys

_BLOCK = 1 << 20  # visits encoded at a time


@dataclass(frozen=True, slots=True)
class Records:
    """Labelled records sorted by person: person i has rows offsets[i] to offsets[i + 1]."""

    offsets: OffsetArray = field(repr=False)  # (I + 1,)
    person: IndexArray = field(repr=False)  # (R,)
    place: IndexArray = field(repr=False)  # (R,)
    label: LabelArray = field(repr=False)  # (R,)
    context: FeatureArray = field(repr=False)  # (R, c): the popularity of the place as the record sees it, the moment

    def __len__(self) -> int:
        return len(self.place)

    def counts(self) -> OffsetArray:
        """n_i: how many records each person has."""
        return np.diff(self.offsets)


@dataclass(frozen=True, slots=True)
class Samples:
    """All that training and testing see. People stand along a Z-order curve of their homes, so that neighbours are near
    each other in memory; `ids` says who is who."""

    ids: tuple[str, ...] = field(repr=False)
    keys: KeyArray = field(repr=False)  # (I,)
    home: RealArray | None = field(repr=False)  # (I, 2)
    people: FeatureArray = field(repr=False)  # (I, m)
    places: FeatureArray = field(repr=False)  # (J, n): static features
    popularity: FeatureArray = field(repr=False)  # (J, p): dynamic features as released
    train: Records
    test: Records
    columns: Columns = field(repr=False)  # of the shared model
    area: RealArray | None = field(default=None, repr=False)  # (I,): the place in line that features/location.py gives

    @property
    def features(self) -> int:
        """D: how many features a sample has."""
        return int(self.people.shape[1] + self.places.shape[1] + self.train.context.shape[1])

    @property
    def catalogue(self) -> FeatureArray:
        """X^j whole, (J, n + p): what a device downloads to recommend from."""
        return np.ascontiguousarray(np.hstack([self.places, self.popularity]))


def assemble(
    dataset: Dataset, *, train: Visits, test: Visits, encoding: Encoding, popularity: Popularity,
    places: FeatureArray | None = None, alike: str | None = None, earlier: bool = False,
) -> Samples:  # fmt: skip
    """Samples of a prepared city under an encoding. What comes from visits comes from the training visits only; with
    `earlier`, a training record's own history from those before it. The static features of places are the same for
    everyone, and may be given."""
    home, order = standing(dataset, train)
    known = home if home is not None else np.full((len(order), 2), np.nan)
    places = places if places is not None else place_features(dataset.places, encoding)
    points = None if dataset.places.location is None else unit_vectors(dataset.places.location)
    own = History.of(encoding, train, people=len(order), features=places, points=points)
    ids = tuple(dataset.people.ids[row] for row in order)
    samples = Samples(
        ids=ids,
        keys=person_keys(ids),
        home=None if home is None else home[order],
        area=None if alike is None else areas(dataset, train, alike)[order],
        people=encode_person(encoding, dataset.people.columns, home=known)[order],
        places=places,
        popularity=encode_popularity(encoding, popularity.released, len(dataset.places)),
        train=in_order(train, order, _context(dataset, train, home, own, popularity.seen_by(train), earlier=earlier)),
        test=in_order(test, order, _context(dataset, test, home, own, popularity.seen_by(test))),
        columns=Columns.of(encoding),
    )
    _refuse_useless(samples)
    return samples


def standing(dataset: Dataset, train: Visits) -> tuple[RealArray | None, OffsetArray]:
    """Homes (I, 2), if any, and the row that the person of each row of `Samples` has in the data."""
    home = homes(dataset, train)
    order = np.arange(len(dataset.people)) if home is None else np.argsort(morton(home), kind="stable")
    return home, order


def place_features(places: Places, encoding: Encoding) -> FeatureArray:
    """X^j, static: (J, n)."""
    return encode_columns(encoding.place, places.columns, len(places))


def _refuse_useless(samples: Samples) -> None:
    if not samples.features:
        raise DataError("there is no feature to learn from: give people or places columns, coordinates or popularity")
    arrays = (samples.people, samples.places, samples.popularity, samples.train.context, samples.test.context)
    if not all(np.isfinite(array).all() for array in arrays):
        raise DataError("a feature is not a finite number; NaN is for what is unknown, and nothing may be infinite")


def in_order(visits: Visits, order: OffsetArray, context: FeatureArray) -> Records:
    """Visits sorted by their person's place in `order`; `context` may have no columns."""
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    person = rank[visits.person]
    rows = np.argsort(person, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(person, minlength=len(rank)))]).astype(np.int64)
    return Records(offsets, person[rows], visits.place[rows], visits.label[rows], context[rows])


def _context(
    dataset: Dataset, visits: Visits, home: RealArray | None, own: History, counts: Counts, *, earlier: bool = False
) -> FeatureArray:
    """Popularity and moment of each visit, (R, c), in blocks: distances of ten million visits need not be at once."""
    parts, encoding = [], own.encoding
    for start in range(0, max(len(visits), 1), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(visits)))
        some = visits.take(rows)
        popular = encode_popularity(encoding, {name: values[rows] for name, values in counts.items()}, len(rows))
        history = own.encode(some.person, some.place, before=some.time if earlier else None)
        moment = encode_context(encoding, some.context, km=_km(dataset, some, home), history=history, time=some.time)
        parts.append(np.hstack([popular, moment]))
    return np.concatenate(parts)


def _km(dataset: Dataset, visits: Visits, home: RealArray | None) -> RealArray:
    if home is None or dataset.places.location is None:
        return np.full(len(visits), np.nan)
    return haversine_km(home[visits.person], dataset.places.location[visits.place])
