"""The shared model: score = base + aᵀ B b + w_i · b, and its gradient, person by person.

a describes the person, b the place at a moment (features/columns.py). B is public and everybody's; w_i stays on the
device (own_model.py). Every number that is summed here is a whole multiple of a power of two, and few enough of them
are added that float64 holds the sum exactly: so each sum may be taken in any order, and words that a place has not need
not be walked over.
"""

from math import inf, sqrt
from typing import NamedTuple, Self

import numpy as np

from prirec.features.columns import LARGEST, Columns, Layout, Moments, PlaceColumns, WordScales, rounded, spans_of
from prirec.features.encoding import Distance, Encoding
from prirec.model.equations import loss, residual
from prirec.sharing.fixed_point import encoded_by_adding
from prirec.types import IndexArray, LabelArray, OffsetArray, RealArray
from prirec.util.jit import inlined, kernel, numpy_of

FINE = 2.0**16  # base, coefficients and residuals are whole multiples of 1 / FINE
FINE_B = 2.0**20  # and B: below 16 such a number fits a float32, as which it is published
LARGEST_B = 16.0 - 1 / FINE_B  # no entry of B is larger: columns have variance 1, so that no honest one comes near it
NEARER = 0.5  # how fast odds fall with the distance where nothing was learnt (prirec_experiments.choose --alone)
TYPICAL = 0.3  # the length of a gradient of random labels, in units of √(records × entries)


class SharedModel(NamedTuple):
    """B with how its columns are scaled: what the recommender publishes."""

    layout: Layout
    words: WordScales
    base: float  # log-odds of a record of which nothing is known
    everyone: RealArray  # (width,): row 0 of B, which has all columns
    crossing: RealArray  # (m, crossed): the other rows, which have those columns that are crossed

    @classmethod
    def of(cls, B: RealArray, layout: Layout, words: WordScales, *, positive: float) -> Self:
        """From B (1 + m, width) and the share of positive records."""
        return cls(layout, words, rounded_base(positive), B[0], np.ascontiguousarray(B[1:, layout.crossed]))

    @classmethod
    def unlearnt(cls, encoding: Encoding, columns: Columns, words: WordScales, moments: Moments) -> Self:
        """Before anybody has learnt anything together: of two places, the nearer to home. The odds of a visit fall with
        (1 + km)^NEARER; what the person's own records say comes on top."""
        B, first = np.zeros(columns.groups.shape), columns.layout.core - len(moments.moment_sd)
        for at, block in spans_of(encoding.context):
            if isinstance(block, Distance):  # (ln(1 + km) - shift) / scale, and then scaled by its spread
                B[0, first + at] = -NEARER * block.scale * moments.moment_sd[at]
        return cls.of(rounded(B, FINE_B), columns.layout, words, positive=moments.positive)


class OwnRecords(NamedTuple):
    """Records of one or more people: person i has rows offsets[i] to offsets[i + 1]. On a device there is one."""

    who: RealArray  # a (I, 1 + m)
    offsets: OffsetArray  # (I + 1,)
    place: IndexArray  # (R,)
    context: RealArray  # (R, c): popularity and the moment, scaled
    label: LabelArray  # (R,)


class ContributionScale(NamedTuple):
    """How contributions are written in whole numbers."""

    one: float  # what length 1 comes to
    most: int  # the bound on the square of a contribution's length; 0: none
    typical: float  # TYPICAL


def rounded_base(positive: float) -> float:
    """The log-odds of this share of positive records."""
    return float(rounded(np.log(positive / (1 - positive)), FINE))


# One record


@kernel
def fill(place: int, context: RealArray, rows: PlaceColumns, model: SharedModel, b: RealArray) -> None:
    """b (width,) of one record, whole."""
    layout = model.layout
    b[:] = 0.0
    b[0] = 1.0
    for j in range(1, layout.core):
        b[j] = -model.words.centre[j]
    for e in range(rows.starts[place], rows.starts[place + 1]):
        b[rows.word[e]] += model.words.factor[rows.word[e]]
    n = layout.place_numbers
    for d in range(layout.dense.size):
        b[layout.dense[d]] = rows.number[place, d] if d < n else context[d - n]
    at = layout.core
    for d in range(layout.first.size):
        u, v = layout.first[d], layout.second[d]
        b[at] = product(_cut(b[layout.dense[u]]), _cut(b[layout.dense[v]]), u == v)
        at += 1
    for k in range(layout.clock.size):
        for e in range(rows.starts[place], rows.starts[place + 1]):
            word = rows.word[e]
            if layout.slot[word] >= 0:  # the word itself, not its distance from the mean: the clock is centred
                b[at + layout.slot[word]] = b[layout.dense[layout.clock[k]]] * model.words.factor[word]
        at += layout.slots


