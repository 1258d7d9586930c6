"""Privacy losses: (ε, δ) with the unit that it is counted for and the adjacency that it holds under.

Adjacency. ZERO_OUT: one person's contribution is replaced by zero, and the roster is public: (ε, δ) bounds how well
anyone can distinguish taking part with these records from taking part with none. REPLACE_ONE: it is replaced by any
other one. The second follows from the first through the empty contribution: P(x) ≤ e^ε P(0) + δ ≤ e^2ε P(x') + (1 +
e^ε) δ. A loss that holds for REPLACE_ONE holds for ZERO_OUT as it stands, since nothing is one of the contributions.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from fractions import Fraction

from prirec.errors import UsageError

WORDS = 2**64  # how many values a random word has: the denominator of every probability on a device

_DIGITS = Context(prec=60)
_LARGEST = 64  # e^64 > 2^64: beyond it a word cannot tell one ε from another


class Unit(StrEnum):
    """What one loss is counted for, from the smallest to the largest."""

    BIT = "bit"
    VALUE = "value"
    EVENT = "event"
    USER_DAY = "user-day"
    USER = "user"


class Adjacency(StrEnum):
    """Which two worlds the loss is counted between."""

    ZERO_OUT = "a contribution or none"
    REPLACE_ONE = "a contribution or any other"


@dataclass(frozen=True, slots=True)
class PrivacyLoss:
    """(ε, δ) for one bit, value, event, user-day or user."""

    epsilon: float
    unit: Unit
    delta: float = 0.0
    adjacency: Adjacency = Adjacency.ZERO_OUT

    def __post_init__(self) -> None:
        if not 0 <= self.epsilon < math.inf or not 0 <= self.delta <= 1:
            raise UsageError("a privacy loss has a finite epsilon of at least 0 and a delta between 0 and 1")

    def replace_one(self) -> "PrivacyLoss":
        """The loss between any two contributions: 2ε and (1 + e^ε) δ where only ZERO_OUT was known."""
        if self.adjacency is Adjacency.REPLACE_ONE:
            return self
        # (1 + e^ε) δ through logarithms, since e^ε of a large ε overflows before δ makes it small again
        delta = min(1.0, math.exp(min(0.0, math.log(self.delta) + self.epsilon)) + self.delta) if self.delta else 0.0
        return PrivacyLoss(2 * self.epsilon, self.unit, delta, Adjacency.REPLACE_ONE)

    def times(self, count: int, unit: Unit) -> "PrivacyLoss":
        """`count` such losses as one of a larger unit: basic composition."""
        if count < 0:
            raise UsageError("losses are counted from 0")
        return PrivacyLoss(self.epsilon * count, unit, min(1.0, self.delta * count), self.adjacency)

    def __add__(self, other: "PrivacyLoss") -> "PrivacyLoss":
        """Basic composition of two releases in the same unit, under the weaker of their adjacencies."""
        if self.unit is not other.unit:
            raise UsageError(
                f"a loss per {self.unit} and a loss per {other.unit} do not add up; convert one with times"
            )
        same = self.adjacency is other.adjacency
        adjacency = self.adjacency if same else Adjacency.ZERO_OUT
        return PrivacyLoss(
            self.epsilon + other.epsilon, self.unit, min(1.0, self.delta + other.delta), adjacency=adjacency
        )

    def __str__(self) -> str:
        delta = f", δ = {self.delta:g}" if self.delta else ""
        return f"ε = {self.epsilon:g}{delta} per {self.unit} ({self.adjacency})"


def local_loss(epsilon: float, unit: Unit) -> PrivacyLoss:
    """The loss of a local mechanism: its ratio is bounded between any two inputs, with δ = 0."""
    return PrivacyLoss(epsilon, unit, adjacency=Adjacency.REPLACE_ONE)


def checked_epsilon(epsilon: float, name: str) -> float:
    """The ε, if it is positive and finite; otherwise a UsageError that names it."""
    if not 0 < epsilon < math.inf:
        raise UsageError(f"{name} must be a number above 0, and finite")
    return epsilon


def exp_below(epsilon: float) -> Fraction:
    """A fraction of at most e^ε, and within 10^-58 of it (of e^64 for a larger ε); a float is read exactly."""
    # Decimal.exp is correctly rounded, so one unit in the last place below it is below e^ε
    rounded = Decimal(min(epsilon, _LARGEST)).exp(_DIGITS)
    return Fraction(rounded.next_minus(_DIGITS))


def words_at_least(probability: Fraction) -> int:
    """The least n with n / 2^64 ≥ probability: "a random word below n" has that probability or a little more."""
    return math.ceil(probability * WORDS)
