"""The mailbox: devices post protocol messages and long-poll for replies.

Messages of the recommender are queued for each device. Each has a number; the next request of the device names the last
number that it has received, after which messages up to there are deleted.

One writer thread serves all requests of a worker process. It takes everything that is queued, asks which of these
devices are enrolled (a session ends when its device leaves), commits all posted messages in one transaction, looks up
mail, and answers: the more requests come at once, the more of them share one commit, so throughput grows with load.
A single thread also means that what it knows of the mail (`_seen`, `_newest`) needs no lock.

A device that finds no mail may wait for some. Messages that the conductor of this process sends go to waiting devices
straight from memory; messages from other workers are found by one query for all waiting devices, ten times a second.
Waiting devices are also woken when the log grows, so that what is published reaches them at once.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Event, Thread
from typing import Final

from prirec.errors import PassingError, StateError
from prirec.recommender import observability
from prirec.recommender.limits import Limits
from prirec.recommender.observability import Metrics
from prirec.recommender.responses import RefusedError, internal_error, store_unavailable, unauthenticated
from prirec.recommender.store import PostedMessage, Store
from prirec.wire.http import MOST_QUEUED, QueuedMessage

CHECK_EVERY: Final = 0.1  # seconds between two queries for mail from other workers
DELETE_EVERY: Final = 10  # checks: deleting received mail can wait, so no request that posts waits for it
MOST_BATCHED: Final = 256  # requests that share a transaction: one more would wait for all of them
MOST_SENT_IN_MEMORY: Final = 8  # batches of a conductor's messages; further ones are read from the store


@dataclass(slots=True)
class MailReply:
    """The answer to a request for mail."""

    queued: tuple[QueuedMessage, ...] = field(repr=False)
    entries: int  # length of the log, read after the messages: what they refer to is in it
    taken: tuple[bool, ...] = ()  # of each message that was posted, whether its round is open


class LongPoll:
    """A request that waits for messages after a number, until a moment or until it is released."""

    def __init__(self, after: int, until: float):
        self.after, self.until, self.released = after, until, False
        self.found: MailReply | None = None  # the answer, where it came from memory
        self._woken = asyncio.Event()

    def wake(self, found: MailReply | None = None) -> None:
        self.found = found
        self._woken.set()

    def release(self) -> None:
        self.released = True
        self._woken.set()

    async def wait(self) -> None:
        """Wait until there may be a message, or the poll is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self.until):
                await self._woken.wait()
        self._woken.clear()


@dataclass(frozen=True, slots=True)
class NewMail:
    """All messages of one device after the number `since`: on disk, and here in memory."""

    queued: tuple[QueuedMessage, ...] = field(repr=False)
    since: int

    def found(self, poll: LongPoll, *, entries: int) -> MailReply | None:
        """The answer to a poll of a device that has everything up to `since`; None: it must be read from the store."""
        new = tuple(message for message in self.queued if message.number > poll.after)
        complete = poll.after >= self.since and 0 < len(new) <= MOST_QUEUED
        return MailReply(new, entries) if complete else None


@dataclass(slots=True, eq=False)
class _Request:
    name: bytes
    after: int  # messages up to this number have arrived
    items: Sequence[PostedMessage] = field(repr=False)
    done: "asyncio.Future[MailReply]" = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Check:
    """Look who has new mail."""

    delete: bool = False  # and delete mail that has arrived
    sent: Sequence[tuple[bytes, QueuedMessage]] = field(default=(), repr=False)  # just sent by this process


