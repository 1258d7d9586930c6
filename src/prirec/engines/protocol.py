"""Training with every sum taken by the protocols, between parties in one process: the same bits as plain.py.

Every device and the recommender is a party of its own, and what crosses between them are encoded messages. That is far
slower than engines/local.py. It shows that the protocols come to what the fast engines simulate, and what they cost in
bytes. Keys and pads come from the operating system; no result depends on them.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from heapq import heappop, heappush
from itertools import count
from os import urandom
from typing import Any, Literal, Protocol

import msgspec
import numpy as np

from prirec.config import Settings
from prirec.engines import plain
from prirec.engines.plain import added
from prirec.engines.state import IterationReport, State
from prirec.errors import PeerError, UsageError
from prirec.features.samples import Samples
from prirec.protocols import roster, sdgd, secure_sum
from prirec.protocols.codec import decode, encode
from prirec.protocols.journal import LIFE, ConflictError, JournalEntry, Verdict, admit, admit_settled, entry, mark
from prirec.protocols.messages import AnyMessage, Boxes, Masked, Round, Terms, step
from prirec.protocols.party import Aborted, Action, Blame, Finished, Party, Persist, Send, Settle, Stage
from prirec.protocols.party import State as MoveState
from prirec.protocols.roster import CollectorBase, MemberBase, Task
from prirec.protocols.sdgd import Neighbour, Receiver
from prirec.protocols.secure_sum import Collector, Member
from prirec.protocols.terms import (
    RingCode,
    all_or_nothing,
    double_masks,
    draw_noise,
    model_hash,
    over_two_operators,
    paper_codes,
)
from prirec.protocols.two_operators import Device, Helper, JointTask, Kept, Leader, OperatorKeys
from prirec.rounds.definition import NoiseKey, opens, operator_seeds, simulated_noise
from prirec.sharing.keys import AgreementKey, SigningKey
from prirec.types import RealArray, RingArray

# An in-memory wire. Every message crosses it as bytes, through the codec. Its parties are driven as a device or a
# server would drive them: what is to be persisted is written first, under the rules of the journal, and only then is
# anything sent. A party that sent first could, after a crash, send a second and different vector for the same round.


Fate = Callable[[AnyMessage], Sequence[int]]  # for each copy that arrives, after how many other messages


def faithful(message: AnyMessage) -> Sequence[int]:
    """Each message arrives once, in order."""
    return (0,)


class Journal(Protocol):
    """Where a party writes what it must not forget. On a device this is device/store.py."""

    def write(self, wanted: Persist) -> object: ...

    def settle(self, wanted: Settle) -> object: ...


class MemoryJournal:
    """A journal for simulation, with the rules of protocols/journal.py and nothing on disk."""

    def __init__(self) -> None:
        self._held: dict[tuple[bytes, str, int], JournalEntry] = {}
        self._last: dict[tuple[bytes, str], int] = {}
        self._lines: defaultdict[Round, list[tuple[bytes, bytes]]] = defaultdict(list)  # lines, mark
        self._states: dict[Round, bytes] = {}

    def write(self, wanted: Persist) -> JournalEntry:
        of = wanted.round
        key, kind = (of.deployment, of.kind, of.number), (of.deployment, of.kind)
        held = self._held.get(key)
        try:
            verdict = admit(wanted, held=held, last=self._last.get(kind))
        except ConflictError:
            self._burn(of)
            raise
        if verdict is Verdict.KNOWN and held is not None:
            return held
        self._held[key] = entry(wanted, held=held)
        if wanted.stage is not Stage.ENTERED:
            self._states.pop(of, None)
        self._last[kind] = max(of.number, self._last.get(kind, of.number))
        return self._held[key]

    def settle(self, wanted: Settle) -> None:
        """An operator's: lines are added, the state is replaced."""
        of, lines = wanted.round, self._lines[wanted.round]
        known = lines[wanted.number][1] if wanted.number < len(lines) else None
        try:
            held = self._held.get((of.deployment, of.kind, of.number))
            if admit_settled(wanted, held=held, settled=len(lines), known=known) is Verdict.WRITE:
                lines.append((wanted.lines, mark(wanted)))
                self._states[of] = wanted.state
        except ConflictError:
            self._burn(of)
            raise

    def _burn(self, of: Round) -> None:
        key = of.deployment, of.kind, of.number
        held = self._held[key]
        if LIFE[held.stage]:
            self._held[key] = entry(Persist(of, Stage.BURNT, bytes(32)), held=held)
            self._states.pop(of, None)

    def kept(self, of: Round) -> Kept | None:
        """The journal that an operator is restored from."""
        held = self._held.get((of.deployment, of.kind, of.number))
        if held is None:
            return None
        lines = tuple(lines for lines, _ in self._lines[of])
        return Kept(held.stage, held.payload, lines, self._states.get(of, b""))


