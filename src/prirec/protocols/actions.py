"""What a party answers with: persist this, then send that. Its driver does both, in the order of the list."""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from prirec.errors import PeerError
from prirec.protocols.messages import AnyMessage, Round
from prirec.types import RingArray


class Stage(IntEnum):
    """How far a round has come, as the journal holds it. It only rises."""

    ENTERED = 1  # keys were made
    MASKED = 2  # a vector was masked: its pads are used up
    AGREED = 3  # the list of survivors is settled: the sum may be opened
    REVEALED = 4  # shares were given out
    OPENED = 5
    BURNT = 6  # given up; nothing of it is ever used again


@dataclass(frozen=True, slots=True)
class Persist:
    """Must be on disk before anything that follows it in the list is done."""

    round: Round
    stage: Stage
    digest: bytes  # of what was settled at this stage; another one is refused
    payload: bytes = field(default=b"", repr=False)  # the bytes to send again after a crash


@dataclass(frozen=True, slots=True)
class Send:
    """A message to its receiver."""

    message: AnyMessage


@dataclass(frozen=True, slots=True)
class Finished:
    """The sum is open to this party."""

    total: RingArray = field(repr=False)
    summands: int


@dataclass(frozen=True, slots=True)
class Aborted:
    """The round is over without a sum; `error` says why."""

    error: PeerError


Action: TypeAlias = Persist | Send | Finished | Aborted
