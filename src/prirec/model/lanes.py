"""Rows of V in lanes of eight numbers, and the few primitives that kernels are written in: here as plain loops.

The compiler may not reorder a sum, so it adds one number after the other; but sums that do not depend on each other,
like the K components of a pull, take the time of one side by side. Left to itself, it also asks at every short loop
whether arrays overlap and how many turns there are, which was much of what a round did. So kernels get vector
instructions for these primitives, from model/simd.py. Each lane keeps its order of sums: the bits are the same.

A table is an array (rows, L) in C order with L a whole number of lanes; `at` is the first column of eight.
"""

from typing import Any, TypeAlias

import numpy as np

from prirec.types import RealArray, RingArray, ValueArray
from prirec.util.jit import inlined, primitive

LANES = 8  # numbers side by side: one vector of 512 bits, two of 256, four of 128
LINE = 64  # bytes that memory hands over together
Scalar: TypeAlias = Any  # one number of an array
Eight: TypeAlias = Any  # eight numbers: a tuple in plain loops, a vector in vector instructions

_instructions = primitive("prirec.model.simd")


# Tables


def whole_lanes(dimension: int) -> int:
    """L: K, or as many more as fill the last lanes."""
    return -(-dimension // LANES) * LANES


def in_lines(*shape: int, dtype: Any = np.float64) -> Any:
    """Zeros that begin where a line of memory begins: a vector that lies in two lines takes twice the time."""
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


# Eight numbers of a row


@_instructions
def read(table: RealArray | RingArray, row: int, at: int) -> Eight:
    """table[row, at], ..., table[row, at + 7]."""
    t, r, a = table, row, at
    return t[r, a], t[r, a + 1], t[r, a + 2], t[r, a + 3], t[r, a + 4], t[r, a + 5], t[r, a + 6], t[r, a + 7]


@_instructions
def write(table: RealArray | RingArray, row: int, at: int, values: Eight) -> None:
    """table[row, at], ..., table[row, at + 7] = values."""
    for lane in range(8):
        table[row, at + lane] = values[lane]


@_instructions
def read_flat(values: RealArray | RingArray, first: int) -> Eight:
    """values[first], ..., values[first + 7], of a table's rows that stand one after the other in a vector."""
    v, f = values, first
    return v[f], v[f + 1], v[f + 2], v[f + 3], v[f + 4], v[f + 5], v[f + 6], v[f + 7]


@_instructions
def write_flat(values: RealArray | RingArray, first: int, eight: Eight) -> None:
    """values[first], ..., values[first + 7] = eight."""
    for lane in range(8):
        values[first + lane] = eight[lane]


@_instructions
def spread(value: float) -> Eight:
    """One number in every lane."""
    return value, value, value, value, value, value, value, value


@_instructions
def plus(a: Eight, b: Eight) -> Eight:
    (a0, a1, a2, a3, a4, a5, a6, a7), (b0, b1, b2, b3, b4, b5, b6, b7) = a, b
    return a0 + b0, a1 + b1, a2 + b2, a3 + b3, a4 + b4, a5 + b5, a6 + b6, a7 + b7


@_instructions
def minus(a: Eight, b: Eight) -> Eight:
    (a0, a1, a2, a3, a4, a5, a6, a7), (b0, b1, b2, b3, b4, b5, b6, b7) = a, b
    return a0 - b0, a1 - b1, a2 - b2, a3 - b3, a4 - b4, a5 - b5, a6 - b6, a7 - b7


@_instructions
def times(a: Eight, b: Eight) -> Eight:
    (a0, a1, a2, a3, a4, a5, a6, a7), (b0, b1, b2, b3, b4, b5, b6, b7) = a, b
    return a0 * b0, a1 * b1, a2 * b2, a3 * b3, a4 * b4, a5 * b5, a6 * b6, a7 * b7


@_instructions
def sum_of(values: Eight) -> float:
    """The second half is added to the first, until one number is left: what processors do fastest."""
    a, b, c, d, e, f, g, h = values
    return float(((a + e) + (c + g)) + ((b + f) + (d + h)))


# Vectors of any length


@inlined
def number(array: Any, at: int) -> Scalar:
    """array[at], with `at` not negative. Of a signed position Numba would ask whether it counts from the end, which in
    loops over a few entries took a tenth of a round."""
    return array[np.uint64(at)]


@inlined
def put(array: Any, at: int, value: Scalar) -> None:
    """array[at] = value, with `at` not negative."""
    array[np.uint64(at)] = value


@_instructions
def dot(w: RealArray, first: int, x: ValueArray) -> float:
    """The sum of w[first + d] x[d], in four interleaved sums: a single one would wait for itself at every step."""
    s0, s1, s2, s3, whole = 0.0, 0.0, 0.0, 0.0, x.size // 4 * 4
    for d in range(0, whole, 4):
        s0 += w[first + d] * x[d]
        s1 += w[first + d + 1] * x[d + 1]
        s2 += w[first + d + 2] * x[d + 2]
        s3 += w[first + d + 3] * x[d + 3]
    for d in range(whole, x.size):
        s0 += w[first + d] * x[d]
    return (s0 + s1) + (s2 + s3)


@_instructions
def add_times(out: RealArray, first: int, x: ValueArray, much: float) -> None:
    """out[first + d] += much x[d]."""
    for d in range(x.size):
        out[first + d] += much * x[d]


# Fetching memory before it is needed: a hint to the processor, which changes no result.
#
# A shuffled sample's features, model and neighbours lie all over memory. Waiting for them, one after the other, took a
# third of a pass; fetched a few samples ahead, they are there.


@_instructions
def prefetch(array: Any, byte: int) -> None:
    """Fetches the line with this byte of a contiguous array; plain loops fetch nothing."""


@inlined
def prefetch_entry(values: Any, at: int) -> None:
    """values[at] and what lies next to it."""
    prefetch(values, at * values.itemsize)


@inlined
def prefetch_row(table: Any, row: int) -> None:
    """table[row], all of it."""
    width = table.shape[1] * table.itemsize
    for byte in range(row * width, (row + 1) * width, LINE):
        prefetch(table, byte)
    if width > 0:
        prefetch(table, (row + 1) * width - 1)  # a row may end in a line of its own
