"""Reports of devices on their way into the store. All that wait share one commit: the more come at once, the fewer
commits each costs. A device is answered once its report is durable."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prirec.errors import Fault, PeerError, PrirecError
from prirec.protocols.codec import decode
from prirec.protocols.messages import Report
from prirec.recommender.responses import unauthenticated
from prirec.recommender.store import Store
from prirec.wire.http import MOST_OCTETS

MOST_REPORT: Final = 2 * MOST_OCTETS  # bytes: a share with its proof is longer than the vector
MOST_TOGETHER: Final = 64  # reports that share a commit: one more would wait for all of them


@dataclass(frozen=True, slots=True, eq=False)
class _Posted:
    name: bytes  # of the device whose session it is
    body: bytes = field(repr=False)
    done: "asyncio.Future[None]" = field(repr=False)


class ReportWriter:
    """Writes the reports that one worker process receives, from its event loop. `write` runs a function in a thread."""

    def __init__(self, store: Store, *, write: Callable[..., Awaitable[Any]], clock: Callable[[], float]) -> None:
        self._store, self._write, self._clock = store, write, clock
        self._waiting = deque[_Posted]()
        self._writing: asyncio.Task[None] | None = None

    async def take(self, name: bytes, body: bytes) -> None:
        """Store a device's report. PeerError or RefusedError if it is not taken."""
        posted = _Posted(name, body, asyncio.get_running_loop().create_future())
        self._waiting.append(posted)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_all())
        await posted.done

    async def _write_all(self) -> None:
        while self._waiting:
            some = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_TOGETHER))]
            problems: Sequence[Exception | None]
            try:
                problems = await self._write(self._store_all, some)
            except Exception as error:  # each request is answered with it
                problems = [error] * len(some)
            for one, problem in zip(some, problems, strict=True):
                if one.done.done():  # the client has gone meanwhile
                    continue
                if problem is None:
                    one.done.set_result(None)
                else:
                    one.done.set_exception(problem)

    def _store_all(self, some: Sequence[_Posted]) -> list[PrirecError | None]:
        """For each, why it is not taken."""
        enrolled = self._store.enrolled({one.name for one in some})  # a session ends when its device leaves
        found = [_read(one, enrolled=one.name in enrolled) for one in some]
        good = [(report, one.body) for report, one in zip(found, some, strict=True) if isinstance(report, Report)]
        problems = iter(self._store.joint.post(good, now=self._clock()))
        return [next(problems) if isinstance(one, Report) else one for one in found]


def _read(posted: _Posted, *, enrolled: bool) -> Report | PrirecError:
    try:
        report = decode(posted.body, limit=MOST_REPORT)
    except PeerError as problem:
        return problem
    if not isinstance(report, Report) or report.sender != posted.name:
        return PeerError(Fault.AUTH, "this address takes a device's own report")
    return report if enrolled else unauthenticated()
