"""Boxes relayed by the service, with sessions, checks and everything on disk, against a bare relay in the same run.

Devices are members of one sum: they have sent their keys, heard the roster and sealed a box for every neighbour. What
is measured is what follows: each hands in its boxes and waits for those that are for it, all devices at once, each on a
connection of its own. Requests are made beforehand, and letters looked at afterwards; the two servers take turns with
the same bodies. CPU is the server process's own, whatever else the machine does meanwhile.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from statistics import median
from typing import Any

import numpy as np
import uvloop

from certificates import ServerCertificate, server_certificate
from connections import Connection
from prirec.protocols.codec import encode
from prirec.recommender.campaign import CampaignState
from prirec.recommender.store import Store
from prirec.rehearsal.deployment import postgres
from prirec.sharing.keys import SigningKey, verify
from processes import Server, cpu_of, serving
from relay_device import FOUNDING, Device

DEVICES, REPETITIONS = 400, 9
CHECKS = 1000  # signatures, to time one


@dataclass(frozen=True)
class Repetition:
    """One time that everyone handed in and received."""

    seconds: float
    cpu: float  # of the server


async def timed(
    server: Server, connections: Sequence[Connection], requests: Sequence[bytes]
) -> tuple[Repetition, list[bytes]]:
    spent, began = cpu_of(server.pid), time.perf_counter()
    answers = await asyncio.gather(
        *(connection.ask(one) for connection, one in zip(connections, requests, strict=True))
    )
    return Repetition(time.perf_counter() - began, cpu_of(server.pid) - spent), answers


class Load:
    """All devices, and the two servers that they use in turn."""

    def __init__(self, at: ServerCertificate, url: str) -> None:
        self.at, self.url, self.store = at, url, Store.open(url)
        seeds = [sha256(b"device %d" % one).digest() for one in range(DEVICES)]
        self.devices = [Device(SigningKey(seed), np.random.default_rng(list(seed))) for seed in seeds]
        self.service: list[Repetition] = []
        self.bare: list[Repetition] = []
        self.boxes = self.body = self.letter = 0

    async def run(self, *, repetitions: int) -> None:
        self.store.found(FOUNDING)
        files, log = self.at.files, self.at.folder
        with (
            serving("relay_server.py", {"store": self.url, **files}, log=log / "service.log") as service,
            serving("bare_relay.py", {"devices": DEVICES, **files}, log=log / "bare.log") as bare,
        ):
            for device in self.devices:
                device.service = await Connection.to(service.port, self.at.client_context)
                device.bare = await Connection.to(bare.port, self.at.client_context)
                await device.join()
            for number in range(1, repetitions + 2):
                await self._repeat(service, bare, number)
            for device in self.devices:
                device.service.close()
                device.bare.close()
        self.store.close()

    async def _repeat(self, service: Server, bare: Server, number: int) -> None:
        """The first is to warm up."""
        self._set("learning", number)
        bodies = await asyncio.gather(*(device.come() for device in self.devices))
        asking = [device.asking(body) for device, body in zip(self.devices, bodies, strict=True)]
        served, answers = await timed(service, [device.service for device in self.devices], asking)
        self._check(bodies, answers)
        self._set("over", number)
        while self.store.open_rounds():
            await asyncio.sleep(0.02)
        asking = [device.asking(body, **device.place) for device, body in zip(self.devices, bodies, strict=True)]
        relayed, _ = await timed(bare, [device.bare for device in self.devices], asking)
        if number > 1:
            self.service.append(served)
            self.bare.append(relayed)

    def _check(self, bodies: Sequence[bytes], answers: Sequence[bytes]) -> None:
        delivered = [device.opened(answer) for device, answer in zip(self.devices, answers, strict=True)]
        assert self.devices[0].member.receive(delivered[0])  # its boxes open, and it goes on to mask
        self.boxes, self.body = sum(len(one.boxes) for one in delivered), len(bodies[0])
        self.letter = len(answers[0])

    def _set(self, phase: Any, number: int) -> None:
        self.store.advance(progress=encode(CampaignState(bytes(32), phase, number)))


def one_check() -> float:
    """CPU seconds of a signature's check: a collector makes one for each device that hands boxes in."""
    key = SigningKey(bytes(32))
    signed = key.sign(bytes(200))
    began = time.process_time()
    for _ in range(CHECKS):
        verify(key.public, signature=signed, message=bytes(200))
    return (time.process_time() - began) / CHECKS


def figures(load: Load) -> dict[str, Any]:
    """Medians over all repetitions."""
    cpu, bare_cpu = (median(one.cpu for one in repetitions) for repetitions in (load.service, load.bare))
    wall, bare_wall = (median(one.seconds for one in repetitions) for repetitions in (load.service, load.bare))
    return {
        "devices": len(load.devices), "in each sum": DEVICES, "boxes": load.boxes, "body": load.body,
        "letter": load.letter,
        "boxes a second": load.boxes / wall, "bare, boxes a second": load.boxes / bare_wall,
        "ms of CPU a 1,000 boxes": 1e6 * cpu / load.boxes, "bare, ms of CPU a 1,000 boxes": 1e6 * bare_cpu / load.boxes,
        "checks, ms of CPU a 1,000 boxes": 1e6 * one_check() * len(load.devices) / load.boxes,
    }  # fmt: skip


def measure(*, repetitions: int = REPETITIONS) -> dict[str, Any]:
    with server_certificate() as at:
        load = Load(at, str(at.folder / "store"))
        uvloop.run(load.run(repetitions=repetitions))
    return figures(load)


def measure_postgres(*, repetitions: int = REPETITIONS) -> dict[str, Any]:
    with server_certificate() as at, postgres(at.folder / "postgres") as url:
        load = Load(at, url)
        uvloop.run(load.run(repetitions=repetitions))
    return figures(load)


def lines(found: dict[str, Any], *, store: str) -> list[str]:
    cpu, bare = found["ms of CPU a 1,000 boxes"], found["bare, ms of CPU a 1,000 boxes"]
    checks, rate = found["checks, ms of CPU a 1,000 boxes"], found["boxes a second"] / found["bare, boxes a second"]
    return [
        f"Boxes relayed, sessions on, all of it on disk ({store}): {found['devices']} devices, "
        f"{found['in each sum']} in each sum, post {found['boxes']:,} boxes at once, {found['body']:,} bytes in and "
        f"{found['letter']:,} out for each.",
        "",
        "| | × a bare relay |",
        "|---|---|",
        f"| boxes a second | {rate:.2f} |",
        f"| boxes a second of the server's CPU ({cpu:.1f} ms a 1,000) | {bare / cpu:.2f} |",
        f"| the same, but for the collector's check of each device's signature | {bare / (cpu - checks):.2f} |",
    ]


if __name__ == "__main__":
    for store, found_there in {"SQLite": measure(), "PostgreSQL": measure_postgres()}.items():
        print(json.dumps(found_there, indent=1), *lines(found_there, store=store), sep="\n")
