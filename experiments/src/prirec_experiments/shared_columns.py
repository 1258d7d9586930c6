"""What the shared model sees of a person (a) and of a place at a moment (b): columns of mean 0 and variance 1.

What it takes to scale private columns, their means and squares, comes from one noisy sum; all else is in the catalogue.
"""

from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from typing import NamedTuple

import numpy as np

from prirec.features.encoding import AnyBlock, Area, Clock, Encoding, Hashed, HistoryBlock, Words
from prirec.features.samples import Records, Samples
from prirec.types import FeatureArray, IndexArray, RealArray
from prirec.util.jit import kernel

LARGEST = 3.0  # private columns are cut off here, so that one person moves a mean by little
RAREST = 0.02  # no word is scaled as if it were rarer than this


# Where the columns of b stand


class Layout(NamedTuple):
    """Where the columns of b stand: 1, then the core (places, popularity, moment), then products within b."""

    core: int  # columns before the products, the 1 among them
    numbers: IndexArray  # core columns that are numbers; their products and squares are columns of b
    words: IndexArray  # core columns of places that are words,
    clock: IndexArray  # and those of hour and day: their products are columns of b
    crossed: IndexArray  # columns that B has for every column of a; the others it has for everyone together
    width: int


class Scales(NamedTuple):
    """What makes core columns 1 to core - 1 of b comparable: (value - centre) * factor."""

    centre: RealArray
    factor: RealArray


MOST_NUMBERS, MOST_WORDS = 12, 64  # that products are made of


def layout(encoding: Encoding) -> Layout:
    """From the encoding, which is public."""
    blocks = _spans((*encoding.place, *encoding.popularity, *encoding.context))
    core = 1 + sum(block.width for _, block in blocks)
    static = 1 + encoding.width(encoding.place)
    numbers = [at + 1 for at, block in blocks if not _is_words(block) and not isinstance(block, Clock)]
    clock = [at + 1 + e for at, block in blocks if isinstance(block, Clock) for e in range(block.width)]
    words = [at + 1 + e for at, block in blocks if _is_words(block) and at + 1 < static for e in range(block.width)]
    numbers, words = numbers[:MOST_NUMBERS], words[:MOST_WORDS]
    width = core + len(numbers) * (len(numbers) + 1) // 2 + len(clock) * len(words)
    columns = [np.array(part, dtype=np.int32) for part in (numbers, words, clock)]
    # own history and products stay out: each column more costs every row of B its noise, and these differ little
    # between kinds of people
    own = [at + 1 + e for at, block in blocks if isinstance(block, HistoryBlock) for e in range(block.width)]
    crossed = np.setdiff1d(np.arange(core), own).astype(np.int32)
    return Layout(core, columns[0], columns[1], columns[2], crossed, width)


def block_groups(encoding: Encoding, where: Layout) -> IndexArray:
    """(width,): for each column of b the block that it is shrunk with: the words of one column, all numbers, the clock,
    all products of numbers, all products with the clock."""
    group, following = np.zeros(where.width, dtype=np.int32), 1
    for at, block in _spans((*encoding.place, *encoding.popularity, *encoding.context)):
        if _is_words(block) or isinstance(block, Clock):
            group[at + 1 : at + 1 + block.width] = following
            following += 1
    pairs = len(where.numbers) * (len(where.numbers) + 1) // 2
    group[where.core : where.core + pairs] = following
    group[where.core + pairs :] = following + 1
    return group


def _spans(blocks: tuple[AnyBlock, ...]) -> list[tuple[int, AnyBlock]]:
    """Each block with its first column."""
    starts = np.cumsum([0, *(block.width for block in blocks)])
    return list(zip(starts.tolist(), blocks, strict=False))


def _is_words(block: AnyBlock) -> bool:
    return isinstance(block, Words | Hashed | Area)


@kernel
def fill_place(place: FeatureArray, context: FeatureArray, where: Layout, scales: Scales, b: RealArray) -> None:
    """b of one record. Products take columns that are cut off, so that no record outweighs all others."""
    n = place.size
    b[0] = 1.0
    for j in range(where.core - 1):
        value = place[j] if j < n else min(max(context[j - n], -LARGEST), LARGEST)
        b[1 + j] = (value - scales.centre[j]) * scales.factor[j]
    at = where.core
    for u in range(where.numbers.size):
        first = min(max(b[where.numbers[u]], -LARGEST), LARGEST)
        for v in range(u, where.numbers.size):
            b[at] = first * min(max(b[where.numbers[v]], -LARGEST), LARGEST)
            if u == v:
                b[at] = (b[at] - 1.0) / sqrt(2.0)  # mean 0 and variance 1 for a normal column
            at += 1
    for k in where.clock:
        for j in where.words:
            # the word itself and not its distance from the mean: the clock is centred, so the product is too
            b[at] = b[k] * place[j - 1] * scales.factor[j - 1]
            at += 1


# Means and squares of private columns: one noisy sum, of which everything private is scaled.


