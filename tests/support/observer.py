"""Whoever stands beside a deployment and sees everything: what each device added, what went over its line, what the
recommender opened. It works out by itself what must come of it, and says so where something else did."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from prirec.device import rounds
from prirec.protocols import secure_sum, terms
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import AnyMessage, Masked, Roster, Round, Survivors, step
from prirec.protocols.party import Action, Finished, Send
from prirec.protocols.secure_sum import Collector, Member
from prirec.recommender import conductor
from prirec.types import RingArray


class ViolationError(AssertionError):
    """Something came out as it must not."""


@dataclass
class Witness:
    """All sums of a deployment. `opened` holds what each must be, worked out from what devices added."""

    added: dict[bytes, RingArray] = field(default_factory=dict)  # by masked message: the vector and the noise under it
    masked: dict[tuple[bytes, Round], bytes] = field(default_factory=dict)  # on the wire, by device and round
    opened: dict[Round, tuple[RingArray, int]] = field(default_factory=dict)  # the sum, and of how many
    rostered: dict[Round, int] = field(default_factory=dict)  # how many were on its roster
    vectors: dict[tuple[bytes, str, int, int], RingArray] = field(default_factory=dict)  # by device and round: no noise
    said: dict[tuple[bytes, Round, str], bytes] = field(default_factory=dict)  # by device, round and step
    _numbers: dict[tuple[bytes, str, int], bytes] = field(default_factory=dict)

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Every party from now on is a real one that also tells the witness."""
        patch.setattr(rounds, "Member", partial(WatchedMember, self))
        patch.setattr(conductor, "Collector", partial(WatchedCollector, self))

    def heard(self, name: bytes, body: bytes) -> None:
        """A device hands something in: the same again must be the same, and each number takes one vector, ever."""
        message = decode(body)
        if self.said.setdefault((name, message.round, step(type(message))), body) != body:
            raise ViolationError(f"a device says two different things at '{step(type(message))}' of one round")
        if isinstance(message, Masked):
            self.masked[name, message.round] = body
            if self._numbers.setdefault((name, message.round.kind, message.round.number), body) != body:
                raise ViolationError("a device has masked two vectors at one number")

    def sum_is_open(self, of: Round, found: Finished, survivors: Iterable[bytes], *, rostered: int) -> None:
        """Exactly the vectors and the noise of the survivors, in the ring; and of one set of survivors, ever."""
        total = np.zeros_like(found.total)
        names = list(survivors)
        for name in names:
            total += self.added[self.masked[name, of]]
        if (found.total != total).any() or found.summands != len(names):
            raise ViolationError("an opened sum is not the sum of what the survivors added")
        before = [one for one in self.opened if (one.kind, one.number, one.group) == (of.kind, of.number, of.group)]
        if before:
            raise ViolationError("two sums were opened at one number")
        self.opened[of] = total, len(names)
        self.rostered[of] = rostered

    def vectors_of(self, name: bytes) -> set[tuple[str, int, int]]:
        """Kind, number and attempt of all that this device has ever handed in."""
        return {(of.kind, of.number, of.attempt) for who, of in self.masked if who == name}


class WatchedMember(Member):
    """Tells what it adds, before masks."""

    def __init__(self, witness: Witness, *task: Any, value: RingArray, entropy: bytes, **rest: Any) -> None:
        super().__init__(*task, value=value, entropy=entropy, **rest)
        self.witness, self.vector, self.draws_from, self.rostered = (
            witness,
            value.copy(),
            secure_sum.noise_seed(entropy),
            0,
        )

    def supply(self, value: RingArray) -> None:
        super().supply(value)
        self.vector = value.copy()

    def handle(self, message: AnyMessage) -> list[Action]:
        actions = super().handle(message)
        if isinstance(message, Roster):
            self.rostered = message.size
        for action in actions:
            if isinstance(action, Send) and isinstance(action.message, Masked):
                share = terms.draw_noise(self.task.terms, self.rostered, seed=self.draws_from)
                self.witness.added[encode(action.message)] = secure_sum.add_pads(self.vector, added=[share])
                of = self.round
                self.witness.vectors[self.name, of.kind, of.number, of.attempt] = self.vector
        return actions


class WatchedCollector(Collector):
    """Tells what it opens, and over whom."""

    def __init__(self, witness: Witness, *task: Any, **rest: Any) -> None:
        super().__init__(*task, **rest)
        self.witness, self.told = witness, list[bytes]()

    def advance(self) -> list[Action]:
        actions = super().advance()
        said = [action.message for action in actions if isinstance(action, Send)]
        self.told = [one.receiver for one in said if isinstance(one, Survivors)] or self.told
        for action in actions:
            if isinstance(action, Finished):
                self.witness.sum_is_open(self.round, action, self.told, rostered=self.size)
        return actions
