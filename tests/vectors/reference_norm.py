"""A vector of reals in whole numbers within a norm, in plain Python: what privacy/norm.py must give, to the bit."""

from fractions import Fraction
from math import inf, sqrt

from vectors.reference import demand


def checked_norm(sensitivity: float, fraction_bits: int) -> Fraction:
    """The norm in units of 2^-f."""
    demand(0 < sensitivity < inf and 0 <= fraction_bits <= 40)
    units = Fraction(sensitivity) * 2**fraction_bits
    demand(1 <= units <= 2**31 - 1)
    return units


def direction(values: list[float]) -> tuple[list[float], float]:
    largest = 0.0
    for value in values:
        demand(abs(value) < inf)
        largest = max(largest, abs(value))
    if largest == 0:
        return [0.0 for _ in values], 0.0
    shrunk = [value / largest for value in values]
    squares = [value * value for value in shrunk]
    length = sqrt(squares[0] + pairwise(squares[1:]))
    return [value / length for value in shrunk], length * largest


def pairwise(values: list[float]) -> float:
    """In parts of at most 128, each in eight sums side by side."""
    if len(values) < 8:
        return plain_sum(values)
    if len(values) > 128:
        half = len(values) // 2 // 8 * 8
        return pairwise(values[:half]) + pairwise(values[half:])
    last = len(values) // 8 * 8
    a, b, c, d, e, f, g, h = (plain_sum(values[at:last:8]) for at in range(8))
    return plain_sum([((a + b) + (c + d)) + ((e + f) + (g + h)), *values[last:]])


def plain_sum(values: list[float]) -> float:
    """Python's own sum of floats is more exact than a sum in order, since 3.12."""
    total = values[0] if values else 0.0
    for value in values[1:]:
        total += value
    return total


def target(unit: list[float], sensitivity: float, fraction_bits: int) -> float:
    spare = sqrt(sum(value != 0 for value in unit)) / 2.0 ** (fraction_bits + 1)
    return max(sensitivity - spare, sensitivity / 2)


def rounded(values: list[float], sensitivity: float, fraction_bits: int) -> list[int]:
    units = checked_norm(sensitivity, fraction_bits)
    whole = [round(value * 2.0**fraction_bits) for value in values]
    while sum(value * value for value in whole) > units**2:
        whole = [value - (value > 0) + (value < 0) for value in whole]
    return whole


def clipped(*, values: list[float], sensitivity: float, fraction_bits: int) -> list[int]:
    checked_norm(sensitivity, fraction_bits)
    unit, length = direction(values)
    wanted = min(length, target(unit, sensitivity, fraction_bits))
    return rounded([value * wanted for value in unit], sensitivity, fraction_bits)


def scaled(*, values: list[float], sensitivity: float, fraction_bits: int) -> list[int]:
    checked_norm(sensitivity, fraction_bits)
    unit, _ = direction(values)
    wanted = target(unit, sensitivity, fraction_bits)
    return rounded([value * wanted for value in unit], sensitivity, fraction_bits)


def length(*, values: list[float]) -> float:
    return direction(values)[1]


def within_norm(*, whole: list[int], sensitivity: float, fraction_bits: int) -> int:
    """1 or 0."""
    return int(sum(value * value for value in whole) <= checked_norm(sensitivity, fraction_bits) ** 2)


def unit_vector(*, values: list[float]) -> list[object]:
    return list(direction(values))
