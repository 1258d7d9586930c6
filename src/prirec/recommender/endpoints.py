"""The endpoints of the recommender's service: what is done for each route. Any of them may raise; service.py turns
errors into answers.

Every request is counted against its address first, then, where it has a session, against its device; its body is read
only after that, up to a limit. So what a stranger can make this process do is bounded before anything is parsed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

from fastapi import Request, Response
from h3.api import basic_int as h3
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from prirec.errors import Fault, PeerError, StateError
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import Agreement, Boxes, Keys, Masked, Part, Reveal
from prirec.recommender.authentication import Authenticator, EnrolmentGate
from prirec.recommender.connections import ON_DISCONNECT
from prirec.recommender.limits import (
    LARGE_BODY,
    BodyMemory,
    BodyReservation,
    DownloadSlots,
    Limits,
    RateLimiter,
    client_network,
)
from prirec.recommender.mailbox import Mailbox, MailReply
from prirec.recommender.observability import PAGE, Metrics
from prirec.recommender.responses import PRIVATE, MessagePackResponse, not_found, respond, too_large, unauthenticated
from prirec.recommender.store import Incoming, Store
from prirec.sharing.keys import SigningKey
from prirec.wire.documents import VERSION
from prirec.wire.http import (
    FINEST_CELL,
    MEDIA,
    SMALL,
    Challenge,
    Done,
    Hello,
    Mail,
    Post,
    SignedClaim,
    SignedEnrolment,
    read_request,
)
from prirec.wire.log import MOST, Page

READERS: Final = 4  # threads that look something up for a single request
WRITERS: Final = 2  # threads that write for one: reads do not queue behind them
REVALIDATE: Final = {"cache-control": "no-cache"}
IMMUTABLE: Final = {"cache-control": "public, max-age=31536000, immutable"}
DAY: Final = 86_400

Asked = TypeVar("Asked", bound=Part)
Value = TypeVar("Value")


class Endpoints:
    """One method a route. All lasting state is in the store; what is here is caches and limits."""

    def __init__(
        self,
        store: Store,
        *,
        limits: Limits,
        metrics: Metrics,
        code: str | None,
        clock: Callable[[], float],
        steady: Callable[[], float],
        entropy: Callable[[int], bytes],
    ):
        founding = store.founding()
        recommender = SigningKey(founding.identity).public
        self.store, self.limits, self.metrics, self.clock, self.steady = store, limits, metrics, clock, steady
        self.mailbox = Mailbox(store, limits=limits, metrics=metrics)
        self._authenticator = Authenticator(
            founding.deployment, founding.token_key, clock=clock, entropy=entropy, code=code
        )
        self._enrolments = EnrolmentGate(self._authenticator, limits=limits)
        self._filter = MessageFilter(founding.deployment, recommender)
        self._hello = encode(Hello(VERSION, founding.deployment, recommender, founding.title))
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="writer")
        self._downloads, self._cache = DownloadSlots(limits.downloads), DocumentCache(limits.documents)
        self._body_memory = BodyMemory(limits.under_way)
        self._taken = metrics.messages.labels("taken")
        self._addresses = RateLimiter[str](limits.address, most=limits.remembered)
        self._devices = RateLimiter[bytes](limits.device, most=limits.remembered)
        self._bytes = RateLimiter[bytes](limits.device_bytes, most=limits.remembered)

    async def close(self) -> None:
        await self.mailbox.close()
        self._readers.shutdown()
        self._writers.shutdown()

    # Public: no name is sent, and everybody in one region sends the same requests

    async def deployment(self, request: Request) -> Response:
        """The deployment's id and title and the recommender's public key, which a device pins when it joins."""
        self._count(request)
        return Response(self._hello, headers=REVALIDATE, media_type=MEDIA)

    async def log(self, request: Request) -> Response:
        """The recommender's signed log from an entry on."""
        self._count(request)
        after = request.query_params.get("after", "0")
        if not (after.isascii() and after.isdecimal() and len(after) < 11 and int(after) < 2**31):
            raise PeerError(Fault.DECODE, "after is the number of entries that are known already")
        entries = await self._read(self.store.entries, int(after), MOST)
        return respond(Page(tuple(entries)), headers=REVALIDATE)

    async def document(self, request: Request) -> Response:
        """A public document by its SHA-256."""
        address, name = self._count(request), request.path_params["name"]
        if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
            raise not_found()
        with ExitStack() as slot:
            # Held until the response has left: one address cannot have the memory of this process full of documents.
            slot.callback(await self._downloads.take(address))
            body = self._cache.get(name) or await self._read(self.store.document, bytes.fromhex(name))
            if body is None:
                raise not_found()
            body = self._cache.put(name, body)
            held, tag = request.headers.get("if-none-match", ""), f'"{name}"'
            headers = IMMUTABLE | {"etag": tag}
            if held.strip() == "*" or tag in (one.strip().removeprefix("W/") for one in held.split(",")):
                return Response(status_code=304, headers=headers)
            return MessagePackResponse(body, headers=headers, sent=slot.pop_all().close)

    # Enrolment and sessions

    async def enrol(self, request: Request) -> Response:
        """A device enrols with the coarse cell that it chooses to share; enrolling again may change the cell."""
        address = self._count(request)
        signed = await self._asked(request, SignedEnrolment)
        check_cell(signed.enrolment.cell)  # cheap, and says nothing about the code
        self._enrolments.let_in(signed, address=address, now=self.steady())
        wanted, day = signed.enrolment, int(self.clock() // DAY)
        await self._write(partial(self.store.enrol, day=day), wanted.name, wanted.cell)
        return respond(Done(), headers=PRIVATE)

    async def challenge(self, request: Request) -> Response:
        """A fresh challenge to sign; the body is empty."""
        self._count(request)
        if await body_of(request, limit=SMALL):
            raise PeerError(Fault.DECODE, "this address takes an empty body")
        return respond(Challenge(self._authenticator.challenge()), headers=PRIVATE)

    async def session(self, request: Request) -> Response:
        """A session for an identity that is enrolled and has signed a challenge."""
        self._count(request)
        claim = self._authenticator.claiming(await self._asked(request, SignedClaim))
        if not await self._read(self.store.enrolled, claim.name):  # only after the signature, see authentication.py
            raise unauthenticated()
        return respond(self._authenticator.admitted(claim), headers=PRIVATE)

    async def leave(self, request: Request) -> Response:
        """A device leaves the deployment; the body is mail with nothing in it."""
        name = self._authenticate(request)
        if await self._asked(request, Mail) != Mail():
            raise PeerError(Fault.DECODE, "nothing is handed in when a device leaves")
        await self._write(self.store.leave, name)
        return respond(Done(), headers=PRIVATE)

    # Mail

    async def mail(self, request: Request) -> Response:
        """A device posts protocol messages, and fetches or waits for letters."""
        name = self._authenticate(request)
        reserved = BodyReservation(self._body_memory, name)
        try:
            body = await body_of(request, limit=self.limits.mail, charge=partial(self._charge, name, reserved))
            if len(body) > LARGE_BODY:  # decoding it takes long: not on the event loop
                posted, after, wait = await self._read(self._decode_mail, body, name)
            else:
                posted, after, wait = self._decode_mail(body, name)
                if posted.items:
                    self._bytes.take(name, now=self.steady(), many=sum(len(item.body) for item in posted.items))
            del body  # no memory is held for it while the device waits
            if wait:
                reply, refused = await self._wait_for_mail(
                    request, posted, reserved=reserved, name=name, after=after, seconds=wait
                )
            else:
                reply = await self.mailbox.ask(name, posted.items, after=after)
                refused = self._refusals(posted, reply)
        finally:
            reserved.give_back()
        return respond(Post(reply.letters, reply.entries, refused), headers=PRIVATE)

    def _charge(self, name: bytes, reserved: BodyReservation, size: int) -> None:
        """For so many bytes more of a large body, while it is read."""
        reserved.take(size)
        self._bytes.take(name, now=self.steady(), many=size)

    def _decode_mail(self, body: bytes, name: bytes) -> tuple["FilteredMessages", int, int]:
        """What a device posts, after which letter it asks for more, and how long it waits."""
        asked = read(body, Mail, limit=self.limits.mail)
        return self._filter.apply(asked.messages, sender=name), asked.after, asked.wait

    async def _wait_for_mail(
        self, request: Request, posted: "FilteredMessages", *, reserved: BodyReservation, name: bytes, after: int,
        seconds: int,
    ) -> tuple[MailReply, tuple[str, ...]]:  # fmt: skip
        with self.mailbox.long_poll(name, after=after, seconds=seconds) as poll:
            request.scope.setdefault("state", {})[ON_DISCONNECT] = poll.release
            reply = await self.mailbox.ask(name, posted.items, after=after)
            refused = self._refusals(posted, reply)
            posted.items.clear()
            reserved.give_back()
            if not (reply.letters or refused or poll.released):
                reply = await self.mailbox.letters(name, entries=reply.entries, poll=poll)
            return reply, refused

    def _refusals(self, posted: "FilteredMessages", reply: MailReply) -> tuple[str, ...]:
        if not posted.problems:
            return ()
        refused = posted.refused(reply.taken)
        self._taken.inc(len(posted.problems) - len(refused))
        for why in refused:
            self.metrics.messages.labels(why.partition(":")[0]).inc()
        return refused

    # For whoever runs the service

    async def healthy(self, request: Request) -> Response:
        """Whether this worker runs."""
        return JSONResponse({"healthy": True})

    async def ready(self, request: Request) -> Response:
        """Whether this worker can use its store."""
        self._count(request)
        try:
            await self._read(self.store.head)
        except StateError:
            return JSONResponse({"ready": False}, 503)
        return JSONResponse({"ready": True})

    async def figures(self, request: Request) -> Response:
        """Metrics for Prometheus."""
        self._count(request)
        return Response(self.metrics.page(), media_type=PAGE)

    # What endpoints share

    def _count(self, request: Request) -> str:
        """Count a request against its address, which is returned."""
        address = "" if request.client is None else client_network(request.client.host)
        self._addresses.take(address, now=self.steady())
        return address

    def _authenticate(self, request: Request) -> bytes:
        """The device whose session it is."""
        self._count(request)
        name = self._authenticator.name(header_of(request, b"authorization"))
        self._devices.take(name, now=self.steady())
        return name

    async def _asked(self, request: Request, kind: type[Asked]) -> Asked:
        return read(await body_of(request, limit=SMALL), kind, limit=SMALL)

    async def _read(self, question: Callable[..., Value], *values: object) -> Value:
        """In a thread: the event loop, which every device's request runs on, waits for no disk."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, question, *values)

    async def _write(self, change: Callable[..., None], *values: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writers, change, *values)


# Which posted messages are taken: those in the sender's own name, to the recommender, of a kind that a campaign has.
# The store then drops those of rounds that are not open or that the sender was not invited to. Both get one answer
# ("not open"), so that nobody can probe who was invited. Everything else about a message the collector judges.


KINDS: Final = frozenset({"popularity", "linear", "interaction"})  # of sums that a campaign has
STEPS: Final = (Keys, Boxes, Masked, Agreement, Reveal)  # what a member sends to a collector


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a message is not taken; nothing of it is repeated."""

    fault: Fault
    words: str


_UNREADABLE: Final = Rejection(Fault.DECODE, "is not exactly one message of this version")
_OTHER_SENDER: Final = Rejection(Fault.AUTH, "is in somebody else's name")
_OTHER_RECEIVER: Final = Rejection(Fault.ORDER, "is not for the recommender")
_NOT_OPEN: Final = Rejection(Fault.ORDER, "is for a round that is not open")


@dataclass(frozen=True, slots=True)
class FilteredMessages:
    """Messages to store, and for each message of the request why it is rejected, or None."""

    items: list[Incoming] = field(repr=False)
    problems: list[Rejection | None]

    def refused(self, taken: Sequence[bool]) -> tuple[str, ...]:
        """The answer's words on each rejected message, given which of the items the store took."""
        each = iter(taken)
        why = [problem or (None if next(each) else _NOT_OPEN) for problem in self.problems]
        return tuple(f"{one.fault}: message {at} {one.words}" for at, one in enumerate(why) if one is not None)


class MessageFilter:
    """Decodes posted messages and rejects those that cannot be for this deployment's recommender."""

    def __init__(self, deployment: bytes, recommender: bytes):
        self._deployment, self._recommender = deployment, recommender

    def apply(self, messages: Sequence[bytes], *, sender: bytes) -> FilteredMessages:
        judged = [self._judge(body, sender=sender) for body in messages]
        items = [one for one in judged if isinstance(one, Incoming)]
        return FilteredMessages(items, [one if isinstance(one, Rejection) else None for one in judged])

    def _judge(self, body: bytes, *, sender: bytes) -> Incoming | Rejection:
        try:
            message = decode(body)
        except PeerError:
            return _UNREADABLE
        if message.sender != sender:
            return _OTHER_SENDER
        if message.receiver != self._recommender or not isinstance(message, STEPS):
            return _OTHER_RECEIVER
        if message.round.deployment != self._deployment or message.round.kind not in KINDS:
            return _NOT_OPEN
        return Incoming(message.round, sender, body)


class DocumentCache:
    """Least recently used cache of documents, bounded in bytes. A document's name is its hash, so none goes stale."""

    def __init__(self, most: int):
        self._most, self._size = most, 0
        self._bodies: OrderedDict[str, bytes] = OrderedDict()

    def get(self, name: str) -> bytes | None:
        body = self._bodies.get(name)
        if body is not None:
            self._bodies.move_to_end(name)
        return body

    def put(self, name: str, body: bytes) -> bytes:
        """The object to send: requests that read one document at the same time share one copy of it in memory."""
        if (held := self._bodies.get(name)) is not None or len(body) > self._most // 4:
            return body if held is None else held
        self._bodies[name] = body
        self._size += len(body)
        while self._size > self._most:
            self._size -= len(self._bodies.popitem(last=False)[1])
        return body


# Reading requests


async def body_of(request: Request, *, limit: int, charge: Callable[[int], None] | None = None) -> bytes:
    """The body, of at most so many bytes. A large one is charged for as it arrives, not by its declared length: who
    declares much and sends nothing occupies nothing. That it arrives in time, connections.py sees to."""
    declared = header_of(request, b"content-length")
    if declared.isdigit() and (len(declared) > 15 or int(declared) > limit):
        raise too_large(limit)
    chunks, size, charged, more = [], 0, 0, True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk, more = message.get("body", b""), message.get("more_body", False)
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        chunks.append(chunk)
        if charge is not None and size > LARGE_BODY:
            charge(size - charged)
            charged = size
    return b"".join(chunks)


def header_of(request: Request, wanted: bytes) -> bytes:
    """The first header of this name, or nothing."""
    return next((value for name, value in request.scope["headers"] if name == wanted), b"")


def read(body: bytes, kind: type[Asked], *, limit: int) -> Asked:
    """A request of the kind that the route takes."""
    asked = read_request(body, limit=limit)
    if not isinstance(asked, kind):
        raise PeerError(Fault.DECODE, "the body is not what this address takes")
    return asked


def check_cell(cell: int) -> None:
    """An invalid cell would end a campaign before it begins; a finer one says more than a device means to share."""
    if cell and not (h3.is_valid_cell(cell) and h3.get_resolution(cell) <= FINEST_CELL):
        raise PeerError(Fault.DECODE, f"a cell is one of h3's, of resolution {FINEST_CELL} or coarser, or 0")
