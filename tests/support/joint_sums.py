"""Sums over two operators that several tests share: who is in them, and a driver under which operators die."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import msgspec
import numpy as np

from prirec.engines.protocol import MemoryJournal
from prirec.errors import PeerError
from prirec.privacy.noise import Stream
from prirec.proofs import pine
from prirec.protocols.codec import decode, digest, encode
from prirec.protocols.messages import VERSION, AnyMessage, Report, Round, Terms
from prirec.protocols.party import Aborted, Action, Finished, Persist, Send, Settle, Stage
from prirec.protocols.two_operators import (
    ENTROPY,
    Device,
    Helper,
    JointTask,
    Leader,
    Operator,
    OperatorKeys,
    _box_fields,
    _statement,
    operator_noise,
)
from prirec.sharing.keys import AgreementKey, SigningKey, seal_box
from support.rounds import DEPLOYMENT, MODEL, identity

IDENTITIES = identity(10), identity(11)  # leader, helper
BOX_KEYS = tuple(AgreementKey(sha256(b"box key %d" % at).digest()) for at in range(2))
BOUND, LENGTH = 1000, 4


def person(at: int) -> SigningKey:
    return identity(2000 + at)


def joint_terms(**changes: Any) -> Terms:
    wanted = {
        "length": LENGTH,
        "ring_bits": 64,
        "fraction_bits": 8,
        "bound": BOUND,
        "floor": 2,
        "corrupt": 0,
        "lost": 0,
    }
    return Terms("two_operators", **(wanted | changes))


def joint_task(terms: Terms | None = None, **changes: Any) -> JointTask:
    operators = [OperatorKeys(who.public, key.public) for who, key in zip(IDENTITIES, BOX_KEYS, strict=True)]
    wanted = {
        "round": Round(DEPLOYMENT, "interaction", 1),
        "model": MODEL,
        "listed": MODEL[::-1],
        "people": 100,
    } | changes
    return JointTask(terms=terms or joint_terms(), leader=operators[0], helper=operators[1], **wanted)


def entropy_of(role: int, life: int = 0) -> bytes:
    """Other bytes in every life of an operator: what it draws again after a crash would show."""
    return b"".join(sha256(b"operator %d, life %d, %d" % (role, life, at)).digest() for at in range(ENTROPY // 32))


def make_operator(
    kind: type[Operator], task: JointTask, enrolled: Iterable[bytes], *, life: int = 0, **more: Any
) -> Any:
    role = kind.role
    keys = {"identity": IDENTITIES[role], "box_key": BOX_KEYS[role], "entropy": entropy_of(role, life)}
    return kind(task, enrolled=frozenset(enrolled), **keys, **more)


def vectors(many: int, terms: Terms, *, seed: int = 0) -> np.ndarray:
    """Vectors within the bound, which the first one reaches."""
    rng = np.random.default_rng(seed)
    found = rng.integers(-terms.bound, terms.bound + 1, (many, terms.length)) / np.sqrt(terms.length)
    found = np.trunc(found).astype(np.int64)
    if many:
        found[0] = 0
        found[0, 0] = terms.bound
    return found.view(np.uint64)


def draws(name: bytes) -> Callable[[int], bytes]:
    rng = np.random.default_rng(int.from_bytes(name[:8], "little"))
    return rng.bytes


@lru_cache(maxsize=4096)
def _reported(task: JointTask, at: int, values: bytes) -> Report:
    who = person(at)
    device = Device(task, identity=who, value=np.frombuffer(values, np.uint64), draw=draws(who.public))
    return device.report()[-1].message  # type: ignore[union-attr,return-value]


def honest(task: JointTask, at: int, value: np.ndarray) -> Report:
    return _reported(task, at, value.tobytes())


def signed(task: JointTask, at: int, report: Report) -> Report:
    """The report, signed by this person as it stands."""
    said = _statement(report.held, report)
    return msgspec.structs.replace(report, signature=person(at).sign(encode(said)))


def sealed(task: JointTask, at: int, made: pine.Report, *, nonce: bytes = bytes(16), **changes: Any) -> Report:
    """Whatever a liar has made of a vector, sealed and signed as a device does it."""
    who, held = person(at), digest(task.statement)
    bound = {"held": held, "name": who.public, "nonce": nonce, "public": made.public}
    boxes = [
        seal_box(operator.box_key, share, *_box_fields(role, **bound))
        for role, (operator, share) in enumerate(((task.leader, made.leader), (task.helper, made.helper)))
    ]
    report = Report(
        VERSION, task.round, who.public, task.leader.name, nonce, held, made.public, *boxes, signature=bytes(64)
    )
    return signed(task, at, msgspec.structs.replace(report, **changes))


class Killed(BaseException):
    """A party died here."""


class Meeting:
    """Two operators with what they have on disk, and a mailbox that keeps each report until the leader has settled it.

    `dies` says at which of all writes and sends, counted over both, the operator that is at it dies: before it if it
    is even, else after it."""

    def __init__(self, task: JointTask, *, many: int, batch: int | None = None, dies: int | None = None) -> None:
        self.task, self.batch = task, batch
        self.enrolled = frozenset(person(at).public for at in range(many))
        self.journals = (MemoryJournal(), MemoryJournal())
        self.lives = [0, 0]
        self.mailbox: dict[bytes, bytes] = {}
        self.sent: list[tuple[int, bytes]] = []  # (role, message)
        self.finished: list[Finished | None] = [None, None]
        self.aborted: list[PeerError | None] = [None, None]
        self.refused: list[PeerError] = []
        self.moment, self.dies, self.deaths = 0, dies, list[tuple[int, str]]()
        self._queue: list[tuple[int, bytes]] = []
        self.parties: list[Any] = [self._made(Leader), self._made(Helper)]
        for role in (0, 1):
            self.do(role, lambda role=role: self.parties[role].begin())

    @property
    def leader(self) -> Leader:
        return self.parties[0]  # type: ignore[no-any-return]

    @property
    def helper(self) -> Helper:
        return self.parties[1]  # type: ignore[no-any-return]

    def _made(self, kind: type[Operator]) -> Any:
        more = {"batch": self.batch} if kind is Leader else {}
        return make_operator(kind, self.task, self.enrolled, life=self.lives[kind.role], **more)

    def post(self, reports: Iterable[Report]) -> None:
        """Devices post; the mailbox keeps what the leader has taken until it is settled."""
        for report in reports:
            self._fed(report)

    def _fed(self, report: Report) -> None:
        def take() -> list[Action]:
            actions = self.leader.receive(report)
            self.mailbox.setdefault(report.sender, encode(report))
            return actions

        self.do(0, take)

    def do(self, role: int, act: Callable[[], list[Action]]) -> None:
        """What a party answers, done in its order; if it dies on the way it is made again from its journal."""
        try:
            for action in act():
                self._moment(role, action)
                match action:
                    case Persist():
                        self.journals[role].write(action)
                    case Settle():
                        self.journals[role].settle(action)
                    case Send():
                        data = encode(action.message)
                        self.sent.append((role, data))
                        self._queue.append((1 - role, data))
                    case Finished():
                        self.finished[role] = action
                    case Aborted():
                        self.aborted[role] = action.error
                self._moment(role, action)
        except PeerError as fault:
            self.refused.append(fault)
        except Killed:
            self._reborn(role)

    def _moment(self, role: int, action: Action) -> None:
        self.moment += 1
        if self.dies is not None and self.moment == self.dies + 1:
            what = action.stage.name if isinstance(action, Persist) else type(action).__name__
            self.deaths.append((role, what))
            raise Killed

    def _reborn(self, role: int) -> None:
        """What was under way to it is lost, too."""
        self.lives[role] += 1
        self._queue = [(to, data) for to, data in self._queue if to != role]
        self.parties[role] = self._made(type(self.parties[role]))
        kept = self.journals[role].kept(self.task.round)
        party = self.parties[role]
        self.do(role, party.begin if kept is None else lambda: party.restore(kept))
        if role == 0:
            for data in list(self.mailbox.values()):
                self._fed(decode(data))  # type: ignore[arg-type]

    def deliver(self) -> None:
        while self._queue:
            to, data = self._queue.pop(0)
            self.do(to, lambda to=to, data=data: self.parties[to].receive(decode(data)))

    def close(self) -> None:
        """The window is over; what is lost is sent again a few times."""
        self.deliver()
        for _ in range(4):
            if self.leader.state.name == "REPORTS":
                self.do(0, self.leader.advance)
            self.deliver()
            self.do(0, self.leader.again)
            self.deliver()

    def noise(self) -> np.ndarray:
        """What the operators' first draws come to, if neither died before it had written its own."""
        terms = self.task.terms
        found = [operator_noise(terms).draw(Stream(entropy_of(role)[:32]), terms.length) for role in (0, 1)]
        return (found[0] + found[1]).view(np.uint64)


def total(values: np.ndarray, inside: Sequence[int]) -> list[int]:
    return values[list(inside)].sum(axis=0, dtype=np.uint64).tolist()  # type: ignore[no-any-return]


def sends(meeting: Meeting, kind: type[AnyMessage]) -> list[Any]:
    found = (decode(data) for _, data in meeting.sent)
    return [one for one in found if isinstance(one, kind)]


def written(meeting: Meeting, role: int) -> Stage:
    kept = meeting.journals[role].kept(meeting.task.round)
    if kept is None:
        raise AssertionError("nothing was written")
    return kept.stage
