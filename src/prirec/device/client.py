"""What a device says to its recommender, over HTTPS. It pins the recommender's key and believes nothing unsigned.

Requests for public documents carry no name, no cookie and the same headers from everyone: two people of one region make
the same requests, byte for byte.
"""

import asyncio
import re
import ssl
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from os import urandom
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
import numpy as np

from prirec.device.person import Person, Point
from prirec.device.store import Membership, save_enrolled
from prirec.errors import Fault, PeerError, ProtocolError, StateError, UsageError
from prirec.graph.cohorts import coarse_cells
from prirec.protocols.codec import decode_with, encode
from prirec.protocols.messages import Part
from prirec.sharing.keys import SigningKey
from prirec.wire import documents, http
from prirec.wire.http import FINEST_CELL, Hello
from prirec.wire.log import MOST, Page, SignedEntry

LIMIT = documents.LIMIT + 2**20  # bytes of an answer
PATIENCE = 10.0  # seconds without a byte, beyond what was asked to wait
WHOLE = 300.0  # seconds for a whole answer
NOT_ENROLLED = "the recommender does not take this device in; if its operator hands out a code, give it (--code)"
HEADERS = {"accept": http.MEDIA, "user-agent": "prirec-device", "accept-encoding": "identity"}

_Kind = TypeVar("_Kind", bound=Part)
_pages: msgspec.msgpack.Decoder[Page] = msgspec.msgpack.Decoder(Page)


class UnavailableError(ProtocolError):
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

    async def hello(self) -> http.Hello:
        return _is(http.Hello, await self._get("/v1/deployment"))

    async def log(self, after: int) -> Sequence[SignedEntry]:
        """Entries from this index on; not yet checked."""
        body = await self._get(f"/v1/log?after={after}")
        return decode_with(_pages, body, limit=LIMIT).entries[:MOST]

    async def document(self, name: bytes) -> bytes:
        """A public document; that it is the right one, contract.documents.read finds out."""
        return await self._get(f"/v1/documents/{name.hex()}")

    async def enrol(self, *, cell: int, code: str = "") -> None:
        identity = self._named()
        enrolment = http.Enrolment(self._deployment, identity.public, cell, code)
        signed = http.SignedEnrolment(enrolment, identity.sign(encode(enrolment)))
        _is(http.Done, await self._post("/v1/devices", signed))

    async def leave(self) -> None:
        _is(http.Done, await self._in_session("/v1/devices/leave", http.Mail()))

    async def mail(self, messages: Sequence[bytes], *, after: int, wait: int) -> http.Post:
        """Hands in, and waits for letters."""
        asked = http.Mail(tuple(messages), after, wait)
        return _is(http.Post, await self._in_session("/v1/mail", asked, wait=wait))

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
        challenge = _is(http.Challenge, await self._post("/v1/challenges", None)).challenge
        claim = http.Claim(self._deployment, identity.public, challenge)
        signed = http.SignedClaim(claim, identity.sign(encode(claim)))
        self._token = _is(http.Session, await self._post("/v1/sessions", signed)).token

    def _named(self) -> SigningKey:
        if self._identity is None:
            raise ProtocolError("this line has no identity; it is for what is public")
        return self._identity

    async def _get(self, path: str) -> bytes:
        return await self._ask(self._public, "GET", path, wait=0.0)

    async def _post(self, path: str, content: Part | None, *, token: str = "", wait: float = 0.0) -> bytes:
        headers = {"content-type": http.MEDIA} | ({"authorization": f"{http.BEARER} {token}"} if token else {})
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
            raise UnavailableError(_unreached(problem)) from None
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
        raise UnavailableError("the recommender has too much to do", after=float(wished) if wished.isdecimal() else 1.0)
    http.read_answer(body, limit=http.SMALL)  # a refusal raises what it says
    raise PeerError(Fault.DECODE, "the recommender answers neither with what was asked for nor with a refusal")


def _is(kind: type[_Kind], body: bytes) -> _Kind:
    answer = http.read_answer(body, limit=LIMIT)
    if not isinstance(answer, kind):
        raise PeerError(Fault.DECODE, "the recommender answers something else than was asked")
    return answer