@kernel
def fill_rows(place: IndexArray, context: RealArray, rows: PlaceColumns, model: SharedModel, b: RealArray) -> None:
    """b (n, width) of some records."""
    for r in range(place.size):
        fill(place[r], context[r], rows, model, b[r])


@numpy_of(fill_rows)
def _fill_rows(place: IndexArray, context: RealArray, rows: PlaceColumns, model: SharedModel, b: RealArray) -> None:
    layout, factor = model.layout, model.words.factor
    b[:] = 0.0
    b[:, : layout.core] = -model.words.centre
    b[:, 0] = 1.0
    many = rows.starts[place + 1] - rows.starts[place]
    r = np.repeat(np.arange(len(place)), many)  # the record of each word
    word = rows.word[np.arange(len(r)) - np.repeat(np.cumsum(many) - many - rows.starts[place], many)]
    b[r, word] += factor[word]
    b[:, layout.dense] = np.hstack([rows.number[place], context])
    cut, at = np.clip(b[:, layout.dense], -LARGEST, LARGEST), layout.core
    products = cut[:, layout.first] * cut[:, layout.second]
    b[:, at : at + len(layout.first)] = np.where(layout.first == layout.second, 0.5 * (products - 1.0), products)
    at += len(layout.first)
    timed = layout.slot[word] >= 0
    for column in layout.dense[layout.clock]:
        b[r[timed], at + layout.slot[word[timed]]] = b[r[timed], column] * factor[word[timed]]
        at += layout.slots


@inlined
def _cut(value: float) -> float:
    """Products take numbers that are cut off, so that no record outweighs all others."""
    return min(max(value, -LARGEST), LARGEST)


@inlined
def product(first: float, second: float, same: bool) -> float:  # noqa: FBT001  a kernel has no keywords
    """A column that is the product of two numbers; a square has mean 0 where its number is normal."""
    return 0.5 * (first * second - 1.0) if same else first * second


class Row(NamedTuple):
    """Columns b of one record, without words."""

    dense: RealArray  # the place's numbers, popularity, the moment
    cut: RealArray  # the same, cut off
    products: RealArray  # of numbers


@kernel
def row_for(layout: Layout) -> Row:
    return Row(np.empty(layout.dense.size), np.empty(layout.dense.size), np.empty(layout.first.size))


@inlined
def _load(place: int, context: RealArray, rows: PlaceColumns, layout: Layout, row: Row) -> None:
    n = layout.place_numbers
    for d in range(n):
        row.dense[d] = rows.number[place, d]
    for d in range(context.size):
        row.dense[n + d] = context[d]
    for d in range(row.dense.size):
        row.cut[d] = _cut(row.dense[d])
    for d in range(row.products.size):  # one loop over pairs, not two over numbers: it becomes vector instructions
        u, v = layout.first[d], layout.second[d]
        row.products[d] = product(row.cut[u], row.cut[v], u == v)


@inlined
def _score(place: int, row: Row, rows: PlaceColumns, model: SharedModel, own: RealArray, intercept: float) -> float:
    """base + own · b, without the words that the place has not; `intercept` has what these come to."""
    layout, total = model.layout, intercept
    for e in range(rows.starts[place], rows.starts[place + 1]):
        total += own[rows.word[e]] * model.words.factor[rows.word[e]]
    for d in range(row.dense.size):
        total += own[layout.dense[d]] * row.dense[d]
    # in four sums side by side: one would wait for itself at every step
    at, s0, s1, s2, s3 = layout.core, 0.0, 0.0, 0.0, 0.0
    whole = row.products.size // 4 * 4
    for d in range(0, whole, 4):
        s0 += own[at + d] * row.products[d]
        s1 += own[at + d + 1] * row.products[d + 1]
        s2 += own[at + d + 2] * row.products[d + 2]
        s3 += own[at + d + 3] * row.products[d + 3]
    for d in range(whole, row.products.size):
        s0 += own[at + d] * row.products[d]
    total += (s0 + s1) + (s2 + s3)
    at += row.products.size
    for k in range(layout.clock.size):
        for e in range(rows.starts[place], rows.starts[place + 1]):
            word = rows.word[e]
            if layout.slot[word] >= 0:
                total += own[at + layout.slot[word]] * (row.dense[layout.clock[k]] * model.words.factor[word])
        at += layout.slots
    return total


