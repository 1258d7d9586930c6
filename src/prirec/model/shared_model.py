"""The shared model: score = base + aᵀ B b + w_i · b, and its gradient, person by person.

a describes the person, b the place at a moment (features/columns.py). B is public and everybody's; w_i stays on the
device (own_model.py). Every number that is summed here is a whole multiple of a power of two, and few enough of them
are added that float64 holds the sum exactly: so each sum may be taken in any order, and words that a place has not need
not be walked over.
"""

from math import sqrt
from typing import NamedTuple

import numpy as np

from prirec.features.columns import LARGEST, Layout, PlaceColumns, WordScales, rounded
from prirec.model.equations import loss, residual
from prirec.types import IndexArray, LabelArray, OffsetArray, RealArray
from prirec.util.jit import inlined, kernel

FINE = 2.0**16  # base, coefficients and residuals are whole multiples of 1 / FINE
FINE_B = 2.0**20  # and B: below 16 such a number fits a float32, as which it is published
LARGEST_B = 16.0 - 1 / FINE_B  # no entry of B is larger: columns have variance 1, so that no honest one comes near it
TYPICAL = 0.3  # the length of a gradient of random labels, in units of √(records × entries): the scale of a contribution


class SharedModel(NamedTuple):
    """What the recommender publishes, and kernels need."""

    layout: Layout
    words: WordScales
    base: float  # log-odds of a record of which nothing is known
    B: RealArray  # (1 + m, width): row 0 has all columns, the others those that are crossed


class OwnRecords(NamedTuple):
    """Records of one or more people: person i has rows offsets[i] to offsets[i + 1]. On a device there is one."""

    who: RealArray  # a (I, 1 + m)
    offsets: OffsetArray  # (I + 1,)
    place: IndexArray  # (R,)
    context: RealArray  # (R, c): popularity and the moment, scaled
    label: LabelArray  # (R,)


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
    for u in range(layout.numbers.size):
        first = _cut(b[layout.dense[layout.numbers[u]]])
        for v in range(u, layout.numbers.size):
            b[at] = product(first, _cut(b[layout.dense[layout.numbers[v]]]), u == v)
            at += 1
    for k in range(layout.clock.size):
        for e in range(rows.starts[place], rows.starts[place + 1]):
            word = rows.word[e]
            if layout.slot[word] >= 0:  # the word itself, not its distance from the mean: the clock is centred
                b[at + layout.slot[word]] = b[layout.dense[layout.clock[k]]] * model.words.factor[word]
        at += layout.slots


@inlined
def _cut(value: float) -> float:
    """Products take numbers that are cut off, so that no record outweighs all others."""
    return min(max(value, -LARGEST), LARGEST)


@inlined
def product(first: float, second: float, same: bool) -> float:  # noqa: FBT001  a kernel has no keywords
    """A column that is the product of two numbers; a square has mean 0 where its number is normal."""
    return 0.5 * (first * second - 1.0) if same else first * second


@inlined
def _load_dense(place: int, context: RealArray, rows: PlaceColumns, n: int, dense: RealArray) -> None:
    for d in range(n):
        dense[d] = rows.number[place, d]
    for d in range(context.size):
        dense[n + d] = context[d]


@inlined
def score_record(
    place: int, dense: RealArray, rows: PlaceColumns, model: SharedModel, own: RealArray, intercept: float
) -> float:
    """own · b + base, without the words that the place has not; `intercept` has what these come to."""
    layout, total = model.layout, intercept
    for e in range(rows.starts[place], rows.starts[place + 1]):
        total += own[rows.word[e]] * model.words.factor[rows.word[e]]
    for d in range(dense.size):
        total += own[layout.dense[d]] * dense[d]
    at = layout.core
    for u in range(layout.numbers.size):
        first = _cut(dense[layout.numbers[u]])
        for v in range(u, layout.numbers.size):
            total += own[at] * product(first, _cut(dense[layout.numbers[v]]), u == v)
            at += 1
    for k in range(layout.clock.size):
        for e in range(rows.starts[place], rows.starts[place + 1]):
            word = rows.word[e]
            if layout.slot[word] >= 0:
                total += own[at + layout.slot[word]] * (dense[layout.clock[k]] * model.words.factor[word])
        at += layout.slots
    return total


@inlined
def _add_gradient(
    place: int, dense: RealArray, rows: PlaceColumns, model: SharedModel, r: float, g: RealArray
) -> None:
    """g += r b, where words count whole and not from their mean."""
    layout = model.layout
    g[0] += r
    for e in range(rows.starts[place], rows.starts[place + 1]):
        g[rows.word[e]] += r * model.words.factor[rows.word[e]]
    for d in range(dense.size):
        g[layout.dense[d]] += r * dense[d]
    at = layout.core
    for u in range(layout.numbers.size):
        first = _cut(dense[layout.numbers[u]])
        for v in range(u, layout.numbers.size):
            g[at] += r * product(first, _cut(dense[layout.numbers[v]]), u == v)
            at += 1
    for k in range(layout.clock.size):
        for e in range(rows.starts[place], rows.starts[place + 1]):
            word = rows.word[e]
            if layout.slot[word] >= 0:
                g[at + layout.slot[word]] += r * (dense[layout.clock[k]] * model.words.factor[word])
        at += layout.slots