@dataclass(slots=True)
class Traffic:
    """Messages and bytes that were sent, by step of the protocol, whether or not they arrived."""

    messages: Counter[str] = field(default_factory=Counter)
    octets: Counter[str] = field(default_factory=Counter)

    def note(self, message: AnyMessage, size: int) -> None:
        self.messages[step(type(message))] += 1
        self.octets[step(type(message))] += size


class Wire:
    """Carries messages until no more are under way. `fate` orders, delays, duplicates and drops them: it says for each
    message after how many others its copies arrive. No copy means that it is lost."""

    def __init__(self, fate: Fate = faithful, traffic: Traffic | None = None) -> None:
        self.fate, self.traffic = fate, traffic if traffic is not None else Traffic()
        self.parties: dict[bytes, Party] = {}
        self.journals: dict[bytes, Journal] = {}
        self.finished: dict[bytes, Finished] = {}
        self.aborted: dict[bytes, PeerError] = {}
        self.refused: list[PeerError] = []
        self.blamed: list[Blame] = []
        self._queue: list[tuple[int, int, bytes]] = []
        self._clock = self._sent = 0

    def attach(self, party: Party, journal: Journal) -> None:
        self.parties[party.name], self.journals[party.name] = party, journal

    def do(self, party: Party, actions: Iterable[Action]) -> None:
        """Carries out what a party asked for, in its order."""
        for action in actions:
            match action:
                case Persist():
                    self.journals[party.name].write(action)
                case Settle():
                    self.journals[party.name].settle(action)
                case Send():
                    self._send(action.message)
                case Finished():
                    self.finished[party.name] = action
                case Aborted():
                    self.aborted[party.name] = action.error
                case Blame():
                    self.blamed.append(action)

    def run(self, collector: CollectorBase) -> None:
        """Delivers what is under way; when nothing is, the step times out, and the collector goes on with those who
        answered."""
        while True:
            self._deliver()
            if collector.state in (MoveState.DONE, MoveState.BURNT):
                return
            self.do(collector, collector.advance())

    def run_window(self, leader: Leader) -> None:
        """Delivers what is under way to two operators, and ends the window; a round of too few reports is given up."""
        self._deliver()
        self.do(leader, leader.advance())
        self._deliver()
        if leader.state in (MoveState.REPORTS, MoveState.CLOSING):
            self.do(leader, leader.give_up())
            self._deliver()

    def _send(self, message: AnyMessage) -> None:
        data = encode(message)
        self.traffic.note(message, len(data))
        for delay in self.fate(message):
            self._sent += 1
            heappush(self._queue, (self._clock + delay, self._sent, data))

    def _deliver(self) -> None:
        while self._queue:
            due, _, data = heappop(self._queue)
            self._clock = max(self._clock, due) + 1
            try:
                message = decode(data)
                party = self.parties.get(message.receiver)
                actions = party.receive(message) if party is not None else []
            except PeerError as fault:
                self.refused.append(fault)
                continue
            if party is not None:
                self.do(party, actions)


# The sums of engines/plain.py, each one a protocol


Method = Literal["shares", "pads"]


class Identity:
    """A device or the recommender between rounds: who it is, and its journals.

    A device is a member once at a number; in Algorithm 1 many collect at the same number.
    """

    def __init__(self) -> None:
        self.identity, self.journal = SigningKey(urandom(32)), MemoryJournal()
        self.collecting: defaultdict[int, MemoryJournal] = defaultdict(MemoryJournal)

    @property
    def name(self) -> bytes:
        return self.identity.public


