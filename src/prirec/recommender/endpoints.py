"""What a request carries, looked at no further than it must be."""

import asyncio
import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from struct import Struct
from typing import Final, TypeVar

from fastapi import Request, Response
from h3.api import basic_int as h3
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse

from prirec.errors import Fault, PeerError, StateError
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import Agreement, Boxes, Keys, Masked, Part, Reveal
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
from prirec.recommender.responses import (
    PRIVATE,
    MessagePackResponse,
    not_found,
    respond,
    too_large,
    too_many,
    unauthenticated,
)
from prirec.recommender.store import Incoming, Store
from prirec.sharing.keys import SigningKey, derive, verify
from prirec.wire.documents import VERSION
from prirec.wire.http import (
    BEARER,
    FINEST_CELL,
    MEDIA,
    SMALL,
    Challenge,
    Claim,
    Done,
    Hello,
    Mail,
    Post,
    Session,
    SignedClaim,
    SignedEnrolment,
    read_request,
)
from prirec.wire.log import MOST, Page

Asked = TypeVar("Asked", bound=Part)


async def body_of(request: Request, *, limit: int, charge: Callable[[int], None] | None = None) -> bytes:
    """Up to so many bytes. A large body is charged for as it comes; that it comes in time is for the connection to see
    to."""
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
    """The first of this name, or nothing."""
    return next((value for name, value in request.scope["headers"] if name == wanted), b"")


def read(body: bytes, kind: type[Asked], *, limit: int) -> Asked:
    """A request of the kind that the address takes."""
    asked = read_request(body, limit=limit)
    if not isinstance(asked, kind):
        raise PeerError(Fault.DECODE, "the body is not what this address takes")
    return asked


def check_cell(cell: int) -> None:
    """A cell that is none would end a campaign before it begins; a finer one tells more than a device means to."""
    if cell and not (h3.is_valid_cell(cell) and h3.get_resolution(cell) <= FINEST_CELL):
        raise PeerError(Fault.DECODE, f"a cell is one of h3's, of resolution {FINEST_CELL} or coarser, or 0")


# Documents that were asked for lately, at hand. A name stands for its bytes for ever, so nothing here grows old.


class DocumentCache:
    """At most so many bytes; what nobody has asked for the longest goes first."""

    def __init__(self, most: int):
        self._most, self._size = most, 0
        self._bodies: OrderedDict[str, bytes] = OrderedDict()

    def get(self, name: str) -> bytes | None:
        body = self._bodies.get(name)
        if body is not None:
            self._bodies.move_to_end(name)
        return body

    def put(self, name: str, body: bytes) -> bytes:
        """The one to use: where many have asked at once, all of them share what came first."""
        if (held := self._bodies.get(name)) is not None or len(body) > self._most // 4:
            return body if held is None else held
        self._bodies[name] = body
        self._size += len(body)
        while self._size > self._most:
            self._size -= len(self._bodies.popitem(last=False)[1])
        return body


# Which of the messages that a device hands in are taken: its own, for the recommender, in a round that is open and
# that it was invited to. Who was not is told what those are told who come too late.
#
# The rest of what a message must be is for the collector to judge.


