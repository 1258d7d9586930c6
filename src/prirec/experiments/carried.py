"""Sums over the in-memory wire, with every byte counted: messages cross it as they would cross a network, and every box
is opened again to count the ring elements in it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from prirec.engines.randomness import generator
from prirec.engines.wire import MemoryJournal, Wire
from prirec.protocols.boxes import unseal
from prirec.protocols.codec import decode_content
from prirec.protocols.convener import Convener
from prirec.protocols.guest import Guest
from prirec.protocols.meeting import Task
from prirec.protocols.messages import AnyMessage, Masked, Partial, Round, ShareOf, Terms, Vector, step
from prirec.protocols.sdgd import ENTROPY, Neighbour, Receiver
from prirec.protocols.secure_sum import member
from prirec.protocols.secure_sum.collector import Collector
from prirec.protocols.secure_sum.member import Member
from prirec.sharing.keys import SigningKey

LENGTH = 90  # a linear model: w_0 and 89 features
WORD = 8  # bytes: the ring of 64 bits
MEETING = ("invitation", "keys", "roster")
CARRYING = (ShareOf, Partial, Masked)


@dataclass(frozen=True, slots=True)
class Count:
    """One sum, by step: bytes on the wire, messages, and the bytes of ring elements in their boxes."""

    octets: Counter[str]
    messages: Counter[str]
    payload: Counter[str]
    one: dict[str, Any]  # a message of each step

    @property
    def meeting(self) -> int:
        return sum(self.octets[name] for name in MEETING)

    def overhead(self, name: str) -> int:
        """Bytes of each message of a step beside its ring elements."""
        over, rest = divmod(self.octets[name] - self.payload[name], self.messages[name])
        if rest:
            raise ValueError(f"messages of the step '{name}' differ in length")
        return over


def counted(method: Literal["shares", "pads"], size: int, *, length: int = LENGTH) -> Count:
    """One sum of so many people by Algorithm 1 (shares) or under pads, over the in-memory wire; it is checked, too."""
    rng = generator(size, "bytes on the wire")
    own, identities = SigningKey(rng.bytes(32)), [SigningKey(rng.bytes(32)) for _ in range(size)]
    terms = Terms(method, "collector", length, ring_bits=64, fraction_bits=24, bound=2**30, floor=size)
    task = Task(Round(rng.bytes(16), "linear", 1), own.public, terms, rng.bytes(32))
    values = rng.integers(0, 2**64, (size, length), dtype=np.uint64)
    devices = [device(task, identity, value, rng) for identity, value in zip(identities, values, strict=True)]
    receiver = (Receiver if method == "shares" else Collector)(task, identity=own, entropy=rng.bytes(32))
    carried: list[AnyMessage] = []

    def carry(message: AnyMessage) -> Sequence[int]:
        carried.append(message)
        return (0,)

    wire = Wire(carry)
    for party in (receiver, *devices):
        wire.attach(party, MemoryJournal())
    wire.do(receiver, receiver.invite([one.name for one in devices]))
    wire.run(receiver)
    if not np.array_equal(wire.finished[receiver.name].total, values.sum(axis=0, dtype=np.uint64)):
        raise ValueError("the sum is not the sum")
    payload = elements(carried, {one.name: one for one in devices}, receiver)
    return Count(wire.traffic.octets, wire.traffic.messages, payload, {step(type(one)): one for one in carried})


def device(task: Task, identity: SigningKey, value: np.ndarray, rng: np.random.Generator) -> Guest:
    if task.terms.method == "pads":
        return Member(task, identity=identity, value=value, entropy=rng.bytes(member.ENTROPY))
    pads = rng.integers(0, 2**64, (task.terms.floor - 1, task.terms.length), dtype=np.uint64)
    return Neighbour(task, identity=identity, value=value, pads=pads, entropy=rng.bytes(ENTROPY))


def elements(carried: list[AnyMessage], devices: dict[bytes, Guest], receiver: Convener) -> Counter[str]:
    """Bytes of ring elements by step, every box opened with the keys of whom it is for."""
    payload = Counter[str]()
    for message in carried:
        if isinstance(message, CARRYING):
            to = devices.get(message.receiver, receiver)
            secret, other = to._box_key, devices[message.sender]._box_key.public
            header = receiver._meeting.header(sender=message.sender, receiver=to.name, kind=type(message))
            content = decode_content(Vector, unseal(secret.agree(other), header, message.sealed))
            payload[step(type(message))] += len(content.values)
    return payload
