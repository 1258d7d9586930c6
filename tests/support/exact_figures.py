"""Exact or certified figures to hold mechanisms and samplers against, from fractions and long decimals only."""

import os
from collections.abc import Iterator
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import count

import numpy as np
from scipy.stats import chi2

from prirec.privacy.noise import Stream

DIGITS = Context(prec=50)


def fresh(label: int = 0) -> Stream:
    """A stream that is another one each time, so that a test stands on its stated odds and not on a lucky seed."""
    return Stream(os.urandom(31) + bytes([label]))


class Words:
    """The words of a seed, one after the other, for slow twins of the samplers to draw from."""

    def __init__(self, seed: bytes) -> None:
        stream = Stream(seed)
        self.left: Iterator[int] = (word for _ in count() for word in stream.words(1000).tolist())

    def below(self, bound: int) -> int:
        return next(word for word in self.left if word < 2**64 // bound * bound) % bound


def exp_at_most(epsilon: float) -> Fraction:
    """The series of e^ε, every term rounded down to a multiple of 2^-400: below e^ε for every ε > 0, and near it."""
    ratio, one = Fraction(epsilon), 2**400
    total, term, n = 0, one, 0
    while term:
        total, n = total + term, n + 1
        term = term * ratio.numerator // (ratio.denominator * n)
    return Fraction(total, one)


def weights_to_law(weights: dict[int, Decimal]) -> dict[int, float]:
    with localcontext(DIGITS):
        total = sum(weights.values())
        return {value: float(weight / total) for value, weight in weights.items()}


def poisson_weights(rate: Fraction, reach: int) -> list[Decimal]:
    with localcontext(DIGITS):
        mean = Decimal(rate.numerator) / Decimal(rate.denominator)
        weights = [Decimal(1)]
        for n in range(1, reach + 1):
            weights.append(weights[-1] * mean / n)
        return weights


def poisson_law(rate: Fraction, reach: int) -> dict[int, float]:
    return weights_to_law(dict(enumerate(poisson_weights(rate, reach))))


def skellam_law(variance: Fraction, reach: int) -> dict[int, float]:
    with localcontext(DIGITS):
        weights = poisson_weights(variance / 2, 2 * reach)
        law = {
            d: sum((weights[n] * weights[n + abs(d)] for n in range(2 * reach + 1 - abs(d))), Decimal(0))
            for d in range(-reach, reach + 1)
        }
    return weights_to_law(law)


def chi_square_p(draws: np.ndarray, law: dict[int, float]) -> float:
    """How likely draws from this law would be further from it; rare values are put together."""
    values = np.array(sorted(law))
    expected = np.array([law[v] for v in values.tolist()]) * draws.size
    common = expected >= 20
    counts = np.array([(draws == v).sum() for v in values[common].tolist()])
    expected = expected[common]
    observed, wanted = np.append(counts, draws.size - counts.sum()), np.append(expected, draws.size - expected.sum())
    if wanted[-1] < 20:
        observed, wanted = counts, expected
    return float(chi2.sf(((observed - wanted) ** 2 / wanted).sum(), len(wanted) - 1))
