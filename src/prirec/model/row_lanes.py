"""The gradient of V in rows of whole lanes (D, L), of which one person touches a few: components at, ..., at + 7."""

from typing import Any

import numpy as np
from numba import types

from prirec.model import lane_code as code
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
    where = code.cell(builder, G, d, at)
    part = builder.fmul(code.read(builder, V, where, LANES), code.spread(builder, own, LANES))
    more = builder.fmul(code.spread(builder, much, LANES), builder.fsub(pull, part))
    code.write(builder, G, where, builder.fadd(code.read(builder, G, where, LANES), more))


@code.compiles(collect_features, writes=["G"])
def _emit_features(builder: Any, V: Any, first: Any, x: Any, much: Any, pull: Any, G: Any, at: Any) -> None:
    wide = code.read(builder, pull, at, LANES)
    with code.entries(builder, code.word(0), builder.extract_value(x.shape, 0)) as entry:
        value = code.number(builder, x, entry)
        _emit_row(builder, V, builder.add(first, entry), builder.fmul(much, value), wide, value, G, at)


@code.compiles(collect_entries, writes=["G"], indices=["feature"])
def _emit_entries(
    builder: Any, V: Any, first: Any, feature: Any, value: Any, start: Any, stop: Any, much: Any, pull: Any, own: Any,
    G: Any, at: Any,
) -> None:  # fmt: skip
    wide = code.read(builder, pull, at, LANES)
    with code.entries(builder, start, stop) as entry:
        d, x = builder.add(first, code.number(builder, feature, entry)), code.number(builder, value, entry)
        _emit_row(builder, V, d, builder.fmul(much, x), wide, builder.fmul(own, x), G, at)


@code.compiles(add_row, writes=["total"])
def _emit_add_row(builder: Any, total: Any, row: Any, much: Any, at: Any) -> None:
    more = builder.fmul(code.spread(builder, much, LANES), code.read(builder, row, at, LANES))
    code.write(builder, total, at, builder.fadd(code.read(builder, total, at, LANES), more))


@code.compiles(square_of_rows, types.float64, indices=["touched"])
def _emit_square(builder: Any, G: Any, touched: Any, many: Any, at: Any) -> Any:
    sums = [code.start_at(builder, code.vector(LANES, 0.0)) for _ in range(2)]
    pairs = builder.udiv(many, code.word(2))

    def add_square(total: Any, place: Any) -> None:
        row = code.read(builder, G, code.cell(builder, G, code.number(builder, touched, place), at), LANES)
        code.add_to(builder, total, builder.fmul(row, row))

    with code.entries(builder, code.word(0), pairs) as pair:
        first = builder.mul(pair, code.word(2))
        add_square(sums[0], first)
        add_square(sums[1], builder.add(first, code.word(1)))
    with code.entries(builder, builder.mul(pairs, code.word(2)), many) as last:
        add_square(sums[0], last)
    return code.added_up(builder, builder.fadd(*(builder.load(total) for total in sums)))


@code.compiles(take_rows, writes=["G", "noted", "out"], indices=["noted", "touched"])
def _emit_take(builder: Any, G: Any, noted: Any, touched: Any, many: Any, factor: Any, out: Any, at: Any) -> None:
    wide = code.spread(builder, factor, LANES)
    with code.entries(builder, code.word(0), many) as place:
        d = code.number(builder, touched, place)
        where = code.cell(builder, G, d, at)
        scaled = builder.fmul(wide, code.read(builder, G, where, LANES))
        code.write(builder, out, code.cell(builder, G, place, at), scaled)
        code.write(builder, G, where, code.vector(LANES, 0.0))
        code.put(builder, noted, d, code.word(0))


@code.compiles(add_rows_at, writes=["total"], indices=["touched"], words=["total", "values"])
def _emit_add(builder: Any, total: Any, touched: Any, many: Any, values: Any, at: Any) -> None:
    with code.entries(builder, code.word(0), many) as place:
        where = code.cell(builder, total, code.number(builder, touched, place), at)
        more = code.read(builder, values, code.cell(builder, total, place, at), LANES)
        code.write(builder, total, where, builder.add(code.read(builder, total, where, LANES), more))
