"""The pulls of Eq. (1), eight components side by side: V (D, L), in whole lanes, is read a row at a time.

Each function takes components at, ..., at + 7. A pull is summed in the order of kernels.add_pull, to the same bits."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numba import types

from prirec.model import lane_code as emit
from prirec.model.lanes import LANES, added_up
from prirec.types import FeatureArray, IndexArray, RealArray, ValueArray


def pull_of_entries(
    V: RealArray, first: int, feature: IndexArray, value: ValueArray, start: int, stop: int, out: RealArray,
    row: int, at: int,
) -> float:  # fmt: skip
    """The pull of entries start to stop of somebody's or some place's features, which stand in V from row `first` on,
    into out[row]; returns the sum of the squares of what each of them adds."""
    numbers = first + feature[start:stop].astype(np.int64)
    out[row, at : at + LANES], squares = _walk(V, numbers.tolist(), value[start:stop].tolist(), at)
    return added_up(squares)


def pairs_lanes(
    V: RealArray, first: int, x: FeatureArray, base: RealArray, halves: RealArray, j: int, pull: RealArray, at: int
) -> float:
    """A sample's pull: of the person (base[0]), of place j (halves[j]) and of features first, first + 1, ... with
    values x, into pull[0]; returns the sum of its squares, less those of what each of the features adds."""
    total, squares = _walk(V, range(first, first + x.size), x.tolist(), at)
    here = slice(at, at + LANES)
    pull[0, here] = (base[0, here] + halves[j, here]) + total
    return added_up(pull[0, here] * pull[0, here] - squares)


def _walk(V: RealArray, rows: Iterable[int], values: Iterable[float], at: int) -> tuple[RealArray, RealArray]:
    """The sum of V[row] x, and of its squares."""
    total, squares = np.zeros(LANES), np.zeros(LANES)
    for row, x in zip(rows, values, strict=True):
        term = V[row, at : at + LANES] * x
        total += term
        squares += term * term
    return total, squares


def _emit_walk(
    builder: Any, V: Any, at: Any, span: tuple[Any, Any], row: emit.Number, value: emit.Number
) -> tuple[Any, Any]:
    total, squares = (emit.start_at(builder, emit.vector(LANES, 0.0)) for _ in range(2))
    with emit.each(builder, *span) as entry:
        x = emit.spread(builder, value(entry), LANES)
        term = builder.fmul(emit.read(builder, V, emit.cell(builder, V, row(entry), at), LANES), x)
        emit.add_to(builder, total, term)
        emit.add_to(builder, squares, builder.fmul(term, term))
    return builder.load(total), builder.load(squares)


@emit.compiles(pull_of_entries, types.float64, writes=["out"], indices=["feature"])
def _emit_entries(
    builder: Any, V: Any, first: Any, feature: Any, value: Any, start: Any, stop: Any, out: Any, row: Any, at: Any
) -> Any:
    total, squares = _emit_walk(
        builder, V, at, (start, stop),
        lambda entry: builder.add(first, emit.number(builder, feature, entry)),
        lambda entry: emit.number(builder, value, entry),
    )  # fmt: skip
    emit.write(builder, out, emit.cell(builder, out, row, at), total)
    return emit.added_up(builder, squares)


@emit.compiles(pairs_lanes, types.float64, writes=["pull"])
def _emit_pairs(builder: Any, V: Any, first: Any, x: Any, base: Any, halves: Any, j: Any, pull: Any, at: Any) -> Any:
    span = emit.word(0), builder.extract_value(x.shape, 0)
    total, squares = _emit_walk(
        builder, V, at, span, lambda entry: builder.add(first, entry), lambda entry: emit.number(builder, x, entry)
    )
    half = emit.read(builder, halves, emit.cell(builder, halves, j, at), LANES)
    whole = builder.fadd(builder.fadd(emit.read(builder, base, at, LANES), half), total)
    emit.write(builder, pull, at, whole)
    return emit.added_up(builder, builder.fsub(builder.fmul(whole, whole), squares))
