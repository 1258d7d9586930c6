"""Some devices of a city in one process: python -m prirec.rehearsal.device_process

Each is an agent as `prirec device run` has it, on a file and a line of its own. What is said about them
on the standard output are sums."""

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from ssl import SSLContext

import httpx
import msgspec

from prirec.device.agent import Agent, Patience
from prirec.device.client import Client, carrier, cell_of, join, trusting
from prirec.device.device import Device
from prirec.device.store import Membership
from prirec.errors import PrirecError
from prirec.rehearsal import processes

PATIENCE = Patience(wait=20, first=0.3, longest=3.0)  # the recommender of a rehearsal is back soon
AT_ONCE = 8  # devices that join at the same time
PAUSE = 0.25  # seconds between two words about all of them


class Task(msgspec.Struct, frozen=True):
    """What the rehearsal hands over."""

    url: str
    authority: str  # PEM
    fingerprint: str  # of the recommender's key, as a person would be told it
    files: tuple[str, ...]


@dataclass(slots=True)
class Tally:
    """Sums over the devices of this process."""

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
            "published": sum("publication" in view.standing for view in views),
            "ended": dict(self.ended),
        })  # fmt: skip


async def live(task: Task) -> None:
    """Until it is told to end."""
    stop, tally, turn = asyncio.Event(), Tally(), asyncio.Semaphore(AT_ONCE)
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, stop.set)
    trust = trusting(task.authority.encode())
    lives = [asyncio.create_task(_one(file, task, trust, turn, tally)) for file in task.files]
    lives.append(asyncio.create_task(_report(tally.as_line)))
    await stop.wait()
    await _cancelled(lives)
    _say(tally.as_line())


async def _one(file: str, task: Task, trust: SSLContext, turn: asyncio.Semaphore, tally: Tally) -> None:
    """A device takes part as long as the process lives; one that met with a refusal is opened anew."""
    failures = 0
    while True:
        try:
            with Device.open(Path(file)) as device:
                async with turn:
                    member = await _joined(device, task)
                async with carrier(member.url, trust=trust) as line:
                    line.event_hooks = {"request": [tally.count_request], "response": [tally.count_answer]}
                    client = Client(line, identity=member.identity, deployment=member.deployment)
                    tally.agents[file] = agent = Agent(device.person, device.paid(), client, patience=PATIENCE)
                    await agent.run(asyncio.Event())
        except PrirecError as problem:
            tally.ended[type(problem).__name__] += 1
            failures += 1
            await asyncio.sleep(PATIENCE.pause(failures, luck=1.0))


async def _joined(device: Device, task: Task) -> Membership:
    """Over HTTPS, with the cell of the person's home; once in a device's life."""
    if (member := device.person.membership()) is not None:
        return member
    return await join(
        device.person, task.url, cell=cell_of(device.person.home()), authority=task.authority.encode(),
        fingerprint=task.fingerprint,
    )  # fmt: skip


async def _report(words: Callable[[], str]) -> None:
    while True:
        _say(words())
        await asyncio.sleep(PAUSE)


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for one in tasks:
        one.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _say(words: str) -> None:
    with suppress(BrokenPipeError):
        sys.stdout.write(words + "\n")
        sys.stdout.flush()


def _size(headers: httpx.Headers) -> int:
    """Of a head and of the body that it announces."""
    told = headers.get("content-length", "0")
    return sum(len(name) + len(value) + 4 for name, value in headers.raw) + (int(told) if told.isdecimal() else 0)


def main() -> None:
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=Task)
    processes.die_with_parent()
    processes.allow_many_files()
    asyncio.run(live(task))


if __name__ == "__main__":
    main()
