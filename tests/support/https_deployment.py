"""A deployment whose devices reach their recommender over HTTPS: a real service with TLS on loopback."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from prirec.device.agent import Agent, RetryPolicy
from prirec.device.client import Client, https_connection
from prirec.device.ledger import LedgerStore
from prirec.privacy.ledger import Budget
from prirec.recommender import campaign as rules
from prirec.recommender import tls
from prirec.recommender.conductor import Pace, conduct
from prirec.recommender.limits import Limits, Rate
from prirec.recommender.operator import begin_campaign
from prirec.recommender.server import Worker, running
from prirec.util.trust import tls_context
from support.deployment import NOW, Deployment, Entropy

MANY = Rate(1e6, 1_000_000)
OPEN = Limits(device=MANY, device_bytes=Rate(1e9, 2**30), address=MANY, enrolment=MANY, enrolments=MANY)
QUICK = RetryPolicy(wait=2, first=0.1, work=None)


@dataclass(frozen=True)
class Address:
    url: str
    authority: bytes  # PEM


@contextmanager
def served(deployment: Deployment, folder: Path, *, pace: Pace, limits: Limits = OPEN) -> Iterator[Address]:
    """The service of a deployment, with a conductor, in threads of this process."""
    now = datetime.now(UTC)
    authority = tls.new_authority("a town", now=now)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    tls.server_certificate(authority, hosts=["localhost", "127.0.0.1"], now=now).write(certificate, key)
    worker = Worker(str(folder / "recommender"), certificate, key, partial(conduct, pace=pace), limits)
    with running(worker) as (port, _):
        yield Address(f"https://localhost:{port}", authority.certificate)


async def take_part(
    deployment: Deployment, at: Address, *, seconds: float = 3600.0, retry: RetryPolicy = QUICK
) -> Mapping[str, Entropy]:
    """Everyone enrols, a campaign is begun and gone through; what each device drew."""
    drawn = {name: Entropy(bytes.fromhex(name)) for name in deployment.people}
    stop = asyncio.Event()
    trust = tls_context(at.authority)
    async with AsyncExitStack() as lines:
        agents = []
        for name, entropy in drawn.items():
            line = await lines.enter_async_context(https_connection(at.url, trust=trust))
            agents.append(_agent(deployment, name, line, entropy, retry))
        for agent in agents:
            assert await agent.step(wait=0), agent.problem
        begin_campaign(deployment.store, deployment.settings)
        working = asyncio.gather(*(agent.run(stop) for agent in agents))
        try:
            async with asyncio.timeout(seconds):
                while phase(deployment) not in ("over", "failed"):
                    await asyncio.sleep(0.05)
        finally:
            stop.set()
            await working
        for agent in agents:
            await agent.step(wait=0)  # the publication
    return drawn


def _agent(deployment: Deployment, name: str, line, entropy: Entropy, retry: RetryPolicy) -> Agent:
    person = deployment.people[name]
    member = person.membership()
    client = Client(line, identity=member.identity, deployment=member.deployment)
    paid = LedgerStore(person.store, Budget())
    agent = Agent(person, paid, client, retry=retry, clock=lambda: NOW, entropy=entropy)

    wait_for_regions(agent)
    return agent


def wait_for_regions(agent: Agent) -> None:
    """However slow the machine is: a simulation has them all."""

    async def until_all_regions_are_here(seconds: float) -> None:
        await (asyncio.sleep(seconds) if agent._download is None else asyncio.wait([agent._download]))

    agent._sleep = until_all_regions_are_here


def phase(deployment: Deployment) -> str:
    held = deployment.store.progress()
    return "" if held is None else rules.decode_state(held).phase
