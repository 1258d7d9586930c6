"""A whole round with many devices over HTTPS: prirec.rehearsal's recommender and devices, in processes of their own on
one machine, against the same sums over the in-memory wire of engines/protocol.py.   python whole_round.py DEVICES

What is compared is CPU, of the server and of all devices, and bytes: the wire carries the same messages and checks the
same signatures, in one process and without HTTP, TLS, files, learning or anybody who has to be waited for.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from prirec.engines.protocol import MemoryJournal, Wire
from prirec.protocols import roster
from prirec.protocols.roster import Task
from prirec.protocols.secure_sum import ENTROPY, Collector, Member
from prirec.recommender import campaign as rules
from prirec.recommender.campaign import CampaignState, CampaignSteps
from prirec.recommender.operator import begin_campaign, own_document
from prirec.rehearsal.deployment import DeviceProcesses, RecommenderProcess, Traffic
from prirec.rehearsal.plan import Plan
from prirec.rehearsal.population import load_people, make_devices
from prirec.rehearsal.processes import sandbox
from prirec.sharing.keys import SigningKey
from processes import cpu_of

PAUSE = 0.02  # seconds between two looks


@dataclass(frozen=True)
class Spent:
    """Time, CPU and traffic of everybody until a moment."""

    seconds: float
    server: float
    devices: float
    traffic: Traffic

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(
            self.seconds - other.seconds, self.server - other.server, self.devices - other.devices,
            self.traffic - other.traffic,
        )  # fmt: skip


class CampaignRun:
    """A campaign of two rounds."""

    def __init__(self, plan: Plan, recommender: RecommenderProcess, devices: DeviceProcesses) -> None:
        self.plan, self.recommender, self.devices = plan, recommender, devices

    def run(self) -> tuple[dict[tuple[str, int], Spent], list[tuple[Task, int]]]:
        """What each sum took, by phase and iteration; and the sum of the second round, with how many are in it."""
        while self.recommender.store.counts().people < self.plan.devices:
            self._check()
        begin_campaign(self.recommender.store, self.plan.settings)
        began, sums = {}, []
        while (progress := self._progress()).phase not in ("over", "failed"):
            if (progress.phase, progress.iteration) not in began:
                began[progress.phase, progress.iteration] = self._spent()
                sums += [self._sum(progress)] if progress.iteration else []
            self._check()
        if progress.phase == "failed":
            raise RuntimeError("the sum of visits was not opened")
        marks = [*began.values(), self._spent()]
        return {at: after - before for at, before, after in zip(began, marks, marks[1:], strict=False)}, sums

    def _check(self) -> None:
        self.recommender.check()
        self.devices.check()
        time.sleep(PAUSE)

    def _progress(self) -> CampaignState:
        held = self.recommender.store.progress()
        assert held is not None
        return rules.decode_state(held)

    def _sum(self, progress: CampaignState) -> tuple[Task, int]:
        steps = CampaignSteps.of(progress, partial(own_document, self.recommender.store))
        task, names = steps.sum(progress)
        return task, len(names)

    def _spent(self) -> Spent:
        assert self.recommender.child is not None
        devices = sum(cpu_of(group.child.pid) for group in self.devices.groups if group.child is not None)
        return Spent(time.monotonic(), cpu_of(self.recommender.child.pid), devices, self.devices.traffic)


@contextmanager
def deployed(plan: Plan) -> Iterator[CampaignRun]:
    """Processes of a recommender and of its devices, while the context lasts."""
    with sandbox(plan) as on:
        population = make_devices(load_people(plan), plan, on.devices)
        store = str(on.recommender / "store")
        recommender = RecommenderProcess(on, population, plan.settings, store=store, workers=1, pace=plan.pace)
        with closing(recommender):
            recommender.start()
            devices = DeviceProcesses(population.files, recommender, doomed=0, start=on.start)
            devices.start()
            yield CampaignRun(plan, recommender, devices)


def in_memory(task: Task, size: int) -> tuple[float, int]:
    """CPU seconds and bytes of one such sum, in memory."""
    rng = np.random.default_rng(0)
    host, devices = SigningKey(rng.bytes(32)), [SigningKey(rng.bytes(32)) for _ in range(size)]
    task = replace(task, collector=host.public, allowed=frozenset(one.public for one in devices))
    wire, value = Wire(), np.zeros(task.terms.length, dtype=np.uint64)
    began = time.process_time()
    for one in devices:
        wire.attach(Member(task, identity=one, value=value, entropy=rng.bytes(ENTROPY)), MemoryJournal())
    collector = Collector(task, identity=host, entropy=rng.bytes(roster.COLLECTOR_ENTROPY))
    wire.attach(collector, MemoryJournal())
    wire.do(collector, collector.invite([one.public for one in devices]))
    wire.run(collector)
    assert host.public in wire.finished
    assert not wire.refused
    return time.process_time() - began, wire.traffic.octets.total()


def measure(devices: int) -> dict[str, Any]:
    """The second round, over HTTPS and over the wire: the sum of all devices, and the server."""
    with deployed(Plan(devices=devices, rounds=2)) as campaign:
        spent, sums = campaign.run()
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as others:
        wires = list(others.map(in_memory, *zip(*sums, strict=True)))
    whole = [one for (_, iteration), one in spent.items() if iteration == 1]
    return {
        "devices": devices,
        "cores": os.cpu_count(),
        "sums": [{"kind": task.round.kind, "length": task.terms.length, "people": size} for task, size in sums],
        "seconds": sum(one.seconds for one in whole),
        "server": sum(one.server for one in whole),
        "all devices": sum(one.devices for one in whole),
        "sent": sum(one.traffic.sent for one in whole),
        "received": sum(one.traffic.received for one in whole),
        "requests": sum(one.traffic.requests for one in whole),
        "wire": sum(one for one, _ in wires),
        "wire bytes": sum(one for _, one in wires),
    }


def lines(found: dict[str, Any]) -> list[str]:
    each, cpu = found["devices"], found["server"] + found["all devices"]
    octets = found["sent"] + found["received"]
    return [
        f"A whole round, {each} devices on {found['cores']} cores over HTTPS, "
        + ", ".join(f"a sum of {one['people']} people × {one['length']} values" for one in found["sums"])
        + f": {found['seconds']:.0f} s.",
        "",
        "| | a device | × the same sums over the in-memory wire |",
        "|---|---|---|",
        f"| CPU, server and device | {1000 * cpu / each:.0f} ms | {cpu / found['wire']:.2f} |",
        f"| of it the server | {1000 * found['server'] / each:.1f} ms | {found['server'] / found['wire']:.2f} |",
        f"| bytes, before TLS | {octets / each:,.0f} | {octets / found['wire bytes']:.2f} |",
        f"| requests | {found['requests'] / each:.1f} | |",
    ]


if __name__ == "__main__":
    measured = measure(int(sys.argv[1]))
    print(json.dumps(measured, indent=1), *lines(measured), sep="\n")
