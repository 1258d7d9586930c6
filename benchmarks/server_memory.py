"""Resident memory of the server after each of many rounds, with a few real devices over HTTPS, campaign after campaign,
and its slope after the first quarter of the rounds: does it grow without end? Devices leave after some campaigns, and
others come.   python server_memory.py ROUNDS
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from scipy import stats

import low_floor
from certificates import IN_MEMORY, ServerCertificate, server_certificate
from prirec.config import PRIVATE, Settings
from prirec.data.synthetic import CityPlan, make_city
from prirec.device.agent import Agent, RetryPolicy
from prirec.device.client import Client, home_cell, https_connection, join, tls_context
from prirec.device.device import Device
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.privacy.ledger import Budget
from prirec.recommender import campaign as rules
from prirec.recommender.campaign import CampaignState
from prirec.recommender.operator import begin_campaign, found_deployment, publish_catalogue
from prirec.recommender.release import CatalogueSource
from prirec.recommender.store import Store
from prirec.sharing.keys import SigningKey
from processes import Server, resident_of, serving

DEVICES, PLACES, VISITS = 6, 20, 4
CAMPAIGN = 25  # rounds
GENERATION = 4 * CAMPAIGN  # rounds that a device stays for
PAUSE = 0.02  # seconds between two looks
WARM, BLOCKS = 0.25, 10  # of all rounds, in which pools fill; and parts that the others are looked at in
SHOWN = (50, 100, 250, 500, 1000)


def settings() -> Settings:
    """The preset private, with a model and a floor as small as rounds of so few need."""
    change, few = msgspec.structs.replace, PRIVATE
    return change(
        few, floor=low_floor.FEW, iterations=CAMPAIGN,
        features=change(few.features, words=3, buckets=2, areas=0, own_history=False),
        data=change(few.data, keep="all"), sums=change(few.sums, lost=0.4),
        privacy=change(few.privacy, epsilon_per_user=3.0),
    )  # fmt: skip


@dataclass
class Watch:
    """Looks at a server's memory whenever a round is over."""

    store: Store
    server: Server
    resident: list[int] = field(default_factory=list)  # bytes, after each round
    _at: tuple[bytes, int] = (b"", 0)

    def look(self) -> CampaignState | None:
        held = self.store.progress()
        progress = None if held is None else rules.decode_state(held)
        if progress is not None and (progress.charter, progress.iteration) != self._at:
            self._at = (progress.charter, progress.iteration)
            if progress.iteration:
                self.resident.append(resident_of(self.server.pid))
        return progress


async def campaigns(watch: Watch, agents: Sequence[Agent], *, rounds: int) -> None:
    """One after another, until there were so many rounds in all."""
    stop = asyncio.Event()
    lives = [asyncio.create_task(agent.run(stop)) for agent in agents]
    try:
        progress = watch.look()
        while len(watch.resident) < rounds:
            if progress is None or progress.phase == "over":
                begin_campaign(watch.store, settings())
            elif progress.phase == "failed":
                raise RuntimeError("a campaign failed")
            await asyncio.sleep(PAUSE)
            progress = watch.look()
            for life in (one for one in lives if one.done()):
                life.result()
    finally:
        stop.set()
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)


def set_up(store: Store) -> Sequence[str]:
    """Found a deployment and publish a few places; their ids."""
    rng = np.random.default_rng(0)
    city = make_city(CityPlan(people=DEVICES, places=PLACES, records=DEVICES * VISITS, districts=2, categories=4), rng)
    found_deployment(store, title="a benchmark")
    publish_catalogue(store, CatalogueSource(city.places, plan_encoding(city, Popularity(), settings().features)))
    return city.places.ids


@contextmanager
def people(at: ServerCertificate, places: Sequence[str], *, generation: int) -> Iterator[list[Device]]:
    """Devices whose people were at some of the places."""
    rng, names = np.random.default_rng(generation), [f"device-{generation}-{one}" for one in range(DEVICES)]
    with ExitStack() as open_files:
        devices = [open_files.enter_context(Device.open(at.folder / name)) for name in names]
        for device in devices:
            for place in rng.permutation(len(places))[:VISITS]:
                device.record_visit(places[place])
        yield devices