# One person


@kernel
def coefficients(who: RealArray, model: SharedModel, own: RealArray) -> None:
    """own <- Bᵀ a: what the shared model comes to for one person."""
    own[:] = model.B[0]
    for k in range(1, who.size):
        if who[k] != 0.0:
            for j in model.layout.crossed:
                own[j] += who[k] * model.B[k, j]
    for j in range(own.size):
        own[j] = np.rint(own[j] * FINE) / FINE


@inlined
def intercept_of(model: SharedModel, own: RealArray) -> float:
    """base and all words, from their means: what every place's score begins with."""
    total = model.base + own[0]
    for j in range(1, model.layout.core):
        total -= own[j] * model.words.centre[j]
    return total


@kernel
def gradient(
    records: OwnRecords, i: int, rows: PlaceColumns, model: SharedModel, own: RealArray, dense: RealArray, g: RealArray
) -> float:
    """g (width,) <- Σ (σ - t) b over the records of person i, given own = Bᵀ a; returns their summed loss."""
    g[:] = 0.0
    lost, residuals, intercept = 0.0, 0.0, intercept_of(model, own)
    for r in range(records.offsets[i], records.offsets[i + 1]):
        place, y = records.place[r], 1.0 if records.label[r] > 0 else -1.0
        _load_dense(place, records.context[r], rows, model.layout.place_numbers, dense)
        score = score_record(place, dense, rows, model, own, intercept)
        lost += loss(y, score)
        r = np.rint(residual(y, score) * FINE) / FINE
        residuals += r
        _add_gradient(place, dense, rows, model, r, g)
    for j in range(1, model.layout.core):
        g[j] -= residuals * model.words.centre[j]
    return lost


@kernel
def scale_of(who: RealArray, g: RealArray, crossed: IndexArray, count: int, entries: int) -> float:
    """What a ⊗ g is multiplied by, to be no longer than 1.

    It is divided by what its length would be about if labels were drawn at random, so that people with many records do
    not drown the others; then it is clipped. The divisor knows the number of records alone: one that knew labels too,
    as the gradient's own length does, would pull probabilities to one half."""
    square, rest, both = 0.0, 0.0, 0.0
    for k in range(1, who.size):
        rest += who[k] * who[k]
    for j in range(g.size):
        square += g[j] * g[j]
    for j in crossed:
        both += g[j] * g[j]
    length = max(sqrt(square + rest * both), TYPICAL * sqrt(float(count) * entries))
    return 1.0 / length if length > 0.0 else 0.0


@kernel
def write(
    who: RealArray, g: RealArray, crossed: IndexArray, factor: float, most: int, whole: OffsetArray
) -> None:
    """whole (entries,) <- factor a ⊗ g in whole numbers: row 0, then the crossed columns of each row of B. Rounding may
    leave it a unit too long: the bound `most` on the square of its length (0: none) is held in exact arithmetic."""
    at = g.size
    for j in range(g.size):
        whole[j] = np.int64(np.rint(g[j] * factor))
    for k in range(1, who.size):
        for j in crossed:
            whole[at] = np.int64(np.rint(who[k] * g[j] * factor))
            at += 1
    while most > 0 and (whole * whole).sum() > most:
        whole -= np.sign(whole)


# Many people, in simulation


@kernel
def add_contributions(
    block: tuple[int, int], records: OwnRecords, rows: PlaceColumns, model: SharedModel, counted: np.ndarray,
    present: np.ndarray, unit: tuple[float, int], total: OffsetArray, losses: RealArray,
) -> None:  # fmt: skip
    """total += the contributions of people block[0] to block[1] who are counted, in whole numbers; `unit` is the factor
    that makes a vector of length 1 as long as it may be in whole numbers, and the bound on its square."""
    width = model.layout.width
    own, g, dense, whole = np.empty(width), np.empty(width), np.empty(model.layout.dense.size), np.empty_like(total)
    for i in range(block[0], block[1]):
        if present[i]:
            coefficients(records.who[i], model, own)
            losses[i] = gradient(records, i, rows, model, own, dense, g)
        if counted[i]:
            count = records.offsets[i + 1] - records.offsets[i]
            factor = unit[0] * scale_of(records.who[i], g, model.layout.crossed, count, total.size)
            write(records.who[i], g, model.layout.crossed, factor, unit[1], whole)
            total += whole


@kernel
def score_records(
    place: IndexArray, context: RealArray, person: IndexArray, rows: PlaceColumns, model: SharedModel, W: RealArray,
    out: RealArray,
) -> None:  # fmt: skip
    """A score for each record, from everyone's coefficients Bᵀ a_i + w_i (I, width). Those of one person stand
    together: the intercept is the same for all of them."""
    dense, last, intercept = np.empty(model.layout.dense.size), -1, 0.0
    for r in range(place.size):
        if person[r] != last:
            last, intercept = person[r], intercept_of(model, W[person[r]])
        _load_dense(place[r], context[r], rows, model.layout.place_numbers, dense)
        out[r] = score_record(place[r], dense, rows, model, W[person[r]], intercept)