KINDS: Final = frozenset({"popularity", "linear", "interaction"})  # of sums that a campaign has
STEPS: Final = (Keys, Boxes, Masked, Agreement, Reveal)  # what a member says to a collector


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a message is not taken; nothing of it is repeated."""

    fault: Fault
    words: str


_UNREADABLE: Final = Rejection(Fault.DECODE, "is not exactly one message of this version")
_BORROWED: Final = Rejection(Fault.AUTH, "is in somebody else's name")
_ASTRAY: Final = Rejection(Fault.ORDER, "is not for the recommender")
_NOT_OPEN: Final = Rejection(Fault.ORDER, "is for a round that is not open")


@dataclass(frozen=True, slots=True)
class FilteredMessages:
    """What is to be handed in, and for each of all messages why it is not."""

    items: list[Incoming] = field(repr=False)
    problems: list[Rejection | None]

    def refused(self, taken: Sequence[bool]) -> tuple[str, ...]:
        """In words, given which of the items were taken."""
        each = iter(taken)
        told = [problem or (None if next(each) else _NOT_OPEN) for problem in self.problems]
        return tuple(f"{why.fault}: message {at} {why.words}" for at, why in enumerate(told) if why is not None)


class MessageFilter:
    """Knows whom messages must be for."""

    def __init__(self, deployment: bytes, recommender: bytes):
        self._deployment, self._recommender = deployment, recommender

    def sorted(self, messages: Sequence[bytes], *, sender: bytes) -> FilteredMessages:
        judged = [self._judged(body, sender=sender) for body in messages]
        items = [one for one in judged if isinstance(one, Incoming)]
        return FilteredMessages(items, [one if isinstance(one, Rejection) else None for one in judged])

    def _judged(self, body: bytes, *, sender: bytes) -> Incoming | Rejection:
        try:
            message = decode(body)
        except PeerError:
            return _UNREADABLE
        of = message.round
        if message.sender != sender:
            return _BORROWED
        if message.receiver != self._recommender or not isinstance(message, STEPS):
            return _ASTRAY
        if of.deployment != self._deployment or of.kind not in KINDS:
            return _NOT_OPEN
        return Incoming(of, sender, body)


# Who is who. A device proves that it holds its identity's key, and gets a token that any worker can check by itself.
#
# Challenges and tokens are sealed with keys that follow from one secret of the deployment; nothing is kept for them
# but, for a minute and in each worker, which challenges were answered. So a claim that was seen on its way opens no
# second session at the same worker; at another it gives, within that minute, the token that it gave before, never a
# newer one.
#
# Whatever is wrong, PeerError AUTH, and the service answers all of them alike. The signature is checked before anybody
# is looked up: who does not hold a key learns nothing about whether its name is known.


CHALLENGE_SECONDS: Final = 60
SESSION_SECONDS: Final = 900
SKEW: Final = 5  # seconds by which another worker's clock may be ahead
MOST_SESSIONS: Final = 50_000  # tokens whose seals need not be checked again
MOST_CHALLENGES: Final = 200_000  # challenges that a worker remembers

_CHALLENGE = Struct(">q16s")  # when it was made, and what makes it one of a kind
_TOKEN = Struct(">32sq")  # whose it is, and until when
_BEARER = BEARER.encode("ascii")


class Authenticator:
    """Seals and checks. `clock` is the time of day, in seconds; `entropy` gives so many fresh bytes."""

    def __init__(
        self,
        deployment: bytes,
        token_key: bytes,
        *,
        clock: Callable[[], float],
        entropy: Callable[[int], bytes],
        code: str | None = None,
    ):
        self._deployment, self._clock, self._entropy = deployment, clock, entropy
        self._challenge_key = derive(token_key, "prirec challenges", deployment)
        self._session_key = derive(token_key, "prirec sessions", deployment)
        self._code = None if code is None else sha256(code.encode()).digest()
        self.asks_for_code = code is not None
        self._sessions: dict[bytes, tuple[bytes, int]] = {}
        self._answered, self._order = set[bytes](), deque[tuple[float, bytes]]()

    def challenge(self) -> bytes:
        """Something fresh to sign."""
        made = _CHALLENGE.pack(int(self._clock()), self._entropy(16))
        return made + _sealed(self._challenge_key, made)

    def enrolling(self, signed: SignedEnrolment) -> None:
        """Silent if the holder of the name asks for this, and knows the operator's code where there is one."""
        wanted = signed.enrolment
        verify(wanted.name, signature=signed.signature, message=encode(wanted))
        if wanted.deployment != self._deployment:
            raise _nobody()
        given = sha256(wanted.code.encode()).digest()
        if self._code is not None and not hmac.compare_digest(given, self._code):
            raise _nobody()

    def claiming(self, signed: SignedClaim) -> Claim:
        """What the holder of the name has signed, with a challenge of ours. Nothing is remembered yet: whoever is not
        enrolled uses up nothing of what there is for those who are."""
        self._of_ours(signed.claim.challenge)
        if signed.claim.deployment != self._deployment:
            raise _nobody()
        verify(signed.claim.name, signature=signed.signature, message=encode(signed.claim))
        return signed.claim

    def admitted(self, claim: Claim) -> Session:
        """A session on such a claim, of somebody who is enrolled, if nobody answered its challenge before."""
        made = self._of_ours(claim.challenge)
        self._answer(claim.challenge)
        return self.session(claim.name, made=made)

    def session(self, name: bytes, *, made: int) -> Session:
        """Counted from when the challenge was made: a claim stands for one token, wherever it is shown."""
        token = _TOKEN.pack(name, made + SESSION_SECONDS)
        sealed = b64encode(token + _sealed(self._session_key, token)).decode("ascii")
        return Session(sealed, max(0, made + SESSION_SECONDS - int(self._clock())))

    def name(self, authorization: bytes) -> bytes:
        """Whose session the header of a request shows."""
        name, until = self._sessions.get(authorization) or self._opened(authorization)
        if until <= self._clock():
            raise _nobody()
        return name

    def _opened(self, authorization: bytes) -> tuple[bytes, int]:
        """A token's name and end, once its seal is checked."""
        scheme, _, token = authorization.partition(b" ")
        try:
            data = b64decode(token, validate=True)
        except Base64Error:
            raise _nobody() from None
        body, mac = data[: _TOKEN.size], data[_TOKEN.size :]
        sealed = len(body) == _TOKEN.size and hmac.compare_digest(mac, _sealed(self._session_key, body))
        if scheme != _BEARER or not sealed:
            raise _nobody()
        if len(self._sessions) >= MOST_SESSIONS:
            self._sessions.clear()
        name, until = self._sessions[authorization] = _TOKEN.unpack(body)
        return name, until

    def _of_ours(self, challenge: bytes) -> int:
        """When it was made, if it was made here and can still be answered."""
        body, mac = challenge[: _CHALLENGE.size], challenge[_CHALLENGE.size :]
        if len(body) != _CHALLENGE.size or not hmac.compare_digest(mac, _sealed(self._challenge_key, body)):
            raise _nobody()
        made: int = _CHALLENGE.unpack(body)[0]
        if not -SKEW <= self._clock() - made <= CHALLENGE_SECONDS:
            raise _nobody()
        return made

    def _answer(self, challenge: bytes) -> None:
        now = self._clock()
        while self._order and self._order[0][0] < now:
            self._answered.discard(self._order.popleft()[1])
        if challenge in self._answered:
            raise _nobody()
        if len(self._answered) >= MOST_CHALLENGES:  # to forget one early would let it be answered again
            raise too_many(CHALLENGE_SECONDS)
        self._answered.add(challenge)
        self._order.append((now + CHALLENGE_SECONDS + SKEW, challenge))


