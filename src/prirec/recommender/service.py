"""The recommender's service over HTTP (FastAPI): public documents for anyone, mail for devices with a session.

Every request is counted against its address first, then, where it has a session, against its device; its body is read
only after that, up to a limit. So what a stranger can make this process do is bounded before anything is parsed.

Requests for public documents carry no name, and two people of one region send the same ones: the recommender does not
learn who downloads what. Bodies are MessagePack. Routes are FastAPI's, so that it can describe them (OpenAPI); but
endpoints work on plain requests and responses, for sealed boxes pass through here by the thousand.
"""

import asyncio
import gc
import re
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from math import inf
from operator import attrgetter
from os import urandom
from pathlib import Path
from time import monotonic, time
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar, get_type_hints

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from prometheus_client import Counter
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import prirec
from prirec.errors import Fault, PassingError, PeerError, PrirecError, StateError, UsageError
from prirec.pages import page_if_built
from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import Report, WireStruct
from prirec.protocols.party import COLLECTOR
from prirec.recommender import observability
from prirec.recommender.authentication import CHALLENGE_SECONDS, SKEW, Authenticator, EnrolmentGate
from prirec.recommender.helper import HelperService
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
from prirec.recommender.operator_page import OPERATOR, OperatorPage
from prirec.recommender.overview import SERVER, OverviewReader
from prirec.recommender.report_writer import MOST_REPORT, ReportWriter
from prirec.recommender.responses import (
    NOT_FOUND,
    PRIVATE,
    MessagePackResponse,
    PageResponse,
    RefusedError,
    body_of,
    header_of,
    internal_error,
    not_found,
    refusal_of,
    respond,
    store_unavailable,
    unauthenticated,
)
from prirec.recommender.rotation import operators_shown
from prirec.recommender.store import Founding, PostedMessage, Store
from prirec.recommender.tls import host_names
from prirec.types import DAY
from prirec.wire.documents import MOST_ENTRIES, VERSION, Page, Rotations
from prirec.wire.http import (
    MEDIA,
    SMALL,
    Challenge,
    Done,
    Hello,
    Inbox,
    JointHello,
    Mail,
    Refusal,
    Session,
    SignedClaim,
    SignedEnrolment,
    read_request,
)
from prirec.wire.operators import HEADER, MOST_SAID

READERS: Final = 4  # threads that look something up for a single request
WRITERS: Final = 2  # threads that write for one: reads do not queue behind them
PROBE_SECONDS: Final = 1.0  # between two looks at whether the store can be written
REVALIDATE: Final = {"cache-control": "no-cache"}
IMMUTABLE: Final = {"cache-control": "public, max-age=31536000, immutable"}
ON_DISCONNECT: Final = "gone"  # key in a request's state: called if the client leaves before it is answered

Asked = TypeVar("Asked", bound=WireStruct)
Value = TypeVar("Value")


