"""Both operators of a deployment in one process, with a store each, and people who report what they like within the
bound. Only the network is missing: what the recommender asks goes to the helper's service, in its envelope."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from itertools import islice
from os import sep
from pathlib import Path
from traceback import walk_stack
from typing import Any

import msgspec
import numpy as np

from prirec.config import Settings
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.privacy.noise import OperatorNoise, Stream
from prirec.protocols.codec import digest, encode
from prirec.protocols.messages import Report
from prirec.protocols.two_operators import ENTROPY, Device, JointTask, Noised
from prirec.recommender import campaign as rules
from prirec.recommender.campaign import CampaignState, CampaignSteps
from prirec.recommender.database import Connection
from prirec.recommender.helper import HelperService
from prirec.recommender.joint_conductor import JointConductor
from prirec.recommender.operator import (
    HelperAddress,
    begin_campaign,
    fingerprint,
    found_deployment,
    found_helper,
    own_document,
    pair_helper,
    publish_catalogue,
)
from prirec.recommender.peer import HelperAwayError, Peer
from prirec.recommender.release import CatalogueSource
from prirec.recommender.store import Store
from prirec.sharing.keys import SigningKey
from prirec.wire.documents import Charter, Names, Subject, Window, read
from support.cities import SMALL_PRIVATE, change, small_city

NOW = 1_800_000_000.0
HOUR = 3600
PLACES = 12


def few(**changes: object) -> Settings:
    return change(SMALL_PRIVATE, **({"sums": {"operators": 2}, "iterations": 2, "floor": 5} | changes))


def person(at: int) -> SigningKey:
    return SigningKey(sha256(b"person %d" % at).digest())


class Killed(BaseException):
    """An operator died here."""


@dataclass
class OperatorPair:
    """`dies` says at which of all writes, counted over both operators, the one that is at it dies: before it if it is
    even, else after it. It is made again, of what is in its file."""

    folder: Path
    dies: int | None = None
    people: int = 8
    now: float = NOW
    away: bool = False  # whether the helper does not answer
    asked: list[bytes] = field(default_factory=list)  # bodies that crossed between the operators
    answered: list[bytes] = field(default_factory=list)
    reports: dict[tuple[int, bytes], Report] = field(default_factory=dict)
    drawn: list[tuple[str, bytes]] = field(default_factory=list)  # by whom, what
    life: int = 0
    moment: int = 0
    moments: list[tuple[str, ...]] = field(default_factory=list)  # who was at it, and what asked for the write
    deaths: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.leading, self.helping = self.open("leader"), self.open("helper")
        helper = found_helper(self.helping, title="the helper", entropy=self.entropy("helper's founding"))
        address = HelperAddress.of("https://helper.example", fingerprint(helper.identity))
        founding = found_deployment(self.leading, title="a town", helper=address, entropy=self.entropy("founding"))
        pair_helper(
            self.helping, deployment=founding.deployment.hex(), recommender=fingerprint(founding.identity)
        )  # fmt: skip
        city = small_city(people=40, places=PLACES, records=300)
        encoding = plan_encoding(city, Popularity({}), few().features)
        publish_catalogue(self.leading, CatalogueSource(city.places, encoding))
        for at in range(self.people):
            self.leading.enrol(person(at).public, day=0)
        self.restart()

    def entropy(self, who: str) -> Callable[[int], bytes]:
        def draw(size: int) -> bytes:
            seed = f"{who}, life {self.life}, {len(self.drawn)}".encode()
            found = b"".join(sha256(seed + bytes([at])).digest() for at in range(-(-size // 32)))[:size]
            self.drawn.append((who, found))
            return found

        return draw

    def open(self, who: str) -> Store:
        """Its store, whose writes are moments at which it may die."""
        store = Store.open(self.folder / f"{who}.db")
        write = store._database.transaction

        @contextmanager
        def transaction() -> Iterator[Connection]:
            self._may_die(who)
            with write() as db:
                yield db
            self._may_die(who)

        store._database.transaction = transaction  # type: ignore[method-assign]
        return store

    def _may_die(self, who: str) -> None:
        self.moment += 1
        frames = (frame.f_code for frame, _ in walk_stack(None))
        callers = (one.co_name for one in frames if f"{sep}prirec{sep}" in one.co_filename)
        self.moments.append((who, *islice((name for name in callers if name != "transaction"), 2)))
        if self.dies is not None and self.moment == self.dies + 1:
            self.deaths.append(who)
            raise Killed

    def restart(self) -> None:
        """Both operators begin anew, with what they have on disk."""
        self.restart_helper()
        self.restart_leader()

    def restart_helper(self) -> None:
        self.helping.close()
        self.helping = self.open("helper")
        self.life += 1
        self.service = HelperService(self.helping, clock=lambda: self.now, entropy=self.entropy("helper"))

    def restart_leader(self) -> None:
        self.leading.close()
        self.leading = self.open("leader")
        self.life += 1
        self.peer = Peer(self.leading, self.line, clock=lambda: self.now)
        self.conductor = JointConductor(
            self.leading, self.peer, clock=lambda: self.now, entropy=self.entropy("leader"), listing=0.0
        )

    def tick(self) -> bool:
        """As the service does it: after an error, or a death, the next one goes on."""
        try:
            return self.conductor.tick()
        except HelperAwayError:
            return True
        except Killed:
            self.restart_leader()
            return True

    def line(self, body: bytes, header: str) -> tuple[bytes, bytes]:
        if self.away:
            raise HelperAwayError
        service = self.service
        envelope = service.admit(header.encode())
        self.asked.append(body)
        try:
            answer, back = service.answer(body, envelope)
        except Killed:
            self.restart_helper()
            raise HelperAwayError from None
        self.answered.append(answer)
        return answer, back.encode()

    def begin(self, settings: Settings | None = None, *, window: int = HOUR) -> Charter:
        self.conductor.tick()
        return begin_campaign(
            self.leading, settings or few(), window=window, peer=self.peer, entropy=self.entropy("box")
        )

    def run(self, most: int = 50) -> None:
        """Tick until nothing happens any more."""
        for _ in range(most):
            if not self.tick():
                return
        raise AssertionError("the conductor goes on and on")

    def state(self, store: Store | None = None) -> CampaignState:
        return rules.decode_state((store or self.leading).progress() or b"")

    def fetch(self, name: bytes) -> bytes:
        return own_document(self.leading, name)

    def entries(self, subject: Subject) -> list[Any]:
        """The documents that the log has about a subject."""
        kind = {"window": Window, "joined": Names, "left": Names}[subject]
        found = self.leading.entries_about((subject,), after=0, before=10**6)
        return [read(kind, self.fetch(one.document), name=one.document) for one in found]

    @property
    def window(self) -> Window:
        name = self.state().window
        return read(Window, self.fetch(name), name=name)

    @property
    def task(self) -> JointTask:
        return CampaignSteps.of(self.state(), self.fetch).joint(self.state(), self.window)

    def value(self, at: int, task: JointTask) -> np.ndarray:
        """A vector within the bound."""
        rng = np.random.default_rng([at, task.round.number, len(task.round.kind)])
        whole = rng.integers(-task.terms.bound, task.terms.bound + 1, task.terms.length) / (2 * task.terms.length**0.5)
        return np.trunc(whole).astype(np.int64).view(np.uint64)

    def report(self, at: int, task: JointTask | None = None) -> Report:
        """Once made, it stays as it is: a box has entropy of its own."""
        task = task or self.task
        key = at, digest(task.statement)
        if key not in self.reports:
            device = Device(task, identity=person(at), value=self.value(at, task), draw=os.urandom)
            self.reports[key] = device.report()[-1].message  # type: ignore[union-attr,assignment]
        return self.reports[key]

    def post(self, *who: int) -> None:
        task = self.task
        for at in who:
            report = self.report(at, task)
            try:
                self.leading.joint.post([(report, encode(report))], now=self.now)
            except Killed:  # the device had no answer, and posts again
                self.restart_leader()
                self.leading.joint.post([(report, encode(report))], now=self.now)

    def opened(self, task: JointTask, store: Store | None = None) -> np.ndarray:
        """The sum as an operator has it on disk."""
        kept = (store or self.leading).joint.kept(task.round)
        assert kept is not None
        return np.frombuffer(msgspec.msgpack.decode(kept.payload, type=Noised).total, np.uint64)

    def noises(self, task: JointTask) -> list[list[int]]:
        """What both operators' draws can come to: those that either of them has ever made."""
        drawn: dict[str, list[np.ndarray]] = {"leader": [], "helper": []}
        for who, seed in self.drawn:
            if who in drawn and len(seed) == ENTROPY:
                drawn[who].append(self.noise(task, seed))
        return [(one + other).tolist() for one in drawn["leader"] for other in drawn["helper"]]

    def noise(self, task: JointTask, seed: bytes) -> np.ndarray:
        law = OperatorNoise(Fraction(task.terms.noise), task.terms.floor, 0)
        return law.draw(Stream(seed[:32]), task.terms.length)
