"""Optimised unary encoding (Wang et al. 2017): one bit for every POI, under one ε for each USER.

A person reports one POI or nothing (`one_place`). Its bit is 1 with probability 1/2, every other bit with probability
q.
Proof. Two reports differ in at most two bits, and an answer favours one POI over another by at most (1/2)(1-q) /
((1/2) q) = (1-q)/q ≤ e^ε, since q is the n/2^64 of randomised response; over nothing by less.
"""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from prirec.privacy.one_place import NOTHING, Support, check_items
from prirec.privacy.randomized_response import RandomizedResponse
from prirec.privacy.randomness import Stream
from prirec.privacy.units import PrivacyLoss, Unit, checked_epsilon, local_loss
from prirec.types import BoolArray, OffsetArray

_HALF = 2**63


@dataclass(frozen=True, slots=True)
class OptimisedUnary:
    """The mechanism for a catalogue of J POIs."""

    epsilon_per_user: float
    pois: int
    coin: RandomizedResponse = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon_per_user, "epsilon_per_user")
        object.__setattr__(self, "coin", RandomizedResponse(self.epsilon_per_user))

    @property
    def support(self) -> Support:
        return Support(own=Fraction(1, 2), other=self.coin.flip)

    def likelihood_ratio(self) -> Fraction:
        """The most that an answer can favour one report over another: at most e^ε."""
        p, q = self.support.own, self.support.other
        return p * (1 - q) / ((1 - p) * q)

    def loss_per_user(self) -> PrivacyLoss:
        return local_loss(self.epsilon_per_user, Unit.USER)

    def answers(self, items: OffsetArray, stream: Stream) -> BoolArray:
        """The bits (I, J) of people who report these POIs. Runs on each device; the bits may leave it."""
        check_items(items, self.pois)
        bits = stream.bernoulli(self.coin.flip_words, items.size * self.pois).reshape(items.size, self.pois)
        own = stream.bernoulli(_HALF, items.size)
        rows = np.flatnonzero(items != NOTHING)
        bits[rows, items[rows]] = own[rows]
        return bits