class Endpoints:
    """One method a route. Any of them may raise: `_guarded` turns errors into answers. All lasting state is in the
    store; what is here is caches and limits."""

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
        certificates: Mapping[str, Path],
    ):
        founding = store.founding()
        self.store, self.limits, self.metrics, self.clock, self.steady = store, limits, metrics, clock, steady
        self._helped = founding.peer is not None and founding.role == "recommender"
        self.mailbox = Mailbox(store, limits=limits, metrics=metrics, cosigned=self._helped)
        self._authenticator = Authenticator(
            founding.deployment, founding.token_key, clock=clock, entropy=entropy, code=code
        )
        self._enrolments = EnrolmentGate(self._authenticator, limits=limits)
        self._filter = MessageFilter(founding.deployment, lambda: store.founding().key.public)
        self._helper = (
            HelperService(store, clock=clock, tell=observability.log_event) if founding.role == "helper" else None
        )
        self._audit_page = page_if_built("audit")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self._writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="writer")
        self._lookers = ThreadPoolExecutor(1, thread_name_prefix="operator")  # devices do not wait for the operator
        self._reports = ReportWriter(store, write=self._write, clock=clock)
        self._downloads, self._cache = DownloadSlots(limits.downloads), DocumentCache(limits.documents)
        self._body_memory = BodyMemory(limits.under_way)
        self._writable, self._next_probe = False, -inf
        self._taken = metrics.messages.labels("taken")
        self._addresses = RateLimiter[str](limits.address, most=limits.remembered)
        self._devices = RateLimiter[bytes](limits.device, most=limits.remembered)
        self._bytes = RateLimiter[bytes](limits.device_bytes, most=limits.remembered)
        self._overview = OverviewReader(store, certificates=certificates, clock=clock, refused=metrics.refused)
        self.operator_page = OperatorPage(
            store.logins, self._overview, name=f"{founding.role}-{founding.deployment.hex()[:8]}",
            hosts=host_names(certificates[SERVER]) if SERVER in certificates else frozenset(), limits=limits,
            clock=clock, steady=steady, count=self._count, ask=self._look,
        )  # fmt: skip

    async def close(self) -> None:
        await self.mailbox.close()
        self._readers.shutdown()
        self._writers.shutdown()
        self._lookers.shutdown()

    # Public: no name is sent, and everybody in one region sends the same requests

    async def deployment(self, request: Request) -> Response:
        """The deployment's id and title and the recommender's public key, which a device pins when it joins."""
        self._count(request)
        return Response(await self._read(_hello, self.store), headers=REVALIDATE, media_type=MEDIA)

    async def log(self, request: Request) -> Response:
        """The recommender's signed log from an entry on."""
        self._count(request)
        after = request.query_params.get("after", "0")
        if not (after.isascii() and after.isdecimal() and len(after) < 11 and int(after) < 2**31):
            raise PeerError(Fault.DECODE, "after is the number of entries that are known already")
        # The signature first: what it signs is among the entries that are read after it, as far as they reach.
        cosigned = await self._read(self.store.cosigned) if self._helped else None
        entries = await self._read(self.store.entries, int(after), MOST_ENTRIES)
        return respond(Page(tuple(entries), cosigned), headers=REVALIDATE)

    async def rotations(self, request: Request) -> Response:
        """Rotations of the operators' keys, as far as devices follow the log."""
        self._count(request)
        return respond(Rotations((await self._read(operators_shown, self.store)).rotations), headers=REVALIDATE)

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
        """A device enrols under its public key."""
        address = self._count(request)
        signed = await self._request_body(request, SignedEnrolment)
        self._enrolments.admit(signed, address=address, now=self.steady())
        wanted, now = signed.enrolment, int(self.clock())
        use = partial(self.store.use_challenge, now=now, until=now + CHALLENGE_SECONDS + SKEW)
        if not await self._write(use, wanted.challenge):
            raise unauthenticated()
        day = now // DAY
        if not await self._write(partial(self.store.enrol, day=day), wanted.name):
            raise unauthenticated()
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
        # The signature first: who holds no key cannot find out whether a name is enrolled.
        claim = self._authenticator.check_claim(await self._request_body(request, SignedClaim))
        if not await self._read(self.store.enrolled, [claim.name]):
            raise unauthenticated()
        return respond(self._authenticator.open_session(claim), headers=PRIVATE)

    async def leave(self, request: Request) -> Response:
        """A device leaves the deployment; the body is mail with nothing in it."""
        name = self._authenticate(request)
        if await self._request_body(request, Mail) != Mail():
            raise PeerError(Fault.DECODE, "nothing is handed in when a device leaves")
        await self._write(self.store.leave, name)
        return respond(Done(), headers=PRIVATE)

    # Mail

    async def mail(self, request: Request) -> Response:
        """A device posts protocol messages, and fetches, or waits for, those that are queued for it."""
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
        return respond(Inbox(reply.queued, reply.entries, refused), headers=PRIVATE)

    # Two operators

    async def reports(self, request: Request) -> Response:
        """A device posts its report for the window that is open. The same report may be posted again."""
        name = self._authenticate(request)
        reserved = BodyReservation(self._body_memory, name)
        try:
            body = await body_of(request, limit=MOST_REPORT, charge=partial(self._charge, name, reserved))
            await self._reports.take(name, body)
        except PeerError as refusal:
            self.metrics.reports.labels(refusal.fault).inc()
            raise
        finally:
            reserved.give_back()
        self.metrics.reports.labels("taken").inc()
        return respond(Done(), headers=PRIVATE)

    async def operator(self, request: Request) -> Response:
        """The recommender asks its helper. The envelope is checked before the body is read."""
        self._count(request)
        if self._helper is None:
            raise not_found()
        helper = self._helper
        envelope = await self._read(helper.admit, header_of(request, HEADER.encode("ascii")))
        body = await body_of(request, limit=MOST_SAID)
        answer, header = await self._write(helper.answer, body, envelope)
        return Response(answer, headers=PRIVATE | {HEADER: header}, media_type=MEDIA)

    def _charge(self, name: bytes, reserved: BodyReservation, size: int) -> None:
        """Count so many bytes more of a large body, while it is read."""
        reserved.take(size)
        self._bytes.take(name, now=self.steady(), many=size)

    def _decode_mail(self, body: bytes, name: bytes) -> tuple["FilteredMessages", int, int]:
        """What a device posts, after which message it asks for more, and how long it waits."""
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
            if not (reply.queued or refused or poll.released):
                reply = await self.mailbox.queued(name, entries=reply.entries, poll=poll)
            return reply, refused

    def _refusals(self, posted: "FilteredMessages", reply: MailReply) -> tuple[str, ...]:
        if not posted.problems:
            return ()
        refused = posted.refused(reply.taken)
        self._taken.inc(len(posted.problems) - len(refused))
        for why in refused:
            self.metrics.messages.labels(why.partition(":")[0]).inc()
        return refused

    # For auditors: a page that reads and verifies all of this in the browser

    async def audit_home(self, request: Request) -> Response:
        """To the page's own folder."""
        self._count(request)
        return Response(status_code=308, headers={"location": f"{AUDIT}/"})

    async def audit(self, request: Request) -> Response:
        """The auditor's page and its files."""
        self._count(request)
        if self._audit_page is None or not self._audit_page.has(request.path_params["name"]):
            raise not_found()
        return PageResponse(self._audit_page, below=AUDIT)

    # For whoever runs the service

    async def healthy(self, request: Request) -> Response:
        """Whether this worker runs."""
        return JSONResponse({"healthy": True})

    async def ready(self, request: Request) -> Response:
        """Whether this worker can write to its store, as it was within the last second: anybody may ask, and each look
        is a commit."""
        self._count(request)
        if (now := self.steady()) >= self._next_probe:
            self._next_probe = now + PROBE_SECONDS
            try:
                await self._write(self.store.check_writable)
                self._writable = True
            except StateError:
                self._writable = False
        return JSONResponse({"ready": self._writable}, 200 if self._writable else 503)

    async def metrics_page(self, request: Request) -> Response:
        """Metrics for Prometheus; without the figures of the overview if they cannot be read."""
        self._count(request)
        try:
            of = await self._look(self._overview.read)
        except PrirecError:
            of = None
        return Response(self.metrics.page(of), media_type=PAGE)

    # What endpoints share

    def _count(self, request: Request) -> str:
        """Count a request against its address, which is returned."""
        address = "" if request.client is None else client_network(request.client.host)
        self._addresses.take(address, now=self.steady())
        return address

    def _authenticate(self, request: Request) -> bytes:
        """The name of the device whose session a request shows, against which the request is counted too."""
        self._count(request)
        name = self._authenticator.name(header_of(request, b"authorization"))
        self._devices.take(name, now=self.steady())
        return name

    async def _request_body(self, request: Request, kind: type[Asked]) -> Asked:
        return read(await body_of(request, limit=SMALL), kind, limit=SMALL)

    async def _read(self, question: Callable[..., Value], *values: object) -> Value:
        """Ask the store in a thread: the event loop, which every device's request runs on, waits for no disk."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, question, *values)

    async def _write(self, change: Callable[..., Value], *values: object) -> Value:
        return await asyncio.get_running_loop().run_in_executor(self._writers, change, *values)

    async def _look(self, question: Callable[..., Value], *values: object) -> Value:
        """The overview, for the operator's page and metrics, read by one request at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._lookers, question, *values)