@dataclass(frozen=True, slots=True)
class PrivateColumns:
    """Which private columns there are; numbers need a square beside their mean."""

    person: int
    person_numbers: IndexArray = field(repr=False)
    context: int
    context_numbers: IndexArray = field(repr=False)
    word_blocks: int

    @classmethod
    def of(cls, encoding: Encoding) -> "PrivateColumns":
        def numbers(blocks: tuple[AnyBlock, ...]) -> IndexArray:
            spans = [(at, block) for at, block in _spans(blocks) if not _is_words(block)]
            return np.array([at + e for at, block in spans for e in range(block.width)], dtype=np.int32)

        return cls(
            encoding.width(encoding.person), numbers(encoding.person),
            encoding.width(encoding.context), numbers(encoding.context),
            sum(map(_is_words, (*encoding.person, *encoding.context))),
        )  # fmt: skip

    @property
    def length(self) -> int:
        return self.person + len(self.person_numbers) + self.context + len(self.context_numbers) + 3

    @property
    def norm(self) -> float:
        """Numbers count for one half, a block of words for one; longer vectors are clipped."""
        halves = 2 * len(self.person_numbers) + 2 * len(self.context_numbers)
        return sqrt(halves / 4 + self.word_blocks + 3)

    def vectors(self, samples: Samples) -> RealArray:
        """(I, length): what each device adds. Its moments are those of all of its records, each weighing the same."""
        people = np.clip(samples.people.astype(np.float64), -LARGEST, LARGEST)
        popular = samples.popularity.shape[1]  # popularity stands before the moment, and is public
        moment = np.clip(samples.train.context[:, popular:].astype(np.float64), -LARGEST, LARGEST)
        mean = partial(_means, samples.train)
        counts = samples.train.counts()[:, None]
        parts: list[RealArray] = [
            _shrunk(people, self.person_numbers),
            (people[:, self.person_numbers] / LARGEST) ** 2,
            _shrunk(mean(moment), self.context_numbers),
            mean(moment[:, self.context_numbers] ** 2) / LARGEST**2,
            (counts > 0).astype(np.float64),
            mean((samples.train.label > 0)[:, None].astype(np.float64)),
            np.minimum(np.sqrt(counts) / 10, 1.0),
        ]
        return np.hstack(parts)

    def read(self, total: RealArray, people: int) -> "Moments":
        """The moments, from the sum over so many people."""
        widths = [self.person, len(self.person_numbers), self.context, len(self.context_numbers), 1, 1, 1]
        who, who2, moment, moment2, has, clicked, many = np.split(total, np.cumsum(widths)[:-1])
        with_records = max(float(has[0]), 0.1 * people)
        return Moments(
            *_moments(who / people, who2 / people, self.person_numbers),
            *_moments(moment / with_records, moment2 / with_records, self.context_numbers),
            min(max(float(clicked[0]) / with_records, RAREST), 1 - RAREST),
            max(10 * float(many[0]) / with_records, 1.0),
        )


class Moments(NamedTuple):
    """Public: what the sum of means and squares says about private columns."""

    person_mean: RealArray
    person_sd: RealArray
    context_mean: RealArray
    context_sd: RealArray
    positive: float  # share of positive records
    root_records: float  # mean square root of the number of records of a person


def _shrunk(values: RealArray, numbers: IndexArray) -> RealArray:
    out = values.astype(np.float64)
    out[:, numbers] /= LARGEST
    return out


def _moments(mean: RealArray, squares: RealArray, numbers: IndexArray) -> tuple[RealArray, RealArray]:
    """A word of share q is scaled by √q: then all words of a column together have variance 1 in every direction."""
    mean = mean.copy()
    mean[numbers] *= LARGEST
    mean = np.clip(mean, -LARGEST, LARGEST)
    sd = np.sqrt(np.maximum(mean, RAREST))
    sd[numbers] = np.sqrt(np.maximum(LARGEST**2 * squares - mean[numbers] ** 2, RAREST))
    return mean, sd


def _means(records: Records, values: RealArray) -> RealArray:
    """(I, k): the mean of each person's rows; 0 for whoever has none."""
    counts = records.counts()
    sums = np.zeros((len(counts), values.shape[1]))
    some = counts > 0
    if values.shape[1] and some.any():
        sums[some] = np.add.reduceat(values.astype(np.float64), records.offsets[:-1][some], axis=0)
    return sums / np.maximum(counts, 1)[:, None]


def person_vectors(samples: Samples, moments: Moments) -> RealArray:
    """a (I, 1 + m)."""
    people = np.clip(samples.people.astype(np.float64), -LARGEST, LARGEST)
    return np.hstack([np.ones((len(people), 1)), (people - moments.person_mean) / moments.person_sd])


def place_scales(samples: Samples, encoding: Encoding, moments: Moments) -> Scales:
    """Numbers of the catalogue are standardised already; its words and all private columns are not."""
    static = samples.places.astype(np.float64)
    centre, factor = np.zeros(static.shape[1]), np.ones(static.shape[1])
    for at, block in _spans(encoding.place):
        if _is_words(block):
            here = slice(at, at + block.width)
            centre[here] = static[:, here].mean(axis=0)
            factor[here] = 1 / np.sqrt(np.maximum(centre[here], RAREST))
    p = encoding.width(encoding.popularity)
    return Scales(
        np.concatenate([centre, np.zeros(p), moments.context_mean]),
        np.concatenate([factor, np.ones(p), 1 / moments.context_sd]),
    )
