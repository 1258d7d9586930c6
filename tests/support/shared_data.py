"""Encodings of every kind of block, and made-up people, places and records under them: tests of the shared model."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from prirec.features.columns import (
    Columns,
    Moments,
    PlaceColumns,
    WordScales,
    columns_of_places,
    moment_rows,
    person_rows,
    rounded,
)
from prirec.features.encoding import (
    Affinity,
    Area,
    Clock,
    Closeness,
    Density,
    Distance,
    Encoding,
    Hashed,
    Log,
    Nearest,
    Range,
    Words,
)
from prirec.model.shared_model import FINE_B, OwnRecords, SharedModel

PERSON = (
    Range(column="age", low=0.0, high=100.0),
    Words(column="work", words=("none", "some", "much")),
    Hashed(column="taste", buckets=2),
    Log(column="income"),
    Area(column="home", centres=((0.0, 0.0), (0.0, 1.0))),
)
PLACE = (
    Words(column="kind", words=("bar", "park", "shop")),
    Log(column="price"),
    Words(column="tags", words=("new", "old")),
    Range(column="stars", low=0.0, high=5.0),
)
POPULARITY = (Log(column="visits"), Log(column="recent visits"))
CONTEXT = (
    Distance(column="distance", shift=0.0, scale=1.0),
    Nearest(column="near", shift=0.0, scale=1.0),
    Density(column="dense", scales_km=(1.0, 4.0), shift=0.0, spread=1.0),
    Affinity(column="own kinds", of="kind", shares=(0.5, 0.25, 0.1)),
    Closeness(column="own prices", of="price", shift=0.0, scale=1.0),
    Clock(column="time"),
    Words(column="weather", words=("dry", "wet")),
    Log(column="spent"),
)
EVERY_KIND = Encoding(person=PERSON, place=PLACE, popularity=POPULARITY, context=CONTEXT)


def encodings() -> st.SearchStrategy[Encoding]:
    """Some of these blocks, or none, in any order; what compares own visits with a column of places goes with it."""

    def some(blocks: tuple) -> st.SearchStrategy[tuple]:
        return st.lists(st.sampled_from(blocks), unique_by=lambda block: block.column).map(tuple)

    def fitting(parts: tuple) -> Encoding:
        person, place, popularity, context = parts
        columns = {block.column for block in place}
        kept = tuple(b for b in context if not isinstance(b, Affinity | Closeness) or b.of in columns)
        return Encoding(person=person, place=place, popularity=popularity, context=kept)

    return st.tuples(some(PERSON), some(PLACE), some(POPULARITY), some(CONTEXT)).map(fitting)


@dataclass(frozen=True)
class MadeUp:
    """Features of people, places and records, as samples have them."""

    columns: Columns
    people: np.ndarray
    places: np.ndarray
    context: np.ndarray
    label: np.ndarray
    place: np.ndarray
    offsets: np.ndarray

    @property
    def rows(self) -> PlaceColumns:
        return columns_of_places(self.places, self.columns)

    @property
    def words(self) -> WordScales:
        return WordScales.of(self.places, self.columns)

    def contributions(self) -> np.ndarray:
        return self.columns.moments.vectors(self.people, self.context, self.label, self.offsets)

    def exact_moments(self) -> Moments:
        return self.columns.moments.read(self.contributions().sum(axis=0), len(self.people), 0.0)

    def own(self, moments: Moments) -> OwnRecords:
        return OwnRecords(
            person_rows(self.people, moments), self.offsets, self.place,
            moment_rows(self.context, self.columns, moments), self.label,
        )  # fmt: skip

    def model(self, moments: Moments, *, seed: int = 0, spread: float = 0.3) -> SharedModel:
        """B at random; 0 where it has no entry."""
        B = np.random.default_rng(seed).normal(0.0, spread, size=self.columns.groups.shape)
        B = rounded(np.where(self.columns.groups >= 0, B, 0.0), FINE_B)
        return SharedModel.of(B, self.columns.layout, self.words, positive=moments.positive)

    def B_of(self, model: SharedModel) -> np.ndarray:
        B = np.zeros(self.columns.groups.shape)
        B[0], B[1:, self.columns.layout.crossed] = model.everyone, model.crossing
        return B


def made_up(
    encoding: Encoding = EVERY_KIND, *, people: int = 5, places: int = 6, records: int = 12, seed: int = 0,
    spread: float = 1.0,
) -> MadeUp:  # fmt: skip
    """Words are 0 or 1, numbers as far from 0 as `spread`; some people have no record where there are few."""
    rng, columns = np.random.default_rng(seed), Columns.of(encoding)

    def features(many: int, *blocks: object) -> np.ndarray:
        parts = [np.zeros((many, 0))]
        for block in blocks:
            values = rng.normal(0.0, spread, size=(many, block.width))  # type: ignore[attr-defined]
            is_words = isinstance(block, Words | Hashed | Area)
            parts.append((values > 0.5 * spread).astype(float) if is_words else values)
        return np.ascontiguousarray(np.hstack(parts).astype(np.float32))

    counts = np.bincount(rng.integers(people, size=records), minlength=people)
    return MadeUp(
        columns,
        people=features(people, *encoding.person),
        places=features(places, *encoding.place),
        context=features(records, *encoding.popularity, *encoding.context),
        label=rng.choice(np.array([-1, 1], dtype=np.int8), size=records),
        place=rng.integers(places, size=records).astype(np.int32),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
    )
