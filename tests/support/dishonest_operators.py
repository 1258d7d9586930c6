"""A recommender that is after a device, in a deployment over two operators: the helper signs what it is shown, unless a
test says otherwise. Reports of the device go to a real leader and a real helper."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from prirec.config import Settings
from prirec.proofs.parameters import MODULUS
from prirec.protocols.codec import decode
from prirec.protocols.messages import Report
from prirec.protocols.party import Action, Send
from prirec.protocols.two_operators import ENTROPY, Helper, JointTask, Leader
from prirec.sharing.keys import AgreementKey, SigningKey
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Head, Names, Window
from support.cities import change
from support.dishonest_recommender import OTHERS, SETTINGS, TARGET, Dishonest, Target

NOW = 1_800_000_000
HOURS = 3600
HELPER = SigningKey(b"\5" * 32)
BOXES = AgreementKey(b"\6" * 32), AgreementKey(b"\7" * 32)  # leader's, helper's
JOINT = change(SETTINGS, sums={"operators": 2})


class Dishonest2(Dishonest):
    """With a helper, and windows of six hours, of which one has gone by."""

    def __init__(self) -> None:
        super().__init__(helper=HELPER)
        self.now = NOW
        self.listed = 0

    def taking_part(self, names: Sequence[bytes]) -> dict[str, Any]:
        return {
            "people": b"", "many": 0, "most": 500,
            "helper": HELPER.public, "leader_box": BOXES[0].public, "helper_box": BOXES[1].public,
        }  # fmt: skip

    def join(self, *names: bytes) -> None:
        """These, or everybody, are listed."""
        everybody = TARGET.public, *(one.public for one in OTHERS)
        self.listed += len(names or everybody)
        self.say("joined", Names(names or everybody))

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
    return Target.of(recommender, path, helper=HELPER.public, **more)


class Operators:
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
