"""A device that waits for letters, and what is brought to it."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from queue import Empty, SimpleQueue
from threading import BoundedSemaphore, Event, Thread
from typing import Final, Self

from prirec.errors import StateError
from prirec.recommender import observability
from prirec.recommender.limits import Limits
from prirec.recommender.observability import Metrics
from prirec.recommender.responses import internal_error, store_unavailable
from prirec.recommender.store import Incoming, Store
from prirec.wire.http import MOST_LETTERS, Letter


@dataclass(slots=True)
class MailReply:
    """What the clerk brings back."""

    letters: tuple[Letter, ...] = field(repr=False)
    entries: int  # of the log, counted after the letters were found: what they speak of is in it
    taken: tuple[bool, ...] = ()  # of each message that was handed in, whether its round is open


class LongPoll:
    """A request that waits for letters after a number until a moment, or until it is released."""

    def __init__(self, after: int, until: float):
        self.after, self.until, self.released = after, until, False
        self.found: MailReply | None = None  # brought by whoever woke it
        self._woken = asyncio.Event()

    def wake(self, found: MailReply | None = None) -> None:
        self.found = found
        self._woken.set()

    def release(self) -> None:
        self.released = True
        self._woken.set()

    async def rest(self) -> None:
        """Until there may be a letter, or there is no use in waiting."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self.until):
                await self._woken.wait()
        self._woken.clear()


@dataclass(frozen=True, slots=True)
class NewMail:
    """New letters for one device, all there are after a number; they are on disk, and need not be read from there."""

    letters: tuple[Letter, ...] = field(repr=False)
    since: int

    def found(self, poll: LongPoll, *, entries: int) -> MailReply | None:
        """For a device that has all earlier ones, those that it has not got from the store by itself; else it asks."""
        new = tuple(letter for letter in self.letters if letter.number > poll.after)
        known = poll.after >= self.since and 0 < len(new) <= MOST_LETTERS
        return MailReply(new, entries) if known else None


@dataclass(frozen=True, slots=True)
class SentMail:
    """Letters in the order of their numbers, for many devices."""

    letters: Sequence[tuple[bytes, Letter]] = field(default=(), repr=False)

    @classmethod
    def of(cls, parts: Sequence[Self]) -> Self:
        return cls([one for part in parts for one in part.letters])

    @property
    def last(self) -> int:
        return self.letters[-1][1].number

    def follows(self, number: int) -> bool:
        """Whether these are all letters after that one, with none missing: another worker may have sent some."""
        numbers = [letter.number for _, letter in self.letters]
        return bool(numbers) and numbers == list(range(number + 1, number + 1 + len(numbers)))

    def by_receiver(self) -> dict[bytes, tuple[Letter, ...]]:
        ordered = sorted(self.letters, key=lambda one: one[0])  # stable: a device's own stay in order
        return {name: tuple(letter for _, letter in mine) for name, mine in groupby(ordered, key=lambda one: one[0])}


# Where devices hand in messages and fetch letters: one clerk for all of them.
#
# A clerk is a thread that takes everything that has come since it last looked, makes all messages durable in one
# transaction, looks up letters, and answers. The more comes at once, the more one commit carries. Who finds no letter
# may wait for one. Letters that were sent in this process are brought at once to whoever waits for them; for those from
# other workers one query for all who wait is made ten times a second. Whoever waits also hears when the log grows: what
# is published reaches devices at once.


CHECK_EVERY: Final = 0.1  # seconds
DELETE_EVERY: Final = 10  # looks: nobody who hands something in waits for what has arrived to be overwritten
MOST_BATCHED: Final = 256  # errands that share a transaction
MOST_SENT_IN_MEMORY: Final = 8  # in memory, of a conductor's portion each; further letters are read from the store


@dataclass(slots=True, eq=False)
class _Request:
    name: bytes
    after: int
    items: Sequence[Incoming] = field(repr=False)
    done: "asyncio.Future[MailReply]" = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Check:
    """Look who has got letters since the last time."""

    thoroughly: bool = False  # and throw away what has arrived
    parcel: SentMail | None = None


