"""Reading HTTP requests, responses in MessagePack, and refusals: typed errors that repeat nothing of what was sent."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from prirec.errors import Fault, PeerError, PrirecError
from prirec.pages import PageServer
from prirec.protocols.codec import encode
from prirec.protocols.messages import WireStruct
from prirec.recommender.limits import LARGE_BODY
from prirec.wire.http import BEARER, MEDIA, Refusal

PRIVATE: Final = {"cache-control": "no-store"}  # for answers to one device
STATUS: Final = {Fault.DECODE: 400, Fault.AUTH: 401}  # every other fault is a 409

# Faults of HTTP requests, beside those of the protocols (errors.Fault)
NOT_FOUND, TOO_LARGE, TOO_MANY, FAILED, AWAY = "ABSENT", "TOO_LARGE", "TOO_MANY", "FAILED", "AWAY"
FORBIDDEN = "FORBIDDEN"
CHUNK: Final = 65_536  # bytes of a body that are written at once
_MEDIA: Final = MEDIA.encode("ascii")


class RefusedError(PrirecError):
    """Raised to answer a request with a refusal. Its text is the project's own, never a client's."""

    def __init__(self, status: int, fault: str, problem: str, *, headers: Mapping[str, str] | None = None):
        super().__init__(f"{fault}: {problem}")
        self.status, self.fault, self.problem, self.headers = status, fault, problem, dict(headers or {})

    @property
    def response(self) -> Response:
        return respond(Refusal(self.fault, self.problem), status=self.status, headers=PRIVATE | self.headers)


def unauthenticated() -> RefusedError:
    """One answer for every failure of authentication: it says neither what was wrong nor whether a name is enrolled."""
    held = {"www-authenticate": BEARER}
    return RefusedError(401, Fault.AUTH, "a key, a signature or a session does not hold", headers=held)


def internal_error() -> RefusedError:
    """Status 500: a bug in this program."""
    return RefusedError(500, FAILED, "something went wrong here; it is in the log of whoever runs this")


def not_found() -> RefusedError:
    return RefusedError(404, NOT_FOUND, "there is nothing at this address")


def too_large(limit: int) -> RefusedError:
    return RefusedError(413, TOO_LARGE, f"a body at this address has at most {limit} bytes")


def too_many(seconds: float) -> RefusedError:
    wait = max(1, ceil(seconds))
    return RefusedError(429, TOO_MANY, f"too many requests; try again in {wait} s", headers={"retry-after": str(wait)})


def store_unavailable() -> RefusedError:
    """The store cannot be used at the moment: its disk is full, or its database server is down."""
    return RefusedError(503, AWAY, "the store cannot be used now; try again later", headers={"retry-after": "5"})


def refusal_of(fault: PeerError) -> RefusedError:
    """The answer to a client's error. All failures of authentication look the same."""
    if fault.fault is Fault.AUTH:
        return unauthenticated()
    return RefusedError(STATUS.get(fault.fault, 409), fault.fault, str(fault).removeprefix(f"{fault.fault}: "))


class MessagePackResponse(Response):
    """A response with its headers encoded directly, faster than Starlette's: boxes pass through here by the thousand. A
    large body is sent in chunks, each when the one before has left, so that a slow reader fills no send buffer."""

    def __init__(
        self, body: bytes, *, status: int = 200, headers: Mapping[str, str] | None = None,
        sent: Callable[[], None] = lambda: None,
    ):  # fmt: skip
        """`sent` is called when the response has left, or its client is gone."""
        self.status_code, self.body, self.background, self._sent = status, body, None, sent
        written = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()]
        self.raw_headers = [(b"content-type", _MEDIA), (b"content-length", b"%d" % len(body)), *written]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            last = max(0, len(self.body) - 1) // CHUNK * CHUNK
            for at in range(0, last, CHUNK):
                await send({"type": "http.response.body", "body": self.body[at : at + CHUNK], "more_body": True})
            await send({"type": "http.response.body", "body": self.body[last:]})
        finally:
            self._sent()


class PageResponse(Response):
    """A file of a page, below a path of this service."""

    def __init__(self, page: PageServer, *, below: str) -> None:
        self.status_code, self._page, self._below = 200, page, below

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._page(dict(scope) | {"root_path": self._below}, receive, send)


def respond(part: WireStruct, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return MessagePackResponse(encode(part), status=status, headers=headers)


async def body_of(request: Request, *, limit: int, charge: Callable[[int], None] | None = None) -> bytes:
    """The body, of at most so many bytes. A large one is charged for as it arrives, not by its declared length: who
    declares much and sends nothing occupies nothing. That it arrives in time, server.py sees to."""
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