def _nobody() -> PeerError:
    return PeerError(Fault.AUTH, "a key, a signature or a session does not hold")


def _sealed(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


# Who is let in to enrol, and how many at a time.
#
# Where the operator hands out a code, a wrong one costs its address and everyone a guess, and the right one costs none.
# Who has no guess left is refused unheard: else the right one could still be told from the rest.
#
# One guesser keeps out those behind its own address, and nobody else. Somebody with fifty addresses or more can keep
# all newcomers waiting: that is the lesser harm, for with the code he could enrol a crowd of his own. Who is enrolled
# already notices none of it.


class EnrolmentGate:
    """Of one worker; others count for themselves."""

    def __init__(self, door: Authenticator, *, limits: Limits):
        self._door = door
        self._each, self._all = (
            RateLimiter[str](limits.enrolment, most=limits.remembered),
            RateLimiter[str](limits.enrolments),
        )
        self._guesses = RateLimiter[str](limits.guess, most=limits.remembered)
        self._all_guesses = RateLimiter[str](limits.guesses)

    def let_in(self, signed: SignedEnrolment, *, address: str, now: float) -> None:
        """PeerError AUTH if it does not hold, RefusedError if it is one too many."""
        if self._door.asks_for_code:
            self._hear(signed, address=address, now=now)
        else:  # there is nothing to guess
            self._door.enrolling(signed)
        self._each.take(address, now=now)
        self._all.take("", now=now)

    def _hear(self, signed: SignedEnrolment, *, address: str, now: float) -> None:
        self._guesses.refuse_spent(address, now=now)
        self._all_guesses.refuse_spent("", now=now)
        try:
            self._door.enrolling(signed)
        except PeerError:
            self._guesses.take(address, now=now)
            self._all_guesses.take("", now=now)
            raise


# What is done at each address of the service. Everything here can raise a refusal; service.py turns it into an answer.
#
# Each request is counted against its address first, then, where there is a session, against its device; a body is read
# only after that, up to a limit.


READERS: Final = 4  # threads that look something up for a single request
WRITERS: Final = 2  # and that write: whoever reads does not wait behind them
REVALIDATE: Final = {"cache-control": "no-cache"}
IMMUTABLE: Final = {"cache-control": "public, max-age=31536000, immutable"}
DAY: Final = 86_400

Value = TypeVar("Value")


class Endpoints:
    """The service's state is all in the store, but for what speeds it up or bounds it."""

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
        self.desk = Mailbox(store, limits=limits, metrics=metrics)
        self._door = Authenticator(founding.deployment, founding.token_key, clock=clock, entropy=entropy, code=code)
        self._sorter = MessageFilter(founding.deployment, recommender)
        self._hello = encode(Hello(VERSION, founding.deployment, recommender, founding.title))
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="writer")
        self._turns = DownloadSlots(limits.downloads)
        self._taken = metrics.messages.labels("taken")
        self._room, self._kept = BodyMemory(limits.under_way), DocumentCache(limits.documents)
        self._addresses = RateLimiter[str](limits.address, most=limits.remembered)
        self._devices = RateLimiter[bytes](limits.device, most=limits.remembered)
        self._bytes = RateLimiter[bytes](limits.device_bytes, most=limits.remembered)
        self._newcomers = EnrolmentGate(self._door, limits=limits)

    async def close(self) -> None:
        await self.desk.close()
        self._readers.shutdown()
        self._writers.shutdown()

    async def deployment(self, request: Request) -> Response:
        """Whom a device is about to trust."""
        self._counted(request)
        return Response(self._hello, headers=REVALIDATE, media_type=MEDIA)

    async def log(self, request: Request) -> Response:
        """The recommender's signed log from an entry on."""
        self._counted(request)
        after = request.query_params.get("after", "0")
        if not (after.isascii() and after.isdecimal() and len(after) < 11 and int(after) < 2**31):
            raise PeerError(Fault.DECODE, "after is the number of entries that are known already")
        entries = await self._looked_up(self.store.entries, int(after), MOST)
        return respond(Page(tuple(entries)), headers=REVALIDATE)

    async def document(self, request: Request) -> Response:
        """A public document by its name."""
        address, name = self._counted(request), request.path_params["name"]
        if len(name) != 64 or not set(name) <= set("0123456789abcdef"):
            raise not_found()
        with ExitStack() as ending:
            ending.callback(await self._turns.take(address))
            body = self._kept.get(name) or await self._looked_up(self.store.document, bytes.fromhex(name))
            if body is None:
                raise not_found()
            body = self._kept.put(name, body)
            held, tag = request.headers.get("if-none-match", ""), f'"{name}"'
            headers = IMMUTABLE | {"etag": tag}
            if held.strip() == "*" or tag in (one.strip().removeprefix("W/") for one in held.split(",")):
                return Response(status_code=304, headers=headers)
            return MessagePackResponse(body, headers=headers, sent=ending.pop_all().close)

    async def enrol(self, request: Request) -> Response:
        """A device makes itself known, with the coarse cell that it chooses to tell; the same again changes nothing."""
        address = self._counted(request)
        signed = await self._asked(request, SignedEnrolment)
        check_cell(signed.enrolment.cell)
        self._newcomers.let_in(signed, address=address, now=self.steady())
        wanted, day = signed.enrolment, int(self.clock() // DAY)
        await self._written(partial(self.store.enrol, day=day), wanted.name, wanted.cell)
        return respond(Done(), headers=PRIVATE)

    async def challenge(self, request: Request) -> Response:
        """Something fresh to sign; the body is empty."""
        self._counted(request)
        if await body_of(request, limit=SMALL):
            raise PeerError(Fault.DECODE, "this address takes an empty body")
        return respond(Challenge(self._door.challenge()), headers=PRIVATE)

    async def session(self, request: Request) -> Response:
        """A session for an identity that is enrolled and has signed a challenge."""
        self._counted(request)
        signed = await self._asked(request, SignedClaim)
        claim = self._door.claiming(signed)
        if not await self._looked_up(self.store.enrolled, claim.name):
            raise unauthenticated()
        return respond(self._door.admitted(claim), headers=PRIVATE)

    async def leave(self, request: Request) -> Response:
        """A device leaves the deployment; the body is mail with nothing in it."""
        name = self._named(request)
        if await self._asked(request, Mail) != Mail():
            raise PeerError(Fault.DECODE, "nothing is handed in when a device leaves")
        await self._written(self.store.leave, name)
        return respond(Done(), headers=PRIVATE)

    async def mail(self, request: Request) -> Response:
        """Messages of the protocols are handed in, and letters fetched."""
        name = self._named(request)
        hold = BodyReservation(self._room, name)
        try:
            body = await body_of(request, limit=self.limits.mail, charge=partial(self._charge, name, hold))
            if len(body) > LARGE_BODY:
                handed, after, wait = await self._looked_up(self._handed, body, name)
            else:
                handed, after, wait = self._handed(body, name)
                if handed.items:
                    self._bytes.take(name, now=self.steady(), many=sum(len(item.body) for item in handed.items))
            del body  # nothing of it is kept here while the device waits
            if wait:
                found, refused = await self._waited(request, handed, hold=hold, name=name, after=after, wait=wait)
            else:
                found = await self.desk.ask(name, handed.items, after=after)
                refused = self._refused(handed, found)
        finally:
            hold.give_back()
        return respond(Post(found.letters, found.entries, refused), headers=PRIVATE)

    def _charge(self, name: bytes, hold: BodyReservation, size: int) -> None:
        """For so many bytes more of a large body."""
        hold.take(size)
        self._bytes.take(name, now=self.steady(), many=size)

    def _handed(self, body: bytes, name: bytes) -> tuple[FilteredMessages, int, int]:
        """What a device hands in, after which letter it asks for more, and how long it waits."""
        asked = read(body, Mail, limit=self.limits.mail)
        return self._sorter.sorted(asked.messages, sender=name), asked.after, asked.wait

    async def _waited(
        self, request: Request, handed: FilteredMessages, *, hold: BodyReservation, name: bytes, after: int, wait: int
    ) -> tuple[MailReply, tuple[str, ...]]:
        with self.desk.waiting(name, after=after, seconds=wait) as poll:
            request.scope.setdefault("state", {})[ON_DISCONNECT] = poll.release
            found = await self.desk.ask(name, handed.items, after=after)
            refused = self._refused(handed, found)
            handed.items.clear()
            hold.give_back()
            if not (found.letters or refused or poll.released):
                found = await self.desk.letters(name, entries=found.entries, poll=poll)
            return found, refused

    def _refused(self, handed: FilteredMessages, found: MailReply) -> tuple[str, ...]:
        if not handed.problems:
            return ()
        refused = handed.refused(found.taken)
        self._taken.inc(len(handed.problems) - len(refused))
        for why in refused:
            self.metrics.messages.labels(why.partition(":")[0]).inc()
        return refused

    async def healthy(self, request: Request) -> Response:
        """Whether this worker runs."""
        return JSONResponse({"healthy": True})

    async def ready(self, request: Request) -> Response:
        """Whether it can use its store."""
        self._counted(request)
        try:
            await self._looked_up(self.store.head)
        except StateError:
            return JSONResponse({"ready": False}, 503)
        return JSONResponse({"ready": True})

    async def figures(self, request: Request) -> Response:
        """For Prometheus."""
        self._counted(request)
        return Response(self.metrics.page(), media_type=PAGE)

    def _counted(self, request: Request) -> str:
        """One request of an address, which is given back as it is counted."""
        address = "" if request.client is None else client_network(request.client.host)
        self._addresses.take(address, now=self.steady())
        return address

    def _named(self, request: Request) -> bytes:
        """Whose session it is."""
        self._counted(request)
        name = self._door.name(header_of(request, b"authorization"))
        self._devices.take(name, now=self.steady())
        return name

    async def _asked(self, request: Request, kind: type[Asked]) -> Asked:
        return read(await body_of(request, limit=SMALL), kind, limit=SMALL)

    async def _looked_up(self, question: Callable[..., Value], *values: object) -> Value:
        """In a thread: the event loop waits for no disk, and for nothing that takes long."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, question, *values)

    async def _written(self, change: Callable[..., None], *values: object) -> None:
        await asyncio.get_running_loop().run_in_executor(self._writers, change, *values)
