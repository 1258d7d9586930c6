"""Every person answers about k POIs drawn from the catalogue, under one ε for each USER: ε/k for each answer.

The draw is blind to where the person was, so which POIs are answered about says nothing. Each answer is randomised
response with ε/k, rounded so that k of them never exceed ε; the answers about k POIs compose.
Proof. Between any two visit vectors, an answer about given POIs has a ratio of at most ((1-q)/q)^k ≤ e^ε.
Unbiased for the number of visitors, whoever was at however many POIs: a POI is drawn with probability k/J, and Eq.
(6) is scaled by J/k.
"""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from prirec.compiled import kernel
from prirec.errors import UsageError
from prirec.privacy.randomized_response import RandomizedResponse, perturb, simulate_ones
from prirec.privacy.randomness import Stream, below
from prirec.privacy.units import PrivacyLoss, Unit, checked_epsilon, local_loss
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray, RingArray


@dataclass(frozen=True, slots=True)
class SampledPois:
    """The mechanism for a catalogue of J POIs, k of which each person answers about."""

    epsilon_per_user: float
    pois: int
    sampled: int = 1  # k
    coin: RandomizedResponse = field(init=False, repr=False)

    def __post_init__(self) -> None:
        epsilon = checked_epsilon(self.epsilon_per_user, "epsilon_per_user")
        if not 1 <= self.sampled <= self.pois:
            raise UsageError("a person answers about at least one POI, and at most about all of them")
        each = epsilon / self.sampled
        if Fraction(each) * self.sampled > Fraction(epsilon):
            each = math.nextafter(each, 0)
        object.__setattr__(self, "coin", RandomizedResponse(each))

    def likelihood_ratio(self) -> Fraction:
        """The most that all answers of one person can favour one visit vector over another: at most e^ε."""
        return self.coin.likelihood_ratio() ** self.sampled

    def loss_per_user(self) -> PrivacyLoss:
        return local_loss(self.epsilon_per_user, Unit.USER)

    def questions(self, people: int, stream: Stream) -> OffsetArray:
        """Which POIs each person answers about (I, k), all different, every set equally likely."""
        return stream.draw(_samples, np.empty((people, self.sampled), dtype=np.int64), self.pois)

    def answers(self, visited: BoolArray, stream: Stream) -> BoolArray:
        """The answers (I, k), from whether each person was at the POIs asked about (I, k). They leave the devices."""
        if visited.ndim != 2 or visited.shape[1] != self.sampled:
            raise UsageError(f"each person answers about {self.sampled} POIs")
        return perturb(visited, self.coin, stream)

    def estimate(self, questions: OffsetArray, answers: BoolArray) -> RealArray:
        """The number of visitors of each POI (J,); unbiased, may be negative."""
        if questions.shape != answers.shape:
            raise UsageError("there is one answer to each question")
        asked = np.bincount(questions.reshape(-1), minlength=self.pois)
        ones = np.bincount(questions[answers], minlength=self.pois)
        return self._estimated(ones, asked)

    def simulate(self, visitors: OffsetArray, *, people: int, rng: np.random.Generator) -> RealArray:
        """Estimates (J,), each from its exact law: Bin(v, k/J) visitors and Bin(n-v, k/J) others are asked about a POI.

        A simulation, which protects nobody. One person's k POIs are all different, so that estimates of two POIs hang
        together a little; here they do not."""
        if np.any(visitors < 0) or np.any(visitors > people):
            raise UsageError("the visitors of a POI are at least 0 and no more than all people")
        share = self.sampled / self.pois
        there, elsewhere = rng.binomial(visitors, share), rng.binomial(people - visitors, share)
        asked: OffsetArray = there + elsewhere
        return self._estimated(simulate_ones(there, reports=asked, mechanism=self.coin, rng=rng), asked)

    def _estimated(self, ones: OffsetArray, asked: OffsetArray) -> RealArray:
        q = self.coin.flip
        return (ones - float(q) * asked) * float(Fraction(self.pois, self.sampled) / (1 - 2 * q))

    def variance(self, visitors: OffsetArray, *, people: int) -> RealArray:
        """Of the estimates (J,), noise and the draw of POIs together."""
        q = self.coin.flip
        noise = float(q * (1 - q) / (1 - 2 * q) ** 2)
        seen = self.pois / self.sampled * (people * noise + visitors)
        return np.asarray(seen - visitors, dtype=np.float64)


def look_up(questions: OffsetArray, *, starts: OffsetArray, places: IndexArray, pois: int) -> BoolArray:
    """Whether person i was at each POI asked about (I, k), where i was at places[starts[i]:starts[i + 1]]."""
    people = len(starts) - 1
    known = np.unique(np.repeat(np.arange(people), np.diff(starts)) * pois + places)
    found: BoolArray = np.isin(np.arange(people)[:, None] * pois + questions, known)
    return found


@kernel
def _samples(words: RingArray, answers: OffsetArray, done: int, pois: int) -> tuple[int, int]:
    """Floyd's sample without replacement, one row a person."""
    at, k = 0, answers.shape[1]
    for i in range(done, len(answers)):
        after = at
        for m in range(k):
            last = pois - k + m
            drawn, after = below(words, after, np.uint64(last + 1))
            pick = np.int64(drawn)
            for earlier in answers[i, :m]:
                if earlier == pick:
                    pick = last
                    break
            answers[i, m] = pick
        if after > len(words):
            return i, at
        at = after
    return len(answers), at
