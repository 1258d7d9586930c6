"""Fixed point in Z_2^l, l = 64 or 32: the only place where reals become ring elements, and back.

Algorithms 1 and 2 only add, so nothing is ever truncated on shares (decisions/0003): the owner multiplies in the
clear, rounds to nearest once, and the sum is exact in any order.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from prirec.errors import UsageError
from prirec.types import RealArray, RingArray, SignedArray
from prirec.util.jit import inlined

_MOST_BY_ADDING = 2.0**51  # the largest whole number that `encoded_by_adding` takes
_SHIFT = 1.5 * 2.0**52  # from 2^51 below it to 2^51 above, reals are whole numbers
_SHIFT_BITS = np.float64(_SHIFT).view(np.int64)
_MAGNITUDE = np.int64(2**63 - 1)  # all bits of a real but its sign


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """The encoding of one kind of sum in the ring; one that could wrap is refused here, before anything is encoded."""

    summands: int  # the most vectors that one sum may hold
    bound: float  # B: no entry of a vector is larger than this
    fraction_bits: int = 24
    ring_bits: int = 64

    def __post_init__(self) -> None:
        if self.ring_bits not in (32, 64) or not 1 <= self.fraction_bits <= 40:
            raise UsageError("a ring has 32 or 64 bits, of which 1 to 40 may be fraction bits")
        if self.summands < 1 or not 0 < self.bound < np.inf:
            raise UsageError("a sum needs at least one summand and a bound that is positive and finite")
        largest = self.summands * (Fraction(self.bound) * 2**self.fraction_bits + Fraction(1, 2))
        if largest > 2 ** (self.ring_bits - 1) - 1:
            raise UsageError(
                f"the sum could wrap: n (B 2^f + 1/2) <= 2^(l-1) - 1 fails for n = {self.summands}, "
                f"B = {self.bound:g}, f = {self.fraction_bits}, l = {self.ring_bits}; "
                "use fewer fraction bits, a smaller bound or a larger ring"
            )

    @property
    def scale(self) -> float:
        return float(2.0**self.fraction_bits)

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        return np.dtype(np.uint64 if self.ring_bits == 64 else np.uint32)

    def zeros(self, shape: int | tuple[int, ...]) -> RingArray:
        return np.zeros(shape, dtype=self.dtype)

    def encode(self, values: RealArray) -> RingArray:
        """Reals to the ring, rounded to nearest; anything that a sum was not sized for is refused before the cast."""
        if not np.all(np.abs(values) <= self.bound):  # false for NaN as well
            raise outside(self.bound)
        return np.rint(values * self.scale).astype(np.int64).astype(self.dtype)

    def decode(self, ring: RingArray) -> RealArray:
        """A sum in the ring, back to reals."""
        return self.signed(ring).astype(np.float64) / self.scale

    def signed(self, ring: RingArray) -> SignedArray:
        """Ring elements read as signed integers, without a copy."""
        return ring.view(np.int64 if self.ring_bits == 64 else np.int32)


class Encoder(NamedTuple):
    """How kernels write a contribution in the ring."""

    scale: float
    bound: float
    most: int = 0  # the square of its length in whole numbers, at most; 0: any


def outside(bound: float) -> UsageError:
    """The error for a value that the ring was not sized for."""
    return UsageError(
        f"a value to be summed is not a number or is larger than the bound {bound:g}, for which the ring was sized; "
        "lower linear.alpha or interaction.alpha, or raise ring.bound (nothing "
        "helps where neighbours.weights is 'ones-diverges')"
    )


@inlined
def rounded(value: float, scale: float) -> float:
    """The integer that stands for one real in the ring: round to nearest, half to even."""
    return float(np.rint(value * scale))


@inlined
def encoded(value: float, scale: float, like: RingArray) -> np.uint64:
    """One real in the ring of `like`."""
    return like.dtype.type(np.int64(rounded(value, scale)))


@inlined
def encoded_by_adding(value: float, scale: float, like: RingArray) -> np.uint64:
    """`encoded` where |value| scale is at most _MOST_BY_ADDING, to the same bits, with additions alone: reals next to
    _SHIFT are whole numbers, so adding to it rounds to nearest, half to even, and the last bits of the sum are the
    whole number. Most processors convert reals one by one, but add several side by side: with `headroom`, it takes a
    quarter of the time."""
    return like.dtype.type(np.float64(value * scale + _SHIFT).view(np.int64) - _SHIFT_BITS)


@inlined
def headroom(value: float, bound: float) -> np.int64:
    """Negative where |value| is above the bound or not a number: without their sign, reals are in the order of their
    bits, and what is no number comes last. Kernels ask this of many values side by side."""
    return np.float64(bound).view(np.int64) - (np.float64(value).view(np.int64) & _MAGNITUDE)


@inlined
def encode_into(values: RealArray, scale: float, bound: float, out: RingArray) -> bool:
    """FixedPoint.encode for kernels, into `out`; False, with `out` unusable, if a value is outside the bound."""
    room = np.int64(0)
    if bound * scale <= _MOST_BY_ADDING:
        for d in range(values.size):
            room |= headroom(values[d], bound)
            out[d] = encoded_by_adding(values[d], scale, out)
    else:
        for d in range(values.size):
            room |= headroom(values[d], bound)
            out[d] = encoded(values[d], scale, out)
    return bool(room >= 0)


@inlined
def add_encoded(values: RealArray, scale: float, bound: float, total: RingArray) -> bool:
    """total += encode(values) in the ring; False, with `total` unusable, if a value is outside the bound."""
    room = np.int64(0)
    if bound * scale <= _MOST_BY_ADDING:
        for d in range(values.size):
            room |= headroom(values[d], bound)
            total[d] += encoded_by_adding(values[d], scale, total)
    else:
        for d in range(values.size):
            room |= headroom(values[d], bound)
            total[d] += encoded(values[d], scale, total)
    return bool(room >= 0)


@inlined
def shorten(values: RealArray, scale: float, most: int) -> None:
    """privacy.norm's last step for kernels: while the whole numbers that stand for `values` are longer than √most, each
    of them moves one toward zero. Entries are below 2^31.5 and `most` is below 2^62, so that no sum wraps before it is
    seen to be too large."""
    while True:
        squares = np.int64(0)
        for d in range(values.size):
            whole = np.int64(rounded(values[d], scale))
            squares += whole * whole
            if squares > most:
                break
        if squares <= most:
            return
        for d in range(values.size):
            nearest = rounded(values[d], scale)
            values[d] = (nearest - np.sign(nearest)) / scale
