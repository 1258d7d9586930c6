"""The recommender of a rehearsal, or its helper, in a process of its own: python -m prirec.rehearsal.server_process"""

import sys

import msgspec

from prirec.recommender.conductor import Pace
from prirec.recommender.limits import Limits, Rate
from prirec.recommender.recommender import LOCAL, Helper, Recommender
from prirec.rehearsal.processes import die_with_parent
from prirec.util.system import disable_core_dumps

UNLIMITED = Rate(10_000.0, 1_000_000)  # all devices come from one address


class Task(msgspec.Struct, frozen=True):
    """What the rehearsal hands over on standard input."""

    store: str
    certificates: str  # folder
    port: int
    operator_port: int
    role: str = "recommender"
    workers: int = 1
    coming: float = 0.0  # seconds, see conductor.Pace
    step: float = 0.0
    app_origins: tuple[str, ...] = ()


def main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    die_with_parent()
    disable_core_dumps()
    if task.role == "helper":
        with Helper.open(task.store, certificates=task.certificates) as helper:
            helper.serve(port=task.port, operator=(LOCAL, task.operator_port))
        return
    limits = Limits(address=UNLIMITED, enrolment=UNLIMITED, enrolments=UNLIMITED)
    with Recommender.open(task.store, certificates=task.certificates) as recommender:
        recommender.serve(
            port=task.port, workers=task.workers, pace=Pace(task.coming, task.step), limits=limits,
            app_origins=task.app_origins, operator=(LOCAL, task.operator_port),
        )  # fmt: skip


if __name__ == "__main__":
    main()
