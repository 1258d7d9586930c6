"""A device through all its lives, each of which is a process of its own, among others that live in this one."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from prirec.engines.protocol import MemoryJournal, Wire
from prirec.protocols.codec import decode, encode, ring_dtype
from prirec.protocols.messages import AnyMessage, Round, Terms
from prirec.protocols.party import Action, Finished, Handlers, Party, Send, Stage
from prirec.sharing.keys import SigningKey
from support import device_process
from support.device_process import REPORTS, Die, Done, Ended, Hear, Order, Report, Resume, Said, Start, Wrote, get, put
from support.rounds import MODEL, RECOMMENDER, Gathering, gather, people
from support.waiting import PATIENCE

KILLED = -9
MANY = 4
_seeds = count(1)


class Nursery:
    """Where devices are started; one lives at a time."""

    def __enter__(self) -> Self:
        optimised = ["-O"] * bool(sys.flags.optimize)
        command = [sys.executable, *optimised, device_process.__file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None  # for the types alone
        assert self._process.stdout is not None
        self._orders, self._reports = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._living = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=PATIENCE)

    def start(self, start: Start) -> None:
        """A new device; one that still lives is killed for it."""
        if self._living:
            self.ask(Die())
        self.ask(start)

    def ask(self, order: Order) -> list[Report]:
        """All that is reported on an order, `Done` left out."""
        put(self._orders, order)
        reports: list[Report] = []
        while not (reports and isinstance(reports[-1], Done | Ended)):
            frame = get(self._reports)
            if frame is None:
                raise RuntimeError("the nursery is gone")
            reports.append(REPORTS.decode(frame))
        if isinstance(reports[-1], Ended) and reports[-1].code != KILLED:
            raise RuntimeError(f"a device ended with {reports[-1]}, which nobody told it to")
        self._living = isinstance(reports[-1], Done)
        return reports[:-1] if self._living else reports


@dataclass(frozen=True)
class Saying:
    life: int
    message: Any
    data: bytes = field(repr=False)
    again: bool


class Device(Party):
    """What the others see of a device: one name. Besides, all that it ever heard, said and wrote.

    Where it `returns`, a new life begins as soon as one ends, sends what may be sent again, and hears once more what
    the one before died of."""

    handlers: Handlers = {}  # noqa: RUF012  (`handle` passes every message on to the process)

    def __init__(self, nursery: Nursery, journal: Path, terms: Terms, *, at: int, returns: bool = False) -> None:
        self.at, self.terms, self.journal, self.returns = at, terms, journal, returns
        super().__init__(people(MANY)[at].public, Round(bytes(16), "any", 0))
        self._nursery, self._secret = nursery, _secret(self.name)
        self.life, self.alive = 0, False
        self.heard: list[bytes] = []
        self.said: list[Saying] = []
        self.wrote: list[tuple[int, Round, Stage]] = []
        self.deeds: list[list[str]] = []  # of each answer, for whoever wants to know at which moments it could die

    def start(self, *, dies_at: int | None = None) -> None:
        self.life, self.alive = self.life + 1, True
        task = (RECOMMENDER.public, self.terms, MODEL)
        self._nursery.start(Start(str(self.journal), self._secret, *task, self.life, dies_at))

    def receive(self, message: AnyMessage) -> list[Action]:
        self.heard.append(encode(message))
        actions = self.handle(message)
        if not self.alive and self.returns:
            self.start()
            return [*actions, *self.resume(message.round), *self.handle(message)]
        return actions

    def handle(self, message: AnyMessage) -> list[Action]:
        return self._hear(encode(message))

    def resume(self, of: Round) -> list[Action]:
        return self._note(self._nursery.ask(Resume(of))) if self.alive else []

    def replay(self) -> list[Action]:
        """Everything that it ever heard, once more."""
        return [action for data in tuple(self.heard) for action in self._hear(data)]

    def _hear(self, data: bytes) -> list[Action]:
        return self._note(self._nursery.ask(Hear(data))) if self.alive else []

    def _note(self, reports: Sequence[Report]) -> list[Action]:
        actions: list[Action] = []
        self.deeds.append([])
        for report in reports:
            match report:
                case Wrote():
                    self.wrote.append((self.life, report.round, Stage(report.stage)))
                    self.deeds[-1].append(Stage(report.stage).name)
                case Said():
                    message = decode(report.data)
                    self.said.append(Saying(self.life, message, report.data, report.again))
                    self.deeds[-1].append(type(message).__name__)
                    actions.append(Send(message))
                case device_process.Opened():
                    actions.append(Finished(np.frombuffer(report.total, dtype=ring_dtype(self.terms)), report.summands))
                    self.deeds[-1].append("Finished")
                case Ended():
                    self.alive = False
        return actions

    def entered(self) -> list[Round]:
        return [of for _, of, stage in self.wrote if stage is Stage.ENTERED]

    def masked(self) -> dict[int, tuple[int, Round]]:
        """Of each number, in which life and at which attempt a vector was masked."""
        return {of.number: (life, of) for life, of, stage in self.wrote if stage is Stage.MASKED}

    def may_enter(self, of: Round) -> bool:
        """The rules in other words: of one kind forward only, at one number only until it masked."""
        last = max((one.number, one.attempt) for one in [Round(of.deployment, of.kind, 0), *self.entered()])
        return (of.number, of.attempt) > last and of.number not in self.masked()


@dataclass(frozen=True)
class Meeting:
    """A round that was held, and all that was said in it."""

    gathering: Gathering
    wire: Wire
    sent: list[Any]

    def senders(self, kind: type[AnyMessage]) -> set[int]:
        names = self.gathering.names
        return {names.index(one.sender) for one in self.sent if isinstance(one, kind)}


def hold(device: Device, of: Round) -> Meeting:
    """A round with new keys and journals for everyone but the device: these others would go along with anything."""
    gathering, sent = gather(MANY, device.terms, of=of, seed=next(_seeds)), list[Any]()

    def watch(message: AnyMessage) -> Sequence[int]:
        sent.append(message)
        return (0,)

    wire = gathering.on(Wire(watch))
    wire.attach(device, MemoryJournal())
    wire.do(gathering.collector, gathering.collector.invite(gathering.names))
    wire.run(gathering.collector)
    return Meeting(gathering, wire, sent)


def _secret(name: bytes) -> bytes:
    seeds = (sha256(b"identity %d" % (1000 + at)).digest() for at in range(MANY))
    return next(seed for seed in seeds if SigningKey(seed).public == name)
