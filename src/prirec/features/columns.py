"""What the shared model sees: a of a person, b of a place at a moment, in columns of about mean 0 and variance 1.

b = 1, the words and numbers of the place, its popularity, the moment, then products within b. a = 1, the columns of the
person. Public columns are scaled by the catalogue. What it takes to scale private ones, their means and squares, comes
from one noisy sum of its own (`MomentSum`).

Every column is a whole multiple of 2^-8, and a product of two of 2^-17. Then sums of them are exact in float64, in
whatever order they are added, by any engine, device or browser.
"""

from dataclasses import dataclass, field
from math import sqrt
from typing import NamedTuple, Self

import numpy as np

from prirec.features.encoding import AnyBlock, Area, Clock, Encoding, Hashed, HistoryBlock, Words
from prirec.types import FeatureArray, IndexArray, LabelArray, OffsetArray, RealArray

LARGEST = 3.0  # private columns are cut off here, so that one person moves a mean by little
POPULAR = 8.0  # popularity is public: cut off only where no place is, so that the most popular keep their order
RAREST = 0.02  # no word is scaled as if it were rarer than this
MOST_NUMBERS, MOST_WORDS = 12, 64  # that products are made of
FINE = 2.0**8  # columns are whole multiples of 1 / FINE
USUAL_POSITIVE, USUAL_ROOT_RECORDS = 0.3, 4.0  # what records are like where nothing is known of them
_BLOCK = 1 << 16  # records scaled at a time, so that memory follows the answer and not the steps to it


def rounded(values: RealArray, fine: float = FINE) -> RealArray:
    """The nearest whole multiples of 1 / fine."""
    nearest: RealArray = np.rint(values * fine) / fine
    return nearest


# Which columns there are


class Layout(NamedTuple):
    """Where the columns of b stand: 1, those of the place, popularity and the moment (together the core), the products
    of numbers, the products of the clock with words of the place."""

    core: int
    dense: IndexArray  # columns of the place's numbers, then of popularity and the moment: what every record has
    place_numbers: int  # how many of these are the place's
    numbers: IndexArray  # which of `dense` products are made of,
    first: IndexArray  # and which two of them each product is made of: every pair, and every number with itself
    second: IndexArray
    clock: IndexArray  # which of `dense` are hour and day
    slot: IndexArray  # (core,): the number of a word of the place among the products with the clock; -1: in none
    slots: int
    crossed: IndexArray  # columns that B has for every column of a; the others it has for everyone together
    width: int