# Which posted messages are taken: those in the sender's own name, to the recommender, of a kind that a campaign has.
# The store then drops those of rounds that are not open or that the sender was not invited to. Both get one answer
# ("not open"), so that nobody can probe who was invited. Everything else about a message the collector judges.


KINDS: Final = frozenset({"popularity", "moments", "interaction"})  # of sums that a campaign has
STEPS: Final = tuple(kind for moves in COLLECTOR.values() for kind in moves)  # what a member sends to a collector


# Why a message is not taken; nothing of it is repeated. In place of {} goes its number in the request.
_UNREADABLE: Final = f"{Fault.DECODE}: message {{}} is not exactly one message of this version"
_OTHER_SENDER: Final = f"{Fault.AUTH}: message {{}} is in somebody else's name"
_OTHER_RECEIVER: Final = f"{Fault.ORDER}: message {{}} is not for the recommender"
_NOT_OPEN: Final = f"{Fault.ORDER}: message {{}} is for a round that is not open"


@dataclass(frozen=True, slots=True)
class FilteredMessages:
    """Messages to store, and for each message of the request why it is rejected, or None."""

    items: list[PostedMessage] = field(repr=False)
    problems: list[str | None]

    def refused(self, taken: Sequence[bool]) -> tuple[str, ...]:
        """The answer's words on each rejected message, given which of the items the store took."""
        each = iter(taken)
        why = [problem or (None if next(each) else _NOT_OPEN) for problem in self.problems]
        return tuple(one.format(at) for at, one in enumerate(why) if one is not None)


