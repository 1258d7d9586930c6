"""A deployment as its operator and its people run it: the program itself, in processes of its own; and, beside the
devices that a test is about, as many others as a sum needs."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import numpy as np

from prirec.data.dataset import Dataset
from prirec.data.synthetic import CityPlan, make_city
from prirec.data.write_folder import write_folder
from prirec.device.agent import RetryPolicy
from prirec.device.client import home_cell
from prirec.device.device import Device
from prirec.device.store import Membership
from prirec.recommender import campaign as rules
from prirec.recommender.store import Store
from prirec.sharing.keys import SigningKey
from prirec.util.trust import tls_context
from support.device_city import told, visits_of
from support.waiting import PATIENCE

PRIREC = Path(sys.executable).with_name("prirec")


@dataclass
class Running:
    """The program in a process of its own; what it says, line by line."""

    process: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list)
    _coming: "Queue[str | None]" = field(default_factory=Queue)

    def heard(self, words: str, *, seconds: float = PATIENCE) -> str:
        """The first line with these words in it, said by now or soon."""
        found = next((line for line in self.lines if words in line), None)
        while found is None:
            try:
                line = self._coming.get(timeout=seconds)
            except Empty:
                raise AssertionError(f"nothing said about {words!r} for {seconds} s: {self.lines}") from None
            if line is None:
                raise AssertionError(f"ended without a word about {words!r}: {self.lines}")
            self.lines.append(line)
            found = line if words in line else None
        return found

    def end(self, *, by: int = signal.SIGTERM) -> int:
        """Asks it to end; its exit code. All that it said is then in `lines`."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        code = self.process.wait(timeout=PATIENCE)
        while (line := self._coming.get(timeout=PATIENCE)) is not None:
            self.lines.append(line)
        return code

    def listen(self) -> None:
        for line in self.process.stdout or ():
            self._coming.put(line)
        self._coming.put(None)


@contextmanager
def running(*words: object, cwd: Path, env: dict[str, str] | None = None) -> Iterator[Running]:
    """Killed at the end, if it has not ended by then."""
    process = subprocess.Popen(
        [str(word) for word in words], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **(env or {})},
    )  # fmt: skip
    with process:
        started = Running(process)
        listening = Thread(target=started.listen, daemon=True)
        listening.start()
        try:
            yield started
        finally:
            process.kill()
            listening.join()


@contextmanager
def running_service(folder: Path, *words: object, store: str = "town.db") -> Iterator[tuple[str, Running]]:
    """`prirec recommender serve` on a free port; gives its address, and ends it as an operator would."""
    with running(PRIREC, "recommender", "serve", store, "--port", 0, *words, cwd=folder) as service:
        port = json.loads(service.heard('"serving"'))["port"]
        yield f"https://localhost:{port}", service
        assert service.end() == 0, service.lines


@contextmanager
def serving(folder: Path, *words: object, store: str = "town.db") -> Iterator[str]:
    with running_service(folder, *words, store=store) as (url, _):
        yield url


def write_town(folder: Path, *, people: int = 60) -> Dataset:
    """A made-up one; places and people keep their columns, and homes are in the middle of their records."""
    town = make_city(CityPlan(people=people, places=40, records=8 * people, districts=4), np.random.default_rng(5))
    write_folder(town, folder)
    return town


class Others:
    """Devices of a town's people, each with a file of its own, that have enrolled in a store."""

    def __init__(self, town: Dataset, folder: Path, *, store: Path) -> None:
        self.town, self.folder, self.store = town, folder, store
        folder.mkdir()

    def enrol(self, url: str, *, authority: bytes) -> None:
        """Straight into the store: from one address, so many at once would be refused."""
        with Store.open(self.store) as store:
            founding, recommender = store.founding(), SigningKey(store.founding().identity).public
            for row in range(len(self.town.people)):
                home = self._home(row)
                member = Membership(
                    founding.deployment, url, recommender, founding.title, home_cell(home),
                    sha256(b"somebody %d" % row).digest(), authority, enrolled=True, helper=founding.peer or b"",
                )  # fmt: skip
                store.enrol(member.name, day=0)
                with Device.open(self.folder / f"{row}.db") as device:
                    device.person.join(member)
                    device.person.set_home(home)
                    device.describe({name: told(column, row) for name, column in self.town.people.columns.items()})
                    device.person.record_visits(visits_of(self.town.visits, row, self.town.places.ids))
                    device.person.set_labelled(labelled=self.town.labelled)

    def take_part(self, *, authority: bytes) -> None:
        """Until the campaign is over; all are then gone again."""
        with ExitStack() as files:
            paths = sorted(self.folder.iterdir())
            asyncio.run(self._live([files.enter_context(Device.open(path)) for path in paths], authority))

    async def _live(self, devices: Sequence[Device], authority: bytes) -> None:
        stop, trust, quick = (
            asyncio.Event(),
            tls_context(authority),
            RetryPolicy(wait=2, first=0.1, longest=1.0, grace=0.5, work=None),
        )
        async with AsyncExitStack() as lines, asyncio.timeout(PATIENCE):
            agents = [await lines.enter_async_context(one.online(trust=trust, retry=quick)) for one in devices]
            working = asyncio.gather(*(agent.run(stop) for agent in agents))
            try:
                while phase(self.store) not in ("over", "failed"):
                    await asyncio.sleep(0.1)
            finally:
                stop.set()
                await working

    def _home(self, row: int) -> tuple[float, float]:
        assert self.town.people.location is not None
        lat, lon = self.town.people.location[row].tolist()
        return lat, lon


def phase(store: Path) -> str:
    with Store.open(store) as opened:
        held = opened.progress()
    return "" if held is None else rules.decode_state(held).phase
