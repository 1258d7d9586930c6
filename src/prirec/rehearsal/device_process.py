"""Many devices of a rehearsal in one process: python -m prirec.rehearsal.device_process

Each is an agent as `prirec device run` starts it, with a file and a connection of its own. Only sums over all devices
of the process are written to standard output."""

import asyncio
import json
import signal
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext
from typing import Any, Final

import httpx
import msgspec

from prirec.device.agent import Agent, RetryPolicy
from prirec.device.client import Client, https_connection
from prirec.device.device import Device
from prirec.errors import PrirecError, StateError
from prirec.protocols.codec import decode
from prirec.protocols.messages import Report
from prirec.rehearsal.events import ABSENT
from prirec.rehearsal.processes import die_with_parent
from prirec.util.system import allow_many_files, disable_core_dumps
from prirec.util.trust import tls_context

# short: a recommender that was killed is back soon; and many devices share this process
PATIENCE = RetryPolicy(wait=20, first=0.3, longest=3.0, work=None)
AT_ONCE = 8  # devices that join at the same time
PAUSE = 0.25  # seconds between two reports
SHOWN: Final = 24  # bytes of a sealed box that a page shows


class Task(msgspec.Struct, frozen=True):
    """What the rehearsal hands over on standard input."""

    url: str
    authority: str  # PEM
    fingerprint: str  # of the recommender's key, which a person would compare
    files: tuple[str, ...]
    helper: str | None = None  # fingerprint of the helper's key, if there is one
    watched: tuple[str, ...] = ()  # files of devices whose reports are shown on the page of a city


@dataclass(slots=True)
class Watched:
    """What is shown of one device: the reports that it sent, as they left it, and what its ledger says."""

    sent: list[dict[str, Any]] = field(default_factory=list, repr=False)
    _spent: tuple[int, float] = (0, 0.0)  # after so many contributions

    async def look_at(self, request: httpx.Request) -> None:
        if request.url.path == "/v1/reports" and (one := _shown_report(request.content)) not in self.sent:
            self.sent.append(one)

    def epsilon(self, device: Device, agent: Agent) -> float:
        if agent.contributions != self._spent[0]:
            self._spent = agent.contributions, device.account().lifetime.epsilon
        return self._spent[1]


def _shown_report(body: bytes) -> dict[str, Any]:
    report = decode(body)
    if not isinstance(report, Report):
        raise StateError("a device has handed in something else than a report")
    return {
        "name": report.sender.hex(), "kind": report.round.kind, "bytes": len(body),
        "leader_box": len(report.leader_box), "leader_begins": report.leader_box[:SHOWN].hex(),
        "helper_box": len(report.helper_box), "helper_begins": report.helper_box[:SHOWN].hex(),
    }  # fmt: skip


@dataclass(slots=True)
class Tally:
    """Traffic and errors, added up over the devices of this process."""

    sent: int = 0  # bytes of requests and of answers, before TLS
    received: int = 0
    requests: int = 0
    ended: Counter[str] = field(default_factory=Counter)  # agents that gave up, by the kind of error
    running: dict[str, tuple[Device, Agent]] = field(default_factory=dict, repr=False)  # by file
    watched: dict[str, Watched] = field(default_factory=dict, repr=False)
    files: tuple[str, ...] = field(default=(), repr=False)

    async def count_request(self, request: httpx.Request) -> None:
        self.requests += 1
        self.sent += len(request.method) + len(request.url.raw_path) + 12 + _size(request.headers)

    async def count_answer(self, answer: httpx.Response) -> None:
        self.received += 15 + _size(answer.headers)

    def as_line(self) -> str:
        views = [agent.view for _, agent in self.running.values()]
        return json.dumps({
            "sent": self.sent, "received": self.received, "requests": self.requests,
            "enrolled": sum(view.member.enrolled for view in views),
            "published": sum("publication" in view.latest for view in views),
            "ended": dict(self.ended),
            "contributions": [self._contributions(file) for file in self.files],
            "watched": [
                {"device": self.files.index(file), "sent": one.sent, "epsilon": one.epsilon(*self.running[file])}
                for file, one in self.watched.items() if file in self.running
            ],
        })  # fmt: skip

    def _contributions(self, file: str) -> int:
        """How many this device has sent since the process began; ABSENT until it has enrolled."""
        device, agent = self.running.get(file, (None, None))
        return (
            agent.contributions if agent is not None and device is not None and agent.view.member.enrolled else ABSENT
        )


async def live(task: Task) -> None:
    """Run all devices until SIGTERM or SIGINT."""
    stop, turn = asyncio.Event(), asyncio.Semaphore(AT_ONCE)
    tally = Tally(files=task.files, watched={file: Watched() for file in task.files if file in task.watched})
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    trust = tls_context(task.authority.encode())
    lives = [asyncio.create_task(_run_device(file, task, trust, turn, tally)) for file in task.files]
    lives.append(asyncio.create_task(_report(tally)))
    await stop.wait()
    for life in lives:
        life.cancel()
    await asyncio.gather(*lives, return_exceptions=True)
    _print_line(tally.as_line())


async def _run_device(file: str, task: Task, trust: SSLContext, turn: asyncio.Semaphore, tally: Tally) -> None:
    """One device, for as long as the process lives; after an error its file is opened again, as after a restart."""
    failures = 0
    while True:
        try:
            with Device.open(Path(file)) as device:
                async with turn:
                    member = device.person.membership() or await device.join_async(
                        task.url, home=device.person.home(), authority=task.authority.encode(),
                        fingerprint=task.fingerprint, helper_fingerprint=task.helper,
                    )  # fmt: skip
                async with https_connection(member.url, trust=trust) as line:
                    looks = [tally.watched[file].look_at] if file in tally.watched else []
                    line.event_hooks = {"request": [tally.count_request, *looks], "response": [tally.count_answer]}
                    client = Client(line, identity=member.identity, deployment=member.deployment)
                    agent = Agent(device.person, device.ledger_store, client, retry=PATIENCE)
                    tally.running[file] = device, agent
                    await agent.run(asyncio.Event())
        except PrirecError as problem:
            tally.running.pop(file, None)  # its file is closed
            tally.ended[type(problem).__name__] += 1
            failures += 1
            await asyncio.sleep(PATIENCE.pause(failures, jitter=1.0))


async def _report(tally: Tally) -> None:
    while True:
        _print_line(tally.as_line())
        await asyncio.sleep(PAUSE)


def _print_line(line: str) -> None:
    with suppress(BrokenPipeError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _size(headers: httpx.Headers) -> int:
    """Bytes of a header block, and of the body that it announces."""
    length = headers.get("content-length", "0")
    return sum(len(name) + len(value) + 4 for name, value in headers.raw) + (int(length) if length.isdecimal() else 0)


def main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    die_with_parent()
    disable_core_dumps()
    allow_many_files()
    asyncio.run(live(task))


if __name__ == "__main__":
    main()