class MessageFilter:
    """Decodes posted messages and rejects those that cannot be for this deployment's recommender."""

    def __init__(self, deployment: bytes, recommender: Callable[[], bytes]):
        """`recommender` asks the store for its key, which may have been rotated."""
        self._deployment, self._ask, self._recommender = deployment, recommender, recommender()

    def apply(self, messages: Sequence[bytes], *, sender: bytes) -> FilteredMessages:
        judged = [self._judge(body, sender=sender) for body in messages]
        if _OTHER_RECEIVER in judged and (now := self._ask()) != self._recommender:
            self._recommender = now
            judged = [self._judge(body, sender=sender) for body in messages]
        items = [one for one in judged if isinstance(one, PostedMessage)]
        return FilteredMessages(items, [one if isinstance(one, str) else None for one in judged])

    def _judge(self, body: bytes, *, sender: bytes) -> PostedMessage | str:
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
        return PostedMessage(message.round, sender, body)


def _hello(store: Store) -> bytes:
    founding = store.founding()
    if founding.role == "helper":
        return encode(Hello(VERSION, founding.deployment, founding.key.public, founding.title))
    now = operators_shown(store)
    if not now.helper:
        return encode(Hello(VERSION, founding.deployment, now.recommender, founding.title))
    return encode(JointHello(VERSION, founding.deployment, now.recommender, founding.title, now.helper))


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


def read(body: bytes, kind: type[Asked], *, limit: int) -> Asked:
    """Decode the body of a request as the type that the route takes."""
    asked = read_request(body, limit=limit)
    if not isinstance(asked, kind):
        raise PeerError(Fault.DECODE, "the body is not what this address takes")
    return asked


# The application: routes, and what becomes of errors


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
Background: TypeAlias = Callable[[Endpoints], AbstractContextManager[None]]

MAIL: Final = "POST /v1/mail"
AUDIT: Final = "/audit"
OPERATOR_PATHS: Final = ("/metrics", "/openapi.json", OPERATOR)
HEALTH_PATHS: Final = ("/healthz", "/readyz")  # on both ports


