"""A device's HTTPS client for its recommender, and how the device joins a deployment.

It pins the recommender's key, and the helper's if there is one, and believes nothing that is not signed with them.
It speaks to the recommender alone. Requests for public documents carry no
name, no cookie and the same headers from everyone: two people of one region make the same requests, byte for byte.
"""

import asyncio
import re
import ssl
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.cookiejar import DefaultCookiePolicy
from os import urandom
from typing import TypeVar

import httpx
import msgspec
import numpy as np

from prirec.device.person import Person, Point
from prirec.device.store import ALREADY_A_MEMBER, Membership, save_enrolled
from prirec.errors import Fault, PeerError, ProtocolError, StateError, UsageError
from prirec.graph.matching import coarse_cells
from prirec.protocols.codec import decode_with, encode
from prirec.protocols.messages import WireStruct
from prirec.sharing.keys import SigningKey
from prirec.util.trust import https_address, tls_context
from prirec.wire import documents, http
from prirec.wire.documents import Page, Rotation, Rotations
from prirec.wire.http import FINEST_CELL
from prirec.wire.rotations import Operators

LIMIT = documents.LIMIT + 2**20  # bytes of a response with messages
SHORT = 2**16  # bytes of any other: a proxy may send a page of HTML instead of an answer
LONGEST_PAGE = 2**20  # bytes of a page of the log, which has MOST_ENTRIES entries of some 250 each
SILENCE = 10.0  # seconds without a byte after which a request is given up, beyond the time that it asked to wait
WHOLE = 300.0  # seconds for a whole response: a server that sends a byte every 9 must not hold a device for ever
NOT_ENROLLED = "the recommender does not enrol this device; if its operator hands out an enrolment code, give it"
# identity: a compressed response could be small on the wire and exceed the limit in memory
HEADERS = {"accept": http.MEDIA, "user-agent": "prirec-device", "accept-encoding": "identity"}

_Kind = TypeVar("_Kind", bound=WireStruct)
_pages: msgspec.msgpack.Decoder[Page] = msgspec.msgpack.Decoder(Page)
_rotations: msgspec.msgpack.Decoder[Rotations] = msgspec.msgpack.Decoder(Rotations)


class UnavailableError(ProtocolError):
    """The recommender cannot be reached, or is overloaded: try again later."""

    def __init__(self, problem: str, *, after: float = 0.0) -> None:
        super().__init__(problem)
        self.after = after  # seconds that the recommender asked to wait (Retry-After)


