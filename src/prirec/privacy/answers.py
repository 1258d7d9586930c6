"""Permanent answers as a paid release: what one of them is, what it costs, and that nothing else comes with it.

A release is all that decides what leaves the device: who asks, the question with its window, the list of POIs in
whatever order, and ε per bit. Its hash names it in the ledger, and goes into the key of its random words. So
- the very same asked again is known there, costs nothing and is the same bytes;
- another window, another list (one POI more is enough), another ε or another recommender is another release. It is paid
  for in full. Its words are independent of all others, so that losses add up as the ledger adds them: also for those
  who compare notes, and if the truth has moved in between. With shared words it would show that it has.
"""

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from prirec.errors import UsageError
from prirec.privacy.accountant import Spent
from prirec.privacy.ledger import Charge
from prirec.privacy.memo import Question, permanent_answers
from prirec.privacy.randomized_response import RandomizedResponse
from prirec.sharing.keys import derive
from prirec.types import BoolArray, OffsetArray

KIND = "answers"
_LONGEST_NAME = 64  # of a feature, as the person reads it
_FIRST, _LAST = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31: what is told as a date


@dataclass(frozen=True, slots=True)
class Asked:
    """What a deployment asks of a device, as one release."""

    deployment: bytes
    question: Question
    places: tuple[str, ...]  # the POIs by their own names, each once, in the order of the answers
    mechanism: RandomizedResponse

    def __post_init__(self) -> None:
        if not self.places or len(set(self.places)) < len(self.places):
            raise UsageError("a question is about at least one POI, and about each of them once")
        if len(self.question.feature) > _LONGEST_NAME or not self.question.feature.isprintable():
            raise UsageError(f"the feature that is asked about has a printable name of at most {_LONGEST_NAME} letters")
        if not _FIRST <= self.question.first_day <= self.question.last_day <= _LAST:
            raise UsageError("the window of a question is between the years 1 and 9999")

    @property
    def digest(self) -> bytes:
        """32 bytes for this release, whatever order the POIs come in: each field with its length, so that no two
        releases are spelt alike."""
        q, names = self.question, sorted(self.places)
        fields = (q.feature, str(q.first_day), str(q.last_day), repr(float(self.mechanism.epsilon_per_bit)), *names)
        spelt = [self.deployment, *(field.encode("utf-8", "surrogatepass") for field in fields)]
        return blake2b(
            b"".join(len(one).to_bytes(8, "big") + one for one in spelt), digest_size=32, person=b"prirec answers"
        ).digest()

    @property
    def charge(self) -> Charge:
        """One bit a POI, from the purse for local answers. Number and attempt are 126 bits of the digest."""
        digest = self.digest
        number, attempt = (int.from_bytes(digest[at : at + 8], "big") >> 1 for at in (0, 8))
        loss = self.mechanism.loss_per_user(len(self.places))
        return Charge(self.deployment, KIND, number, attempt, self.what, Spent(0, (loss,)))

    @property
    def what(self) -> str:
        """In plain words, for the person."""
        first, last = (str(np.datetime64(day, "D")) for day in (self.question.first_day, self.question.last_day))
        days = first if first == last else f"{first} to {last}"
        return f"answers about {days} ({self.question.feature})"

    @property
    def order(self) -> OffsetArray:
        """(J,): where the POIs stand when they are sorted by name, which is how answers are kept."""
        return np.array(sorted(range(len(self.places)), key=self.places.__getitem__), dtype=np.int64)

    def answers(self, visited: BoolArray, *, today: int, secret: bytes) -> BoolArray:
        """(J,): Eq. (5), the same whenever the same is asked. It may leave the device once it is paid for."""
        return permanent_answers(
            visited,
            places=self.places,
            question=self.question,
            today=today,
            mechanism=self.mechanism,
            secret=derive(secret, "prirec answers of one release", self.digest),
        )
