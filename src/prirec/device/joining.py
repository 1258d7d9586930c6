"""How a device comes into a deployment, and leaves it. It pins the recommender's key, and makes an identity that is
used nowhere else: two deployments cannot tell that they know the same device."""

import re
import ssl
from collections.abc import Callable
from os import urandom
from urllib.parse import urlsplit

import httpx
import numpy as np

from prirec.contract.wire import FINEST_CELL, Hello
from prirec.device.client import NOT_TAKEN_IN, AwayError, Client, carrier, trusting
from prirec.device.membership import Membership, save_enrolled
from prirec.device.person import Person, Point
from prirec.errors import Fault, PeerError, StateError, UsageError
from prirec.graph.cohorts import coarse_cells

ENOUGH = 16  # digits of a fingerprint: nobody makes another key that begins with them


def cell_of(home: Point | None, *, resolution: int = FINEST_CELL) -> int:
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
    async with carrier(url, trust=_trust(authority)) as line:
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
    except AwayError as problem:
        raise AwayError(f"there is nobody to join at that address: {problem}", after=problem.after) from None


async def _enrol(person: Person, joined: Membership, line: httpx.AsyncClient, *, code: str) -> None:
    """Where nobody answers, the agent enrols later: it may have been done."""
    try:
        client = Client(line, identity=joined.identity, deployment=joined.deployment)
        await client.enrol(cell=joined.cell, code=code)
    except PeerError as refusal:
        person.leave()
        if refusal.fault is Fault.AUTH:
            raise PeerError(Fault.AUTH, NOT_TAKEN_IN) from None
        raise
    except AwayError:
        return
    with person.store.transaction() as rows:
        save_enrolled(rows)


def _trust(authority: bytes) -> ssl.SSLContext:
    try:
        return trusting(authority)
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
