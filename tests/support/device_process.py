"""One device as a process of its own. It keeps its journal in a file, hears and speaks over pipes, and dies by SIGKILL
at a moment that it is told.

Run as a script this is a nursery: it has everything imported, and forks a new device whenever one is started. Orders
come in and reports go out as frames over its standard input and output. Each order is answered by reports, the last of
which is `Done`, or `Ended` where the device is no more; so only one side ever has something to say.
"""

import os
import signal
import struct
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec
import numpy as np

from prirec.device.store import Store
from prirec.errors import PeerError, StateError
from prirec.protocols import sdgd, secure_sum
from prirec.protocols.codec import decode, encode, ring_dtype
from prirec.protocols.messages import Round, Terms
from prirec.protocols.party import Aborted, Action, Finished, Persist, Send, Stage
from prirec.protocols.roster import MemberBase, Task
from prirec.protocols.sdgd import Neighbour
from prirec.protocols.secure_sum import Member
from prirec.sharing import secret_sharing
from prirec.sharing.keys import SigningKey
from prirec.types import RingArray


class Start(msgspec.Struct, frozen=True, tag=True):
    """A new life of the device. It dies at its dies_at-th moment: one is before each action, one after each answer."""

    journal: str
    identity: bytes
    collector: bytes
    terms: Terms
    model: bytes
    life: int
    dies_at: int | None = None


class Hear(msgspec.Struct, frozen=True, tag=True):
    data: bytes


class Resume(msgspec.Struct, frozen=True, tag=True):
    """Send again what may be sent again of this round."""

    round: Round


class Die(msgspec.Struct, frozen=True, tag=True):
    """At once, between two messages."""


class Wrote(msgspec.Struct, frozen=True, tag=True):
    """Reported once it is durable."""

    round: Round
    stage: int


class Said(msgspec.Struct, frozen=True, tag=True):
    data: bytes
    again: bool = False  # from the journal


class Opened(msgspec.Struct, frozen=True, tag=True):
    total: bytes
    summands: int


class Refused(msgspec.Struct, frozen=True, tag=True):
    by: str  # "party" or "journal"
    text: str


class Done(msgspec.Struct, frozen=True, tag=True):
    pass


class Ended(msgspec.Struct, frozen=True, tag=True):
    code: int  # the exit code, or the signal below zero


Order: TypeAlias = Start | Hear | Resume | Die
Report: TypeAlias = Wrote | Said | Opened | Refused | Done | Ended
ORDERS: "msgspec.msgpack.Decoder[Order]" = msgspec.msgpack.Decoder(Order)
REPORTS: "msgspec.msgpack.Decoder[Report]" = msgspec.msgpack.Decoder(Report)


def put(pipe: int, frame: Order | Report) -> None:
    data = msgspec.msgpack.encode(frame)
    data = struct.pack("<I", len(data)) + data
    while data:
        data = data[os.write(pipe, data) :]


def get(pipe: int) -> bytes | None:
    """One frame, or None where the other side is gone."""
    head = _exactly(pipe, 4)
    return None if head is None else _exactly(pipe, struct.unpack("<I", head)[0])


def _exactly(pipe: int, many: int) -> bytes | None:
    data = b""
    while len(data) < many:
        more = os.read(pipe, many - len(data))
        if not more:
            return None
        data += more
    return data


def value_of(life: int, of: Round, terms: Terms) -> RingArray:
    """What the device would add to this round in this life: another vector each time, so that pads laid on twice would
    show."""
    rng = np.random.default_rng([life, of.number, of.attempt, of.group])
    return np.frombuffer(rng.bytes(terms.length * ring_dtype(terms).itemsize), dtype=ring_dtype(terms))


class Device:
    """Does what its parties ask for, in their order. A party whose write is refused has no place any more."""

    def __init__(self, start: Start) -> None:
        self._start, self._store = start, Store.open(Path(start.journal))
        self._parties: dict[Round, MemberBase] = {}
        self._moments = 0

    def obey(self, order: Order) -> None:
        match order:
            case Hear():
                self._hear(order.data)
            case Resume():
                self._resume(order.round)
            case _:
                _die()

    def _hear(self, data: bytes) -> None:
        message = decode(data)
        of = message.round
        party = self._parties.setdefault(of, self._parties.get(of) or self._party(of))
        try:
            self._do(party.receive(message))
        except PeerError as refusal:
            put(1, Refused("party", str(refusal)))
        except StateError as refusal:
            del self._parties[of]
            put(1, Refused("journal", str(refusal)))

    def _party(self, of: Round) -> MemberBase:
        """Whatever is heard of a round first, and whatever was before: nobody helps the party to refuse."""
        start = self._start
        task, value = Task(of, start.collector, start.terms, start.model), value_of(start.life, of, start.terms)
        identity = SigningKey(start.identity)
        if start.terms.method != "shares":
            return Member(task, identity=identity, value=value, entropy=os.urandom(secure_sum.ENTROPY))
        others = start.terms.floor - 1
        pads = np.frombuffer(os.urandom(others * value.nbytes), dtype=value.dtype).reshape(others, -1)
        return Neighbour(task, identity=identity, value=value, pads=pads, entropy=os.urandom(sdgd.ENTROPY))

    def _resume(self, of: Round) -> None:
        held = self._store.entry(of)
        if held is not None and held.round == of and held.stage is Stage.MASKED and held.payload:
            self._moment()
            put(1, Said(held.payload, again=True))
            self._moment()

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            self._moment()
            match action:
                case Persist():
                    self._store.write(action)
                    put(1, Wrote(action.round, action.stage))
                case Send():
                    put(1, Said(encode(action.message)))
                case Finished():
                    put(1, Opened(action.total.tobytes(), action.summands))
                case Aborted():
                    put(1, Refused("party", str(action.error)))
        self._moment()

    def _moment(self) -> None:
        if self._moments == self._start.dies_at:
            _die()
        self._moments += 1


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _live(start: Start) -> None:
    device = Device(start)
    put(1, Done())
    while (frame := get(0)) is not None:
        device.obey(ORDERS.decode(frame))
        put(1, Done())


def _bear(start: Start) -> int:
    """A device from here on; how it ended, once it did."""
    child = os.fork()
    if child == 0:
        try:
            _live(start)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _nurse() -> None:
    secret_sharing.shamir_split(
        bytes(32), threshold=2, points=np.arange(1, 4), seed=bytes(32)
    )  # compiled once, not in every life
    while (frame := get(0)) is not None:
        order = ORDERS.decode(frame)
        if not isinstance(order, Start):
            sys.exit("there is no device that could be told this")
        put(1, Ended(_bear(order)))


if __name__ == "__main__":
    _nurse()