async def online(device: Device, url: str, at: ServerCertificate, *, fingerprint: str, lines: AsyncExitStack) -> Agent:
    member = await join(device.person, url, cell=home_cell(None), authority=at.authority, fingerprint=fingerprint)
    line = await lines.enter_async_context(https_connection(url, trust=tls_context(at.authority)))
    client = Client(line, identity=member.identity, deployment=member.deployment)
    device.set_budget(Budget(epsilon=1e6))  # for as many rounds as are wanted: what is measured is the server
    return Agent(device.person, device.ledger_store, client, retry=RetryPolicy(wait=5, first=0.1, grace=0.0, work=None))


async def stay(watch: Watch, devices: Sequence[Device], at: ServerCertificate, *, rounds: int) -> None:
    """From when they join until there were so many rounds in all; then they leave."""
    fingerprint = SigningKey(watch.store.founding().identity).public.hex()
    url = f"https://localhost:{watch.server.port}"
    async with AsyncExitStack() as lines:
        agents = [await online(one, url, at, fingerprint=fingerprint, lines=lines) for one in devices]
        for agent in agents:
            await agent.step(wait=0)
        await campaigns(watch, agents, rounds=rounds)
        for agent in agents:
            await agent.client.leave()


def in_this_process(rounds: int) -> list[int]:
    """In kB: resident memory after each round. The floor is lowered, so this is for a process of its own."""
    low_floor.lower()
    with server_certificate(where=IN_MEMORY) as at, Store.open(at.folder / "store") as store:
        places, task = set_up(store), {"store": str(at.folder / "store"), **at.files}
        with serving("server_of_small_rounds.py", task, log=at.folder / "log") as server:
            watch = Watch(store, server)
            for generation, first in enumerate(range(0, rounds, GENERATION)):
                with people(at, places, generation=generation) as devices:
                    asyncio.run(stay(watch, devices, at, rounds=min(first + GENERATION, rounds)))
    return [one // 1024 for one in watch.resident]


def slope(resident: Sequence[int]) -> tuple[float, float]:
    """kB a round after the first rounds, and half of its 95 % interval: from the steps between the means of ten parts.
    Memory moves in jumps, so single rounds are not independent; parts nearly are."""
    left = np.array(resident[int(WARM * len(resident)) :], dtype=float)
    size = len(left) // BLOCKS
    means = left[: size * BLOCKS].reshape(BLOCKS, size).mean(axis=1)
    steps = np.diff(means) / size
    return float(steps.mean()), float(stats.t.ppf(0.975, len(steps) - 1) * stats.sem(steps))


def measure(rounds: int) -> dict[str, Any]:
    done = subprocess.run([sys.executable, __file__, str(rounds)], check=True, capture_output=True, text=True)
    resident = json.loads(done.stdout)
    found, interval = slope(resident)
    kept = {str(at): resident[at - 1] for at in SHOWN if at <= rounds}
    return {"devices": DEVICES, "rounds": rounds, "resident": kept, "slope": found, "interval": interval}


def lines(found: dict[str, Any]) -> list[str]:
    megabytes = {at: f"{size / 1024:.1f}" for at, size in found["resident"].items()}
    last = next(reversed(found["resident"].values()))
    return [
        f"The server's memory over {found['rounds']:,} rounds of {found['devices']} devices, in MB: "
        + ", ".join(f"{size} after {int(at):,}" for at, size in megabytes.items())
        + f". After the first quarter of the rounds, the slope is {found['slope']:.1f} ± {found['interval']:.1f} kB a "
        f"round (95 %): {100 * 1000 * found['slope'] / last:.1f} % in a thousand.",
    ]


if __name__ == "__main__":
    print(json.dumps(in_this_process(int(sys.argv[1]))))
