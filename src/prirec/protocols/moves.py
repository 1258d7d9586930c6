"""Legal moves, as data: in which state which message is taken, and what state comes next. All else is an error.

The diagrams in docs/protocols.md are drawn from these tables.
"""

from enum import StrEnum
from typing import TypeAlias

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
    ShareOf,
    Survivors,
)


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
