"""A party of a protocol: a state machine that is fed messages and answers with actions. It has no socket and no clock.

Legal moves are data, and docs/protocols.md draws its diagrams from them: in which state which message is accepted, and
what state comes next. Everything else is an error. An action says: persist this, then send that; whoever drives the
party does both, in the order of the list.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, TypeAlias

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import digest
from prirec.protocols.messages import (
    VERSION,
    Agreement,
    Agreements,
    AnyMessage,
    Batch,
    Boxes,
    Closing,
    Delivery,
    GivenUp,
    Invitation,
    Keys,
    Masked,
    NoisedShare,
    OpenedSum,
    Partial,
    Participants,
    Receipt,
    Report,
    Reveal,
    Roster,
    Round,
    ShareOf,
    Survivors,
    Verdicts,
    step,
)
from prirec.types import RingArray

# Actions


class Stage(IntEnum):
    """How far a round has come, as the journal holds it. It only rises."""

    ENTERED = 1  # keys were made
    MASKED = 2  # a vector was masked: its pads are used up
    AGREED = 3  # the list of survivors is settled: the sum may be opened
    REVEALED = 4  # shares were given out; a leader's: its noised share is, to a helper that has committed to its own
    OPENED = 5
    BURNT = 6  # given up; nothing of it is ever used again


@dataclass(frozen=True, slots=True)
class Persist:
    """Must be on disk before anything that follows it in the list is done: a party that sent first could, after a
    crash, send a second and different vector for the same round."""

    round: Round
    stage: Stage
    digest: bytes  # of what was settled at this stage; another one is refused
    payload: bytes = field(default=b"", repr=False)  # the bytes to send again after a crash


@dataclass(frozen=True, slots=True)
class Settle:
    """What an operator has settled of a round so far. As one write, before anything that follows in the list: `lines`
    are added to those of earlier numbers, `state` takes the place of the last one. When the round is AGREED or BURNT
    the state is erased, for it holds a share of the sum without noise; lines are kept, against reports that come again.
    Which number may be written is a rule of the journal (protocols/journal.py)."""

    round: Round
    number: int  # 0, 1, 2, ... in a round
    lines: bytes
    state: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Send:
    """A message to its receiver."""

    message: AnyMessage


@dataclass(frozen=True, slots=True)
class Finished:
    """The sum was opened to this party: `total` over so many `summands`."""

    total: RingArray = field(repr=False)
    summands: int


@dataclass(frozen=True, slots=True)
class Aborted:
    """The round is over without a sum; `error` says why."""

    error: PeerError


@dataclass(frozen=True, slots=True)
class Blame:
    """Proof that a member broke the protocol, whoever else lies: for the operator, who may exclude the device."""

    name: bytes
    why: str


Action: TypeAlias = Persist | Settle | Send | Finished | Aborted | Blame
Handlers: TypeAlias = dict[type[AnyMessage], Callable[[Any], list[Action]]]


# Legal moves


class State(StrEnum):
    IDLE = "idle"
    ENTERED = "entered"  # keys sent
    SHARING = "sharing"  # boxes sent
    RECEIVED = "received"  # the others' boxes opened, receipt sent
    MASKED = "masked"  # vector sent
    AGREED = "agreed"  # survivors signed
    REVEALED = "revealed"  # shares given out
    COLLECTING = "collecting"  # Algorithm 1: own shares sent, the others' come in
    DONE = "done"
    BURNT = "burnt"

    # the collector's states are named for what it waits for
    KEYS = "waiting for keys"
    BOXES = "waiting for boxes"
    RECEIPTS = "waiting for receipts"
    VECTORS = "waiting for vectors"
    AGREEMENTS = "waiting for agreements"
    REVEALS = "waiting for reveals"
    PARTIALS = "waiting for partial sums"

    # an operator's, likewise
    REPORTS = "waiting for reports"
    VERDICTS = "waiting for the last verdicts"
    CLOSING = "waiting for the other's closing"
    NOISED = "waiting for the other's noised share"
    SIGNATURE = "waiting for the other's signature"


Moves: TypeAlias = dict[State, dict[type[AnyMessage], State]]

MEMBER: Moves = {
    State.IDLE: {Invitation: State.ENTERED},
    State.ENTERED: {Roster: State.SHARING},
    State.SHARING: {Delivery: State.RECEIVED},
    State.RECEIVED: {Participants: State.MASKED},
    State.MASKED: {Survivors: State.AGREED},
    State.AGREED: {Agreements: State.REVEALED},
    State.REVEALED: {},
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

# A collector stays in a state until the time for the step is over: COLLECTOR_STEPS.
COLLECTOR: Moves = {
    State.IDLE: {},
    State.KEYS: {Keys: State.KEYS},
    State.BOXES: {Boxes: State.BOXES},
    State.RECEIPTS: {Receipt: State.RECEIPTS},
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

# A device of a sum over two operators hears nothing; a resent report is the driver's.
DEVICE: Moves = {State.IDLE: {}, State.DONE: {}}

# Below the floor the leader goes back from VERDICTS to REPORTS: the window is extended.
LEADER: Moves = {
    State.IDLE: {},
    State.REPORTS: {Report: State.REPORTS, Verdicts: State.REPORTS, GivenUp: State.BURNT},
    State.VERDICTS: {Verdicts: State.VERDICTS, GivenUp: State.BURNT},
    State.CLOSING: {Closing: State.NOISED, GivenUp: State.BURNT},
    State.NOISED: {NoisedShare: State.SIGNATURE, GivenUp: State.BURNT},
    State.SIGNATURE: {OpenedSum: State.DONE, GivenUp: State.BURNT},
    State.DONE: {},
    State.BURNT: {},
}

HELPER: Moves = {
    State.IDLE: {},
    State.REPORTS: {Batch: State.REPORTS, Closing: State.NOISED, GivenUp: State.BURNT},
    State.NOISED: {NoisedShare: State.SIGNATURE, GivenUp: State.BURNT},
    State.SIGNATURE: {OpenedSum: State.DONE, GivenUp: State.BURNT},
    State.DONE: {},
    State.BURNT: {},
}

# What a collector goes on to when the time for a step is over; a round begins with its invitations.
COLLECTOR_STEPS = {
    State.KEYS: State.BOXES,
    State.BOXES: State.RECEIPTS,
    State.RECEIPTS: State.VECTORS,
    State.VECTORS: State.AGREEMENTS,
    State.AGREEMENTS: State.REVEALS,
    State.REVEALS: State.DONE,
}
LEADER_STEPS = {State.REPORTS: State.VERDICTS}
PAD_STEPS = {State.KEYS: State.VECTORS, State.VECTORS: State.DONE}
RECEIVER_STEPS = {State.KEYS: State.PARTIALS, State.PARTIALS: State.DONE}


# The state machine


class FatalError(PeerError):
    """Raised inside a party: the message is refused, and the round is over for this party as well."""

    def __init__(self, fault: Fault, text: str, *, blamed: Collection[bytes] = ()) -> None:
        super().__init__(fault, text)
        self.blamed = blamed  # members who broke the protocol, for certain


class Party(ABC):
    """A state machine: it knows its legal moves, and answers a repeated message as it did the first time.

    A PeerError that leaves `receive` means that the message was refused and nothing has changed. A fault after which
    it would be unsafe to go on burns the round: the answer then is to persist that, and to say why.
    """

    moves: Moves
    burns_on_equivocation = True  # a device gives up; a collector keeps the first message

    def __init__(self, name: bytes, of: Round) -> None:
        self.name, self.round, self.state = name, of, State.IDLE
        # digest of each message that was accepted, and the answer to it
        self._answered: dict[tuple[Any, ...], tuple[bytes, list[Action]]] = {}
        self._written: Persist | Settle | None = None  # the last thing to persist

    def receive(self, message: AnyMessage) -> list[Action]:
        """Accept a message; returns what is to be done, in order."""
        # Before anything else: a message of another round must not be able to burn this one.
        if message.round != self.round or message.receiver != self.name:
            raise PeerError(Fault.ORDER, "a message of another round, or for somebody else")
        if self.state is State.BURNT:
            raise PeerError(Fault.ORDER, "this round is over for this party")
        said, mark = self.place_of(message), self.mark_of(message)
        if said in self._answered:
            return self._again(said, mark)
        before, following = self.state, self.moves[self.state].get(type(message))
        if following is None:
            raise PeerError(Fault.ORDER, f"'{step(type(message))}' has no place in the state '{self.state}'")
        try:
            actions = self.handle(message)
        except FatalError as fault:
            return self.burn(fault)
        if self.state is before:  # unless the handler has gone elsewhere
            self.state = following
        self._answered[said] = (mark, self.answer_to(message, actions))
        return self.written(actions)

    def place_of(self, message: AnyMessage) -> tuple[Any, ...]:
        """Key under which a party keeps a message: kind and sender."""
        return type(message), message.sender

    def mark_of(self, message: AnyMessage) -> bytes:
        """By which the same message is known when it comes again."""
        return digest(message)

    def answer_to(self, message: AnyMessage, actions: list[Action]) -> list[Action]:
        """What is remembered of the answer to a message."""
        return actions

    def written(self, actions: list[Action]) -> list[Action]:
        """These actions, of which the last write is remembered."""
        writes = (one for one in reversed(actions) if isinstance(one, Persist | Settle))
        self._written = next(writes, self._written)
        return actions

    @property
    @abstractmethod
    def handlers(self) -> Handlers:
        """The handler of each type of message."""

    def handle(self, message: AnyMessage) -> list[Action]:
        """Handle a message; returns the actions that follow. Raises before it changes anything."""
        handler = self.handlers.get(type(message))
        if handler is None:
            raise PeerError(Fault.ORDER, "a party of this kind has nothing to do with this")
        return handler(message)

    def send(self, kind: Callable[..., AnyMessage], receiver: bytes, *fields: Any) -> Send:
        """A message of this round, from this party."""
        return Send(kind(VERSION, self.round, self.name, receiver, *fields))

    def burn(self, fault: PeerError) -> list[Action]:
        """The round is over for this party; nothing of it will ever be used again."""
        self.state = State.BURNT
        blamed = fault.blamed if isinstance(fault, FatalError) else ()
        blames = [Blame(name, str(fault)) for name in blamed]
        return [Persist(self.round, Stage.BURNT, bytes(32)), *blames, Aborted(fault)]

    def _again(self, said: tuple[Any, ...], mark: bytes) -> list[Action]:
        first, actions = self._answered[said]
        if first == mark:
            sends: list[Action] = [action for action in actions if isinstance(action, Send)]
            # The message may come again because the answer was lost before it was written: persist again, then send.
            return [self._written, *sends] if sends and self._written is not None else sends
        # A collector that sends a device two different versions of a step is trying to learn more than one sum: the
        # device gives up. A member that does so to a collector only harms itself, and may not end everybody's round.
        if self.state is State.DONE or not self.burns_on_equivocation:
            raise PeerError(Fault.EQUIVOCATION, f"a second, different '{step(said[0])}'")
        return self.burn(PeerError(Fault.EQUIVOCATION, f"a second, different '{step(said[0])}'; the round is given up"))