class Mailbox:
    """Opened and closed on the event loop that it serves; `wake` may be called from anywhere."""

    def __init__(self, store: Store, *, limits: Limits, metrics: Metrics):
        self._store, self._limits, self._metrics = store, limits, metrics
        self.came = Event()  # set when messages are durable, for whoever is to hear them
        self._errands = SimpleQueue[_Request | _Check | None]()
        self._polls: dict[bytes, LongPoll] = {}
        self._seen, self._tips, self._arrived = 0, dict[bytes, int](), dict[bytes, int]()  # the clerk's own
        self._due: dict[bytes, NewMail | None] = {}  # who has got letters and was not woken yet
        self._entries = 0  # of the log, as far as those who wait were told
        self._parcels = BoundedSemaphore(MOST_SENT_IN_MEMORY)
        self._open = False
        self._loop: asyncio.AbstractEventLoop
        self._watch: asyncio.Task[None]
        self._clerk = Thread(target=self._work, name="clerk", daemon=True)

    def open(self) -> None:
        self._loop, self._open = asyncio.get_running_loop(), True
        self._clerk.start()
        self._watch = self._loop.create_task(self._keep_looking())

    async def close(self) -> None:
        """What has come is still written down."""
        self.release()
        self._watch.cancel()
        self._errands.put(_Check(thoroughly=True))
        self._errands.put(None)
        await asyncio.to_thread(self._clerk.join)

    def release(self) -> None:
        """Whoever waits is answered now, and nobody waits any more: the service is about to end."""
        self._open = False
        for poll in self._polls.values():
            poll.release()

    def wake(self, letters: Sequence[tuple[bytes, Letter]] = ()) -> None:
        """There are new letters, perhaps these, which are on disk; or the log has grown."""
        carried = bool(letters) and self._parcels.acquire(blocking=False)
        self._errands.put(_Check(parcel=SentMail(letters) if carried else None))

    def ask(self, name: bytes, items: Sequence[Incoming], *, after: int) -> "asyncio.Future[MailReply]":
        """Letters after a number, once these messages are durable. Letters up to that number have arrived."""
        errand = _Request(name, after, items, self._loop.create_future())
        self._errands.put(errand)
        return errand.done

    @contextmanager
    def waiting(self, name: bytes, *, after: int, seconds: float) -> Iterator[LongPoll]:
        """To be entered before asking, or a letter could come in between unseen. One request of a device waits: a newer
        one releases the older. Where there are too many, or the service is about to end, nobody waits."""
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

    async def letters(self, name: bytes, *, entries: int, poll: LongPoll) -> MailReply:
        """As soon as there are some, the log has more entries or the poll is over."""
        while True:
            await poll.rest()
            if poll.found is not None:
                self._metrics.letters.inc(len(poll.found.letters))
                return poll.found
            found = await self.ask(name, (), after=poll.after)
            if found.letters or found.entries > entries or poll.released or self._loop.time() >= poll.until:
                return found

    async def _keep_looking(self) -> None:
        looks = 0
        while True:
            await asyncio.sleep(CHECK_EVERY)
            looks += 1
            if self._polls or self._arrived:
                self._errands.put(_Check(thoroughly=looks % DELETE_EVERY == 0))

    def _work(self) -> None:
        """The clerk's day."""
        while (first := self._errands.get()) is not None:
            batch, over = [first], False
            with suppress(Empty):
                while len(batch) < MOST_BATCHED and not over:
                    following = self._errands.get_nowait()
                    over = following is None
                    batch += [] if following is None else [following]
            done = self._done(batch)
            with suppress(RuntimeError):  # the loop has ended, and with it everyone who waited
                self._loop.call_soon_threadsafe(done)
            if over:
                return

    def _done(self, batch: "list[_Request | _Check]") -> Callable[[], None]:
        """What is left to do on the event loop."""
        errands = [one for one in batch if isinstance(one, _Request)]
        looks = [one for one in batch if isinstance(one, _Check)]
        parcels = [look.parcel for look in looks if look.parcel is not None]
        for _ in parcels:
            self._parcels.release()
        try:
            taken = self._written(errands, thoroughly=any(look.thoroughly for look in looks))
            self._look(parcels)
            letters = [self._letters(one) for one in errands]
            entries = self._store.head().length
        except Exception as error:  # whoever asked is told, and the clerk goes on
            observability.failure("the store failed", error)
            self._due = dict.fromkeys(self._due)  # they are woken the next time, and ask
            return partial(_fail, errands, known=isinstance(error, StateError))
        found = [MailReply(mine, entries, took) for mine, took in zip(letters, taken, strict=True)]
        due, self._due = self._due, {}
        return partial(self._settle, errands, found, due, entries=entries)

    def _written(self, errands: list[_Request], *, thoroughly: bool) -> list[tuple[bool, ...]]:
        """For each errand, which of its messages were taken: all of them are durable."""
        self._arrived |= {one.name: one.after for one in errands if one.after > self._arrived.get(one.name, 0)}
        items = [item for errand in errands for item in errand.items]
        if not items and not (thoroughly and self._arrived):
            return [()] * len(errands)
        arrived = list(self._arrived.items()) if thoroughly else []
        with self._metrics.commit_seconds.time():
            taken = iter(self._store.hand_in(items, arrived=arrived))
        if thoroughly:
            self._arrived = {}
        if items:
            self.came.set()
        self._metrics.commits.observe(len(items))
        self._metrics.received.inc(sum(len(item.body) for item in items))
        return [tuple(next(taken) for _ in errand.items) for errand in errands]

    def _look(self, parcels: list[SentMail]) -> None:
        """Who has got letters since the last time, and the letters where they were brought along. Numbers rise in the
        order in which letters come to be seen, so what is known of a mailbox is an upper bound on what is in it."""
        self._due |= self._unpacked(parcels)
        self._seen, receivers = self._store.receivers_since(self._seen)
        self._tips.update(dict.fromkeys(receivers, self._seen))
        self._due |= dict.fromkeys(receivers)  # for whom there is still more: they ask

    def _unpacked(self, parcels: list[SentMail]) -> dict[bytes, NewMail | None]:
        """Nobody's, where letters are missing between what was seen and these."""
        whole = SentMail.of(parcels)
        if not whole.follows(self._seen):
            return {}
        mine, self._seen = whole.by_receiver(), whole.last
        bundles: dict[bytes, NewMail | None] = {
            name: NewMail(letters, since=self._tips.get(name, 0)) for name, letters in mine.items()
        }
        self._tips.update({name: letters[-1].number for name, letters in mine.items()})
        return bundles

    def _letters(self, errand: _Request) -> tuple[Letter, ...]:
        """Asked for only where there may be some: most of those who ask hand something in, or wait."""
        if self._tips.get(errand.name, 0) <= errand.after:
            return ()
        found = tuple(self._store.letters(errand.name, errand.after, MOST_LETTERS))
        self._metrics.letters.inc(len(found))
        if not found and errand.after:
            self._tips[errand.name] = errand.after
        elif not found:
            del self._tips[errand.name]
        return found

    def _settle(
        self, errands: list[_Request], found: list[MailReply], due: dict[bytes, NewMail | None], *, entries: int
    ) -> None:
        for errand, one in zip(errands, found, strict=True):
            if not errand.done.done():  # given up meanwhile
                errand.done.set_result(one)
        grown, self._entries = entries > self._entries, entries
        for name in self._polls.keys() if grown else due.keys() & self._polls.keys():
            poll, bundle = self._polls[name], due.get(name)
            poll.wake(None if bundle is None else bundle.found(poll, entries=entries))


def _fail(errands: list[_Request], *, known: bool) -> None:
    for errand in errands:
        if not errand.done.done():
            errand.done.set_exception(store_unavailable() if known else internal_error())
