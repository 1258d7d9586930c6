"""Rounds of the secure sum and of Algorithm 1 that several tests share: who is in them, and wires that misbehave."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np

from prirec.engines.protocol import MemoryJournal, Wire, faithful
from prirec.errors import Fault, PeerError
from prirec.protocols import secure_sum
from prirec.protocols.codec import encode, ring_dtype
from prirec.protocols.messages import AnyMessage, Round, Terms
from prirec.protocols.party import Aborted, Action, Party, Persist, Send, State
from prirec.protocols.roster import CollectorBase, MemberBase, Task
from prirec.protocols.sdgd import Neighbour, Receiver
from prirec.protocols.secure_sum import Collector, Member
from prirec.sharing.keys import AgreementKey, SigningKey

MODEL, OTHER_MODEL = sha256(b"V").digest(), sha256(b"V'").digest()
DEPLOYMENT = bytes(range(16))


@lru_cache
def identity(number: int) -> SigningKey:
    return SigningKey(sha256(b"identity %d" % number).digest())


@lru_cache
def people(many: int) -> tuple[SigningKey, ...]:
    """Identities in the order of their names, which is the order of a roster."""
    return tuple(sorted((identity(1000 + at) for at in range(many)), key=lambda one: one.public))


RECOMMENDER, OUTSIDER = identity(0), identity(1)


def terms_of(method: str = "double", **changes: Any) -> Terms:
    """Terms of a small sum, under which as many may be lost as any graph bears."""
    wanted = {"length": 3, "ring_bits": 64, "fraction_bits": 8, "bound": 2**20, "corrupt": 50, "lost": 400} | changes
    return Terms(method, **wanted)  # type: ignore[arg-type]


def task_of(terms: Terms, *, of: Round | None = None, model: bytes = MODEL) -> Task:
    return Task(of or Round(DEPLOYMENT, "linear", 1), RECOMMENDER.public, terms, model)


class WatchedJournal(MemoryJournal):
    """Remembers the order in which things were written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Persist] = []

    def write(self, wanted: Persist) -> Any:
        entry = super().write(wanted)
        self.written.append(wanted)
        return entry


@dataclass
class Gathering:
    """Everyone in a round, their vectors, and their journals."""

    task: Task
    collector: CollectorBase
    members: list[MemberBase]
    values: np.ndarray  # (n, d)
    journals: dict[bytes, WatchedJournal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for party in (self.collector, *self.members):
            self.journals.setdefault(party.name, WatchedJournal())

    @property
    def names(self) -> list[bytes]:
        return [one.name for one in self.members]

    def total(self, positions: Sequence[int] | None = None) -> np.ndarray:
        """The plain ring sum of some of the vectors, or of all."""
        rows = self.values if positions is None else self.values[list(positions)]
        return rows.sum(axis=0, dtype=self.values.dtype)

    def on(self, wire: Wire) -> Wire:
        for party in (self.collector, *self.members):
            wire.attach(party, self.journals[party.name])
        return wire

    def run(self, fate: Callable[[AnyMessage], Sequence[int]] = faithful) -> Wire:
        """The whole round over an in-memory wire."""
        wire = self.on(Wire(fate))
        wire.do(self.collector, self.collector.invite(self.names))
        wire.run(self.collector)
        return wire


def make_member(task: Task, who: SigningKey, value: np.ndarray, rng: np.random.Generator) -> MemberBase:
    if task.terms.method != "shares":
        return Member(task, identity=who, value=value, entropy=rng.bytes(secure_sum.ENTROPY))
    pads = random_ring(task.terms, rng, rows=task.terms.floor - 1)
    return Neighbour(task, identity=who, value=value, pads=pads, entropy=rng.bytes(96))


def make_collector(task: Task, rng: np.random.Generator) -> CollectorBase:
    kind = Receiver if task.terms.method == "shares" else Collector
    return kind(task, identity=RECOMMENDER, entropy=rng.bytes(32))


def random_ring(terms: Terms, rng: np.random.Generator, *, rows: int) -> np.ndarray:
    kind = ring_dtype(terms)
    return np.frombuffer(rng.bytes(rows * terms.length * kind.itemsize), dtype=kind).reshape(rows, terms.length)


def gather(
    many: int,
    terms: Terms | None = None,
    *,
    seed: int = 0,
    of: Round | None = None,
    values: np.ndarray | None = None,
    other: dict[int, Task] | None = None,
) -> Gathering:
    """So many members with vectors of their own; `other` says which of them have another task in mind."""
    rng = np.random.default_rng(seed)
    terms = terms or terms_of()
    if terms.method != "double":
        terms = msgspec.structs.replace(terms, floor=many)
    task = task_of(terms, of=of)
    vectors = random_ring(terms, rng, rows=many) if values is None else values
    tasks = [(other or {}).get(at, task) for at in range(many)]
    members = [make_member(one, who, value, rng) for one, who, value in zip(tasks, people(many), vectors, strict=True)]
    return Gathering(task, make_collector(task, rng), members, vectors)


class Holding(Wire):
    """Keeps messages of one kind back, and stops when nothing else moves."""

    def __init__(self, kind: type[AnyMessage]) -> None:
        super().__init__(self._kept_back)
        self.kind, self.kept, self.sent = kind, list[Any](), list[AnyMessage]()

    def _kept_back(self, message: AnyMessage) -> Sequence[int]:
        self.sent.append(message)
        if not isinstance(message, self.kind):
            return (0,)
        self.kept.append(message)
        return ()


def held_at(gathering: Gathering, kind: type[AnyMessage]) -> list[Any]:
    """The messages of a kind, in the order of the roster, of a round that went well until they were sent."""
    wire = Holding(kind)
    gathering.on(wire)
    wire.do(gathering.collector, gathering.collector.invite(gathering.names))
    wire._deliver()
    while not wire.kept:
        wire.do(gathering.collector, gathering.collector.advance())
        wire._deliver()
    return sorted(wire.kept, key=lambda one: (one.sender, one.receiver))


def altered(message: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(message, **changes)


def fingerprint(thing: Any) -> Any:
    """All that a party remembers, comparable."""
    if isinstance(thing, Party):
        return tuple((name, fingerprint(value)) for name, value in sorted(vars(thing).items()))
    if isinstance(thing, msgspec.Struct):
        return encode(thing)  # type: ignore[arg-type]
    if isinstance(thing, np.ndarray):
        return thing.tobytes()
    if isinstance(thing, AgreementKey | SigningKey):
        return thing.public
    if isinstance(thing, dict):
        return tuple((fingerprint(key), fingerprint(value)) for key, value in thing.items())
    if isinstance(thing, list | tuple):
        return tuple(map(fingerprint, thing))
    return repr(thing)


def sends(actions: Sequence[Action]) -> list[AnyMessage]:
    return [action.message for action in actions if isinstance(action, Send)]


def refusal(party: Party, message: AnyMessage) -> Fault:
    """Why a message is refused. Either nothing changes, or the round is given up; nothing is sent in any case."""
    before = fingerprint(party)
    try:
        actions = party.receive(message)
    except PeerError as fault:
        if fingerprint(party) != before:
            raise AssertionError("a message was refused, and something has changed") from fault
        return fault.fault
    if sends(actions) or party.state is not State.BURNT:
        raise AssertionError("the message was taken")
    (aborted,) = [action for action in actions if isinstance(action, Aborted)]
    return aborted.error.fault
