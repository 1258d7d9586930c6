"""What a device says to its recommender, over HTTPS. It pins the recommender's key and believes nothing unsigned.

Requests for public documents carry no name, no cookie and the same headers from everyone: two people of one region make
the same requests, byte for byte.
"""

import asyncio
import ssl
from collections.abc import Sequence
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from typing import TypeVar

import httpx
import msgspec

from prirec.contract import documents, wire
from prirec.contract.log import MOST, Page, SignedEntry
from prirec.errors import Fault, PeerError, ProtocolError
from prirec.protocols.codec import decode_with, encode
from prirec.protocols.messages import Part
from prirec.sharing.keys import SigningKey

LIMIT = documents.LIMIT + 2**20  # bytes of an answer
PATIENCE = 10.0  # seconds without a byte, beyond what was asked to wait
WHOLE = 300.0  # seconds for a whole answer
NOT_TAKEN_IN = "the recommender does not take this device in; if its operator hands out a code, give it (--code)"
HEADERS = {"accept": wire.MEDIA, "user-agent": "prirec-device", "accept-encoding": "identity"}

_Kind = TypeVar("_Kind", bound=Part)
_pages: msgspec.msgpack.Decoder[Page] = msgspec.msgpack.Decoder(Page)


class AwayError(ProtocolError):
    """The recommender cannot be reached, or has too much to do: later."""

    def __init__(self, problem: str, *, after: float = 0.0) -> None:
        super().__init__(problem)
        self.after = after  # seconds that it asked to be left alone


class Client:
    """One device's line to its recommender. A session is opened when it is needed, and again when it has run out.

    What is public is asked for on a connection of its own, so that nothing but the address ties it to the name."""

    def __init__(
        self,
        public: httpx.AsyncClient,
        named: httpx.AsyncClient | None = None,
        *,
        identity: SigningKey | None = None,
        deployment: bytes = b"",
    ) -> None:
        self._public, self._named_line = public, named if named is not None else public
        self._identity, self._deployment = identity, deployment
        self._token = ""

    async def hello(self) -> wire.Hello:
        return _is(wire.Hello, await self._get("/v1/deployment"))

    async def log(self, after: int) -> Sequence[SignedEntry]:
        """Entries from this index on; not yet checked."""
        body = await self._get(f"/v1/log?after={after}")
        return decode_with(_pages, body, limit=LIMIT).entries[:MOST]

    async def document(self, name: bytes) -> bytes:
        """A public document; that it is the right one, contract.documents.read finds out."""
        return await self._get(f"/v1/documents/{name.hex()}")

    async def enrol(self, *, cell: int, code: str = "") -> None:
        identity = self._named()
        enrolment = wire.Enrolment(self._deployment, identity.public, cell, code)
        signed = wire.SignedEnrolment(enrolment, identity.sign(encode(enrolment)))
        _is(wire.Done, await self._post("/v1/devices", signed))

    async def leave(self) -> None:
        _is(wire.Done, await self._in_session("/v1/devices/leave", wire.Mail()))

    async def mail(self, messages: Sequence[bytes], *, after: int, wait: int) -> wire.Post:
        """Hands in, and waits for letters."""
        asked = wire.Mail(tuple(messages), after, wait)
        return _is(wire.Post, await self._in_session("/v1/mail", asked, wait=wait))

    async def _in_session(self, path: str, content: Part, *, wait: float = 0.0) -> bytes:
        for attempt in (1, 2):
            if not self._token:
                await self._open_session()
            try:
                return await self._post(path, content, token=self._token, wait=wait)
            except PeerError as refusal:
                self._token = ""
                if refusal.fault is not Fault.AUTH or attempt == 2:
                    raise
        raise AssertionError

    async def _open_session(self) -> None:
        identity = self._named()
        challenge = _is(wire.Challenge, await self._post("/v1/challenges", None)).challenge
        claim = wire.Claim(self._deployment, identity.public, challenge)
        signed = wire.SignedClaim(claim, identity.sign(encode(claim)))
        self._token = _is(wire.Session, await self._post("/v1/sessions", signed)).token

    def _named(self) -> SigningKey:
        if self._identity is None:
            raise ProtocolError("this line has no identity; it is for what is public")
        return self._identity

    async def _get(self, path: str) -> bytes:
        return await self._ask(self._public, "GET", path, wait=0.0)

    async def _post(self, path: str, content: Part | None, *, token: str = "", wait: float = 0.0) -> bytes:
        headers = {"content-type": wire.MEDIA} | ({"authorization": f"{wire.BEARER} {token}"} if token else {})
        return await self._ask(
            self._named_line,
            "POST",
            path,
            wait=wait,
            headers=headers,
            content=b"" if content is None else encode(content),
        )

    async def _ask(
        self,
        on: httpx.AsyncClient,
        method: str,
        path: str,
        *,
        wait: float,
        headers: dict[str, str] | None = None,
        content: bytes | None = None,
    ) -> bytes:
        moment = httpx.Timeout(PATIENCE + wait)
        try:
            async with (
                asyncio.timeout(WHOLE + wait),
                on.stream(method, path, headers=headers, content=content, timeout=moment) as answer,
            ):
                body = await _bounded(answer)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as problem:
            raise AwayError(_unreached(problem)) from None
        return _checked(answer, body)


def _unreached(problem: BaseException) -> str:
    """Why, in words: a certificate that does not hold is no recommender that is away."""
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the recommender's certificate does not hold ({cause.verify_message})"
        cause = cause.__cause__ or cause.__context__
    return f"the recommender cannot be reached ({type(problem).__name__})"


async def _bounded(answer: httpx.Response) -> bytes:
    parts, size = [], 0
    async for part in answer.aiter_raw():
        size += len(part)
        if size > LIMIT:
            raise PeerError(Fault.DECODE, "the recommender's answer is longer than any answer may be")
        parts.append(part)
    return b"".join(parts)


def _checked(answer: httpx.Response, body: bytes) -> bytes:
    """The body of a good answer; the recommender's own words of a bad one."""
    if answer.status_code == HTTPStatus.OK:
        return body
    if answer.status_code == HTTPStatus.TOO_MANY_REQUESTS or answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        wished = answer.headers.get("retry-after", "")
        raise AwayError("the recommender has too much to do", after=float(wished) if wished.isdecimal() else 1.0)
    wire.read_answer(body, limit=wire.SMALL)  # a refusal raises what it says
    raise PeerError(Fault.DECODE, "the recommender answers neither with what was asked for nor with a refusal")


def _is(kind: type[_Kind], body: bytes) -> _Kind:
    answer = wire.read_answer(body, limit=LIMIT)
    if not isinstance(answer, kind):
        raise PeerError(Fault.DECODE, "the recommender answers something else than was asked")
    return answer


def trusting(authority: bytes = b"") -> ssl.SSLContext:
    """TLS 1.3; with a certificate (PEM), that is the only authority that is believed, else those of the system."""
    context = ssl.create_default_context(cadata=authority.decode("ascii", "replace") if authority else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def carrier(url: str, *, trust: ssl.SSLContext) -> httpx.AsyncClient:
    """One device's connections to one recommender. What devices of one process may share is the trust: connections in
    one pool would be looked through, all of them, at every request."""
    limits = httpx.Limits(max_connections=2, max_keepalive_connections=2, keepalive_expiry=60.0)
    line = httpx.AsyncClient(base_url=url, verify=trust, headers=HEADERS, limits=limits, trust_env=False)
    line.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # none is kept: it would be a name
    return line
