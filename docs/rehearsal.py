"""Rounds that are played through and watched, so that the pages tell what the parties do, not what they should do."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import takewhile
from typing import Literal, TypeAlias

import numpy as np

from prirec.engines.protocol import MemoryJournal, Wire
from prirec.protocols import sdgd, secure_sum, two_operators
from prirec.protocols.messages import (
    VERSION,
    AnyMessage,
    Closing,
    GivenUp,
    NoisedShare,
    OpenedSum,
    Participants,
    Roster,
    Round,
    Terms,
    Verdicts,
    step,
)
from prirec.protocols.party import Action, Finished, Party, Persist, Send, Settle, State
from prirec.protocols.roster import CollectorBase, MemberBase, Task
from prirec.protocols.two_operators import Device, Helper, JointTask, Leader, OperatorKeys
from prirec.sharing.keys import AgreementKey, SigningKey, stretch
from who_learns_what import Role

DEVICES, LENGTH = 8, 3
ROLES: dict[type[Party], Role] = {
    secure_sum.Collector: Role.COLLECTOR,
    secure_sum.Member: Role.MEMBER,
    sdgd.Receiver: Role.USER,
    sdgd.Neighbour: Role.NEIGHBOUR,
    Device: Role.DEVICE,
    Leader: Role.LEADER,
    Helper: Role.HELPER,
}
Operator: TypeAlias = Literal["leader", "helper"]
OPERATORS: tuple[Operator, ...] = ("leader", "helper")
Way: TypeAlias = Literal["shares", "pads", "double", "two_operators"]
WAYS: tuple[Way, ...] = ("shares", "pads", "double", "two_operators")  # methods


@dataclass(frozen=True)
class Turn:
    """One thing that a party was told, and what it did."""

    role: Role
    before: State
    event: str
    after: State
    actions: list[Action]

    @property
    def writes(self) -> list[str]:
        return list(dict.fromkeys(_written(action) for action in self.actions if isinstance(action, Persist | Settle)))

    @property
    def sends(self) -> list[str]:
        return list(dict.fromkeys(step(type(one.message)) for one in self.actions if isinstance(one, Send)))

    @property
    def opens(self) -> bool:
        return any(isinstance(action, Finished) for action in self.actions)

    def written_before(self, kind: type[Send] | type[Finished]) -> list[str]:
        """What has to be on disk before the first action of this kind."""
        ahead = takewhile(lambda action: not isinstance(action, kind), self.actions)
        return [_written(action) for action in ahead if isinstance(action, Persist | Settle)]


def _written(action: Persist | Settle) -> str:
    return action.stage.name if isinstance(action, Persist) else "BATCH"


@dataclass
class Played:
    """A whole round, turn by turn, and how often each message was sent."""

    way: str
    roles: dict[bytes, Role] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    sent: list[AnyMessage] = field(default_factory=list)

    def watch(self, party: Party, act: Callable[..., list[Action]], event: str = "") -> Callable[..., list[Action]]:
        def watched(*told: AnyMessage) -> list[Action]:
            before = party.state
            actions = act(*told)
            name = event or step(type(told[0]))
            self.turns.append(Turn(self.roles[party.name], before, name, party.state, actions))
            self.sent += [action.message for action in actions if isinstance(action, Send)]
            return actions

        return watched


@cache
def play(way: Way, *, late: int = 0) -> Played:
    """A round of eight devices. Where one may be missing, the first is lost before it has masked anything; else its
    roster may come late."""
    if way == "two_operators":
        return play_operators()
    floor = 2 if way == "double" else DEVICES
    terms = Terms(way, LENGTH, ring_bits=64, fraction_bits=24, bound=2**32, floor=floor)
    played, names = Played(way), [SigningKey(_entropy(f"identity {at}")) for at in range(DEVICES + 1)]
    task = Task(Round(bytes(16), "rehearsal", number=1), names[0].public, terms, bytes(32))
    first = names[1].public

    def fate(message: AnyMessage) -> tuple[int, ...]:
        if message.receiver == first and isinstance(message, Participants):
            return ()
        return (late,) if message.receiver == first and isinstance(message, Roster) else (0,)

    wire, asking = Wire(fate), _collector(task, names[0])
    parties = [asking, *(_device(task, name, at) for at, name in enumerate(names[1:]))]
    for party in parties:
        played.roles[party.name] = ROLES[type(party)]
        party.receive = played.watch(party, party.receive)  # type: ignore[method-assign]
        wire.attach(party, MemoryJournal())
    asking.advance = played.watch(asking, asking.advance, "time is over")  # type: ignore[method-assign]
    wire.do(asking, played.watch(asking, asking.invite, "invite")([name.public for name in names[1:]]))
    wire.run(asking)
    return played


@cache
def play_operators(
    *, given_up_by: Operator | None = None, lost: type[AnyMessage] | None = None
) -> Played:  # fmt: skip
    """Eight reports in batches of three, of which the first is with the helper when the window ends. Where the round is
    given up there are too few reports, or messages of this kind of the helper's are lost."""
    played, identities = Played("two_operators"), [SigningKey(_entropy(f"identity {at}")) for at in range(DEVICES + 2)]
    keys = [AgreementKey(_entropy(f"box key {at}")) for at in range(2)]
    leading, helping = (OperatorKeys(who.public, key.public) for who, key in zip(identities, keys, strict=False))
    floor = DEVICES + (given_up_by is not None and lost is None)
    terms = Terms("two_operators", LENGTH, ring_bits=64, fraction_bits=24, bound=100, floor=floor, corrupt=0, lost=0)
    task = JointTask(Round(bytes(16), "rehearsal", number=1), terms, bytes(32), leading, helping, bytes(32), DEVICES)
    enrolled, random = frozenset(who.public for who in identities[2:]), _entropy("operators", two_operators.ENTROPY)
    leader = Leader(task, identity=identities[0], box_key=keys[0], enrolled=enrolled, entropy=random, batch=3)
    helper = Helper(task, identity=identities[1], box_key=keys[1], enrolled=enrolled, entropy=random)
    wire = Wire(
        lambda message: () if lost and isinstance(message, lost) and message.sender == helper.name else (0,)
    )  # fmt: skip
    values = [np.full(LENGTH, at, dtype=np.uint64) for at in range(DEVICES)]
    devices = [
        Device(task, identity=who, value=value, draw=lambda size: _entropy("devices", 32 * -(-size // 32))[:size])
        for who, value in zip(identities[2:], values, strict=True)
    ]
    for party in (leader, helper, *devices):
        played.roles[party.name] = ROLES[type(party)]
        party.receive = played.watch(party, party.receive)  # type: ignore[method-assign]
        wire.attach(party, MemoryJournal())
    leader.advance = played.watch(leader, leader.advance, "time is over")  # type: ignore[method-assign]
    leader.give_up = played.watch(leader, leader.give_up, "give up")  # type: ignore[method-assign]
    for operator in (leader, helper):
        wire.do(operator, played.watch(operator, operator.begin, "begin")())
    for device in devices:
        actions = played.watch(device, device.report, "its turn")()
        if given_up_by is None:  # nothing of the first batch is back when the window ends
            wire.do(leader, leader.receive(actions[-1].message))  # type: ignore[union-attr]
        else:
            wire.do(device, actions)
    if given_up_by is not None:
        wire._deliver()
    wire.do(leader, leader.advance())
    wire._deliver()
    if given_up_by == "leader":
        wire.do(leader, leader.give_up())
        wire._deliver()
    elif given_up_by == "helper":
        wire.do(leader, leader.receive(GivenUp(VERSION, task.round, helper.name, leader.name)))
    return played


def plays(way: Way) -> list[Played]:
    """In Algorithm 1 shares may overtake a roster: some, or all of them. Over two operators a round may be given up."""
    if way == "two_operators":
        lost = (None, Verdicts, Closing, NoisedShare, OpenedSum)
        return [
            play(way), *(play_operators(given_up_by=who, lost=kind) for who in OPERATORS for kind in lost)
        ]  # fmt: skip
    return [play(way, late=late) for late in ((0, 3, 10 * DEVICES) if way == "shares" else (0,))]


def _collector(task: Task, identity: SigningKey) -> CollectorBase:
    kind = sdgd.Receiver if task.terms.method == "shares" else secure_sum.Collector
    return kind(task, identity=identity, entropy=_entropy("collector"))


def _device(task: Task, identity: SigningKey, at: int) -> MemberBase:
    value, random = np.full(LENGTH, at, dtype=np.uint64), _entropy(f"device {at}", secure_sum.ENTROPY)
    if task.terms.method != "shares":
        return secure_sum.Member(task, identity=identity, value=value, entropy=random)
    pads = stretch(random[:32], (DEVICES - 1) * LENGTH).reshape(DEVICES - 1, LENGTH)
    return sdgd.Neighbour(task, identity=identity, value=value, pads=pads, entropy=random[: sdgd.ENTROPY])


def _entropy(use: str, size: int = 32) -> bytes:
    """Fixed, as nothing here is secret: the pages must come out the same each time."""
    return b"".join(sha256(f"{use} {part}".encode()).digest() for part in range(size // 32))