def app(
    store: Store,
    *,
    limits: Limits | None = None,
    code: str | None = None,
    operator_port: int | None = None,
    clock: Callable[[], float] = time,
    steady: Callable[[], float] = monotonic,
    entropy: Callable[[int], bytes] = urandom,
    alongside: Background = lambda at: nullcontext(),
    app_origins: Collection[str] = (),
    certificates: Mapping[str, Path] = MappingProxyType({}),
) -> FastAPI:
    """The service on a store. `code` is the enrolment code that the operator hands out; without one anybody may enrol.
    Requests that come to `operator_port` find the operator's routes, and no others do. Apps in browsers may be devices
    if their origins are among `app_origins`. The operator's page goes by the names in the certificate SERVER of
    `certificates`, and shows when each of them ends. `clock` is the time of day,
    `steady` one that never jumps. `alongside` is a context around the life of the service: the conductor runs in it."""
    at = Endpoints(
        store, limits=limits or Limits(), metrics=Metrics(), code=code, clock=clock, steady=steady, entropy=entropy,
        certificates=certificates,
    )  # fmt: skip

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
        with alongside(at), _frozen_garbage_collector():
            at.mailbox.open()
            try:
                yield {"release": at.mailbox.release}
            finally:
                await at.close()

    service = Service(
        title="PriRec recommender", version=prirec.__version__, lifespan=life, docs_url=None, redoc_url=None,
        redirect_slashes=False,
    )  # fmt: skip
    service.operator_port, unknown = operator_port, _unknown_route(at.metrics)
    service.app_origins = frozenset(checked_origin(one).encode("ascii") for one in app_origins)
    service.unknown = _as_asgi(lambda request: unknown(request, HTTPException(404)))
    service.router.route_class = PlainRoute
    service.add_exception_handler(HTTPException, unknown)
    for route, description in routes(store.founding()).items():
        (method, path), name = route.split(), description["name"]
        endpoint = _guarded(attrgetter(name)(at), at=at, route=path)
        service.add_api_route(path, endpoint, methods=[method], response_class=Response, **description)
        if route == MAIL:
            service.shortcut = _as_asgi(endpoint)
    return service


def is_operators(path: str) -> bool:
    """Whether it is on the operator's port alone."""
    return path in OPERATOR_PATHS or path.startswith(f"{OPERATOR}/")


class Service(FastAPI):
    """FastAPI with a port of the operator's, and a shortcut: nearly all requests are for mail, and skip the search for
    their route."""

    operator_port: int | None
    unknown: ASGIApp  # answers requests that have come to the wrong port
    shortcut: ASGIApp | None = None
    app_origins: frozenset[bytes] = frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._is_at_wrong_port(scope):
            await self.unknown(scope, receive, send)
        elif self.app_origins and scope["type"] == "http" and is_for_apps(scope["path"]):
            origin = _origin_of(scope)
            known = origin in self.app_origins
            if known and scope["method"] == "OPTIONS":
                await Response(status_code=204, headers=PREFLIGHT | _allowing(origin))(scope, receive, send)
            else:
                await super().__call__(scope, receive, _with_headers(send, _allowing(origin) if known else FOR_ALL))
        elif self.shortcut is not None and f"{scope.get('method')} {scope.get('path')}" == MAIL:
            await self.shortcut(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def _is_at_wrong_port(self, scope: Scope) -> bool:
        """By the connection's own address, which no client can choose."""
        path, (_, port) = scope["path"], scope.get("server") or ("", None)
        operators = port is not None and port == self.operator_port
        return path not in HEALTH_PATHS and is_operators(path) != operators

    def openapi(self) -> dict[str, Any]:
        schema = super().openapi()
        schema.setdefault("components", {}).update(SECURITY)
        return schema


# Devices in browsers (CORS). A browser shows a page of another origin an answer only where the service names that
# origin, so an app that is a device needs its origin named, on the addresses that a device over two operators asks and
# no others. There are no credentials that a browser would send along: a session is a header that the app sets itself.


APP_PATHS: Final = frozenset(
    f"/v1/{name}"
    for name in ("deployment", "rotations", "log", "challenges", "devices", "devices/leave", "sessions", "reports")
)
PREFLIGHT: Final = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "7200",
}
FOR_ALL: Final = {"vary": "origin"}  # a cache must not give one origin the answer to another
_ORIGIN: Final = re.compile(  # browsers leave the usual port out
    r"(https://[a-z0-9.-]+(?!:443$)|http://(localhost|127\.0\.0\.1)(?!:80$))(:(?P<port>[1-9]\d{0,4}))?"
)


def checked_origin(text: str) -> str:
    """An origin as browsers write it. UsageError for anything else: it would never match, or match too much."""
    found = _ORIGIN.fullmatch(text)
    if found is None or int(found["port"] or 0) >= 2**16:
        raise UsageError(
            "an app's origin is like https://app.example or https://app.example:8444, without a path and without the "
            "usual port; http is for localhost alone"
        )
    return text


def is_for_apps(path: str) -> bool:
    return path in APP_PATHS or path.startswith("/v1/documents/")


