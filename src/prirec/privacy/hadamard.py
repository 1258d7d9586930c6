"""Hadamard response (Acharya, Sun and Zhang 2019): one number an answer, under one ε for each USER.

A person reports one POI or nothing (`one_place`). POI j has row j+1 of the Hadamard matrix H of order K, the power of
two above J; H[x, y] = +1 if x AND y has an even number of ones. The answer y is uniform on the half where the row is
+1 with probability 1-q, and uniform on the other half with probability q; for nothing it is uniform on all of 0 ..
K-1.
Proof. An answer has probability 2(1-q)/K or 2q/K, or 1/K for nothing, which lies between: no ratio is over (1-q)/q ≤
e^ε, q the n/2^64 of randomised response. Unbiased: two rows are orthogonal, so an answer falls with probability
exactly 1/2 on the +1 half of any other POI.
"""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from prirec.errors import UsageError
from prirec.privacy.one_place import Support, check_items
from prirec.privacy.randomized_response import RandomizedResponse
from prirec.privacy.randomness import Stream
from prirec.privacy.units import PrivacyLoss, Unit, checked_epsilon, local_loss
from prirec.types import BoolArray, OffsetArray

_MOST_POIS = 2**31


@dataclass(frozen=True, slots=True)
class HadamardResponse:
    """The mechanism for a catalogue of J POIs."""

    epsilon_per_user: float
    pois: int
    coin: RandomizedResponse = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon_per_user, "epsilon_per_user")
        if not 1 <= self.pois <= _MOST_POIS:
            raise UsageError(f"a catalogue has 1 to {_MOST_POIS} POIs")
        object.__setattr__(self, "coin", RandomizedResponse(self.epsilon_per_user))

    @property
    def order(self) -> int:
        """K."""
        return 1 << self.pois.bit_length()

    @property
    def support(self) -> Support:
        return Support(own=1 - self.coin.flip, other=Fraction(1, 2))

    def likelihood_ratio(self) -> Fraction:
        """The most that an answer can favour one report over another: at most e^ε."""
        return self.coin.likelihood_ratio()

    def loss_per_user(self) -> PrivacyLoss:
        return local_loss(self.epsilon_per_user, Unit.USER)

    def answers(self, items: OffsetArray, stream: Stream) -> OffsetArray:
        """The answers (I,) of people who report these POIs. Runs on each device; they may leave it."""
        check_items(items, self.pois)
        y = stream.below(self.order, items.size)
        odd = stream.bernoulli(self.coin.flip_words, items.size)
        row = items + 1
        # NOTHING has row 0, which has no bit to move the answer by
        lowest_bit = row & -row
        return np.where(_odd(row & y) == odd, y, y ^ lowest_bit)

    def supports(self, answers: OffsetArray) -> OffsetArray:
        """How many answers fall on the +1 half of each POI (J,): a fast Walsh-Hadamard transform at the recommender."""
        if np.any((answers < 0) | (answers >= self.order)):
            raise UsageError(f"an answer is a number from 0 to {self.order - 1}")
        signs = _transform(np.bincount(answers, minlength=self.order))
        return (answers.size + signs[1 : self.pois + 1]) // 2


def _odd(numbers: OffsetArray) -> BoolArray:
    odd: BoolArray = np.bitwise_count(numbers) % 2 == 1
    return odd


def _transform(counts: OffsetArray) -> OffsetArray:
    """Σ_y H[x, y] counts[y] for every x (K,)."""
    half, size = 1, counts.size
    while half < size:
        pairs = counts.reshape(-1, 2, half)
        counts = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(size)
        half *= 2
    return counts