class ProtocolSums(plain.Sums):
    """Each sum a protocol. `method` is how Algorithm 1 adds up: by shares as printed, or under pads.

    A device that is lost falls silent after the roster or after the key boxes; both must come to the same sum.
    """

    def __init__(self, samples: Samples, settings: Settings, *, method: Method = "shares") -> None:
        super().__init__(settings)
        self.method = method
        self.deployment, self.recommender, self.helper = urandom(16), Identity(), Identity()
        self.devices = [Identity() for _ in samples.ids]
        self.traffic = Traffic()
        self._numbers = count()

    def over_roster(
        self, where: tuple[str, int], code: RingCode, values: Mapping[int, RingArray], *,
        survivors: Sequence[int], held: Sequence[RealArray],
    ) -> RingArray | None:  # fmt: skip
        """Under masks that survive drop-outs, or over two operators."""
        if self.settings.sums.operators == 2:
            reports = {i: values[i] for i in survivors}
            seeds = operator_seeds(self.settings, where)
            return self.over_operators(Round(self.deployment, *where), code, reports, held=held, seeds=seeds)
        terms = double_masks(
            code.ring, length=len(next(iter(values.values()), np.empty(1))), noise=code.noise,
            floor=self.settings.floor, sums=self.settings.sums,
        )  # fmt: skip
        task = self._task(Round(self.deployment, *where), terms, self.recommender, *held)
        wire = self._run(task, self.recommender, values, survivors, where=where)
        return wire.finished[self.recommender.name].total if wire.finished else None

    def over_operators(
        self, of: Round, code: RingCode, values: Mapping[int, RingArray], *, held: Sequence[RealArray],
        seeds: Sequence[bytes],
    ) -> RingArray | None:  # fmt: skip
        """One report from each of these people; leader and helper draw their noise from these seeds."""
        length = len(next(iter(values.values()), np.empty(1)))
        terms = over_two_operators(code, length=length, floor=self.settings.floor)
        keys = [AgreementKey(urandom(32)) for _ in range(2)]
        both = self.recommender, self.helper
        leading, helping = (OperatorKeys(one.name, key.public) for one, key in zip(both, keys, strict=True))
        enrolled, wire = frozenset(one.name for one in self.devices), Wire(traffic=self.traffic)
        listed = sha256(b"".join(sorted(enrolled))).digest()
        task = JointTask(of, terms, model_hash(*held), leading, helping, listed, people=len(self.devices))
        leader, helper = (
            kind(task, identity=one.identity, box_key=key, enrolled=enrolled, entropy=seed + urandom(32))
            for kind, one, key, seed in zip((Leader, Helper), both, keys, seeds, strict=True)
        )
        for operator, one in ((leader, self.recommender), (helper, self.helper)):
            wire.attach(operator, one.collecting[0])
            wire.do(operator, operator.begin())
        self.send_reports(wire, task, values)
        wire.run_window(leader)
        return wire.finished[leader.name].total if leader.name in wire.finished else None

    def send_reports(self, wire: Wire, task: JointTask, values: Mapping[int, RingArray]) -> None:
        """One from each of these people."""
        for i, value in values.items():
            device = Device(task, identity=self.devices[i].identity, value=value, draw=urandom)
            wire.attach(device, self.devices[i].journal)
            wire.do(device, device.report())

    def over_neighbours(self, i: int, values: Mapping[int, RingArray], *, V: RealArray) -> RingArray:
        """Algorithm 1, lines 1 to 9."""
        if len(values) < 2:
            raise UsageError("with a single neighbour the sum is that neighbour's own model; give at least two")
        length = len(next(iter(values.values())))
        terms = all_or_nothing(paper_codes(self.settings).linear.ring, self.method, length=length, people=len(values))
        user = self.devices[i]
        task = self._task(Round(self.deployment, "neighbours", next(self._numbers), i), terms, user, V)
        return self._run(task, user, values, tuple(values)).finished[user.name].total

    def over_batch(self, values: Sequence[tuple[int, RingArray]], *, V: RealArray) -> RingArray:
        """One-time pads. A batch of one person alone is that person's gradient, whatever is laid on it: it is sent as
        it is, which is what the paper's batch of one comes to."""
        own = {i: added([value for who, value in values if who == i]) for i, _ in values}
        if len(own) == 1:
            return next(iter(own.values()))
        length = len(values[0][1])
        terms = all_or_nothing(paper_codes(self.settings).interaction.ring, "pads", length=length, people=len(own))
        task = self._task(Round(self.deployment, "batch", next(self._numbers)), terms, self.recommender, V)
        return self._run(task, self.recommender, own, tuple(own)).finished[self.recommender.name].total

    def _task(self, of: Round, terms: Terms, collector: Identity, *held: RealArray) -> Task:
        return Task(of, collector.name, terms, model_hash(*held))

    def _run(
        self, task: Task, collector: Identity, values: Mapping[int, RingArray], survivors: Sequence[int],
        where: NoiseKey = (),
    ) -> Wire:  # fmt: skip
        """Runs one sum over a wire of its own."""
        wire = Wire(self._fate(set(values) - set(survivors)), self.traffic)
        entropy = {i: urandom(sdgd.ENTROPY if task.terms.method == "shares" else secure_sum.ENTROPY) for i in values}
        if task.terms.noise and opens(len(survivors), rostered=len(values), settings=self.settings):
            values = self._with_simulated_noise(task.terms, values, survivors, entropy, where)
        for i, value in values.items():
            party = self._member(task, self.devices[i].identity, value, entropy[i])
            wire.attach(party, self.devices[i].journal)
        make = Receiver if task.terms.method == "shares" else Collector
        host = make(task, identity=collector.identity, entropy=urandom(roster.COLLECTOR_ENTROPY))
        wire.attach(host, collector.collecting[task.round.group])
        wire.do(host, host.invite([self.devices[i].name for i in values]))
        wire.run(host)
        return wire

    def _with_simulated_noise(
        self, terms: Terms, values: Mapping[int, RingArray], survivors: Sequence[int], entropy: Mapping[int, bytes],
        where: NoiseKey,
    ) -> Mapping[int, RingArray]:  # fmt: skip
        """Every device adds its own share of noise, from fresh entropy. So that the sum still has the bits of a
        simulation, the difference between the simulated noise and the survivors' shares is added to one survivor's
        vector. A deployment does no such thing.
        """
        one = survivors[0]
        moved = values[one] + simulated_noise(
            terms.noise, terms.length, rostered=len(values), survivors=len(survivors), settings=self.settings,
            where=where,
        ).astype(values[one].dtype)  # fmt: skip
        for i in survivors:
            moved -= draw_noise(terms, len(values), seed=secure_sum.noise_seed(entropy[i]))
        return {**values, one: moved}

    def _member(self, task: Task, identity: SigningKey, value: RingArray, entropy: bytes) -> MemberBase:
        if task.terms.method != "shares":
            return Member(task, identity=identity, value=value, entropy=entropy)
        shape = (task.terms.floor - 1, task.terms.length)
        pads = np.frombuffer(urandom(value.itemsize * shape[0] * shape[1]), dtype=value.dtype).reshape(shape)
        return Neighbour(task, identity=identity, value=value, pads=pads, entropy=entropy)

    def _fate(self, lost: set[int]) -> Fate:
        """Every other of the lost falls silent before its boxes, the rest before their vectors."""
        silent = {self.devices[i].name: (Boxes, Masked)[n % 2] for n, i in enumerate(sorted(lost))}

        def fate(message: AnyMessage) -> Sequence[int]:
            return () if isinstance(message, silent.get(message.sender, ())) else (0,)

        return fate


class ProtocolEngine:
    """The oracle's schedules, with every sum taken by the protocols; it counts the bytes that are sent."""

    def __init__(self, samples: Samples, settings: Settings, *, method: Method = "shares") -> None:
        self.sums = ProtocolSums(samples, settings, method=method)
        self._schedule = plain.engine(samples, settings, self.sums)

    def start(self) -> State:
        return self._schedule.start()

    def advance(self, state: Any) -> IterationReport:
        before = self.sums.traffic.octets.total()
        report = self._schedule.advance(state)
        return msgspec.structs.replace(report, octets=self.sums.traffic.octets.total() - before)
