"""Both operators of a deployment in one process, with a store each, and people who report what they like within the
bound. Only the network is missing: what the recommender asks goes to the helper's desk, in its envelope."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import numpy as np

from prirec.config import Settings
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.privacy.noise import OperatorNoise, Stream
from prirec.protocols.codec import encode
from prirec.protocols.messages import Report
from prirec.protocols.two_operators import Device, JointTask
from prirec.recommender import campaign as rules
from prirec.recommender.campaign import CampaignState, CampaignSteps
from prirec.recommender.helper import HelperDesk
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
from prirec.wire.documents import Charter, Window, read
from prirec.wire.operators import check_envelope
from support.cities import SMALL_PRIVATE, change, small_city

NOW = 1_800_000_000.0
HOUR = 3600
PLACES = 12


def few(**changes: object) -> Settings:
    return change(SMALL_PRIVATE, **({"sums": {"operators": 2}, "iterations": 2, "floor": 5} | changes))


def person(at: int) -> SigningKey:
    return SigningKey(sha256(b"person %d" % at).digest())


@dataclass
class OperatorPair:
    """`dies` is called before and after each write of either operator, and may raise; both are made again then."""

    folder: Path
    people: int = 8
    now: float = NOW
    away: bool = False  # whether the helper does not answer
    asked: list[bytes] = field(default_factory=list)  # bodies that crossed between the operators
    answered: list[bytes] = field(default_factory=list)
    drawn: list[tuple[str, bytes]] = field(default_factory=list)  # by whom, what
    life: int = 0

    def __post_init__(self) -> None:
        self.leading, self.helping = (Store.open(self.folder / f"{name}.db") for name in ("leader", "helper"))
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

    def restart(self) -> None:
        """Both operators begin anew, with what they have on disk."""
        self.desk = HelperDesk(self.helping, clock=lambda: self.now, entropy=self.entropy("helper"))
        self.peer = Peer(self.leading.founding(), self.line, clock=lambda: self.now)
        self.conductor = JointConductor(
            self.leading, peer=self.peer, clock=lambda: self.now, entropy=self.entropy("leader"), listing=0.0
        )
        self.life += 1

    def line(self, body: bytes, header: str) -> tuple[bytes, bytes]:
        if self.away:
            raise HelperAwayError
        desk = self.desk
        envelope = check_envelope(
            header.encode(), deployment=desk.deployment, sender=desk.recommender, receiver=desk.identity.public,
            now=int(self.now),
        )  # fmt: skip
        self.asked.append(body)
        answer, back = desk.answer(body, envelope)
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
            if not self.conductor.tick():
                return
        raise AssertionError("the conductor goes on and on")

    def state(self, store: Store | None = None) -> CampaignState:
        return rules.decode_state((store or self.leading).progress() or b"")

    def fetch(self, name: bytes) -> bytes:
        return own_document(self.leading, name)

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
        task = task or self.task
        rng = np.random.default_rng([at, task.round.number])
        device = Device(task, identity=person(at), value=self.value(at, task), draw=rng.bytes)
        return device.report()[-1].message  # type: ignore[union-attr,return-value]

    def post(self, *who: int) -> None:
        task = self.task
        for at in who:
            report = self.report(at, task)
            self.leading.joint.post(report, encode(report), now=self.now)

    def noise(self, task: JointTask, seed: bytes) -> np.ndarray:
        law = OperatorNoise(Fraction(task.terms.noise), task.terms.floor, 0)
        return law.draw(Stream(seed[:32]), task.terms.length)
