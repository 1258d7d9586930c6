"""Permanent answers: asked the same thing again, a device says the same again, and nothing more is learnt.

A fresh answer at every collection is undone by a majority vote (with ε = 1 per bit, 98.9 % right after 21). Here the
random word of an answer is a keyed function (BLAKE2b, key from HKDF) of the device's secret, the question and the
POI's own name: not of its row in a catalogue, which a recommender could shuffle. To whoever lacks the secret the
words are as good as fresh ones, once. They are of one mechanism: shared by two ε, they would show the truth of whoever
is flipped at one and not at the other.

Proof that repeating adds nothing: the second answer is a function of the first, as long as the truth stands still. A
truth that moves would give itself away when the answer changes, so a question is about a CLOSED window of days, and
one that is still open is refused. "Visited in June" and "visited in July" are two questions: each has answers of its
own, and the ledger pays for each. Overlapping windows are paid for in full, too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from prirec.errors import PolicyError, UsageError
from prirec.privacy.randomized_response import RandomizedResponse
from prirec.privacy.units import PrivacyLoss, Unit
from prirec.sharing.keys import derive
from prirec.types import BoolArray, RingArray


@dataclass(frozen=True, slots=True, order=True)
class Question:
    """What is asked about every POI: a feature ("visited") over whole days, first and last included."""

    feature: str
    first_day: int  # days since 1970
    last_day: int

    def __post_init__(self) -> None:
        if not self.feature or self.first_day > self.last_day:
            raise UsageError("a question names a feature and a window whose first day is not after its last")

    def check_closed(self, today: int) -> None:
        """PolicyError while the window is open: the truth could still move, and a changed answer would show it."""
        if self.last_day >= today:
            raise PolicyError("a permanent answer is given about days that are over; ask again after the window's end")


def permanent_words(secret: bytes, question: Question, places: Sequence[str], *, purpose: str) -> RingArray:
    """A random word for each POI (J,), the same whenever the same is asked, in whatever order the POIs come."""
    key = derive(secret, "prirec permanent answer", purpose, question.feature, question.first_day, question.last_day)
    digests = (blake2b(place.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest() for place in places)
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def permanent_answers(
    visited: BoolArray,
    *,
    places: Sequence[str],
    question: Question,
    today: int,
    mechanism: RandomizedResponse,
    secret: bytes,
) -> BoolArray:
    """Eq. (5), once and for all: the answers (J,) of one device to one question. The recommender sees them only."""
    if visited.dtype != np.bool_ or visited.shape != (len(places),):
        raise UsageError("there is one truth, yes or no, for each POI that is asked about")
    question.check_closed(today)
    words = permanent_words(secret, question, places, purpose=f"randomised response, {mechanism.flip_words} words")
    answers: BoolArray = visited ^ (words < np.uint64(mechanism.flip_words))
    return answers


def distinct_answers(asked: Iterable[Question]) -> int:
    """How many different answers about each POI were released: a question that was asked before is not a new one."""
    return len(set(asked))


def loss_per_user(asked: Iterable[Question], *, pois: int, mechanism: RandomizedResponse) -> PrivacyLoss:
    """All answers that one person gave: distinct questions × POIs × ε per bit."""
    return mechanism.loss_per_bit().times(distinct_answers(asked) * pois, Unit.USER)


def loss_per_event(asked: Iterable[Question], *, mechanism: RandomizedResponse) -> PrivacyLoss:
    """One visit on one day moves the answer to every question whose window holds that day: the worst day counts."""
    questions = set(asked)
    # the number of windows over a day only rises where one of them begins
    most = max(
        (sum(q.first_day <= day <= q.last_day for q in questions) for day in {q.first_day for q in questions}),
        default=0,
    )
    return mechanism.loss_per_bit().times(most, Unit.EVENT)
