"""What releases cost a person, and whether a budget covers them: privacy/accountant.py and privacy/ledger.py, with 60
digits."""

from fractions import Fraction
from math import ceil
from typing import Any

import mpmath

from vectors.reference import RefusedError, demand

GRAINS = 2**56


class OverspentError(RefusedError):
    """The budget does not cover it."""

    name = "PolicyError"


class OtherPriceError(RefusedError):
    """It was charged at another price."""

    name = "StateError"


def exact_delta(grains: int, epsilon: float) -> Any:
    """Phi(m/2 - e/m) - exp(e) Phi(-m/2 - e/m)."""
    with mpmath.workdps(60):
        if not grains:
            return mpmath.mpf(0)
        m, e = mpmath.sqrt(mpmath.mpf(max(grains, 2**24)) / GRAINS), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def log_delta(*, grains: int, epsilon: float) -> float:
    return float(mpmath.log(exact_delta(grains, epsilon)))


def epsilon_of(*, grains: int, delta: float) -> float:
    """The least one, with a margin of 1e-9 of delta."""
    low, high = 0.0, 2.0**20
    if exact_delta(grains, 0.0) <= delta * (1 - 1e-9):
        return 0.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if exact_delta(grains, middle) <= delta * (1 - 1e-9) else (middle, high)
    return high


def price(*, sensitivity: float, fraction_bits: int, noise: int) -> int:
    """Of a report to two operators: each adds this variance and 3/2, which do not count; no less than 5, and from 2^20
    on the next even number."""
    square = (Fraction(sensitivity) * 2**fraction_bits) ** 2
    if not noise:
        return GRAINS << 64
    drawn = max(noise + Fraction(3, 2), Fraction(5))
    if drawn >= 2**20:
        drawn = Fraction(2 * ceil(drawn / 2))
    return ceil(square * GRAINS / (drawn - Fraction(3, 2)))


def admit(*, entries: list[list[Any]], charge: list[Any], budget: list[Any], day: int) -> str:
    """An entry is a charge and its day; a charge is deployment, kind, number, attempt and grains; a budget is epsilon,
    delta and the days of its period, 0 for life."""
    epsilon, delta, period = budget
    demand(epsilon > 0 and 0 < delta < 1 and period >= 0)
    demand(1 <= charge[4] <= 2**62)
    for (*name, grains), _ in entries:
        if name == charge[:4]:
            if grains != charge[4]:
                raise OtherPriceError
            return "known"
    if exact_delta(left_after(entries, charge[4], period, day), epsilon) > delta:
        raise OverspentError
    return "charge"


def left_after(entries: list[list[Any]], grains: int, period: int, day: int) -> int:
    paid = [one[0][4] for one in entries if not period or one[1] > day - period]
    return int(sum(paid) + grains)


def how_many_more(*, entries: list[list[Any]], grains: int, budget: list[Any], day: int) -> int:
    many = 0
    while many < 2**16:
        spent = left_after(entries, grains * (many + 1), budget[2], day)
        if exact_delta(spent, budget[0]) > budget[1]:
            break
        many += 1
    return many