class Client:
    """One device's requests to its recommender. A session is opened when it is needed, and again when it has expired.

    Public documents are fetched on a connection of their own, so that nothing but the IP address links them to the
    device's name."""

    def __init__(
        self, public: httpx.AsyncClient, named: httpx.AsyncClient | None = None, *,
        identity: SigningKey | None = None, deployment: bytes = b"",
    ) -> None:  # fmt: skip
        self._public, self._named = public, named if named is not None else public
        self._identity, self._deployment = identity, deployment
        self._token = ""

    # --- public, without a name

    async def hello(self) -> http.Hello:
        return _expect(http.Hello, await self._get("/v1/deployment", most=SHORT))

    async def log(self, after: int) -> Page:
        """Log entries from this index on, and the helper's signature; the caller verifies them."""
        return decode_with(_pages, await self._get(f"/v1/log?after={after}", most=LONGEST_PAGE), limit=LONGEST_PAGE)

    async def rotations(self) -> tuple[Rotation, ...]:
        """All rotations of the operators' keys that devices follow; the caller verifies them."""
        body = await self._get("/v1/rotations", most=LONGEST_PAGE)
        return decode_with(_rotations, body, limit=LONGEST_PAGE).rotations

    async def document(self, name: bytes) -> bytes:
        """The bytes of a public document; the caller compares the hash."""
        return await self._get(f"/v1/documents/{name.hex()}", most=documents.LIMIT)

    # --- under the device's identity

    async def enrol(self, *, code: str = "") -> None:
        identity = self._signing_key()
        enrolment = http.Enrolment(self._deployment, identity.public, code, await self._challenge())
        signed = http.SignedEnrolment(enrolment, identity.sign(encode(enrolment)))
        _expect(http.Done, await self._post("/v1/devices", signed))

    async def leave(self) -> None:
        _expect(http.Done, await self._in_session("/v1/devices/leave", http.Mail()))

    async def mail(self, messages: Sequence[bytes], *, after: int, wait: int) -> http.Inbox:
        """Post messages, then long-poll for queued messages numbered above `after`, for at most `wait` seconds."""
        request = http.Mail(tuple(messages), after, wait)
        return _expect(http.Inbox, await self._in_session("/v1/mail", request, wait=wait, most=LIMIT))

    async def report(self, body: bytes) -> None:
        """Hand in a report, as it was written down. Sent again, the same bytes are the same report."""
        _expect(http.Done, await self._in_session("/v1/reports", body))

    async def _in_session(
        self, path: str, content: WireStruct | bytes, *, wait: float = 0.0, most: int = SHORT
    ) -> bytes:  # fmt: skip
        """Post under a session, with one retry under a new one: the old one may have expired."""
        for attempt in (1, 2):
            if not self._token:
                await self._open_session()
            try:
                return await self._post(path, content, token=self._token, wait=wait, most=most)
            except PeerError as refusal:
                self._token = ""
                if refusal.fault is not Fault.AUTH or attempt == 2:
                    raise
        raise AssertionError  # the second attempt returns or raises

    async def _challenge(self) -> bytes:
        """Fresh bytes to sign. A challenge instead of the time: a device's clock may be wrong."""
        return _expect(http.Challenge, await self._post("/v1/challenges", None)).challenge

    async def _open_session(self) -> None:
        """Sign a challenge, and get a session token."""
        identity = self._signing_key()
        claim = http.Claim(self._deployment, identity.public, await self._challenge())
        signed = http.SignedClaim(claim, identity.sign(encode(claim)))
        self._token = _expect(http.Session, await self._post("/v1/sessions", signed)).token

    def _signing_key(self) -> SigningKey:
        if self._identity is None:
            raise ProtocolError("this client has no identity; it is for what is public")
        return self._identity

    async def _get(self, path: str, *, most: int) -> bytes:
        return await self._request(self._public, "GET", path, most=most)

    async def _post(
        self, path: str, content: WireStruct | bytes | None, *, token: str = "", wait: float = 0.0, most: int = SHORT
    ) -> bytes:  # fmt: skip
        headers = {"content-type": http.MEDIA} | ({"authorization": f"{http.BEARER} {token}"} if token else {})
        body = content if isinstance(content, bytes) else b"" if content is None else encode(content)
        return await self._request(self._named, "POST", path, most=most, wait=wait, headers=headers, content=body)

    async def _request(
        self, on: httpx.AsyncClient, method: str, path: str, *, most: int, wait: float = 0.0,
        headers: dict[str, str] | None = None, content: bytes | None = None,
    ) -> bytes:  # fmt: skip
        silence = httpx.Timeout(SILENCE + wait)
        try:
            async with (
                asyncio.timeout(WHOLE + wait),
                on.stream(method, path, headers=headers, content=content, timeout=silence) as response,
            ):
                body = await _bounded(response, most=most)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as problem:
            raise UnavailableError(_why_unreachable(problem)) from None
        if response.status_code == HTTPStatus.OK:
            return body
        overloaded = response.status_code == HTTPStatus.TOO_MANY_REQUESTS
        if overloaded or response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            after = response.headers.get("retry-after", "")
            raise UnavailableError(
                "the recommender has too much to do", after=float(after) if after.isdecimal() else 1.0
            )
        http.read_answer(body, limit=http.SMALL)  # raises the refusal that the body holds
        raise PeerError(Fault.DECODE, "the recommender answers neither with what was asked for nor with a refusal")


async def _bounded(response: httpx.Response, *, most: int) -> bytes:
    """The body, without ever holding more than the limit: a recommender must not be able to fill a device's memory."""
    parts, size = [], 0
    async for part in response.aiter_raw():
        size += len(part)
        if size > most:
            raise PeerError(Fault.DECODE, "the recommender's answer is longer than any answer may be")
        parts.append(part)
    return b"".join(parts)


def _expect(kind: type[_Kind], body: bytes) -> _Kind:
    answer = http.read_answer(body, limit=LIMIT)
    if not isinstance(answer, kind):
        raise PeerError(Fault.DECODE, "the recommender answers something else than was asked")
    return answer


def _why_unreachable(problem: BaseException) -> str:
    """Why a request failed. A wrong certificate has its own words: unlike a server that is down, it does not mend by
    waiting."""
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"the recommender's certificate does not hold ({cause.verify_message})"
        cause = cause.__cause__ or cause.__context__
    return f"the recommender cannot be reached ({type(problem).__name__})"


