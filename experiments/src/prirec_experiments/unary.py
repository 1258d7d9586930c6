"""Unary encoding: the local mechanism that docs/mechanisms.md compares the secure sum with.

Optimised unary encoding (Wang et al. 2017) under one ε for each USER. A device draws one of the places that its person
visited, or nothing if there is none, and sends a bit for every place of the catalogue: the bit of the drawn place is 1
with probability 1/2, every other bit with probability q. No secure sum, no floor, and nobody is trusted.

Proof. Two drawn places differ in at most two bits, and an answer favours one over the other by at most
(1/2)(1-q) / ((1/2) q) = (1-q)/q ≤ e^ε, since q is the n/2^64 of randomised response; over nothing by less. The draw is
a mixture of such answers and keeps the bound, so ε holds between ANY two sets of visits of a person.

What is estimated, without bias: Σ 1/v over the visitors of a place, v being how many places each of them visited. It
is the number of visitors as far as nobody visited two places.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from prirec.errors import UsageError
from prirec.features.popularity import OwnCounts, Popularity
from prirec.privacy.accountant import WORDS, PrivacyLoss, Unit, checked_epsilon, local_loss
from prirec.privacy.noise import Stream
from prirec.privacy.randomized_response import RandomizedResponse
from prirec.simulate.forecast import VARIANTS, Collection, Estimate, Price, Variant
from prirec.types import BoolArray, OffsetArray, RealArray

NOTHING = -1  # in place of the row of a place: this person visited none


@dataclass(frozen=True, slots=True)
class UnaryEncoding:
    """The mechanism for a catalogue of J places."""

    epsilon_per_user: float
    places: int
    coin: RandomizedResponse = field(init=False, repr=False)  # its flip probability is q

    def __post_init__(self) -> None:
        checked_epsilon(self.epsilon_per_user, "epsilon_per_user")
        object.__setattr__(self, "coin", RandomizedResponse(self.epsilon_per_user))

    @property
    def own(self) -> Fraction:
        """P(the bit of the drawn place is 1). With 1/2 the variance for places that few people visit is least."""
        return Fraction(1, 2)

    @property
    def other(self) -> Fraction:
        """q = P(the bit of any other place is 1)."""
        return self.coin.flip

    def likelihood_ratio(self) -> Fraction:
        """The most that an answer can favour one drawn place over another: at most e^ε."""
        p, q = self.own, self.other
        return p * (1 - q) / ((1 - p) * q)

    def loss_per_user(self) -> PrivacyLoss:
        return local_loss(self.epsilon_per_user, Unit.USER)

    def answers(self, drawn: OffsetArray, stream: Stream) -> BoolArray:
        """The bits (I, J) of people who drew these places (I,). Runs on each device; the bits may leave it."""
        self._check(drawn)
        bits = stream.bernoulli(self.coin.flip_words, drawn.size * self.places).reshape(drawn.size, self.places)
        of_drawn = stream.bernoulli(WORDS // 2, drawn.size)
        somewhere = np.flatnonzero(drawn != NOTHING)
        bits[somewhere, drawn[somewhere]] = of_drawn[somewhere]
        return bits

    def simulate_ones(self, drawn: OffsetArray, rng: np.random.Generator) -> OffsetArray:
        """The ones for each place (J,) from their exact law, Bin(n_j, 1/2) + Bin(n - n_j, q), n_j being how many
        people drew place j. A simulation: it protects nobody."""
        self._check(drawn)
        drew = np.bincount(drawn[drawn != NOTHING], minlength=self.places)
        ones: OffsetArray = rng.binomial(drew, float(self.own)) + rng.binomial(drawn.size - drew, float(self.other))
        return ones

    def estimate(self, ones: OffsetArray, *, people: int) -> RealArray:
        """How many of so many people drew each place, from the ones (J,). Unbiased; may be negative."""
        return np.asarray((ones - float(people * self.other)) / float(self.own - self.other), dtype=np.float64)

    def variance(self, own: OwnCounts, *, people: int) -> RealArray:
        """Of the estimates (J,) for people who draw a place with the probabilities `own`: noise and draw together."""
        p, q = float(self.own), float(self.other)
        # a person sends a 1 with probability m = q + (p-q) π; Σ m (1-m) over people
        squares = OwnCounts(own.places, own.pairs, own.counts**2)
        spread: RealArray = people * q * (1 - q) + (p - q) * (1 - 2 * q) * own.total()
        return (spread - (p - q) ** 2 * squares.total()) / (p - q) ** 2

    def _check(self, drawn: OffsetArray) -> None:
        if np.any((drawn < NOTHING) | (drawn >= self.places)):
            raise UsageError("what is drawn is a place of the catalogue, by its row, or NOTHING")


def draw_places(
    visited: OwnCounts, *, people: int, below: Callable[[OffsetArray], OffsetArray]
) -> OffsetArray:  # fmt: skip
    """One visited place of each person (I,), each as likely as another, or NOTHING.

    `below` draws a number from 0 to below each bound: `Stream.below` where it has to be exact, a generator's `integers`
    in a simulation."""
    starts = _starts(visited, people)
    visits = np.diff(starts)
    at = below(np.maximum(visits, 1))
    drawn = np.full(people, NOTHING, dtype=np.int64)
    somewhere = visits > 0
    drawn[somewhere] = visited.pairs[(starts[:-1] + at)[somewhere]] % visited.places
    return drawn


def chances(visited: OwnCounts, *, people: int) -> OwnCounts:
    """1/v for each place of each person: with this probability the place is drawn."""
    visits = np.diff(_starts(visited, people))
    return OwnCounts(visited.places, visited.pairs, 1.0 / np.repeat(visits, visits))


def _starts(visited: OwnCounts, people: int) -> OffsetArray:
    """(I + 1,): where each person's places begin in `visited.pairs`."""
    return np.searchsorted(visited.pairs, np.arange(people + 1, dtype=np.int64) * visited.places)


def _simulate(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    visited, people = collection.own, collection.people
    mechanism = UnaryEncoding(price.epsilon_per_user, collection.places)
    drawn = draw_places(visited, people=people, below=rng.integers)
    found = mechanism.estimate(mechanism.simulate_ones(drawn, rng), people=people)
    # a device leaves its own part out as it is on average: a simulation of totals has no single answers
    part = chances(visited, people=people)
    return Estimate(Popularity({"visitors": found}, {"visitors": part}), part.total())


UNARY = Variant("unary encoding", "ε per user, against the recommender too", _simulate, local=True)

# what docs/mechanisms.md compares: the mechanisms of the package, and a local one with a user-level ε beside them
COMPARED: tuple[Variant, ...] = (*VARIANTS, UNARY)
