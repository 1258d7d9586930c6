"""Rotations of the operators' keys: which key signs which entries of the log.

An entry "rotation" is the last that the old key signs: those after it are signed by the new one, and so are heads that
cover it, if the key is the helper's. It takes three signatures: of the old key, of the new key, and of the other
operator, whose people have compared the new key with those who rotate it. A rotation is between campaigns: charters
name keys, and nobody reports in a campaign of keys that are no longer in force.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Self

from prirec.errors import Fault, PeerError
from prirec.protocols.codec import encode
from prirec.sharing.keys import verify
from prirec.wire.documents import MOST_ROTATIONS, KeyChange, Role, Rotation


@dataclass(frozen=True, slots=True)
class RotatedKey:
    """An operator's key that another one has replaced, by an entry of the log. Public."""

    operator: str  # "recommender" or "helper"
    old: str  # in hexadecimal
    new: str
    time: int  # seconds since 1970: when the new key was made

    @classmethod
    def of(cls, rotation: Rotation) -> Self:
        change = rotation.change
        return cls(change.role, change.old.hex(), change.new.hex(), change.time)


@dataclass(frozen=True, slots=True)
class Operators:
    """The identities in force at a place of the log."""

    recommender: bytes
    helper: bytes  # empty: the deployment has one operator
    rotations: tuple[Rotation, ...] = ()  # that have led to these

    @property
    def first(self) -> Self:
        """Keys at the beginning of the log."""
        olds = {one.change.role: one.change.old for one in reversed(self.rotations)}
        return type(self)(olds.get("recommender", self.recommender), olds.get("helper", self.helper))

    def change(self, role: Role, new: bytes, *, deployment: bytes, time: int) -> KeyChange:
        """The statement that is signed for an operator's next key."""
        return KeyChange(deployment, len(self.rotations), role, self.of(role), new, time)

    def of(self, role: Role) -> bytes:
        return self.recommender if role == "recommender" else self.helper

    def peer_of(self, role: Role) -> bytes:
        """The other operator; empty: there is none."""
        return self.helper if role == "recommender" else self.recommender

    def ever(self) -> list[tuple[bytes, bytes]]:
        """All pairs that have been in force, in their order."""
        first = self.first
        pairs = [(first.recommender, first.helper)]
        for one in self.rotations:
            recommender, helper = pairs[-1]
            pairs.append(
                (one.change.new, helper) if one.change.role == "recommender" else (recommender, one.change.new)
            )
        return pairs

    def had(self) -> set[bytes]:
        """Every key that either of them has, or has had."""
        return {self.recommender, self.helper, *(one.change.old for one in self.rotations)}

    def after(self, rotation: Rotation, *, deployment: bytes) -> Self:
        """Those after a rotation. PeerError for one that is not the next, or lacks one of its signatures."""
        change, role = rotation.change, rotation.change.role
        wanted = deployment, len(self.rotations), self.of(role)
        if (change.deployment, change.number, change.old) != wanted or change.number >= MOST_ROTATIONS:
            raise PeerError(Fault.EQUIVOCATION, "a rotation of keys is not the next of this deployment")
        if change.new in self.had():
            raise PeerError(Fault.EQUIVOCATION, "a rotation leads to a key that an operator has, or has had")
        peer, said = self.peer_of(role), encode(change)
        signed = [(change.old, rotation.by_old), (change.new, rotation.by_new)]
        for key, signature in [*signed, (peer, rotation.by_peer)] if peer else signed:
            verify(key, signature=signature, message=said)
        if not peer and rotation.by_peer:
            raise PeerError(Fault.EQUIVOCATION, "a rotation is signed by a second operator where there is one")
        rotations = (*self.rotations, rotation)
        if role == "recommender":
            return replace(self, recommender=change.new, rotations=rotations)
        return replace(self, helper=change.new, rotations=rotations)

    def after_all(self, rotations: Iterable[Rotation], *, deployment: bytes) -> Self:
        return reduce(lambda now, one: now.after(one, deployment=deployment), rotations, self)

    def check(self, *, deployment: bytes) -> None:
        """PeerError unless their own rotations lead to them."""
        if self.first.after_all(self.rotations, deployment=deployment) != self:
            raise PeerError(Fault.EQUIVOCATION, "the operators' keys are not those that rotations lead to")
