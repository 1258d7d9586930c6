"""A deployment over two operators, as it runs: recommender and helper are services of their own, over TLS on loopback,
and devices are agents of this process. Only time is the test's: all clocks are one."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.device.agent import Agent, RetryPolicy
from prirec.device.client import Client, https_connection
from prirec.device.ledger import LedgerStore
from prirec.device.windows import Windows
from prirec.privacy.ledger import Budget
from prirec.privacy.noise import Stream
from prirec.proofs.pine import HELPER, LEADER
from prirec.protocols.messages import Report, Round
from prirec.protocols.two_operators import Device, JointTask, Noised, operator_noise
from prirec.recommender import campaign as rules
from prirec.recommender import helper as helpers
from prirec.recommender import joint_conductor as conductors
from prirec.recommender import tls
from prirec.recommender.campaign import CampaignState, CampaignSteps
from prirec.recommender.joint_conductor import JointConductor
from prirec.recommender.operator import (
    HelperAddress,
    begin_campaign,
    fingerprint,
    found_helper,
    own_document,
    pair_helper,
)
from prirec.recommender.peer import HttpsLine, Peer
from prirec.recommender.server import Worker, running
from prirec.recommender.store import Store
from prirec.sharing.keys import SEED, SigningKey
from prirec.util.trust import tls_context
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Window, read
from support.deployment import NOW, Deployment, deployed
from support.https_deployment import OPEN, wait_for_regions

HOURS = 3600
AT_ONCE = RetryPolicy(wait=0, first=0.01, grace=0.0, work=None, spread=0.0)


@dataclass
class Clock:
    now: float = NOW

    def __call__(self) -> float:
        return self.now


@dataclass
class JointTown:
    """`drawn` and `added` are what a test alone knows: what each operator drew, and what each device added."""

    town: Deployment
    helping: Store
    peer: Peer
    conductor: JointConductor
    clock: Clock
    url: str
    pages: dict[str, str]  # the operators' own, by role
    authority: bytes
    drawn: dict[Round, tuple[JointTask, dict[int, bytes]]]  # by role
    added: dict[tuple[bytes, Round], np.ndarray]  # by device and round

    def state(self, store: Store | None = None) -> CampaignState:
        return rules.decode_state((store or self.town.store).progress() or b"")

    @property
    def steps(self) -> CampaignSteps:
        return CampaignSteps.of(self.state(), partial(own_document, self.town.store))

    @property
    def campaign(self) -> Campaign:
        return self.steps.campaign

    @property
    def window(self) -> Window:
        name = self.state().window
        return read(Window, own_document(self.town.store, name), name=name)

    @property
    def task(self) -> JointTask:
        return self.steps.joint(self.state(), self.window)

    def begin(self, settings: Settings, *, seconds: int = 6 * HOURS) -> None:
        begin_campaign(self.town.store, settings, window=seconds, peer=self.peer)

    async def conduct(self) -> None:
        """Until nothing happens any more."""
        for _ in range(200):
            if not await asyncio.to_thread(self.conductor.tick):
                return
        raise AssertionError("the conductor goes on and on")

    async def close_window(self) -> None:
        self.clock.now = self.window.closes
        await self.conduct()

    def opened(self, of: Round) -> np.ndarray:
        """A sum as the recommender has it on disk."""
        kept = self.town.store.joint.kept(of)
        assert kept is not None
        return np.frombuffer(msgspec.msgpack.decode(kept.payload, type=Noised).total, np.uint64)

    def noise_in(self, of: Round) -> np.ndarray:
        """What both operators added to a sum."""
        task, drawn = self.drawn[of]
        law = operator_noise(task.terms)
        draws = [law.draw(Stream(drawn[role][:SEED]), task.terms.length) for role in (LEADER, HELPER)]
        return np.sum(draws, axis=0).astype(np.uint64)


@contextmanager
def joint_town(
    city: Dataset, settings: Settings, folder: Path, patch: pytest.MonkeyPatch, *, app_origins: tuple[str, ...] = ()
) -> Iterator[JointTown]:  # fmt: skip
    """Both operators run, and each has pinned the other."""
    clock, now = Clock(), datetime.now(UTC)
    authority = tls.new_authority("two operators", now=now)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    tls.server_certificate(authority, hosts=["localhost", "127.0.0.1"], now=now).write(certificate, key)
    helping = Store.open(folder / "helper")
    whole = fingerprint(found_helper(helping, title="the helper").identity)
    address = HelperAddress.of("https://not.known.yet", whole, authority.certificate)
    town = deployed(city, settings, folder, helper=address)
    founding = town.store.founding()
    pair_helper(helping, deployment=founding.deployment.hex(), recommender=fingerprint(founding.identity))
    drawn, added = _noting_draws(patch), _noting_values(patch)
    helper, leader = (
        Worker(str(folder / name), certificate, key, limits=OPEN, clock=clock, app_origins=app_origins)
        for name in ("helper", "recommender")
    )
    with ExitStack() as stack:
        (port, helping_page), (public, leading_page) = (
            stack.enter_context(running(one, operator=("127.0.0.1", 0))) for one in (helper, leader)
        )
        line = stack.enter_context(closing(HttpsLine(replace(founding, peer_url=f"https://localhost:{port}"))))
        peer = Peer(town.store, line, clock=clock)
        conductor = JointConductor(town.store, peer, clock=clock, listing=0.0)
        url = f"https://localhost:{public}"
        pages = {"recommender": f"https://localhost:{leading_page}", "helper": f"https://localhost:{helping_page}"}
        yield JointTown(town, helping, peer, conductor, clock, url, pages, authority.certificate, drawn, added)


def _noting_draws(patch: pytest.MonkeyPatch) -> dict[Round, tuple[JointTask, dict[int, bytes]]]:
    found = dict[Round, tuple[JointTask, dict[int, bytes]]]()

    def noting(kind: Any) -> Any:
        class Noting(kind):
            def __init__(self, task: JointTask, *, entropy: bytes, **rest: Any) -> None:
                held, drawn = found.setdefault(task.round, (task, {}))
                assert held == task
                assert self.role not in drawn  # neither is made twice: nobody dies here
                drawn[self.role] = entropy
                super().__init__(task, entropy=entropy, **rest)

        return Noting

    patch.setattr(conductors, "Leader", noting(conductors.Leader))
    patch.setattr(helpers, "Helper", noting(helpers.Helper))
    return found


def _noting_values(patch: pytest.MonkeyPatch) -> dict[tuple[bytes, Round], np.ndarray]:
    found, whole = dict[tuple[bytes, Round], np.ndarray](), Windows._report

    def noting(self: Windows, task: JointTask, value: np.ndarray) -> Any:
        found[self._identity.public, task.round] = value.copy()
        return whole(self, task, value)

    patch.setattr(Windows, "_report", noting)
    return found


@dataclass
class Online:
    """Devices with lines of their own."""

    at: JointTown
    lines: AsyncExitStack

    async def agents(self, names: Sequence[str]) -> dict[str, Agent]:
        trust, found = tls_context(self.at.authority), {}
        for name in names:
            person = self.at.town.people[name]
            member = person.require_membership()
            line = await self.lines.enter_async_context(https_connection(self.at.url, trust=trust))
            client = Client(line, identity=member.identity, deployment=member.deployment)
            ledger = LedgerStore(person.store, Budget(epsilon=40.0))
            found[name] = Agent(person, ledger, client, retry=AT_ONCE, clock=self.at.clock)
            wait_for_regions(found[name])
        return found

    async def stranger(self, identity: SigningKey) -> Client:
        """A program of somebody's own, who enrols and reports what it likes."""
        line = await self.lines.enter_async_context(https_connection(self.at.url, trust=tls_context(self.at.authority)))
        client = Client(line, identity=identity, deployment=self.at.town.store.founding().deployment)
        await client.enrol()
        return client


async def steps(agents: Sequence[Agent], many: int = 1) -> None:
    for _ in range(many):
        for agent in agents:
            assert await agent.step(wait=0), agent.problem


def made_by(identity: SigningKey, task: JointTask, value: np.ndarray) -> Report:
    """An honest program's report of this vector."""
    rng = np.random.default_rng(int.from_bytes(identity.public[:8], "big"))
    return Device(task, identity=identity, value=value, draw=rng.bytes).report()[-1].message  # type: ignore[union-attr,return-value]
