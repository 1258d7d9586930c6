"""What a party answers with: persist this, then send that. Its driver does both, in the order of the list."""

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import TypeAlias

from prirec.errors import PeerError
from prirec.protocols.messages import (
    Agreement,
    Agreements,
    AnyMessage,
    Boxes,
    Delivery,
    Invitation,
    Keys,
    Masked,
    Opened,
    Partial,
    Reveal,
    Roster,
    Round,
    ShareOf,
    Survivors,
)
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


# Legal moves, as data: in which state which message is taken, and what state comes next. All else is an error.
#
# The diagrams in docs/protocols.md are drawn from these tables.


class State(StrEnum):
    IDLE = "idle"
    ENTERED = "entered"  # keys sent
    SHARING = "sharing"  # boxes sent
    MASKED = "masked"  # vector sent
    AGREED = "agreed"  # survivors signed
    REVEALED = "revealed"  # shares given out
    COLLECTING = "collecting"  # Algorithm 1: own shares sent, the others' come in
    DONE = "done"
    BURNT = "burnt"

    # the collector's states are named for what it waits for
    KEYS = "waiting for keys"
    BOXES = "waiting for boxes"
    VECTORS = "waiting for vectors"
    AGREEMENTS = "waiting for agreements"
    REVEALS = "waiting for reveals"
    PARTIALS = "waiting for partial sums"


Moves: TypeAlias = dict[State, dict[type[AnyMessage], State]]

MEMBER: Moves = {
    State.IDLE: {Invitation: State.ENTERED},
    State.ENTERED: {Roster: State.SHARING},
    State.SHARING: {Delivery: State.MASKED},
    State.MASKED: {Survivors: State.AGREED},
    State.AGREED: {Agreements: State.REVEALED},
    State.REVEALED: {Opened: State.DONE},
    State.DONE: {},
    State.BURNT: {},
}

PAD_MEMBER: Moves = {
    State.IDLE: {Invitation: State.ENTERED},
    State.ENTERED: {Roster: State.DONE},
    State.DONE: {},
    State.BURNT: {},
}

# Algorithm 1: a share may overtake the roster, and is kept until it can be opened.
NEIGHBOUR: Moves = {
    State.IDLE: {Invitation: State.ENTERED},
    State.ENTERED: {Roster: State.COLLECTING, ShareOf: State.ENTERED},
    State.COLLECTING: {ShareOf: State.COLLECTING},
    State.DONE: {},
    State.BURNT: {},
}

COLLECTOR: Moves = {
    State.IDLE: {},
    State.KEYS: {Keys: State.KEYS},
    State.BOXES: {Boxes: State.BOXES},
    State.VECTORS: {Masked: State.VECTORS},
    State.AGREEMENTS: {Agreement: State.AGREEMENTS},
    State.REVEALS: {Reveal: State.REVEALS},
    State.DONE: {},
    State.BURNT: {},
}

RECEIVER: Moves = {
    State.IDLE: {},
    State.KEYS: {Keys: State.KEYS},
    State.PARTIALS: {Partial: State.PARTIALS},
    State.DONE: {},
    State.BURNT: {},
}

# What a collector goes on to when the time for a step is over; a round begins with its invitations.
COLLECTOR_STEPS = {
    State.KEYS: State.BOXES,
    State.BOXES: State.VECTORS,
    State.VECTORS: State.AGREEMENTS,
    State.AGREEMENTS: State.REVEALS,
    State.REVEALS: State.DONE,
}
PAD_STEPS = {State.KEYS: State.VECTORS, State.VECTORS: State.DONE}
RECEIVER_STEPS = {State.KEYS: State.PARTIALS, State.PARTIALS: State.DONE}
