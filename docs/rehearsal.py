"""Rounds that are played through and watched, so that the pages tell what the parties do, not what they should do."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from itertools import takewhile
from typing import Literal

import numpy as np

from prirec.engines.protocol import MemoryJournal, Wire
from prirec.protocols import sdgd, secure_sum
from prirec.protocols.messages import AnyMessage, Participants, Roster, Round, Terms, step
from prirec.protocols.party import Action, Finished, Party, Persist, Send, Stage, State
from prirec.protocols.roster import CollectorBase, MemberBase, Task
from prirec.sharing.keys import SigningKey, stretch
from who_learns_what import Role

DEVICES, LENGTH = 8, 3
ROLES: dict[type[Party], Role] = {
    secure_sum.Collector: Role.COLLECTOR,
    secure_sum.Member: Role.MEMBER,
    sdgd.Receiver: Role.USER,
    sdgd.Neighbour: Role.NEIGHBOUR,
}
WAYS: tuple[Literal["shares", "pads", "double"], ...] = ("shares", "pads", "double")  # methods


@dataclass(frozen=True)
class Turn:
    """One thing that a party was told, and what it did."""

    role: Role
    before: State
    event: str
    after: State
    actions: list[Action]

    @property
    def writes(self) -> list[Stage]:
        return [action.stage for action in self.actions if isinstance(action, Persist)]

    @property
    def sends(self) -> list[str]:
        return list(dict.fromkeys(step(type(one.message)) for one in self.actions if isinstance(one, Send)))

    @property
    def opens(self) -> bool:
        return any(isinstance(action, Finished) for action in self.actions)

    def written_before(self, kind: type[Send] | type[Finished]) -> list[Stage]:
        """What has to be on disk before the first action of this kind."""
        ahead = takewhile(lambda action: not isinstance(action, kind), self.actions)
        return [action.stage for action in ahead if isinstance(action, Persist)]


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
def play(way: Literal["shares", "pads", "double"], *, late: int = 0) -> Played:
    """A round of eight devices. Where one may be missing, the first is lost before it has masked anything; else its
    roster may come late."""
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
