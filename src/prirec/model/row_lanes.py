"""The gradient of V in rows of whole lanes (D, L), of which one person touches a few: components at, ..., at + 7."""

from typing import Any

import numpy as np
from numba import types

from prirec.model import lane_code as emit
from prirec.model.lanes import LANES, added_up
from prirec.types import FeatureArray, IndexArray, RealArray, RingArray, ValueArray


def collect_features(
    V: RealArray, first: int, x: FeatureArray, much: float, pull: RealArray, G: RealArray, at: int
) -> None:
    """Eq. (4) without lambda_v, for features first, first + 1, ...: G[d] += much x_d (pull - V[d] x_d)."""
    here = slice(at, at + LANES)
    for d, value in enumerate(x.tolist(), start=first):
        G[d, here] += (much * value) * (pull[0, here] - V[d, here] * value)


def collect_entries(
    V: RealArray, first: int, feature: IndexArray, value: ValueArray, start: int, stop: int, much: float,
    pull: RealArray, own: float, G: RealArray, at: int,
) -> None:  # fmt: skip
    """The same for entries start to stop of features that stand from row `first` on, and for several records in one:
    G[d] += much x_d (pull - V[d] own x_d)."""
    here = slice(at, at + LANES)
    for d, x in zip((first + feature[start:stop]).tolist(), value[start:stop].tolist(), strict=True):
        G[d, here] += (much * x) * (pull[0, here] - V[d, here] * (own * x))


def add_row(total: RealArray, row: RealArray, much: float, at: int) -> None:
    """total[0] += much row[0]"""
    here = slice(at, at + LANES)
    total[0, here] += much * row[0, here]


def square_of_rows(G: RealArray, touched: IndexArray, many: int, at: int) -> float:
    """The sum of the squares of the first `many` rows touched, in sixteen interleaved sums."""
    sums = np.zeros((2, LANES))
    for place, d in enumerate(touched[:many].tolist()):
        row = G[d, at : at + LANES]
        sums[place % 2 if place < many // 2 * 2 else 0] += row * row
    return added_up(sums[0] + sums[1])


def take_rows(
    G: RealArray, noted: IndexArray, touched: IndexArray, many: int, factor: float, out: RealArray, at: int
) -> None:
    """The first `many` rows touched, times the factor, one after the other into `out`; G and `noted` are 0 again."""
    here = slice(at, at + LANES)
    for place, d in enumerate(touched[:many].tolist()):
        start = place * G.shape[1] + at
        out[start : start + LANES] = factor * G[d, here]
        G[d, here] = 0.0
        noted[d] = 0


def add_rows_at(total: RingArray, touched: IndexArray, many: int, values: RingArray, at: int) -> None:
    """Row after row of `values` (many * L,) to the rows of `total` (D, L) that are touched, in the ring."""
    for place, d in enumerate(touched[:many].tolist()):
        start = place * total.shape[1] + at
        total[d, at : at + LANES] += values[start : start + LANES]


def _emit_row(builder: Any, V: Any, d: Any, much: Any, pull: Any, own: Any, G: Any, at: Any) -> None:
    """G[d] += much (pull - V[d] own)"""
    where = emit.cell(builder, G, d, at)
    part = builder.fmul(emit.read(builder, V, where, LANES), emit.spread(builder, own, LANES))
    more = builder.fmul(emit.spread(builder, much, LANES), builder.fsub(pull, part))
    emit.write(builder, G, where, builder.fadd(emit.read(builder, G, where, LANES), more))


@emit.compiles(collect_features, writes=["G"])
def _emit_features(builder: Any, V: Any, first: Any, x: Any, much: Any, pull: Any, G: Any, at: Any) -> None:
    wide = emit.read(builder, pull, at, LANES)
    with emit.each(builder, emit.word(0), builder.extract_value(x.shape, 0)) as entry:
        value = emit.number(builder, x, entry)
        _emit_row(builder, V, builder.add(first, entry), builder.fmul(much, value), wide, value, G, at)


@emit.compiles(collect_entries, writes=["G"], indices=["feature"])
def _emit_entries(
    builder: Any, V: Any, first: Any, feature: Any, value: Any, start: Any, stop: Any, much: Any, pull: Any, own: Any,
    G: Any, at: Any,
) -> None:  # fmt: skip
    wide = emit.read(builder, pull, at, LANES)
    with emit.each(builder, start, stop) as entry:
        d, x = builder.add(first, emit.number(builder, feature, entry)), emit.number(builder, value, entry)
        _emit_row(builder, V, d, builder.fmul(much, x), wide, builder.fmul(own, x), G, at)


@emit.compiles(add_row, writes=["total"])
def _emit_add_row(builder: Any, total: Any, row: Any, much: Any, at: Any) -> None:
    more = builder.fmul(emit.spread(builder, much, LANES), emit.read(builder, row, at, LANES))
    emit.write(builder, total, at, builder.fadd(emit.read(builder, total, at, LANES), more))


@emit.compiles(square_of_rows, types.float64, indices=["touched"])
def _emit_square(builder: Any, G: Any, touched: Any, many: Any, at: Any) -> Any:
    sums = [emit.start_at(builder, emit.vector(LANES, 0.0)) for _ in range(2)]
    pairs = builder.udiv(many, emit.word(2))

    def add_square(total: Any, place: Any) -> None:
        row = emit.read(builder, G, emit.cell(builder, G, emit.number(builder, touched, place), at), LANES)
        emit.add_to(builder, total, builder.fmul(row, row))

    with emit.each(builder, emit.word(0), pairs) as pair:
        first = builder.mul(pair, emit.word(2))
        add_square(sums[0], first)
        add_square(sums[1], builder.add(first, emit.word(1)))
    with emit.each(builder, builder.mul(pairs, emit.word(2)), many) as last:
        add_square(sums[0], last)
    return emit.added_up(builder, builder.fadd(*(builder.load(total) for total in sums)))


@emit.compiles(take_rows, writes=["G", "noted", "out"], indices=["noted", "touched"])
def _emit_take(builder: Any, G: Any, noted: Any, touched: Any, many: Any, factor: Any, out: Any, at: Any) -> None:
    wide = emit.spread(builder, factor, LANES)
    with emit.each(builder, emit.word(0), many) as place:
        d = emit.number(builder, touched, place)
        where = emit.cell(builder, G, d, at)
        scaled = builder.fmul(wide, emit.read(builder, G, where, LANES))
        emit.write(builder, out, emit.cell(builder, G, place, at), scaled)
        emit.write(builder, G, where, emit.vector(LANES, 0.0))
        emit.put(builder, noted, d, emit.word(0))


@emit.compiles(add_rows_at, writes=["total"], indices=["touched"], words=["total", "values"])
def _emit_add(builder: Any, total: Any, touched: Any, many: Any, values: Any, at: Any) -> None:
    with emit.each(builder, emit.word(0), many) as place:
        where = emit.cell(builder, total, emit.number(builder, touched, place), at)
        more = emit.read(builder, values, emit.cell(builder, total, place, at), LANES)
        emit.write(builder, total, where, builder.add(emit.read(builder, total, where, LANES), more))
