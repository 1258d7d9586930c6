"""Clipping to an L2 norm in whole numbers: ‖q‖₂ ≤ Δ 2^f, checked in exact integers after rounding.

Noise is sized for Δ, so a vector that rounding makes longer by one unit would break the privacy guarantee. Rounding to
nearest moves each entry by at most half a unit, and an entry of 0 not at all: with d entries that are not 0 the vector
grows by √d / 2 units at most. So it is first scaled to Δ − √d / 2^(f+1), then rounded, then checked; what floating
point may still have let through is moved toward zero, one unit per entry, until the check holds.

d is private where entries are few (how many places somebody visited) and stays on the device: it only decides how the
device scales its own vector.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from prirec.errors import UsageError
from prirec.types import OffsetArray, RealArray

_LONGEST = 2**31 - 1  # units: its square fits 62 bits
_LOW = np.int64(2**32 - 1)
_SPARE = 2.0**-9  # the share of the norm that rounding may cost
_FEWEST_BITS, _MOST_BITS = 8, 24


@dataclass(frozen=True, slots=True)
class Norm:
    """The L2 norm Δ of one person's contribution (the sensitivity), and the fraction bits f that it is rounded to."""

    sensitivity: float  # Δ
    fraction_bits: int  # f

    def __post_init__(self) -> None:
        if not 0 < self.sensitivity < math.inf or not 0 <= self.fraction_bits <= 40:
            raise UsageError("a contribution has a norm above 0, and finite, and 0 to 40 fraction bits")
        if not 1 <= self.units <= _LONGEST:
            raise UsageError("a contribution's norm is 1 to 2^31 - 1 units of 2^-f")

    @property
    def units(self) -> Fraction:
        """Δ 2^f, exactly: the sensitivity of the sum in whole numbers."""
        return Fraction(self.sensitivity) * (1 << self.fraction_bits)

    def before_rounding(self, entries: int | OffsetArray) -> RealArray:
        """Δ − √d / 2^(f+1) for vectors with d entries that are not 0, but no less than Δ / 2: rounding to nearest never
        more than doubles an entry."""
        spare = np.sqrt(entries) / 2.0 ** (self.fraction_bits + 1)
        return np.maximum(self.sensitivity - spare, self.sensitivity / 2)


def fine_enough(sensitivity: float, entries: int) -> Norm:
    """The fewest fraction bits (8 to 24) with which rounding so many entries costs no more than 1/512 of the norm."""
    if not 0 < sensitivity < math.inf or entries < 1:
        raise UsageError("a contribution has a norm above 0, and finite, and at least one entry")
    bits = math.ceil(math.log2(entries) / 2 - math.log2(2 * _SPARE) - math.log2(sensitivity))
    if bits > _MOST_BITS:
        raise UsageError(
            "a contribution's norm is so small for its length that rounding would eat it; use a larger one"
        )
    return Norm(sensitivity, max(bits, _FEWEST_BITS))


def scaled(values: RealArray, norm: Norm) -> OffsetArray:
    """The vector scaled to norm Δ, or as close below as rounding allows, in units of 2^-f; zero stays zero."""
    direction, _ = _direction(values)
    return _rounded(direction * _target(direction, norm), norm)


def clipped(values: RealArray, norm: Norm) -> OffsetArray:
    """The vector clipped to norm Δ, in units of 2^-f. Of a sparse vector, pass the entries that are not 0."""
    direction, length = _direction(values)
    return _rounded(direction * min(length, _target(direction, norm)), norm)


def within(whole: OffsetArray, norm: Norm) -> bool:
    """Whether Σ q² ≤ (Δ 2^f)², in exact integers."""
    # an entry longer than the norm is refused first, so that no square can wrap
    if whole.size and max(abs(int(whole.min())), abs(int(whole.max()))) > norm.units:
        return False
    squares = whole * whole
    # high and low halves are summed apart: the sum of 62-bit squares would wrap in 64 bits
    total = (int((squares >> 32).sum()) << 32) + int((squares & _LOW).sum())
    return total <= norm.units**2


def _direction(values: RealArray) -> tuple[RealArray, float]:
    """The unit vector (0 for 0) and the length, without overflow or underflow of squares."""
    largest = float(np.abs(values).max(initial=0.0))
    if not largest < math.inf:  # false for NaN as well
        raise UsageError("a contribution has an entry that is not a number or not finite; nothing was made of it")
    if largest == 0:
        return np.zeros(values.shape), 0.0
    shrunk = values / largest
    # reduceat sums as weighted_popularity.written does for all people at once: the bits must be the same
    length = float(np.sqrt(np.add.reduceat(shrunk.ravel() ** 2, [0])[0]))
    return shrunk / length, length * largest


def _target(direction: RealArray, norm: Norm) -> float:
    return float(norm.before_rounding(int(np.count_nonzero(direction))))


def _rounded(values: RealArray, norm: Norm) -> OffsetArray:
    whole: OffsetArray = np.rint(values * 2.0**norm.fraction_bits).astype(np.int64)
    # what floating point let through; it ends, since each turn shortens every entry that is not 0
    while not within(whole, norm):
        whole -= np.sign(whole)
    return whole