@inlined
def _add_gradient(place: int, row: Row, rows: PlaceColumns, model: SharedModel, r: float, g: RealArray) -> None:
    """g += r b, where words count whole and not from their mean."""
    layout = model.layout
    g[0] += r
    for e in range(rows.starts[place], rows.starts[place + 1]):
        g[rows.word[e]] += r * model.words.factor[rows.word[e]]
    for d in range(row.dense.size):
        g[layout.dense[d]] += r * row.dense[d]
    at = layout.core
    for d in range(row.products.size):
        g[at + d] += r * row.products[d]
    at += row.products.size
    for k in range(layout.clock.size):
        for e in range(rows.starts[place], rows.starts[place + 1]):
            word = rows.word[e]
            if layout.slot[word] >= 0:
                g[at + layout.slot[word]] += r * (row.dense[layout.clock[k]] * model.words.factor[word])
        at += layout.slots


# One person


@inlined
def dot(x: RealArray, y: RealArray) -> float:
    """In four sums side by side: one would wait for itself at every step. Calling a library for a few short vectors
    takes longer than the sums, and much longer where its threads wait for a busy processor."""
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    for j in range(0, x.size - 3, 4):
        s0 += x[j] * y[j]
        s1 += x[j + 1] * y[j + 1]
        s2 += x[j + 2] * y[j + 2]
        s3 += x[j + 3] * y[j + 3]
    for j in range(x.size // 4 * 4, x.size):
        s0 += x[j] * y[j]
    return (s0 + s1) + (s2 + s3)


@numpy_of(dot)
def _dot(x: RealArray, y: RealArray) -> float:
    return float(x @ y)


@inlined
def coefficients(who: RealArray, model: SharedModel, crossed: RealArray, own: RealArray) -> None:
    """own (width,) <- Bᵀ a: what the shared model comes to for one person; `crossed` is room to compute in."""
    crossed[:] = 0.0
    first = 1 + (who.size - 1) % 4
    for k in range(1, first):
        for j in range(crossed.size):
            crossed[j] += who[k] * model.crossing[k - 1, j]
    for k in range(first, who.size, 4):  # four rows at a time: `crossed` is read and written once for all of them
        r0, r1, r2, r3 = model.crossing[k - 1], model.crossing[k], model.crossing[k + 1], model.crossing[k + 2]
        w0, w1, w2, w3 = who[k], who[k + 1], who[k + 2], who[k + 3]
        for j in range(crossed.size):
            crossed[j] += w0 * r0[j] + w1 * r1[j] + w2 * r2[j] + w3 * r3[j]
    for j in range(own.size):
        own[j] = model.everyone[j]
    for j in range(crossed.size):
        own[model.layout.crossed[j]] += crossed[j]
    for j in range(own.size):
        own[j] = np.rint(own[j] * FINE) / FINE


@numpy_of(coefficients)
def _coefficients(who: RealArray, model: SharedModel, crossed: RealArray, own: RealArray) -> None:
    crossed[:] = who[1:] @ model.crossing
    own[:] = model.everyone
    own[model.layout.crossed] += crossed
    own[:] = rounded(own, FINE)


@inlined
def intercept_of(model: SharedModel, own: RealArray) -> float:
    """base and all words, from their means: what every place's score begins with."""
    total = float(model.base + own[0])
    for j in range(1, model.layout.core):
        total -= own[j] * model.words.centre[j]
    return total


@inlined
def gradient(
    records: OwnRecords, i: int, rows: PlaceColumns, model: SharedModel, own: RealArray, row: Row, g: RealArray
) -> float:
    """g (width,) <- Σ (σ - t) b over the records of person i, given own = Bᵀ a; returns their summed loss."""
    g[:] = 0.0
    lost, residuals, intercept = 0.0, 0.0, intercept_of(model, own)
    for r in range(records.offsets[i], records.offsets[i + 1]):
        place, y = records.place[r], 1.0 if records.label[r] > 0 else -1.0
        _load(place, records.context[r], rows, model.layout, row)
        score = _score(place, row, rows, model, own, intercept)
        lost += loss(y, score)
        pull = np.rint(residual(y, score) * FINE) / FINE
        residuals += pull
        _add_gradient(place, row, rows, model, pull, g)
    for j in range(1, model.layout.core):
        g[j] -= residuals * model.words.centre[j]
    return lost


@inlined
def length_of(who: RealArray, g: RealArray, crossed: RealArray) -> float:
    """|a ⊗ g| over the entries that B has, where `crossed` are those of g that every row has."""
    return sqrt(dot(g, g) + dot(who[1:], who[1:]) * dot(crossed, crossed))


@inlined
def typical_length(count: int, entries: int, typical: float) -> float:
    """What a gradient is divided by, unless it is longer: about its length if labels were drawn at random, so that
    people with many records do not drown the others. It knows the number of records alone: a divisor that knew labels
    too, as the gradient's own length does, would pull probabilities to one half."""
    return typical * sqrt(float(count) * entries)


@inlined
def square_of(whole: OffsetArray) -> int:
    total = 0
    for j in range(whole.size):
        total += whole[j] * whole[j]
    return total


@inlined
def write(
    who: RealArray, g: RealArray, crossed: IndexArray, count: int, scale: ContributionScale, some: RealArray,
    whole: OffsetArray,
) -> None:  # fmt: skip
    """whole (entries,) <- a ⊗ g, scaled and clipped, in whole numbers: row 0, then the crossed columns of each row.

    Rounding may leave the vector a unit too long: the bound on the square of its length is held in exact arithmetic.
    What has no length, since a value is no number or beyond all use, adds zeros: its bits would be taken for whole
    numbers of any size, which no noise hides. `some` (crossed,) is room to compute in."""
    for j in range(some.size):
        some[j] = g[crossed[j]]
    own = length_of(who, g, some)
    if not own < inf:  # true for NaN as well
        whole[:] = 0
        return
    longest = max(own, typical_length(count, whole.size, scale.typical))
    factor = scale.one * (1.0 / longest) if longest > 0.0 else 0.0
    ring = whole.view(np.uint64)
    for j in range(g.size):
        ring[j] = encoded_by_adding(g[j], factor, ring)
    for k in range(1, who.size):
        much, out = who[k] * factor, ring[g.size + (k - 1) * some.size : g.size + k * some.size]
        for j in range(some.size):
            out[j] = encoded_by_adding(some[j], much, out)
    # rounding adds half a unit to each entry at most: most vectors are too short to become too long
    if scale.most > 0 and own * factor + sqrt(float(whole.size)) > 0.999 * sqrt(float(scale.most)):
        while square_of(whole) > scale.most:
            for j in range(whole.size):
                whole[j] -= np.sign(whole[j])


# Many people, in simulation


@kernel
def add_contributions(
    block: tuple[int, int], records: OwnRecords, rows: PlaceColumns, model: SharedModel, counted: np.ndarray,
    present: np.ndarray, scale: ContributionScale, total: OffsetArray, losses: RealArray,
) -> None:  # fmt: skip
    """total += the contributions of people block[0] to block[1] who are counted, in whole numbers."""
    width = model.layout.width
    own, g, some = np.empty(width), np.empty(width), np.empty(model.layout.crossed.size)
    row, whole = row_for(model.layout), np.empty_like(total)
    for i in range(block[0], block[1]):
        if present[i]:
            coefficients(records.who[i], model, some, own)
            losses[i] = gradient(records, i, rows, model, own, row, g)
        if counted[i]:
            count = records.offsets[i + 1] - records.offsets[i]
            write(records.who[i], g, model.layout.crossed, count, scale, some, whole)
            total += whole


@kernel
def score_places(
    place: IndexArray, context: RealArray, rows: PlaceColumns, model: SharedModel, own: RealArray, out: RealArray
) -> None:
    """A score for each of these places at a moment, for the person with these coefficients, Bᵀ a_i + w_i (width,)."""
    row, intercept = row_for(model.layout), intercept_of(model, own)
    for r in range(place.size):
        _load(place[r], context[r], rows, model.layout, row)
        out[r] = _score(place[r], row, rows, model, own, intercept)


BLOCK = 4096  # places whose columns are in memory at once


@numpy_of(score_places)
def _score_places(
    place: IndexArray, context: RealArray, rows: PlaceColumns, model: SharedModel, own: RealArray, out: RealArray
) -> None:
    b = np.empty((min(BLOCK, len(place)), model.layout.width))
    for first in range(0, len(place), BLOCK):
        some = slice(first, first + BLOCK)
        here = b[: len(place[some])]
        fill_rows(place[some], context[some], rows, model, here)
        out[some] = model.base + here @ own
