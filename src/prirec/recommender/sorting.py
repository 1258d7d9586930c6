"""Which of the messages that a device hands in are taken: its own, for the recommender, in a round that is open and
that it was invited to. Who was not is told what those are told who come too late.

The rest of what a message must be is for the collector to judge.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import decode
from prirec.protocols.messages import Agreement, Boxes, Keys, Masked, Reveal
from prirec.recommender.store import Incoming

KINDS: Final = frozenset({"popularity", "linear", "interaction"})  # of sums that a campaign has
STEPS: Final = (Keys, Boxes, Masked, Agreement, Reveal)  # what a member says to a collector


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a message is not taken; nothing of it is repeated."""

    fault: Fault
    words: str


_UNREADABLE: Final = Problem(Fault.DECODE, "is not exactly one message of this version")
_BORROWED: Final = Problem(Fault.AUTH, "is in somebody else's name")
_ASTRAY: Final = Problem(Fault.ORDER, "is not for the recommender")
_NOT_OPEN: Final = Problem(Fault.ORDER, "is for a round that is not open")


@dataclass(frozen=True, slots=True)
class Sorted:
    """What is to be handed in, and for each of all messages why it is not."""

    items: list[Incoming] = field(repr=False)
    problems: list[Problem | None]

    def refused(self, taken: Sequence[bool]) -> tuple[str, ...]:
        """In words, given which of the items were taken."""
        each = iter(taken)
        told = [problem or (None if next(each) else _NOT_OPEN) for problem in self.problems]
        return tuple(f"{why.fault}: message {at} {why.words}" for at, why in enumerate(told) if why is not None)


class Sorter:
    """Knows whom messages must be for."""

    def __init__(self, deployment: bytes, recommender: bytes):
        self._deployment, self._recommender = deployment, recommender

    def sorted(self, messages: Sequence[bytes], *, sender: bytes) -> Sorted:
        judged = [self._judged(body, sender=sender) for body in messages]
        items = [one for one in judged if isinstance(one, Incoming)]
        return Sorted(items, [one if isinstance(one, Problem) else None for one in judged])

    def _judged(self, body: bytes, *, sender: bytes) -> Incoming | Problem:
        try:
            message = decode(body)
        except PeerError:
            return _UNREADABLE
        of = message.round
        if message.sender != sender:
            return _BORROWED
        if message.receiver != self._recommender or not isinstance(message, STEPS):
            return _ASTRAY
        if of.deployment != self._deployment or of.kind not in KINDS:
            return _NOT_OPEN
        return Incoming(of, sender, body)
