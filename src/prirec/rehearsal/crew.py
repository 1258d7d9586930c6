"""The devices of a city, in a few processes; and what is known of them as sums."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

from prirec.errors import StateError
from prirec.rehearsal.children import Child
from prirec.rehearsal.station import Station

EACH = 30  # devices that make a process worth its start
LOG = "devices.log"


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of requests and answers, heads and bodies, as devices counted them before TLS."""

    sent: int = 0
    received: int = 0
    requests: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.sent + other.sent, self.received + other.received, self.requests + other.requests
        )  # fmt: skip

    def __sub__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.sent - other.sent, self.received - other.received, self.requests - other.requests
        )  # fmt: skip


NONE = Traffic()


@dataclass(slots=True)
class Group:
    """Devices of one process, over all its lives."""

    files: Sequence[Path] = field(repr=False)
    begin: Callable[[Sequence[Path]], Child] = field(repr=False)
    child: Child | None = None
    before: Traffic = NONE  # of earlier lives
    deaths: int = 0

    def start(self) -> None:
        self.child = self.begin(self.files)

    def kill(self) -> None:
        """Every device of it at once, wherever it is in a round; what its last life said last is kept."""
        if self.child is not None:
            self.child.kill()
            self.before, self.child, self.deaths = self.traffic, None, self.deaths + 1

    @property
    def traffic(self) -> Traffic:
        said = {} if self.child is None else self.child.said
        return self.before + Traffic(said.get("sent", 0), said.get("received", 0), said.get("requests", 0))


class Crew:
    """All groups. One of them may be doomed: its devices are those that chaos kills."""

    def __init__(self, files: Sequence[Path], station: Station, *, doomed: int, start: Callable[..., Child]) -> None:
        def begin(some: Sequence[Path]) -> Child:
            task = {
                "url": station.address, "authority": station.authority.decode(), "fingerprint": station.fingerprint,
                "files": [str(file) for file in some],
            }  # fmt: skip
            return start("devices_child", task, log=LOG)

        safe, several = files[doomed:], processes(len(files) - doomed)
        self.doomed = Group(files[:doomed], begin) if doomed else None
        self.groups = [Group(safe[at::several], begin) for at in range(several)]
        self.groups += [self.doomed] if self.doomed is not None else []

    def start(self) -> None:
        for group in self.groups:
            group.start()

    def check(self) -> None:
        """StateError if a process ended that nobody killed."""
        if any(group.child is not None and not group.child.alive for group in self.groups):
            raise StateError(f"a process with devices ended by itself; with --out, {LOG} says why")

    @property
    def traffic(self) -> Traffic:
        return sum((group.traffic for group in self.groups), NONE)


def processes(devices: int) -> int:
    """One a core, if there are devices enough for each."""
    return max(1, min(os.cpu_count() or 1, ceil(devices / EACH)))
