"""A recommender that is after a device, in a deployment over two operators: the helper signs what it is shown, unless a
test says otherwise. Reports of the device go to a real leader and a real helper."""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from prirec.config import Settings
from prirec.proofs.parameters import MODULUS
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import Report
from prirec.protocols.party import Action, Send
from prirec.protocols.two_operators import ENTROPY, Helper, JointTask, Leader
from prirec.sharing.keys import AgreementKey, SigningKey
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Head, Names, Role, Rotation, Window
from prirec.wire.rotations import Operators
from support.cities import change
from support.dishonest_recommender import DEPLOYMENT, OTHERS, SETTINGS, TARGET, Dishonest, Target

NOW = 1_800_000_000
HOURS = 3600
HELPER = SigningKey(b"\5" * 32)
BOXES = AgreementKey(b"\6" * 32), AgreementKey(b"\7" * 32)  # leader's, helper's
JOINT = change(SETTINGS, sums={"operators": 2})


class Dishonest2(Dishonest):
    """With a helper, and windows of six hours, of which one has gone by."""

    def __init__(self) -> None:
        super().__init__(helper=HELPER)
        self.rotations: tuple[Rotation, ...] = ()
        self.now = NOW
        self.listed = 0

    def taking_part(self, names: Sequence[bytes]) -> dict[str, Any]:
        return {
            "people": b"", "many": 0, "most": 500,
            "helper": self.operators.helper, "leader_box": BOXES[0].public, "helper_box": BOXES[1].public,
        }  # fmt: skip

    def join(self, *names: bytes) -> None:
        """These, or everybody, are listed."""
        everybody = TARGET.public, *(one.public for one in OTHERS)
        self.listed += len(names or everybody)
        self.say("joined", Names(names or everybody))

    @property
    def operators(self) -> Operators:
        """Whose keys are in force, as the log says."""
        assert self.helper is not None
        return Operators(self.identity.public, self.helper.public, self.rotations)

    def rotation(self, of: Role, new: SigningKey, **changes: Any) -> Rotation:
        """The next one, which all three keys sign; with changes of what is signed, or of who signs."""
        keys = {one.public: one for one in (self.identity, self.helper, new) if one is not None}
        signing = changes.pop("by_old", None), changes.pop("by_new", None), changes.pop("by_peer", None)
        change = self.operators.change(of, new.public, deployment=DEPLOYMENT, time=NOW)
        change = msgspec.structs.replace(change, **changes)
        usual = change.old, change.new, self.operators.peer_of(of)
        found = [one or keys[key] for one, key in zip(signing, usual, strict=True)]
        return Rotation(change, *(one.sign(encode(change)) for one in found))

    def rotate(self, role: Role, new: SigningKey) -> None:
        """From this entry on it is this operator's key."""
        said = self.rotation(role, new)
        self.say("rotation", said)
        self.rotations = (*self.rotations, said)
        if role == "recommender":
            self.identity = new
        else:
            self.helper = new

    def begun(self, *, settings: Settings = JOINT, campaign: int = 1) -> Campaign:
        """A campaign up to its sum of visits, which everybody may be in."""
        self.join()
        return Campaign.of(self.charter(settings=settings, campaign=campaign))

    def learning(self, *, settings: Settings = JOINT) -> tuple[Campaign, np.ndarray]:
        self.join()
        return self.rounds(settings=settings)

    def window(self, campaign: Campaign, kind: str = "popularity", **changes: Any) -> Window:
        """Of the people who are listed now."""
        B, iteration = changes.pop("B", None), changes.pop("iteration", 0)
        made = campaign.window(
            kind, iteration, B=B, people=self.listed, listed=self.head,  # type: ignore[arg-type]
            opens=NOW - HOURS, closes=NOW + 5 * HOURS,
        )  # fmt: skip
        window = msgspec.structs.replace(made, **changes)
        self.say("window", window)
        return window


def target_of(recommender: Dishonest, path: Path, **more: Any) -> Target:
    """That has pinned the helper."""
    return Target.of(recommender, path, **({"helper": HELPER.public} | more))


def steps(target: Target, many: int = 2) -> list[bytes]:
    """What it reports in so many steps."""

    async def some() -> None:
        for _ in range(many):
            await target.agent.step(wait=0)

    before = len(target.line.reports)
    asyncio.run(some())
    return target.line.reports[before:]


def charged(target: Target) -> int:
    return len(target.paid.ledger().entries)


class Sums:
    """Leader and helper of one window, who decide on each report when it comes."""

    def __init__(self, recommender: Dishonest, task: JointTask, enrolled: Sequence[bytes]) -> None:
        kinds = ((Leader, recommender.identity, BOXES[0]), (Helper, HELPER, BOXES[1]))
        self.leader, self.helper = (
            kind(
                task, identity=identity, box_key=box, enrolled=frozenset(enrolled), entropy=bytes(ENTROPY),
                **({"batch": 1} if kind is Leader else {}),
            )
            for kind, identity, box in kinds
        )  # fmt: skip
        self.leader.begin()
        self.helper.begin()

    def take(self, body: bytes) -> None:
        report = decode(body)
        assert isinstance(report, Report)
        batch = _sent(self.leader.receive(report))
        self.leader.receive(_sent(self.helper.receive(batch)))

    @property
    def total(self) -> np.ndarray:
        """What both have added up, as whole numbers; nothing but a test knows both shares."""
        both = [one._share.tolist() for one in (self.leader, self.helper)]
        total = [(a + b) % MODULUS for a, b in zip(*both, strict=True)]
        return np.array([one - MODULUS if one > MODULUS // 2 else one for one in total])


def _sent(actions: Sequence[Action]) -> Any:
    return next(action.message for action in actions if isinstance(action, Send))


def another_head() -> Head:
    return Head(1, sha256(b"another log").digest())
