"""Devices that are enrolled, hold real keys, and lie in the protocol."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import numpy as np
import pytest

from prirec.device import rounds
from prirec.protocols.messages import Agreements, Box, Delivery, Roster, Secrets
from prirec.protocols.party import Action, Send
from prirec.protocols.secure_sum import Member
from prirec.sharing.keys import SigningKey


def spoilt(share: bytes) -> bytes:
    """Another value of the field, so that nothing but the secret is wrong."""
    words = np.frombuffer(share, dtype="<u4").copy()
    words[0] = (words[0] + 1) % (2**31 - 1)
    return words.tobytes()


class GivesWrongShares(Member):
    """Of every secret, when the sum is to be opened."""

    def _reveal(self, message: Agreements) -> list[Action]:
        self._held = {at: Secrets(spoilt(s.seed), spoilt(s.mask_key)) for at, s in self._held.items()}
        self._own_share = spoilt(self._own_share)
        return super()._reveal(message)


class SealsGarbage(Member):
    """For its first neighbours, so many of them."""

    many = 10**6

    def _share(self, roster: Roster) -> list[Action]:
        return [self._with_garbage(one) if isinstance(one, Send) else one for one in super()._share(roster)]

    def _with_garbage(self, send: Send) -> Send:
        message: Any = send.message
        boxes = (Box(box.position, bytes(117)) if n < self.many else box for n, box in enumerate(message.boxes))
        return Send(msgspec.structs.replace(message, boxes=tuple(boxes)))


class SealsGarbageForOne(SealsGarbage):
    many = 1


class SharesNoSecret(Member):
    """Commits to shares that lie on no polynomial: its neighbours cannot tell."""

    def _share(self, roster: Roster) -> list[Action]:
        actions, self._seed = super()._share(roster), bytes(32)
        return actions


class ComplainsOfAll(Member):
    """Says of good boxes that it cannot use them."""

    def _take_boxes(self, delivery: Delivery) -> list[Action]:
        (sent,) = super()._take_boxes(delivery)
        self._held = {}
        return [Send(msgspec.structs.replace(sent.message, unusable=tuple(b.position for b in delivery.boxes)))]  # type: ignore[union-attr]


def let_lie(patch: pytest.MonkeyPatch, liars: Mapping[bytes, type[Member]]) -> None:
    """The devices with these names lie in every sum from now on."""

    def made(*given: Any, identity: SigningKey, **named: Any) -> Member:
        return liars.get(identity.public, Member)(*given, identity=identity, **named)

    patch.setattr(rounds, "Member", made)


def names_of(people: Mapping[str, object], rows: Collection[int]) -> list[bytes]:
    return [bytes.fromhex(name) for at, name in enumerate(people) if at in rows]