def tls_context(authority: bytes = b"") -> ssl.SSLContext:
    """TLS 1.3; with a certificate (PEM), that is the only authority that is believed, else those of the system."""
    context = ssl.create_default_context(cadata=authority.decode("ascii", "replace") if authority else None)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def https_connection(url: str, *, trust: ssl.SSLContext) -> httpx.AsyncClient:
    """One device's connections to one recommender. What devices of one process may share is the trust: connections in
    one pool would be looked through, all of them, at every request."""
    limits = httpx.Limits(max_connections=2, max_keepalive_connections=2, keepalive_expiry=60.0)
    line = httpx.AsyncClient(base_url=url, verify=trust, headers=HEADERS, limits=limits, trust_env=False)
    line.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # none is kept: it would be a name
    return line


# How a device comes into a deployment, and leaves it. It pins the recommender's key, and makes an identity that is
# used nowhere else: two deployments cannot tell that they know the same device.


ENOUGH = 16  # digits of a fingerprint: nobody makes another key that begins with them


def home_cell(home: Point | None, *, resolution: int = FINEST_CELL) -> int:
    """The coarse cell that a device tells of a home; 0 where it tells none."""
    if home is None:
        return 0
    return int(coarse_cells(np.array([home]), resolution)[0])


async def join(
    person: Person, url: str, *, cell: int, authority: bytes = b"", fingerprint: str | None = None,
    code: str | None = None, entropy: Callable[[int], bytes] = urandom,
) -> Membership:  # fmt: skip
    """Whom this device trusts from now on. With a fingerprint, only a recommender whose key begins like that; with a
    code, which may be empty, the device enrols at once, and belongs nowhere if that is refused."""
    _refuse_plain(url)
    _refuse_short(fingerprint)
    if person.membership() is not None:
        raise StateError("this device belongs to a deployment already; let it leave that one first")
    async with https_connection(url, trust=_trust(authority)) as line:
        hello = await _met(line)
        _refuse_other(hello, fingerprint)
        joined = Membership(
            deployment=hello.deployment,
            url=url,
            recommender=hello.recommender,
            title=hello.title,
            cell=cell,
            secret=entropy(32),
            authority=authority,
        )
        person.join(joined)
        if code is not None:
            await _enrol(person, joined, line, code=code)
    return joined


async def _met(line: httpx.AsyncClient) -> Hello:
    try:
        return await Client(line).hello()
    except UnavailableError as problem:
        raise UnavailableError(f"there is nobody to join at that address: {problem}", after=problem.after) from None


async def _enrol(person: Person, joined: Membership, line: httpx.AsyncClient, *, code: str) -> None:
    """Where nobody answers, the agent enrols later: it may have been done."""
    try:
        client = Client(line, identity=joined.identity, deployment=joined.deployment)
        await client.enrol(cell=joined.cell, code=code)
    except PeerError as refusal:
        person.leave()
        if refusal.fault is Fault.AUTH:
            raise PeerError(Fault.AUTH, NOT_ENROLLED) from None
        raise
    except UnavailableError:
        return
    with person.store.transaction() as rows:
        save_enrolled(rows)


def _trust(authority: bytes) -> ssl.SSLContext:
    try:
        return tls_context(authority)
    except (ssl.SSLError, ValueError):
        raise UsageError("the authority is not a certificate (PEM), such as the operator hands out") from None


def _refuse_plain(url: str) -> None:
    try:
        parts = urlsplit(url)
        good = parts.scheme == "https" and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment or parts.username is not None:
        raise UsageError("a recommender's address is like https://name:8443: devices speak to it over TLS only")


def _plain(fingerprint: str) -> str:
    return re.sub(r"[\s:]", "", fingerprint).lower()


def _refuse_short(fingerprint: str | None) -> None:
    if fingerprint is not None and not re.fullmatch(f"[0-9a-f]{{{ENOUGH},64}}", _plain(fingerprint)):
        raise UsageError(f"a fingerprint has {ENOUGH} to 64 hexadecimal digits")


def _refuse_other(hello: Hello, fingerprint: str | None) -> None:
    if fingerprint is not None and not hello.recommender.hex().startswith(_plain(fingerprint)):
        raise PeerError(Fault.AUTH, "the recommender at that address has another key than the fingerprint says")
