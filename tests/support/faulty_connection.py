"""A device's line to its recommender that loses, doubles, cuts, delays and replays; and a tap on it."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from prirec.device.client import UnavailableError
from prirec.errors import PeerError
from prirec.protocols.codec import encode
from prirec.recommender.service import MessageFilter
from prirec.recommender.store import Store
from prirec.wire import http
from prirec.wire.documents import Page
from support.faults import FaultSource, KilledError

LIMIT = 2**24  # bytes of a request
_REMEMBERED = 200  # messages, either way, that may be replayed


@dataclass
class Air:
    """What went over all lines lately: it may come once more, to anybody."""

    said: deque[bytes] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    heard: deque[bytes] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class BadLine:
    """What device/client.py does over HTTPS. It lives longer than the device's process. `tap` hears each message that
    the device itself hands in, before anything happens to it."""

    def __init__(
        self, store: Store, name: bytes, *, luck: FaultSource, air: Air, tap: Callable[[bytes, bytes], None]
    ) -> None:  # fmt: skip
        founding = store.founding()
        self._store, self._name, self._luck, self._air, self._tap = store, name, luck, air, tap
        self._filter = MessageFilter(founding.deployment, lambda: founding.key.public)
        self._kept_back, self._gone = list[bytes](), set[int]()

    async def enrol(self, *, code: str = "") -> None:
        self._question()
        self._store.enrol(self._name, day=0)
        self._answer()

    async def log(self, after: int) -> Page:
        self._question()
        entries = self._store.entries(after)
        self._answer()
        return Page(tuple(entries))

    async def document(self, name: bytes) -> bytes:
        self._question()
        body = self._store.document(name)
        assert body is not None
        self._answer()
        return body

    async def mail(self, messages: Sequence[bytes], *, after: int, wait: int) -> http.Inbox:
        for body in messages:
            self._tap(self._name, body)
        self._question()
        refused = self._hand_in(messages, after=after, wait=wait)
        self._store.post_messages([], arrived=[(self._name, after)])
        queued, entries = self._store.queued(self._name, after, http.MOST_QUEUED), self._store.head().length
        self._answer()
        return _read(http.Inbox(tuple(self._carried(queued, after=after)), entries, refused))

    def _hand_in(self, messages: Sequence[bytes], *, after: int, wait: int) -> tuple[str, ...]:
        """As the service does: what does not belong is refused, and the rest is for the collector to judge."""
        asked = http.read_request(encode(http.Mail(tuple(messages), after, wait)), limit=LIMIT)
        assert isinstance(asked, http.Mail)
        said = self._filter.apply(self._garbled(asked.messages), sender=self._name)
        self._air.said += messages
        return said.refused(self._store.post_messages(said.items))

    def _garbled(self, messages: Sequence[bytes]) -> list[bytes]:
        luck, now = self._luck, list[bytes]()
        if self._kept_back and luck.rng.random() < 0.2:
            now.append(self._kept_back.pop(0))
        for body in messages:
            if luck.hits("later"):
                self._kept_back.append(body)
                continue
            now.append(body)
            now += [body] * luck.hits("twice")
            now += [self._cut(body)] * luck.hits("cut")
        if self._air.said and luck.hits("replayed"):
            now.append(luck.one_of(self._air.said))
        return luck.shuffled(now)

    def _carried(self, queued: Sequence[http.QueuedMessage], *, after: int) -> list[http.QueuedMessage]:
        """What arrives of the messages, in some order. Their numbers rise, as a service gives them."""
        luck, bodies = self._luck, list[bytes]()
        numbers = [message.number for message in queued]
        for message in queued:
            if message.number in self._gone or luck.hits("lost"):
                self._gone.add(message.number)
                continue
            bodies.append(message.body)
            bodies += [message.body] * luck.hits("twice")
            bodies += [self._cut(message.body)] * luck.hits("cut")
        self._air.heard += bodies
        if self._air.heard and luck.hits("replayed"):
            bodies.append(luck.one_of(self._air.heard))
        last = numbers[-1] if numbers else max(after, 1)
        bodies = luck.shuffled(bodies)[: http.MOST_QUEUED]
        return [http.QueuedMessage(numbers[at] if at < len(numbers) else last, body) for at, body in enumerate(bodies)]

    def _cut(self, body: bytes) -> bytes:
        return body[: int(self._luck.rng.integers(1, len(body)))]

    def _question(self) -> None:
        if self._luck.hits("device_dies"):
            raise KilledError
        if self._luck.hits("away"):
            raise UnavailableError("the question did not arrive")

    def _answer(self) -> None:
        if self._luck.hits("away"):
            raise UnavailableError("the answer did not arrive")
        if self._luck.hits("device_dies"):
            raise KilledError


def _read(post: http.Inbox) -> http.Inbox:
    answer = http.read_answer(encode(post), limit=LIMIT)
    if not isinstance(answer, http.Inbox):
        raise PeerError  # pragma: no cover
    return answer
