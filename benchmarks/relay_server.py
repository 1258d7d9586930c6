"""The service, for relaying boxes and nothing else: python relay_server.py '{"store": ..., "cohort": ...}'

recommender/server.py with one worker, and a conductor whose collectors are real: they check who signed, sort boxes by
receiver and deliver them. Its rounds end there. Devices open sessions, and all that is relayed is on disk before it is
answered.
"""

import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import urandom
from pathlib import Path
from threading import Event
from typing import Any

from prirec.protocols.messages import Round, Terms
from prirec.protocols.party import Persist, Stage
from prirec.protocols.roster import Task
from prirec.recommender.campaign import CampaignState
from prirec.recommender.conductor import BUSY, COLLECTOR_THREADS, Conductor, Pace, WakePollers, wait_for_work
from prirec.recommender.limits import Limits, Rate
from prirec.recommender.server import Worker, serve
from prirec.recommender.store import OvertakenError, Store
from prirec.rehearsal import processes

MANY = Rate(1e6, 1_000_000)  # a whole city comes from one address
OPEN = Limits(device=MANY, device_bytes=Rate(1e9, 2**30), address=MANY, enrolment=MANY, enrolments=MANY)
AGES = 3600.0
TERMS = Terms("double", "collector", length=445, ring_bits=64, fraction_bits=24, bound=2**30, floor=100)


def task_of(of: Round, recommender: bytes) -> Task:
    """The sum that boxes are relayed for: 445 values, and the default shares of corrupt and lost devices."""
    return Task(of, recommender, TERMS, bytes(32))


class Cohorts:
    """In the place of a campaign's steps: everyone by name, in cohorts of one size."""

    def __init__(self, conductor: Conductor, *, size: int) -> None:
        self.store, self.recommender, self.size = conductor.store, conductor.identity.public, size

    def sums(self, progress: CampaignState) -> list[tuple[Task, list[bytes]]]:
        deployment, names = self.store.founding().deployment, [line.name for line in self.store.people()]
        cohorts = [names[first : first + self.size] for first in range(0, len(names), self.size)]
        rounds = (Round(deployment, "linear", progress.iteration, number) for number in range(len(cohorts)))
        return [(task_of(of, self.recommender), cohort) for of, cohort in zip(rounds, cohorts, strict=True)]


class Relaying(Conductor):
    """Begins when the store's progress says so, and gives its rounds up when that says over."""

    cohorts: Cohorts

    def tick(self) -> bool:
        try:
            return super().tick()
        except OvertakenError:
            over = list(self.sums)
            burnt = [Persist(of, Stage.BURNT, bytes(32)) for of in over]
            self.store.advance(progress=None, persists=burnt, over=over, holder=self.holder)
            self.sums.clear()
            return True

    def _on(self, progress: CampaignState) -> Any:
        return self.cohorts


def relay(
    store: Store, stop: Event, *, came: Event, wake: WakePollers, failed: Callable[[], None], cohort: int
) -> None:
    """recommender.conductor.conduct, with a lease that nobody else wants."""
    holder = urandom(16)
    store.lease(holder, AGES)
    with ThreadPoolExecutor(COLLECTOR_THREADS) as pool:
        pace = Pace(coming=AGES, step=AGES)
        conductor = Relaying(store, holder=holder, pace=pace, wake=wake, parallel=pool.map)
        conductor.cohorts = Cohorts(conductor, size=cohort)
        moved = False
        while not wait_for_work(stop, came, 0.0 if moved else BUSY):
            if moved := conductor.tick():
                wake(())


def main(store: str, certificate: str, key: str, cohort: int) -> None:
    worker = Worker(store, Path(certificate), Path(key), conduct=partial(relay, cohort=cohort), limits=OPEN)
    serve(worker, host="127.0.0.1", port=0)


if __name__ == "__main__":
    processes.die_with_parent()
    main(**json.loads(sys.argv[1]))