class Mailbox:
    """Mailbox of one worker process for all devices. Opened and closed on the event loop that it serves; `wake` may be
    called from any thread."""

    def __init__(self, store: Store, *, limits: Limits, metrics: Metrics, cosigned: bool = False):
        self._store, self._limits, self._metrics, self._cosigned = store, limits, metrics, cosigned
        self.came = Event()  # set when posted messages are durable, for the conductor
        self._queue = SimpleQueue[_Request | _Check | None]()
        self._polls: dict[bytes, LongPoll] = {}
        # Of the writer thread alone: the highest message number seen; for each device an upper bound on the number of
        # its newest message; up to which number its mail has arrived; and who has new mail and was not woken yet.
        self._seen, self._newest, self._arrived = 0, dict[bytes, int](), dict[bytes, int]()
        self._due: dict[bytes, NewMail | None] = {}
        self._entries = 0  # length of the log, as far as waiting devices were woken for it
        self._sent_in_memory = BoundedSemaphore(MOST_SENT_IN_MEMORY)
        self._open = False
        self._loop: asyncio.AbstractEventLoop
        self._checking: asyncio.Task[None]
        self._writer = Thread(target=self._write_loop, name="mailbox writer", daemon=True)

    def open(self) -> None:
        self._loop, self._open = asyncio.get_running_loop(), True
        self._writer.start()
        self._checking = self._loop.create_task(self._keep_checking())

    async def close(self) -> None:
        """End the writer thread; what was posted before is still written."""
        self.release()
        self._checking.cancel()
        self._queue.put(_Check(delete=True))
        self._queue.put(None)
        await asyncio.to_thread(self._writer.join)

    def release(self) -> None:
        """Answer all long polls now, and accept no more: the service is about to end."""
        self._open = False
        for poll in self._polls.values():
            poll.release()

    def wake(self, queued: Sequence[tuple[bytes, QueuedMessage]] = ()) -> None:
        """To be called when there is new mail, perhaps these messages, which are on disk, or when the log has grown."""
        # No more than a few batches are held in memory: a slow event loop must not pile up a conductor's messages.
        in_memory = bool(queued) and self._sent_in_memory.acquire(blocking=False)
        self._queue.put(_Check(sent=queued if in_memory else ()))

    def ask(self, name: bytes, items: Sequence[PostedMessage], *, after: int) -> "asyncio.Future[MailReply]":
        """Post these messages; the reply holds queued messages after a number, and comes once the
        posted ones are durable."""
        request = _Request(name, after, items, self._loop.create_future())
        self._queue.put(request)
        return request.done

    @contextmanager
    def long_poll(self, name: bytes, *, after: int, seconds: float) -> Iterator[LongPoll]:
        """To be entered before `ask`, or a message could arrive in between unseen. A device has one long poll: a newer
        one releases the older. Where there are too many, or the service is about to end, it is released at once."""
        poll = LongPoll(after, self._loop.time() + seconds)
        if not self._open or len(self._polls) >= self._limits.polls:
            poll.release()
            yield poll
            return
        if (older := self._polls.get(name)) is not None:
            older.release()
        self._polls[name] = poll
        self._metrics.polls.set(len(self._polls))
        try:
            yield poll
        finally:
            if self._polls.get(name) is poll:
                del self._polls[name]
            self._metrics.polls.set(len(self._polls))

    async def queued(self, name: bytes, *, entries: int, poll: LongPoll) -> MailReply:
        """Wait for messages to a device; also returns when the log has more entries, or the poll is over."""
        while True:
            await poll.wait()
            if poll.found is not None:
                self._metrics.queued.inc(len(poll.found.queued))
                return poll.found
            found = await self.ask(name, (), after=poll.after)
            if found.queued or found.entries > entries or poll.released or self._loop.time() >= poll.until:
                return found

    async def _keep_checking(self) -> None:
        checks = 0
        while True:
            await asyncio.sleep(CHECK_EVERY)
            checks += 1
            if self._polls or self._arrived:
                self._queue.put(_Check(delete=checks % DELETE_EVERY == 0))

    # The writer thread

    def _write_loop(self) -> None:
        """Drain the queue, commit once, answer, wake the pollers."""
        ended = False
        while not ended and (first := self._queue.get()) is not None:
            batch = [first]
            with suppress(Empty):
                while len(batch) < MOST_BATCHED and not ended:
                    following = self._queue.get_nowait()
                    ended = following is None
                    batch += [] if following is None else [following]
            answer = self._process(batch)
            with suppress(RuntimeError):  # the event loop has ended, and with it every request
                self._loop.call_soon_threadsafe(answer)

    def _process(self, batch: "list[_Request | _Check]") -> Callable[[], None]:
        """Serve a batch; returns what is left to do on the event loop."""
        asked = [one for one in batch if isinstance(one, _Request)]
        checks = [one for one in batch if isinstance(one, _Check)]
        sent = [message for check in checks for message in check.sent]
        for check in checks:
            if check.sent:
                self._sent_in_memory.release()
        try:
            enrolled = self._store.enrolled({one.name for one in asked})  # a session ends when its device leaves
            requests = [one for one in asked if one.name in enrolled]
            taken = self._commit(requests, delete=any(check.delete for check in checks))
            self._find_new_mail(sent)
            queued = [self._mail_for(one) for one in requests]
            entries = self._store.shown(cosigned=self._cosigned)
        except Exception as error:  # the requests get an error, and the thread goes on
            if not isinstance(error, PassingError):  # of an outage the store tells by itself, once
                observability.failure("the store failed", error)
            self._due = dict.fromkeys(self._due)  # these devices are woken the next time, and ask the store
            return partial(_fail, asked, store_unavailable() if isinstance(error, StateError) else internal_error())
        found = [MailReply(mail, entries, took) for mail, took in zip(queued, taken, strict=True)]
        due, self._due = self._due, {}
        strangers = [one for one in asked if one.name not in enrolled]
        return partial(self._answer, requests, found, due, entries=entries, strangers=strangers)

    def _commit(self, requests: list[_Request], *, delete: bool) -> list[tuple[bool, ...]]:
        """Make all posted messages durable; for each request, which of its messages were taken."""
        self._arrived |= {one.name: one.after for one in requests if one.after > self._arrived.get(one.name, 0)}
        items = [item for request in requests for item in request.items]
        if not items and not (delete and self._arrived):
            return [()] * len(requests)
        arrived = list(self._arrived.items()) if delete else []
        with self._metrics.commit_seconds.time():
            taken = iter(self._store.post_messages(items, arrived=arrived))
        if delete:
            self._arrived = {}
        if items:
            self.came.set()
        self._metrics.commits.observe(len(items))
        self._metrics.received.inc(sum(len(item.body) for item in items))
        return [tuple(next(taken) for _ in request.items) for request in requests]

    def _find_new_mail(self, sent: list[tuple[bytes, QueuedMessage]]) -> None:
        """Who has mail since the last check, with the messages where they are in memory. Message numbers rise in the
        order in which messages become visible, so `_newest` is an upper bound on what the store has for a device."""
        if nothing_missing(sent, after=self._seen):
            self._seen = sent[-1][1].number
            ordered = sorted(sent, key=lambda one: one[0])  # stable: messages of one device stay in order
            for name, group in groupby(ordered, key=lambda one: one[0]):
                queued = tuple(message for _, message in group)
                self._due[name] = NewMail(queued, since=self._newest.get(name, 0))
                self._newest[name] = queued[-1].number
        self._seen, receivers = self._store.receivers_since(self._seen)
        self._newest.update(dict.fromkeys(receivers, self._seen))
        self._due |= dict.fromkeys(receivers)  # they have mail that is not in memory, and ask the store

    def _mail_for(self, request: _Request) -> tuple[QueuedMessage, ...]:
        """Queued messages for a request. The store is asked only where there may be mail: most requests post
        something, or wait."""
        if self._newest.get(request.name, 0) <= request.after:
            return ()
        found = tuple(self._store.queued(request.name, request.after, MOST_QUEUED))
        self._metrics.queued.inc(len(found))
        if not found and request.after:
            self._newest[request.name] = request.after
        elif not found:
            del self._newest[request.name]
        return found

    # On the event loop again

    def _answer(
        self, requests: list[_Request], found: list[MailReply], due: dict[bytes, NewMail | None], *, entries: int,
        strangers: list[_Request],
    ) -> None:  # fmt: skip
        _fail(strangers, unauthenticated())
        for request, reply in zip(requests, found, strict=True):
            if not request.done.done():  # the client may have gone meanwhile
                request.done.set_result(reply)
        grown, self._entries = entries > self._entries, entries
        for name in self._polls.keys() if grown else due.keys() & self._polls.keys():
            poll, new = self._polls[name], due.get(name)
            poll.wake(None if new is None else new.found(poll, entries=entries))


def nothing_missing(sent: Sequence[tuple[bytes, QueuedMessage]], *, after: int) -> bool:
    """Whether these are the very next messages after a number. If not, another worker has sent some in between, and
    what is in memory may not be all that a device should get."""
    numbers = [message.number for _, message in sent]
    return bool(numbers) and numbers == list(range(after + 1, after + 1 + len(numbers)))


def _fail(requests: list[_Request], refusal: RefusedError) -> None:
    for request in requests:
        if not request.done.done():
            request.done.set_exception(refusal)
