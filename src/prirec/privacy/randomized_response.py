"""Randomised response on "visited or not" (Eqs. 5 and 6), with ε per BIT: a person answers, and pays, for every POI.

Proof. A bit is flipped with q = n / 2^64, where n is the least with (1-q)/q ≤ E for a fraction E ≤ e^ε. An answer is
as likely from y as from 1-y up to the factor (1-q)/q ≤ e^ε, exactly: `likelihood_ratio` is that fraction. The
estimate uses the same q: E[y'] = q + (1-2q) y, so that Σ (y'-q) / (1-2q) has mean Σ y, exactly. Over a catalogue of J
POIs, one person's loss is J ε: answers to different POIs compose.

Who reports matters as much as what is reported. `Reporters.THOSE_WITH_A_RECORD` exists for the paper's table only, and
in simulation only: sending an answer about a POI, whatever it says, then reveals a record there.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

import numpy as np

from prirec.errors import PolicyError, UsageError
from prirec.privacy.accountant import WORDS, PrivacyLoss, Unit, checked_epsilon, exp_below, local_loss, words_at_least
from prirec.privacy.noise import Stream
from prirec.types import BoolArray, OffsetArray, RealArray


class Reporters(StrEnum):
    """Who sends an answer about a POI."""

    EVERYONE = "everyone"
    THOSE_WITH_A_RECORD = "those-with-a-record"  # WHO reports reveals the action: not private, whatever ε is


@dataclass(frozen=True, slots=True)
class RandomizedResponse:
    """Eqs. (5) and (6): the mechanism for one bit, with its exact flip probability."""

    epsilon_per_bit: float
    flip_words: int = field(init=False, repr=False)  # q · 2^64

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon_per_bit, "epsilon_per_bit")
        # rounded towards more flips, from an e^ε rounded down: the bound on the ratio holds exactly, not up to rounding
        words = words_at_least(1 / (1 + exp_below(self.epsilon_per_bit)))
        if 2 * words >= WORDS:
            raise UsageError("epsilon_per_bit is so small that an answer would say nothing; give at least 1e-18")
        object.__setattr__(self, "flip_words", words)

    @property
    def flip(self) -> Fraction:
        """q = P(an answer is not the truth), at least 1 / (e^ε + 1) and less than 2^-64 above it."""
        return Fraction(self.flip_words, WORDS)

    def likelihood_ratio(self) -> Fraction:
        """P(answer | one truth) / P(answer | the other): at most e^ε."""
        return (1 - self.flip) / self.flip

    def loss_per_bit(self) -> PrivacyLoss:
        return local_loss(self.epsilon_per_bit, Unit.BIT)

    def loss_per_user(self, pois: int) -> PrivacyLoss:
        """ε of one person's whole answer, a bit for each POI of the catalogue."""
        return self.loss_per_bit().times(pois, Unit.USER)

    def standard_deviation(self, reports: int) -> float:
        """Of a count estimated from n answers, whatever they are: √(n q (1-q)) / (1-2q)."""
        q = self.flip
        return math.sqrt(reports * q * (1 - q) / (1 - 2 * q) ** 2)


def perturb(visited: BoolArray, mechanism: RandomizedResponse, stream: Stream) -> BoolArray:
    """Eq. (5): each bit (any shape), flipped with probability q. Runs on the device; the answers may leave it."""
    if visited.dtype != np.bool_:
        raise UsageError("what is answered is yes or no for each POI: an array of booleans")
    flips = stream.bernoulli(mechanism.flip_words, visited.size).reshape(visited.shape)
    answers: BoolArray = visited ^ flips
    return answers


def estimate(ones: OffsetArray, *, reports: int | OffsetArray, mechanism: RandomizedResponse) -> RealArray:
    """Eq. (6): how many of `reports` people visited each POI (J,), from the yeses (J,). Unbiased; may be negative."""
    sent = np.broadcast_to(np.asarray(reports, dtype=np.int64), ones.shape)
    if np.any(ones < 0) or np.any(ones > sent):
        raise UsageError("the yeses to a POI are at least 0 and no more than the answers about it")
    # n q is split into an integer and a part below 1: the large parts of `ones - n q` then cancel without rounding
    values, back = np.unique(sent, return_inverse=True)
    expected = [divmod(int(n) * mechanism.flip_words, WORDS) for n in values]
    whole = np.array([w for w, _ in expected], dtype=np.int64)[back]
    part = np.array([p / WORDS for _, p in expected])[back]
    counts: RealArray = ((ones - whole) - part) / float(1 - 2 * mechanism.flip)
    return counts


def reports_about(
    reporters: Reporters, *, people: int, with_a_record: OffsetArray, in_simulation: bool
) -> int | OffsetArray:
    """How many answers there are about each POI. Only a simulation may count those with a record alone."""
    if reporters is Reporters.EVERYONE:
        return people
    if not in_simulation:
        raise PolicyError(
            "who reports reveals the action: with reporters = those-with-a-record an answer shows that its sender has "
            "a record for the POI; use everyone"
        )
    return with_a_record


def simulate_ones(
    visitors: OffsetArray, *, reports: int | OffsetArray, mechanism: RandomizedResponse, rng: np.random.Generator
) -> OffsetArray:
    """The yeses to each POI (J,), drawn from their exact law Bin(v, 1-q) + Bin(n-v, q). For simulation only."""
    if np.any(visitors < 0) or np.any(visitors > reports):
        raise UsageError("the visitors of a POI are at least 0 and no more than those who report about it")
    # A simulation's q is a float and its generator is seeded; a device flips by exact words (`perturb`).
    q = float(mechanism.flip)
    ones: OffsetArray = rng.binomial(visitors, 1 - q) + rng.binomial(reports - visitors, q)
    return ones