def _origin_of(scope: Scope) -> bytes:
    return next((value for name, value in scope["headers"] if name == b"origin"), b"")


def _allowing(origin: bytes) -> dict[str, str]:
    return FOR_ALL | {
        "access-control-allow-origin": origin.decode("ascii"),
        "access-control-expose-headers": "retry-after",
    }


def _with_headers(send: Send, headers: Mapping[str, str]) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(headers)
        await send(message)

    return sending


class PlainRoute(APIRoute):
    """A route that FastAPI describes but does not call: its endpoint gets the request itself, without FastAPI's parsing
    of parameters and models."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **description: Any):
        super().__init__(path, endpoint, **description)
        self.app = _as_asgi(endpoint)


@contextmanager
def _frozen_garbage_collector() -> Iterator[None]:
    """Exempt from garbage collection what exists before the service begins: it stays anyway, and with thousands of
    boxes coming and going, traversing it took up to a third of a busy worker's time."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _as_asgi(endpoint: Endpoint) -> ASGIApp:
    async def plainly(scope: Scope, receive: Receive, send: Send) -> None:
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    return plainly


def _guarded(endpoint: Endpoint, *, at: Endpoints, route: str) -> Endpoint:
    """An endpoint that only ever answers: errors become typed refusals, none of which repeats what was sent. Requests
    are counted by route and status."""
    counts, seconds = at.metrics.requests, at.metrics.seconds.labels(route)
    answered: dict[int, Counter] = {}

    async def guarded(request: Request) -> Response:
        begun = at.steady()
        try:
            response = await endpoint(request)
        except RefusedError as refusal:
            response = refusal.response
        except PeerError as fault:
            response = refusal_of(fault).response
        except StateError as trouble:
            if not isinstance(trouble, PassingError):  # of an outage the store tells by itself, once
                observability.failure("the store failed", trouble, route=route)
            response = store_unavailable().response
        except ClientDisconnect:
            response = Response(status_code=400)  # to nobody
        except Exception as error:
            observability.failure("an answer failed", error, route=route)
            response = internal_error().response
        status = response.status_code
        if (count := answered.get(status)) is None:
            count = answered[status] = counts.labels(route, status)
        count.inc()
        seconds.observe(at.steady() - begun)
        return response

    guarded.__doc__ = endpoint.__doc__
    return guarded


def _unknown_route(metrics: Metrics) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Answers to unknown paths and methods."""

    async def handle(_: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException) and error.status_code == 405:
            refusal = RefusedError(405, NOT_FOUND, "this address does not take that method", headers=error.headers)
        else:
            refusal = not_found()
        metrics.requests.labels("none", refusal.status).inc()
        return refusal.response

    return handle


# Routes, each with the name of its endpoint and its OpenAPI description


_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
HEX: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
COUNT: Final = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
SECURITY: Final = {"securitySchemes": {"session": {"type": "http", "scheme": "bearer"}}}
_WORDS: Final = {
    200: "Success.",
    304: "The document is the one that is held already.",
    400: "The body, or a parameter, is not what belongs here.",
    401: "Whoever asks is not known, or has not shown it: always the same words.",
    404: "There is nothing at this address.",
    409: "The window is over, or something else is held than the sender holds.",
    413: "The body is larger than belongs here.",
    429: "Too many requests; the header Retry-After says how long to wait.",
    500: "A fault of the service's own.",
    503: "The store cannot be used now.",
}
_ALWAYS: Final = (429, 500, 503)


def route_description(
    name: str,
    *faults: int,
    answer: type[WireStruct] | None = None,
    request: type[WireStruct] | None = None,
    parameters: tuple[dict[str, Any], ...] = (),
    session: bool = False,
) -> dict[str, Any]:
    """Arguments for FastAPI's add_api_route: what goes in and comes out, and which refusals there are."""
    responses: dict[int | str, dict[str, Any]] = {status: _answered(status, Refusal) for status in (*faults, *_ALWAYS)}
    if 304 in faults:
        responses[304] = {"description": _WORDS[304]}
    responses[200] = _answered(200, answer)
    extra: dict[str, Any] = {"parameters": list(parameters)} if parameters else {}
    if request is not None:
        body = {"required": True, "description": wire_fields(request), "content": {MEDIA: _BINARY}}
        extra["requestBody"] = body
    if session:
        extra["security"] = [{"session": []}]
    return {"name": name, "responses": responses, "openapi_extra": extra}


