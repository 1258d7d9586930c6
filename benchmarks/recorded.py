"""A round on the in-memory wire in which everything that a party hears is kept, so that one party can be driven through
the same round again, alone: what it then costs is its own work and nobody else's."""

import gc
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from time import process_time

import numpy as np

from prirec.engines.protocol import MemoryJournal, Traffic, Wire
from prirec.protocols import mask_graph
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import Agreement, AnyMessage, Masked, Reveal, Round, Terms, step
from prirec.protocols.party import Action, Party, Persist, Send, State
from prirec.protocols.roster import RosterView, Task
from prirec.protocols.secure_sum import ENTROPY, Collector, Member
from prirec.sharing.keys import SigningKey
from prirec.types import RingArray

ADVANCE = b""  # among what a collector hears: the time for the step is over

Heard = list[tuple[str, bytes]]  # a step and the bytes that came


class Listening:
    """Stands in for a party on the wire and keeps what it hears."""

    def __init__(self, party: Party) -> None:
        self.party, self.name = party, party.name
        self.heard: Heard = []

    @property
    def state(self) -> State:
        return self.party.state

    def receive(self, message: AnyMessage) -> list[Action]:
        self.heard.append((step(type(message)), encode(message)))
        return self.party.receive(message)

    def advance(self) -> list[Action]:
        self.heard.append((f"time is over: no longer {self.state}", ADVANCE))
        return self.party.advance()


@dataclass(slots=True)
class Recording:
    """What one member and the collector heard in a round, and how to make both again as they were before it."""

    member: Callable[[], Member]
    member_heard: Heard
    collector: Callable[[], Collector]
    collector_heard: Heard
    names: list[bytes]
    traffic: Traffic
    total: RingArray = field(repr=False)


def record(terms: Terms, *, size: int, lost: int = 0) -> Recording:
    """A whole round of `size` devices, the last `lost` of whom are not heard of again after their boxes."""
    rng = np.random.default_rng(0)
    receiver, identities = SigningKey(rng.bytes(32)), [SigningKey(rng.bytes(32)) for _ in range(size)]
    task = Task(Round(b"benchmark round.", "interaction", 1), receiver.public, terms, rng.bytes(32))
    values = rng.integers(0, 2**64, (size, terms.length), dtype=np.uint64)
    entropies, collectors = [rng.bytes(ENTROPY) for _ in range(size)], rng.bytes(32)

    def member(at: int = 0) -> Member:
        return Member(task, identity=identities[at], value=values[at], entropy=entropies[at])

    def collector() -> Collector:
        return Collector(task, identity=receiver, entropy=collectors)

    gone = {identity.public for identity in identities[size - lost :]}
    wire, server, device = Wire(_losing(gone)), Listening(collector()), Listening(member())
    for party in (server, device, *(member(at) for at in range(1, size))):
        wire.attach(party, MemoryJournal())
    names = [identity.public for identity in identities]
    wire.do(server, server.party.invite(names))
    wire.run(server)
    total = wire.finished[server.name].total
    assert np.array_equal(total, values[: size - lost].sum(axis=0, dtype=np.uint64))
    assert not wire.refused
    return Recording(member, device.heard, collector, server.heard, names, wire.traffic, total)


def _losing(gone: Collection[bytes]) -> Callable[[AnyMessage], tuple[int, ...]]:
    late = (Masked, Agreement, Reveal)
    return lambda message: () if isinstance(message, late) and message.sender in gone else (0,)


def member_work(recording: Recording) -> Counter[str]:
    """CPU seconds of one member by what it hears, keys made, messages decoded, checked, written down and encoded."""
    began = process_time()
    member = recording.member()
    made = process_time() - began
    return Counter({"key pairs": made}) + _driven(member, MemoryJournal(), recording.member_heard)


def collector_work(recording: Recording) -> Counter[str]:
    """CPU seconds of the collector by what it hears, or what it goes on to when a step is over."""
    gc.collect()
    began = process_time()
    collector, journal = recording.collector(), MemoryJournal()
    _do(collector.invite(recording.names), journal)
    invited = process_time() - began
    work = Counter({"invite": invited}) + _driven(collector, journal, recording.collector_heard)
    assert collector.state is State.DONE
    return work


def _driven(party: Party, journal: MemoryJournal, heard: Heard) -> Counter[str]:
    work = Counter[str]()
    for name, came in groupby(heard, key=itemgetter(0)):  # one look at the clock for each step
        began = process_time()
        for _, data in came:
            _do(party.advance() if data == ADVANCE else party.receive(decode(data)), journal)
        work[name] += process_time() - began
    return work


def _do(actions: list[Action], journal: MemoryJournal) -> None:
    for action in actions:
        if isinstance(action, Persist):
            journal.write(action)
        elif isinstance(action, Send):
            encode(action.message)


def met(recording: Recording) -> RosterView:
    """What the member knows of the others, once it has heard the roster."""
    member = recording.member()
    _driven(member, MemoryJournal(), recording.member_heard[:2])
    return member._view


def forget_plans() -> None:
    """A device that comes to a round has no graph at hand that another one worked out."""
    for found in vars(mask_graph).values():
        if hasattr(found, "cache_clear"):
            found.cache_clear()
