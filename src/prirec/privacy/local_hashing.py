"""Optimised local hashing (Wang et al. 2017): a few bits whatever the catalogue, under one ε for each USER.

A person reports one POI x or nothing (`one_place`; nothing is hashed as one more POI). The device draws a public
hash, ⌊(a x + b mod 2^64) / 2^(64-l)⌋ with uniform words a and b, which is exactly pairwise independent on 32-bit x
(Dietzfelbinger 1996), and sends (a, b) and the hash of its POI, or with probability o one of the other g-1
values. g = 2^l is the power of two next to e^ε + 1, where the variance is least.
Proof. (a, b) say nothing. Given them, a value has probability 1-o if it is the hash of the POI and o/(g-1) if not,
with o = n/2^64 the least such that (1-o)(g-1)/o ≤ E ≤ e^ε.
Unbiased: another POI's hash equals the answer with probability exactly 1/g.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from prirec.compiled import kernel
from prirec.errors import UsageError
from prirec.privacy.one_place import NOTHING, Support, check_items
from prirec.privacy.randomness import Stream
from prirec.privacy.units import WORDS, PrivacyLoss, Unit, checked_epsilon, exp_below, local_loss, words_at_least
from prirec.types import OffsetArray, RingArray

_MOST_BITS = 16
_MOST_POIS = 2**32 - 1


@dataclass(frozen=True, slots=True)
class HashedAnswers:
    """What leaves the devices: a public hash (a, b) and a value for each person."""

    a: RingArray
    b: RingArray
    values: RingArray


@dataclass(frozen=True, slots=True)
class LocalHashing:
    """The mechanism for a catalogue of J POIs."""

    epsilon_per_user: float
    pois: int
    bits: int = field(init=False, repr=False)  # l
    other_words: int = field(init=False, repr=False)  # o · 2^64

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon_per_user, "epsilon_per_user")
        if not 1 <= self.pois <= _MOST_POIS:
            raise UsageError(f"a catalogue has 1 to {_MOST_POIS} POIs")
        e = exp_below(self.epsilon_per_user)
        object.__setattr__(self, "bits", min(_MOST_BITS, round(math.log2(e + 1))))
        others = self.buckets - 1
        object.__setattr__(self, "other_words", words_at_least(others / (e + others)))
        if self.likelihood_ratio() <= 1:
            raise UsageError("epsilon_per_user is so small that an answer would say nothing; give at least 1e-18")

    @property
    def buckets(self) -> int:
        """g."""
        return int(2**self.bits)

    @property
    def support(self) -> Support:
        return Support(own=1 - Fraction(self.other_words, WORDS), other=Fraction(1, self.buckets))

    def likelihood_ratio(self) -> Fraction:
        """The most that a value can favour one report over another: at most e^ε."""
        other = Fraction(self.other_words, WORDS)
        return (1 - other) * (self.buckets - 1) / other

    def loss_per_user(self) -> PrivacyLoss:
        return local_loss(self.epsilon_per_user, Unit.USER)

    def answers(self, items: OffsetArray, stream: Stream) -> HashedAnswers:
        """The answers (I,) of people who report these POIs. Runs on each device; they may leave it."""
        check_items(items, self.pois)
        x = np.where(items == NOTHING, self.pois, items).astype(np.uint64)
        a, b = stream.words(items.size), stream.words(items.size)
        lie = stream.bernoulli(self.other_words, items.size)
        away = 1 + stream.below(self.buckets - 1, items.size)
        values = (a * x + b) >> np.uint64(64 - self.bits)
        values += np.where(lie, away, 0).astype(np.uint64)
        return HashedAnswers(a, b, values & np.uint64(self.buckets - 1))

    def supports(self, answers: HashedAnswers) -> OffsetArray:
        """How many answers are the hash of each POI (J,): I × J hashes at the recommender."""
        counts = np.zeros(self.pois, dtype=np.int64)
        _count(answers.a, answers.b, answers.values, np.uint64(64 - self.bits), counts)
        return counts


@kernel
def _count(a: RingArray, b: RingArray, values: RingArray, shift: np.uint64, counts: OffsetArray) -> None:
    for i in range(len(a)):
        hashed, step, value = b[i], a[i], values[i]
        for j in range(len(counts)):
            counts[j] += np.int64((hashed >> shift) == value)
            hashed += step  # a x + b, from one x to the next
