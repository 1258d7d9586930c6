"""The service, for relaying boxes and nothing else: python relay_server.py '{"store": ..., ...}'

recommender/server.py with one worker, and a conductor whose collector is real: it checks who signed, sorts boxes by
receiver and delivers them. Its rounds end there. Devices open sessions, and all that is relayed is on disk before it is
answered.
"""

import json
import sys
from collections.abc import Callable
from os import urandom
from pathlib import Path
from threading import Event
from typing import Any

from prirec.protocols.messages import Round, Terms
from prirec.protocols.party import Persist, Stage
from prirec.protocols.roster import Task
from prirec.recommender.campaign import CampaignState
from prirec.recommender.conductor import BUSY, Conductor, Pace, WakePollers, wait_for_work
from prirec.recommender.limits import Limits, Rate
from prirec.recommender.server import Worker, serve
from prirec.recommender.store import OvertakenError, Store
from prirec.rehearsal import processes

MANY = Rate(1e6, 1_000_000)  # a whole city comes from one address
OPEN = Limits(device=MANY, device_bytes=Rate(1e9, 2**30), address=MANY, enrolment=MANY, enrolments=MANY)
AGES = 3600.0
TERMS = Terms("double", length=445, ring_bits=64, fraction_bits=24, bound=2**30, floor=100)


def task_of(of: Round, recommender: bytes) -> Task:
    """The sum that boxes are relayed for: 445 values, and the default shares of corrupt and lost devices."""
    return Task(of, recommender, TERMS, bytes(32))


class EveryonesSum:
    """In the place of a campaign's steps: one sum over everyone, by name."""

    def __init__(self, conductor: Conductor) -> None:
        self.store, self.recommender = conductor.store, conductor.store.founding().key.public

    def sum(self, progress: CampaignState) -> tuple[Task, list[bytes]]:
        of = Round(self.store.founding().deployment, "interaction", progress.iteration)
        return task_of(of, self.recommender), self.store.people()


class Relaying(Conductor):
    """Begins when the store's progress says so, and gives its sum up when that says over."""

    def tick(self) -> bool:
        try:
            return super().tick()
        except OvertakenError:
            over = [] if self.sum is None else [self.sum.round]
            burnt = [Persist(of, Stage.BURNT, bytes(32)) for of in over]
            self.store.advance(progress=None, persists=burnt, over=over, holder=self.holder)
            self.sum = None
            return True

    def _on(self, progress: CampaignState) -> Any:
        return EveryonesSum(self)


def relay(store: Store, stop: Event, *, came: Event, wake: WakePollers, failed: Callable[[], None]) -> None:
    """recommender.conductor.conduct, with a lease that nobody else wants."""
    holder = urandom(16)
    store.lease(holder, AGES)
    conductor = Relaying(store, holder=holder, pace=Pace(coming=AGES, step=AGES), wake=wake)
    moved = False
    while not wait_for_work(stop, came, 0.0 if moved else BUSY):
        if moved := conductor.tick():
            wake(())


def main(store: str, certificate: str, key: str) -> None:
    serve(Worker(store, Path(certificate), Path(key), conduct=relay, limits=OPEN), host="127.0.0.1", port=0)


if __name__ == "__main__":
    processes.die_with_parent()
    main(**json.loads(sys.argv[1]))
