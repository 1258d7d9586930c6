"""A mailbox over a store that can be watched."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from threading import Event
from typing import Any

from prirec.recommender.limits import Limits
from prirec.recommender.mailbox import Mailbox
from prirec.recommender.observability import Metrics
from prirec.recommender.store import PostedMessage, Store
from support.waiting import PATIENCE


@asynccontextmanager
async def opened(store: Store, **limits: Any) -> AsyncIterator[Mailbox]:
    mailbox = Mailbox(store, limits=Limits(**limits), metrics=Metrics())
    mailbox.open()
    try:
        yield mailbox
    finally:
        await mailbox.close()


class Watched(Store):
    """Counts what it is asked, and can be held up in the middle of a commit."""

    def __init__(self, database: Any) -> None:
        super().__init__(database)
        self.commits, self.lookups, self.gate, self.inside = list[int](), 0, Event(), Event()
        self.thrown = list[tuple[bytes, int]]()
        self.gate.set()

    def post_messages(self, items: Sequence[PostedMessage], *, arrived: Sequence[tuple[bytes, int]] = ()) -> list[bool]:
        self.inside.set()
        self.gate.wait(PATIENCE)
        self.commits.append(len(items))
        self.thrown += arrived
        return super().post_messages(items, arrived=arrived)

    def enrolled(self, names: Collection[bytes]) -> set[bytes]:
        return set(names)

    def queued(self, receiver: bytes, after: int, most: int) -> Any:
        self.lookups += 1
        return super().queued(receiver, after, most)
