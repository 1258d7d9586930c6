"""Sums side by side. The compiler may not reorder a sum, so it adds one number after the other; but the K sums of a
pull do not depend on each other, and side by side they take the time of one. To the same bits as one by one."""

from typing import Any

import numpy as np
from numba import types

from prirec.model import lane_code as code
from prirec.types import RealArray, RingArray, ValueArray

LANES = 8  # sums side by side in a pull
_LINE = 64  # bytes that memory hands over together
_FOUR = 4  # sums side by side in a product
_kinds: Any = types


def whole_lanes(dimension: int) -> int:
    """K, or as many more as fill the last lanes."""
    return -(-dimension // LANES) * LANES


def in_lines(*shape: int, dtype: Any = np.float64) -> Any:
    """Zeros that begin where a line of memory begins: lanes that lie in two lines take twice the time."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + _LINE, dtype=np.uint8)
    first = -room.ctypes.data % _LINE
    return room[first : first + size].view(dtype).reshape(shape)


def in_lanes(interaction: RealArray) -> RealArray:
    """V (D, K) with rows filled up with zeros, which pull nowhere: (D, L)."""
    D, K = interaction.shape
    rows: RealArray = in_lines(D, whole_lanes(K))
    rows[:, :K] = interaction
    return rows


def out_of_lanes(rows: RealArray | RingArray, dimension: int) -> Any:
    """(D, L) to (K * D,): component after component, as a gradient of V is summed."""
    return rows[:, :dimension].T.ravel()


def added_up(lanes: RealArray) -> float:
    """The sum of lanes: the second half is added to the first, until one is left."""
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return float(lanes[0])


def four_sums(w: RealArray, first: int, x: ValueArray) -> tuple[float, float, float, float]:
    """The sums of w[first + d] x[d] with d = 0, 1, 2 and 3 modulo 4, without the last few that do not make four."""
    sums = [0.0] * 4
    for d in range(x.size // 4 * 4):
        sums[d % 4] += float(w[first + d]) * float(x[d])
    return sums[0], sums[1], sums[2], sums[3]


def add_times(out: RealArray, first: int, x: ValueArray, much: float) -> None:
    """out[first + d] += much x[d]."""
    out[first : first + x.size] += much * x.astype(np.float64)


@code.compiles(four_sums, _kinds.UniTuple(types.float64, _FOUR))
def _emit_sums(builder: Any, w: Any, first: Any, x: Any) -> Any:
    many = builder.udiv(builder.extract_value(x.shape, 0), code.word(_FOUR))
    total = code.start_at(builder, code.vector(_FOUR, 0.0))
    with code.entries(builder, code.word(0), many) as at:
        where = builder.mul(at, code.word(_FOUR))
        own = code.read(builder, w, builder.add(first, where), _FOUR)
        code.add_to(builder, total, builder.fmul(own, code.read(builder, x, where, _FOUR)))
    sums = builder.load(total)
    return code.packed(builder, [code.lane(builder, sums, at) for at in range(_FOUR)])


@code.compiles(add_times, writes=["out"])
def _emit_times(builder: Any, out: Any, first: Any, x: Any, much: Any) -> None:
    size = builder.extract_value(x.shape, 0)
    many, wide = builder.udiv(size, code.word(_FOUR)), code.spread(builder, much, _FOUR)
    with code.entries(builder, code.word(0), many) as at:
        where = builder.mul(at, code.word(_FOUR))
        to = builder.add(first, where)
        more = builder.fmul(wide, code.read(builder, x, where, _FOUR))
        code.write(builder, out, to, builder.fadd(code.read(builder, out, to, _FOUR), more))
    with code.entries(builder, builder.mul(many, code.word(_FOUR)), size) as at:
        to = builder.add(first, at)
        moved = builder.fadd(code.number(builder, out, to), builder.fmul(much, code.number(builder, x, at)))
        code.put(builder, out, to, moved)