def parameter(name: str, where: str, *, schema: dict[str, Any], words: str) -> dict[str, Any]:
    return {"name": name, "in": where, "required": where == "path", "schema": schema, "description": words}


def wire_fields(kind: type[WireStruct]) -> str:
    """A message as it is on the wire, in words: an array that begins with its name."""
    hints = get_type_hints(kind)
    fields = [f"{field.name} ({_plain(hints[field.name])})" for field in msgspec.structs.fields(kind)]
    tag = kind.__struct_config__.tag
    return f"MessagePack array: {', '.join([f'the text {tag!r}', *fields])}."


def _plain(kind: Any) -> str:
    if isinstance(kind, type):
        return kind.__name__
    return "array" if "tuple" in str(kind) else str(kind).split(".")[-1]


def _answered(status: int, kind: type[WireStruct] | None) -> dict[str, Any]:
    if kind is None:
        return {"description": _WORDS[status], "content": {MEDIA: _BINARY}}
    return {"description": f"{_WORDS[status]} {wire_fields(kind)}", "content": {MEDIA: _BINARY}}


_NAME = parameter("name", "path", schema=HEX, words="The document's SHA-256.")
_AFTER = parameter("after", "query", schema=COUNT, words="How many entries are known already.")
_ASKED = (400, 401, 413)
ROUTES: Final[dict[str, dict[str, Any]]] = {  # each with the name of its endpoint
    MAIL: route_description("mail", *_ASKED, answer=Inbox, request=Mail, session=True),
    "GET /v1/deployment": route_description("deployment", answer=Hello),
    "GET /v1/rotations": route_description("rotations", answer=Rotations),
    "GET /v1/log": route_description("log", 400, answer=Page, parameters=(_AFTER,)),
    "GET /v1/documents/{name}": route_description("document", 304, 404, parameters=(_NAME,)),
    "POST /v1/devices": route_description("enrol", *_ASKED, answer=Done, request=SignedEnrolment),
    "POST /v1/devices/leave": route_description("leave", *_ASKED, answer=Done, request=Mail, session=True),
    "POST /v1/challenges": route_description("challenge", 400, 413, answer=Challenge),
    "POST /v1/sessions": route_description("session", *_ASKED, answer=Session, request=SignedClaim),
    f"GET {AUDIT}": {"name": "audit_home", "include_in_schema": False},
    f"GET {AUDIT}/{{name:path}}": {"name": "audit", "include_in_schema": False},
    "GET /healthz": {"name": "healthy", "include_in_schema": False},
    "GET /readyz": {"name": "ready", "include_in_schema": False},
    "GET /metrics": {"name": "metrics_page", "include_in_schema": False},
    f"GET {OPERATOR}": {"name": "operator_page.home", "include_in_schema": False},
    f"GET {OPERATOR}/overview": {"name": "operator_page.overview", "include_in_schema": False},
    f"POST {OPERATOR}/login": {"name": "operator_page.log_in", "include_in_schema": False},
    f"POST {OPERATOR}/logout": {"name": "operator_page.log_out", "include_in_schema": False},
    f"GET {OPERATOR}/{{name:path}}": {"name": "operator_page.file", "include_in_schema": False},
}

# Of a recommender with a helper, and of a helper, which devices have nothing to ask.
JOINT_ROUTES: Final = ROUTES | {
    "POST /v1/reports": route_description("reports", *_ASKED, 409, answer=Done, request=Report, session=True)
}
HELPER_ROUTES: Final = {
    route: description
    for route, description in ROUTES.items()
    if route in ("GET /v1/deployment", "GET /healthz", "GET /readyz", "GET /metrics")
    or description["name"].startswith("operator_page.")
} | {"POST /v1/operator": {"name": "operator", "include_in_schema": False}}


def routes(founding: Founding) -> Mapping[str, dict[str, Any]]:
    if founding.role == "helper":
        return HELPER_ROUTES
    return ROUTES if founding.peer is None else JOINT_ROUTES