class ModelSize(NamedTuple):
    """How long the vectors of a training are."""

    entries: int  # numbers in B
    moments: int  # entries of the sum of moments,
    moments_norm: float  # and the norm of a contribution to it

    @classmethod
    def assumed(cls, features: int) -> Self:
        """For a number of features of which nothing else is known: one in three is a person's, and half are words."""
        person = features // 3
        core = 1 + features - person
        return cls(core * (1 + person) + 78, features + features // 2 + 3, sqrt(features / 4 + 5))


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a and b under an encoding, which is public."""

    person: int  # m, columns of a without the 1
    person_numbers: IndexArray = field(repr=False)  # those of them that are no words
    context: int  # columns of popularity and the moment,
    popularity: int  # of which these come first, and are public
    moment_numbers: IndexArray = field(repr=False)  # columns of the moment alone that are no words
    word_blocks: int  # columns of words in a and in the moment, before they are taken apart
    place_words: IndexArray = field(repr=False)  # which static features of places are words
    layout: Layout = field(repr=False)
    groups: IndexArray = field(repr=False)  # (1 + m, width): entries of B that are shrunk together; -1: no entry

    @classmethod
    def of(cls, encoding: Encoding) -> Self:
        static = encoding.width(encoding.place)
        spans = spans_of((*encoding.place, *encoding.popularity, *encoding.context))
        words = [at + e for at, block in spans if _is_words(block) and at < static for e in range(block.width)]
        person_numbers = _numbers(spans_of(encoding.person))
        layout = _layout(spans, static=static, words=words)
        return cls(
            person=encoding.width(encoding.person),
            person_numbers=person_numbers,
            context=layout.core - 1 - static,
            popularity=encoding.width(encoding.popularity),
            moment_numbers=_numbers(spans_of(encoding.context)),
            word_blocks=sum(map(_is_words, (*encoding.person, *encoding.context))),
            place_words=np.array(words, dtype=np.int32),
            layout=layout,
            groups=_groups(encoding, spans, layout),
        )

    @property
    def entries(self) -> int:
        """How many numbers B has, and a contribution to its sum."""
        return self.layout.width + self.person * len(self.layout.crossed)

    @property
    def moments(self) -> "MomentSum":
        return MomentSum(self)

    @property
    def size(self) -> ModelSize:
        """How long the vectors of a training are, for its plan."""
        return ModelSize(self.entries, self.moments.length, self.moments.norm)


def most_entries(encoding: Encoding) -> int:
    """A bound on the numbers of B, with those that are always 0: known before anything of that size is made."""
    core = 1 + encoding.width((*encoding.place, *encoding.popularity, *encoding.context))
    clock = sum(block.width for block in encoding.context if isinstance(block, Clock))
    products = MOST_NUMBERS * (MOST_NUMBERS + 1) // 2 + clock * MOST_WORDS
    return (1 + encoding.width(encoding.person)) * (core + products)


def _layout(spans: "list[tuple[int, AnyBlock]]", *, static: int, words: list[int]) -> Layout:
    core = 1 + sum(block.width for _, block in spans)
    dense = [at + 1 + e for at, block in spans for e in range(block.width) if at >= static or not _is_words(block)]
    position = {column: at for at, column in enumerate(dense)}
    numbers = [position[at + 1] for at, block in spans if not _is_words(block) and not isinstance(block, Clock)]
    clock = [position[at + 1 + e] for at, block in spans if isinstance(block, Clock) for e in range(block.width)]
    own = [at + 1 + e for at, block in spans if isinstance(block, HistoryBlock) for e in range(block.width)]
    numbers, timed = numbers[:MOST_NUMBERS], words[:MOST_WORDS] if clock else []
    slot = np.full(core, -1, dtype=np.int32)
    slot[[at + 1 for at in timed]] = np.arange(len(timed))
    # own history and products are the same for everyone: each column more costs every row of B its noise, and these
    # differ little between kinds of people
    crossed = np.setdiff1d(np.arange(core), own)
    first, second = np.triu_indices(len(numbers))
    of = np.array(numbers, dtype=np.int32)
    return Layout(
        core=core,
        dense=np.array(dense, dtype=np.int32),
        place_numbers=sum(column <= static for column in dense),
        numbers=of,
        first=of[first],
        second=of[second],
        clock=np.array(clock, dtype=np.int32),
        slot=slot,
        slots=len(timed),
        crossed=crossed.astype(np.int32),
        width=core + len(first) + len(clock) * len(timed),
    )


def product_columns(layout: Layout) -> list[tuple[int, int]]:
    """The two core columns that each product is made of, in their order."""
    pairs = list(zip(layout.dense[layout.first].tolist(), layout.dense[layout.second].tolist(), strict=True))
    timed = np.flatnonzero(layout.slot >= 0).tolist()
    return pairs + [(clock, word) for clock in layout.dense[layout.clock].tolist() for word in timed]


def _groups(encoding: Encoding, spans: "list[tuple[int, AnyBlock]]", layout: Layout) -> IndexArray:
    """By columns: the words of one column, all numbers, the clock, all products of numbers, all products with the
    clock. By rows: everyone's, those of the person's own columns, those of areas."""
    of_columns, following = np.zeros(layout.width, dtype=np.int32), 1
    for at, block in spans:
        if _is_words(block) or isinstance(block, Clock):
            of_columns[at + 1 : at + 1 + block.width] = following
            following += 1
    of_columns[layout.core : layout.core + len(layout.first)] = following
    of_columns[layout.core + len(layout.first) :] = following + 1
    of_rows = [0, *(1 + isinstance(block, Area) for block in encoding.person for _ in range(block.width))]
    groups: IndexArray = (np.array(of_rows)[:, None] * (following + 2) + of_columns).astype(np.int32)
    groups[1:, np.setdiff1d(np.arange(layout.width), layout.crossed)] = -1
    return groups


def spans_of(blocks: tuple[AnyBlock, ...]) -> "list[tuple[int, AnyBlock]]":
    """Each block with its first column."""
    starts = np.cumsum([0, *(block.width for block in blocks)])
    return list(zip(starts.tolist(), blocks, strict=False))


def _numbers(spans: "list[tuple[int, AnyBlock]]") -> IndexArray:
    found = [at + e for at, block in spans if not _is_words(block) for e in range(block.width)]
    return np.array(found, dtype=np.int32)


def _is_words(block: AnyBlock) -> bool:
    return isinstance(block, Words | Hashed | Area)


# Means and squares of private columns: one sum


class Moments(NamedTuple):
    """Public: what the sum says about private columns, and about records."""

    person_mean: RealArray
    person_sd: RealArray
    moment_mean: RealArray
    moment_sd: RealArray
    positive: float  # share of positive records
    root_records: float  # mean square root of the number of records of a person


@dataclass(frozen=True, slots=True)
class MomentSum:
    """What a device adds to the sum of moments, and what is read from it."""

    of: Columns

    @property
    def length(self) -> int:
        c = self.of
        return c.person + len(c.person_numbers) + c.context - c.popularity + len(c.moment_numbers) + 3

    @property
    def norm(self) -> float:
        """Numbers and their squares count for a quarter each, a column of words for one; longer vectors are clipped."""
        return sqrt((len(self.of.person_numbers) + len(self.of.moment_numbers)) / 2 + self.of.word_blocks + 3)

    def usual(self) -> Moments:
        """Usual moments, for which a sum of nothing but noise stands."""
        return self.read(np.zeros(self.length), 1, noise=1e9)

    def vectors(
        self, people: FeatureArray, context: FeatureArray, label: LabelArray, offsets: OffsetArray
    ) -> RealArray:
        """(I, length): what each device adds, of its own columns and of the means over its records: person i has rows
        offsets[i] to offsets[i + 1]. A device calls it for itself alone. Sums of records are exact, in any order."""
        c, n = self.of, np.diff(offsets)[:, None]
        who = rounded(np.clip(people.astype(np.float64), -LARGEST, LARGEST))
        moment = rounded(np.clip(context[:, c.popularity :].astype(np.float64), -LARGEST, LARGEST))
        numbers, positive = moment[:, c.moment_numbers], (label > 0)[:, None].astype(np.float64)
        mean, square, clicked = (_sums(values, offsets) / np.maximum(n, 1) for values in (moment, numbers**2, positive))
        who2 = (who[:, c.person_numbers] / LARGEST) ** 2
        who[:, c.person_numbers] /= LARGEST
        mean[:, c.moment_numbers] /= LARGEST
        many = np.minimum(np.sqrt(n) / 10, 1.0)
        return np.hstack([who, who2, mean, square / LARGEST**2, (n > 0).astype(np.float64), clicked, many])

    def read(self, total: RealArray, people: int, noise: float) -> Moments:
        """The moments, from the sum over so many people, with the standard deviation of the noise in each entry.

        Each mean is weighed against what is usual: where the noise is small it is the sum's, where it is large the
        usual one, so that columns are never scaled by noise."""
        c, spread = self.of, noise / people
        widths = [c.person, len(c.person_numbers), c.context - c.popularity, len(c.moment_numbers), 1, 1, 1]
        who, who2, moment, moment2, has, clicked, many = np.split(total / people, np.cumsum(widths)[:-1])
        some = float(_weighed(has, spread, usual=0.9, apart=0.3)[0])
        with_records = max(some, 0.1)
        spread_of_records = spread / with_records
        positive = _weighed(clicked / with_records, spread_of_records, usual=USUAL_POSITIVE, apart=0.3)
        root = _weighed(many / with_records, spread_of_records, usual=USUAL_ROOT_RECORDS / 10, apart=0.4)
        return Moments(
            *_moments(who, who2, c.person_numbers, spread),
            *_moments(moment / with_records, moment2 / with_records, c.moment_numbers, spread_of_records),
            min(max(float(positive[0]), RAREST), 1 - RAREST),
            max(10 * float(root[0]), 1.0),
        )


def _moments(mean: RealArray, squares: RealArray, numbers: IndexArray, noise: float) -> tuple[RealArray, RealArray]:
    """Means and standard deviations. A word of share q is scaled by √q: then all words of a column together have
    variance 1 in every direction."""
    of_words = np.ones(len(mean), dtype=np.bool_)
    of_words[numbers] = False
    mean = np.where(
        of_words, _weighed(mean, noise, usual=0.1, apart=0.3), LARGEST * _weighed(mean, noise, usual=0.0, apart=1 / 3)
    )
    mean = np.clip(mean, -LARGEST, LARGEST)
    sd = np.sqrt(np.maximum(mean, RAREST))
    square = LARGEST**2 * _weighed(squares, noise, usual=1 / 9, apart=1 / 9)
    sd[numbers] = np.sqrt(np.maximum(square - mean[numbers] ** 2, RAREST))
    return mean, sd


def _weighed(found: RealArray, noise: float, *, usual: float, apart: float) -> RealArray:
    """The posterior mean of what was found with this noise, where it is usually `usual` and `apart` from it."""
    return (apart**2 * found + noise**2 * usual) / (apart**2 + noise**2)


def _sums(values: RealArray, offsets: OffsetArray) -> RealArray:
    """(I, k): the sum of each person's rows; 0 for whoever has none."""
    some, sums = np.diff(offsets) > 0, np.zeros((len(offsets) - 1, values.shape[1]))
    if values.shape[1] and some.any():
        sums[some] = np.add.reduceat(values, offsets[:-1][some], axis=0)
    return sums


# Scaling


def person_rows(people: FeatureArray, moments: Moments) -> RealArray:
    """a (I, 1 + m)."""
    values = np.clip(people.astype(np.float64), -LARGEST, LARGEST)
    own = rounded((values - moments.person_mean) / moments.person_sd)
    return np.ascontiguousarray(np.hstack([np.ones((len(people), 1)), own]))


def moment_rows(context: FeatureArray, columns: Columns, moments: Moments) -> RealArray:
    """Popularity and the moment (R, c), scaled; popularity is standardised already."""
    rows = np.empty(context.shape)
    for first in range(0, len(context), _BLOCK):
        values = context[first : first + _BLOCK].astype(np.float64)
        popularity = np.clip(values[:, : columns.popularity], -POPULAR, POPULAR)
        moment = np.clip(values[:, columns.popularity :], -LARGEST, LARGEST)
        scaled = (moment - moments.moment_mean) / moments.moment_sd
        rows[first : first + _BLOCK] = rounded(np.hstack([popularity, scaled]))
    return rows


class WordScales(NamedTuple):
    """How words of places are scaled: factor where a place has the word, in all places less the centre. By columns of
    the core; both 0 for all that is no word of a place."""

    factor: RealArray
    centre: RealArray

    @classmethod
    def of(cls, features: FeatureArray, columns: Columns) -> Self:
        """From the whole catalogue (J, n)."""
        share = features[:, columns.place_words].mean(axis=0, dtype=np.float64)
        factor, centre = np.zeros(columns.layout.core), np.zeros(columns.layout.core)
        factor[columns.place_words + 1] = rounded(1 / np.sqrt(np.maximum(share, RAREST)))
        centre[columns.place_words + 1] = rounded(share * factor[columns.place_words + 1])
        return cls(factor, centre)


class PlaceColumns(NamedTuple):
    """Places: which words each of them has, as columns of b, and its numbers."""

    starts: OffsetArray  # (J + 1,)
    word: IndexArray
    number: RealArray  # (J, place_numbers)


def columns_of_places(features: FeatureArray, columns: Columns) -> PlaceColumns:
    """Columns b of some places, or of all. Numbers of the catalogue are standardised already."""
    has = features[:, columns.place_words] > 0
    starts = np.concatenate([[0], np.cumsum(has.sum(axis=1))]).astype(np.int64)
    numbers = columns.layout.dense[: columns.layout.place_numbers] - 1
    number = np.ascontiguousarray(rounded(features[:, numbers].astype(np.float64)))
    return PlaceColumns(starts, (columns.place_words[np.nonzero(has)[1]] + 1).astype(np.int32), number)