def https_connection(url: str, *, trust: ssl.SSLContext) -> httpx.AsyncClient:
    """One device's connections to one recommender. Devices of one process share the TLS context only: httpx searches
    a shared pool in full at every request."""
    # trust_env=False: a proxy or CA from the environment must not get between a device and its pinned recommender
    limits = httpx.Limits(max_connections=2, max_keepalive_connections=2, keepalive_expiry=60.0)
    connection = httpx.AsyncClient(base_url=url, verify=trust, headers=HEADERS, limits=limits, trust_env=False)
    connection.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))  # a cookie would be a name
    return connection


# --- Joining a deployment -------------------------------------------------------------------------------------------

FINGERPRINT = 16  # hex digits that a fingerprint needs: 64 bits, out of reach for whoever searches for a similar key


def home_cell(home: Point | None, *, resolution: int = FINEST_CELL) -> int:
    """The coarse H3 cell around a home, whose surroundings a device downloads; 0 without one."""
    return 0 if home is None else int(coarse_cells(np.array([home]), resolution)[0])


async def join(
    person: Person, url: str, *, cell: int, authority: bytes = b"", fingerprint: str | None = None,
    helper_fingerprint: str | None = None, code: str = "", entropy: Callable[[int], bytes] = urandom,
) -> Membership:  # fmt: skip
    """Pin the keys of the recommender and, if there is one, of the helper, make an identity that is used nowhere else,
    so that two deployments cannot tell that they know the same device, and enrol.

    With a fingerprint, the key must begin with it. A device whose enrolment is refused belongs nowhere; one whose
    recommender stops answering is not enrolled yet, and its agent enrols it later."""
    _check_url(url)
    wanted, wanted_of_helper = (_digits(one) for one in (fingerprint, helper_fingerprint))
    if person.membership() is not None:
        raise StateError(ALREADY_A_MEMBER)
    trust = tls_context(authority)
    async with https_connection(url, trust=trust) as connection:
        try:
            hello = await Client(connection).hello()
            _refuse_other_version(hello)
            rotations = await Client(connection).rotations()
        except UnavailableError as problem:
            raise UnavailableError(f"there is nobody to join at that address: {problem}", after=problem.after) from None
        helper = hello.helper if isinstance(hello, http.JointHello) else b""
        if not hello.recommender.hex().startswith(wanted):
            raise PeerError(Fault.AUTH, "the recommender at that address has another key than the fingerprint says")
        if not helper.hex().startswith(wanted_of_helper) or helper == hello.recommender:
            raise PeerError(Fault.AUTH, "the recommender at that address names another helper than expected, or none")
        Operators(hello.recommender, helper, rotations).check(deployment=hello.deployment)
        member = Membership(
            deployment=hello.deployment, url=url, recommender=hello.recommender, title=hello.title, cell=cell,
            secret=entropy(32), authority=authority, helper=helper, rotations=rotations,
        )  # fmt: skip
        # stored before enrolling: after a crash the identity is known, and enrolling again with it is harmless
        person.join(member)
        try:
            await enrol(person, Client(connection, identity=member.identity, deployment=member.deployment), code=code)
        except UnavailableError:
            pass  # this request may have arrived all the same: enrolling twice is harmless
        except PeerError:
            person.leave()
            raise
    return person.require_membership()


async def enrol(person: Person, client: Client, *, code: str) -> None:
    """Enrol the device, and store that it is done. A refusal for want of a code says so."""
    try:
        await client.enrol(code=code)
    except PeerError as refusal:
        if refusal.fault is Fault.AUTH:
            raise PeerError(Fault.AUTH, NOT_ENROLLED) from None
        raise
    with person.store.transaction() as rows:
        save_enrolled(rows)


def _refuse_other_version(hello: http.Hello) -> None:
    if hello.version != documents.VERSION:
        older = "recommender, or have its operator do so" if hello.version < documents.VERSION else "device's program"
        raise PeerError(
            Fault.DECODE, f"the recommender and this device do not speak the same version; update the {older}"
        )


def _digits(fingerprint: str | None) -> str:
    """The digits with which a key must begin. UsageError for too few to tell keys apart."""
    digits = "" if fingerprint is None else re.sub(r"[\s:]", "", fingerprint).lower()
    if fingerprint is not None and not re.fullmatch(f"[0-9a-f]{{{FINGERPRINT},64}}", digits):
        raise UsageError(f"a fingerprint has {FINGERPRINT} to 64 hexadecimal digits")
    return digits


def _check_url(url: str) -> None:
    """UsageError for an address without TLS, or with something in it that would be sent along with every request."""
    if https_address(url) is None:
        raise UsageError("a recommender's address is like https://name:8443: devices speak to it over TLS only")
