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

import httpx
import msgspec

from prirec.device.agent import Agent, RetryPolicy
from prirec.device.client import Client, https_connection, tls_context
from prirec.device.device import Device
from prirec.errors import PrirecError
from prirec.rehearsal.processes import die_with_parent
from prirec.util.system import allow_many_files, disable_core_dumps

# short: a recommender that was killed is back soon; and many devices share this process
PATIENCE = RetryPolicy(wait=20, first=0.3, longest=3.0, work=None)
AT_ONCE = 8  # devices that join at the same time
PAUSE = 0.25  # seconds between two reports


class Task(msgspec.Struct, frozen=True):
    """What the rehearsal hands over on standard input."""

    url: str
    authority: str  # PEM
    fingerprint: str  # of the recommender's key, which a person would compare
    files: tuple[str, ...]
    helper: str | None = None  # fingerprint of the helper's key, if there is one


@dataclass(slots=True)
class Tally:
    """Traffic and errors, added up over the devices of this process."""

    sent: int = 0  # bytes of requests and of answers, before TLS
    received: int = 0
    requests: int = 0
    ended: Counter[str] = field(default_factory=Counter)  # agents that gave up, by the kind of error
    agents: dict[str, Agent] = field(default_factory=dict, repr=False)

    async def count_request(self, request: httpx.Request) -> None:
        self.requests += 1
        self.sent += len(request.method) + len(request.url.raw_path) + 12 + _size(request.headers)

    async def count_answer(self, answer: httpx.Response) -> None:
        self.received += 15 + _size(answer.headers)

    def as_line(self) -> str:
        views = [agent.view for agent in self.agents.values()]
        return json.dumps({
            "sent": self.sent, "received": self.received, "requests": self.requests,
            "enrolled": sum(view.member.enrolled for view in views),
            "published": sum("publication" in view.latest for view in views),
            "ended": dict(self.ended),
        })  # fmt: skip


async def live(task: Task) -> None:
    """Run all devices until SIGTERM or SIGINT."""
    stop, tally, turn = asyncio.Event(), Tally(), asyncio.Semaphore(AT_ONCE)
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
                    line.event_hooks = {"request": [tally.count_request], "response": [tally.count_answer]}
                    client = Client(line, identity=member.identity, deployment=member.deployment)
                    tally.agents[file] = agent = Agent(device.person, device.ledger_store, client, retry=PATIENCE)
                    await agent.run(asyncio.Event())
        except PrirecError as problem:
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
