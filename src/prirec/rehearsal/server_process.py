"""The recommender of a rehearsal, in a process of its own: python -m prirec.rehearsal.server_process"""

import sys
from functools import partial
from pathlib import Path

import msgspec

from prirec.recommender import observability
from prirec.recommender.conductor import Pace, conduct
from prirec.recommender.limits import Limits, Rate
from prirec.recommender.server import Worker, serve
from prirec.rehearsal.processes import die_with_parent

UNLIMITED = Rate(10_000.0, 1_000_000)  # all devices come from one address


class Task(msgspec.Struct, frozen=True):
    """What the rehearsal hands over on standard input."""

    store: str
    certificate: str
    key: str
    port: int
    workers: int
    coming: float  # seconds, see conductor.Pace
    step: float


def main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    die_with_parent()
    worker = Worker(
        task.store,
        certificate=Path(task.certificate),
        key=Path(task.key),
        conduct=partial(conduct, pace=Pace(task.coming, task.step), tell=observability.log_event),
        limits=Limits(address=UNLIMITED, enrolment=UNLIMITED, enrolments=UNLIMITED),
    )
    serve(worker, host="127.0.0.1", port=task.port, workers=task.workers)


if __name__ == "__main__":
    main()
