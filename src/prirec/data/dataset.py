"""Data sets as columns of arrays: people (private), places (public) and visits (private).

People and places are rows; a visit names its person and its place by row. Nothing here is computed from the data.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Self, TypeAlias

import numpy as np

from prirec.types import BoolArray, IndexArray, LabelArray, OffsetArray, RealArray, TimeArray


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of numbers; NaN where nothing is known."""

    # repr=False here and below: values are private, and a traceback or a log may show an object

    values: RealArray = field(repr=False)  # (n,)


@dataclass(frozen=True, slots=True)
class Category:
    """A column with one word a row; code -1 where nothing is known."""

    codes: IndexArray = field(repr=False)  # (n,)
    words: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tags:
    """A column with any number of words a row: row r has codes[offsets[r]:offsets[r + 1]]."""

    offsets: OffsetArray = field(repr=False)  # (n + 1,)
    codes: IndexArray = field(repr=False)
    words: tuple[str, ...] = field(repr=False)


Column: TypeAlias = Numbers | Category | Tags
Columns: TypeAlias = Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Rows:
    """People or places, one a row. Two classes, so that a type checker keeps what is private from what is public."""

    ids: tuple[str, ...] = field(repr=False)
    location: RealArray | None = field(repr=False)  # (n, 2) latitude, longitude in degrees; NaN where unknown
    columns: Columns = field(repr=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, keep: BoolArray) -> Self:
        """The rows of the mask, in their order."""
        where = np.flatnonzero(keep)
        location = None if self.location is None else self.location[where]
        columns = {name: take(column, where) for name, column in self.columns.items()}
        return replace(self, ids=tuple(compress(self.ids, keep)), location=location, columns=columns)


class People(Rows):
    """Private: in a deployment each row is on a device of its own."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Places(Rows):
    """Public: the recommender's catalogue."""

    names: tuple[str, ...] = field(repr=False, default=())  # what people call them, shown and not learnt from

    def take(self, keep: BoolArray) -> Self:
        """The rows of the mask, in their order."""
        return replace(Rows.take(self, keep), names=tuple(compress(self.names, keep)))

    def words(self, row: int) -> list[str]:
        """A place in a few public words: its categories, columns in their order and tags by the alphabet, since a
        folder keeps no order of them."""
        words: list[str] = []
        for column in self.columns.values():
            if isinstance(column, Category) and column.codes[row] >= 0:
                words.append(column.words[column.codes[row]])
            elif isinstance(column, Tags):
                codes = column.codes[column.offsets[row] : column.offsets[row + 1]]
                words += sorted(column.words[code] for code in codes)
        return words

    def about(self, row: int) -> str:
        """The place's name and these words in a line. No comma stands behind the name: it may have one of its own."""
        name = self.names[row] if self.names else ""
        return " · ".join(part for part in (name, ", ".join(self.words(row))) if part)


@dataclass(frozen=True, slots=True)
class Visits:
    """Private: who did what, where and when. The context columns describe the moment, not the person or place."""

    person: IndexArray = field(repr=False)  # (R,) row in People
    place: IndexArray = field(repr=False)  # (R,) row in Places
    label: LabelArray = field(repr=False)  # (R,) +1 or -1
    time: TimeArray | None = field(repr=False, default=None)  # (R,)
    context: Columns = field(repr=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self.person)

    def take(self, rows: np.ndarray) -> "Visits":
        """The visits at these rows (indices or a mask), in that order."""
        rows = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return Visits(
            person=self.person[rows],
            place=self.place[rows],
            label=self.label[rows],
            time=None if self.time is None else self.time[rows],
            context={name: take(column, rows) for name, column in self.context.items()},
        )


@dataclass(frozen=True, slots=True)
class Declared:
    """What is publicly known about one private column: the words it may hold, or the range of its numbers."""

    words: tuple[str, ...] | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """A city: the union of what all devices and the recommender hold. Only a simulation ever sees it whole."""

    name: str
    people: People
    places: Places
    visits: Visits
    labelled: bool  # False: only positives are known, and negatives are sampled on the device
    declared: Mapping[str, Declared] = field(default_factory=dict)  # "users.gender" -> Declared(...)
    made_up: bool = False  # nobody in it exists
    partitioned: bool = False  # read from parts: prepared person by person, so that any part comes to the same alone

    def with_visits(self, visits: Visits) -> "Dataset":
        return replace(self, visits=visits)


def take(column: Column, rows: np.ndarray) -> Column:
    """The column at these row indices."""
    if isinstance(column, Numbers):
        return Numbers(column.values[rows])
    if isinstance(column, Category):
        return Category(column.codes[rows], column.words)
    # tags of the wanted rows, one after another: each row's stretch of codes moves to its new offset
    lengths = np.diff(column.offsets)[rows]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    where = np.repeat(column.offsets[:-1][rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    return Tags(offsets, column.codes[where], column.words)
