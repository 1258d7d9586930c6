"""Sums side by side. The compiler may not reorder a sum, so it adds one number after the other; but the K sums of a
pull do not depend on each other, and side by side they take the time of one. To the same bits as one by one."""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

from prirec.types import FeatureArray, RealArray

LANES = 8  # sums side by side in a pull
_REAL, _INDEX, _WORD = ir.DoubleType(), ir.IntType(32), ir.IntType(64)
_ALIGN = 4  # bytes: lanes may begin at any number
_emitting: Any = cgutils
_kinds: Any = types


def whole_lanes(dimension: int) -> int:
    """K, or as many more as fill the last lanes."""
    return -(-dimension // LANES) * LANES


def in_lanes(interaction: RealArray) -> RealArray:
    """V (D, K) with rows filled up with zeros, which pull nowhere: (D, L)."""
    D, K = interaction.shape
    rows = np.zeros((D, whole_lanes(K)))
    rows[:, :K] = interaction
    return rows


def add_pull_lanes(V: RealArray, first: int, x: FeatureArray, pull: RealArray, at: int, square: float) -> float:
    """kernels.add_pull for components at, ..., at + 7, with V (D, L) and pull (L,) in whole lanes; returns `square` and
    what they add to it."""
    total, own = np.zeros(LANES), np.zeros(LANES)
    for d in range(x.size):
        term = V[first + d, at : at + LANES] * float(x[d])
        total += term
        own += term * term
    pull[at : at + LANES] += total
    for k in range(LANES):
        square += float(own[k])
    return square


def four_sums(w: RealArray, first: int, x: FeatureArray | RealArray) -> tuple[float, float, float, float]:
    """The sums of w[first + d] x[d] with d = 0, 1, 2 and 3 modulo 4, without the last few that do not make four."""
    sums = [0.0] * 4
    for d in range(x.size // 4 * 4):
        sums[d % 4] += float(w[first + d]) * float(x[d])
    return sums[0], sums[1], sums[2], sums[3]


def _vector(lanes: int, value: float | None = None) -> Any:
    """All lanes the same; without a value, as they come."""
    kind = ir.VectorType(_REAL, lanes)
    return ir.Constant(kind, ir.Undefined if value is None else [value] * lanes)


def _spread(builder: Any, value: Any, lanes: int) -> Any:
    """One number in every lane."""
    first = builder.insert_element(_vector(lanes), value, ir.Constant(_INDEX, 0))
    return builder.shuffle_vector(first, _vector(lanes), ir.Constant(ir.VectorType(_INDEX, lanes), [0] * lanes))


def _lane(builder: Any, vector: Any, lane: int) -> Any:
    return builder.extract_element(vector, ir.Constant(_INDEX, lane))


def _place(builder: Any, array: Any, where: Any, lanes: int) -> Any:
    """Where in memory the lanes from array[where] on stand."""
    first = builder.gep(array.data, [where])
    return builder.bitcast(first, ir.VectorType(first.type.pointee, lanes).as_pointer())


def _lanes(builder: Any, array: Any, where: Any, lanes: int) -> Any:
    """array[where], array[where + 1], ... as float64."""
    read = builder.load(_place(builder, array, where, lanes), align=_ALIGN)
    return read if read.type.element == _REAL else builder.fpext(read, ir.VectorType(_REAL, lanes))


def _add_to(builder: Any, total: Any, term: Any) -> None:
    builder.store(builder.fadd(builder.load(total), term), total)


def _number(builder: Any, array: Any, where: Any) -> Any:
    value = builder.load(builder.gep(array.data, [where]))
    return value if value.type == _REAL else builder.fpext(value, _REAL)


def _arrays(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """The arguments, with arrays opened."""
    pairs = zip(signature.args, arguments, strict=True)
    return [context.make_array(t)(context, builder, a) if isinstance(t, types.Array) else a for t, a in pairs]


def _contiguous(*arrays: Any) -> None:
    """Lanes are read straight from memory, so their numbers must stand next to each other there."""
    for array in arrays:
        fine = isinstance(array, types.Array) and array.layout == "C" and array.dtype in (types.float32, types.float64)
        if not fine:
            raise TypingError("lanes need contiguous arrays of reals")


def _writable(array: Any) -> None:
    if not array.mutable or array.dtype != types.float64:
        raise TypingError("lanes are written to arrays of float64 that may be written to")


def _emit_pull(_typing: Any, V: Any, first: Any, x: Any, pull: Any, at: Any, square: Any) -> tuple[Any, Any]:
    _contiguous(V, x, pull)
    _writable(pull)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        V, first, x, pull, at, square = _arrays(context, builder, signature, arguments)
        many, width = builder.extract_value(x.shape, 0), builder.extract_value(V.shape, 1)
        total, own = (_emitting.alloca_once_value(builder, _vector(LANES, 0.0)) for _ in range(2))
        with _emitting.for_range(builder, many) as loop:
            where = builder.add(builder.mul(builder.add(first, loop.index), width), at)
            term = builder.fmul(
                _lanes(builder, V, where, LANES), _spread(builder, _number(builder, x, loop.index), LANES)
            )
            _add_to(builder, total, term)
            _add_to(builder, own, builder.fmul(term, term))
        out = _place(builder, pull, at, LANES)
        moved = builder.fadd(_lanes(builder, pull, at, LANES), builder.load(total))
        builder.store(moved, out, align=_ALIGN)
        squares = builder.load(own)
        for lane in range(LANES):
            square = builder.fadd(square, _lane(builder, squares, lane))
        return square

    return types.float64(V, types.intp, x, pull, types.intp, types.float64), generate


def _emit_sums(_typing: Any, w: Any, first: Any, x: Any) -> tuple[Any, Any]:
    _contiguous(w, x)
    answer = _kinds.UniTuple(types.float64, 4)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        w, first, x = _arrays(context, builder, signature, arguments)
        many = builder.udiv(builder.extract_value(x.shape, 0), ir.Constant(_WORD, 4))
        total = _emitting.alloca_once_value(builder, _vector(4, 0.0))
        with _emitting.for_range(builder, many) as loop:
            where = builder.mul(loop.index, ir.Constant(_WORD, 4))
            own = _lanes(builder, w, builder.add(first, where), 4)
            _add_to(builder, total, builder.fmul(own, _lanes(builder, x, where, 4)))
        sums = builder.load(total)
        return context.make_tuple(builder, answer, [_lane(builder, sums, lane) for lane in range(4)])

    return answer(w, types.intp, x), generate


_pull: Any = intrinsic(_emit_pull)
_sums: Any = intrinsic(_emit_sums)


def _compiled_pull(V: Any, first: Any, x: Any, pull: Any, at: Any, square: Any) -> Callable[..., Any]:
    def call(V: Any, first: Any, x: Any, pull: Any, at: Any, square: Any) -> Any:  # numba asks for the same signature
        return _pull(V, first, x, pull, at, square)

    return call


def _compiled_sums(w: Any, first: Any, x: Any) -> Callable[..., Any]:
    def call(w: Any, first: Any, x: Any) -> Any:
        return _sums(w, first, x)

    return call


overload(add_pull_lanes, inline="always")(_compiled_pull)
overload(four_sums, inline="always")(_compiled_sums)
