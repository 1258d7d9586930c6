"""Sums side by side. The compiler may not reorder a sum, so it adds one number after the other; but sums that do not
depend on each other, like the K of a pull, take the time of one side by side. To the same bits as one by one."""

from typing import Any

import numpy as np
from numba import types

from prirec.model import lane_code as emit
from prirec.types import RealArray, RingArray, ValueArray

LANES = 8  # sums side by side in a pull
LINE = 64  # bytes that memory hands over together
_FOUR = 4  # sums side by side in a product
_kinds: Any = types


def whole_lanes(dimension: int) -> int:
    """K, or as many more as fill the last lanes."""
    return -(-dimension // LANES) * LANES


def in_lines(*shape: int, dtype: Any = np.float64) -> Any:
    """Zeros that begin where a line of memory begins: lanes that lie in two lines take twice the time."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + LINE, dtype=np.uint8)
    first = -room.ctypes.data % LINE
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


@emit.compiles(four_sums, _kinds.UniTuple(types.float64, _FOUR))
def _emit_sums(builder: Any, w: Any, first: Any, x: Any) -> Any:
    many = builder.udiv(builder.extract_value(x.shape, 0), emit.word(_FOUR))
    total = emit.start_at(builder, emit.vector(_FOUR, 0.0))
    with emit.each(builder, emit.word(0), many) as at:
        where = builder.mul(at, emit.word(_FOUR))
        own = emit.read(builder, w, builder.add(first, where), _FOUR)
        emit.add_to(builder, total, builder.fmul(own, emit.read(builder, x, where, _FOUR)))
    sums = builder.load(total)
    return emit.packed(builder, [emit.lane(builder, sums, at) for at in range(_FOUR)])


@emit.compiles(add_times, writes=["out"])
def _emit_times(builder: Any, out: Any, first: Any, x: Any, much: Any) -> None:
    size = builder.extract_value(x.shape, 0)
    many, wide = builder.udiv(size, emit.word(_FOUR)), emit.spread(builder, much, _FOUR)
    with emit.each(builder, emit.word(0), many) as at:
        where = builder.mul(at, emit.word(_FOUR))
        to = builder.add(first, where)
        more = builder.fmul(wide, emit.read(builder, x, where, _FOUR))
        emit.write(builder, out, to, builder.fadd(emit.read(builder, out, to, _FOUR), more))
    with emit.each(builder, builder.mul(many, emit.word(_FOUR)), size) as at:
        to = builder.add(first, at)
        moved = builder.fadd(emit.number(builder, out, to), builder.fmul(much, emit.number(builder, x, at)))
        emit.put(builder, out, to, moved)
