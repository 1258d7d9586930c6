"""Canaries: nothing that anybody sends, no name, address, path or token, gets into the log; and what was refused does
not get into the store either."""

import signal
import socket
import sqlite3
import ssl
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from prirec.protocols.codec import encode
from prirec.protocols.messages import COMMITMENT, VERSION, Box, Boxes
from prirec.recommender.store import Store
from prirec.sharing.keys import SigningKey
from prirec.wire.http import Mail
from support.services import Phone, Process, Site, refusal
from support.stores import IDENTITY, invite, of
from support.waiting import PATIENCE

ADDRESS = "127.0.0.77"  # from which the client comes
WORDS = ["sealed", "refused", "body", "path", "header", "code", "line"]
SEALED, REFUSED, BODY, PATH, HEADER, CODE, LINE = (f"canary-{word}" for word in WORDS)
HEADERS = {"user-agent": HEADER, "x-forwarded-for": HEADER, "cookie": HEADER, "referer": HEADER}


def boxes(phone: Phone, content: str, *, sender: bytes | None = None) -> bytes:
    box = Box(1, content.encode())
    head = (VERSION, of(), sender or phone.name, IDENTITY.public)
    return encode(Boxes(*head, bytes(64), (box,), bytes(3 * COMMITMENT)))


def talk(line: httpx.Client, phone: Phone) -> list[str]:
    """Good requests and bad ones. What must not be found anywhere but in the devices' own table: names, tokens."""
    line.post("/v1/devices", content=encode(phone.enrolment(code=CODE)))
    phone.log_in()
    assert phone.mail(boxes(phone, SEALED)).refused == ()
    assert len(phone.mail(boxes(phone, REFUSED, sender=bytes(32)), REFUSED.encode()).refused) == 2
    assert refusal(phone.post("/v1/mail", BODY.encode()))[0] == 400
    assert refusal(phone.post("/v1/mail", encode(Mail((BODY.encode(),)))[:-1]))[0] == 400
    for path in ("/v1/devices", "/v1/sessions", "/v1/challenges"):
        assert refusal(line.post(path, content=BODY.encode()))[0] == 400
    for path in (f"/{PATH}", f"/v1/documents/{PATH}", f"/v1/log?after={PATH}", f"/v1/deployment?{PATH}=1"):
        line.get(path)
    return [phone.token, phone.token[:20], phone.name.hex(), b64encode(phone.name).decode(), repr(phone.name)[2:20]]


def talk_nonsense(port: int, trust: ssl.SSLContext) -> None:
    """Below HTTP, and below TLS."""
    for said in (
        LINE.encode() * 100,
        b"GET /" + LINE.encode() + b" HTTP/9\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + LINE.encode(),
    ):
        plain = socket.create_connection(("127.0.0.1", port), source_address=(ADDRESS, 0), timeout=PATIENCE)
        with plain, suppress(OSError), trust.wrap_socket(plain, server_hostname="localhost") as line:
            line.sendall(said + b"\r\n\r\n")
            line.settimeout(0.5)
            line.recv(1000)
    with socket.create_connection(("127.0.0.1", port), source_address=(ADDRESS, 0)) as plain, suppress(OSError):
        plain.settimeout(0.5)
        plain.sendall(LINE.encode() * 10)
        plain.recv(1000)


def break_store(site: Site) -> None:
    """So that what was asked for fails in the middle of it."""
    with closing(sqlite3.connect(site.url)) as rows:
        rows.execute("DROP TABLE inbox")
        rows.execute("DROP TABLE people")


@pytest.fixture
def line(site: Site) -> Iterator[tuple[Process, httpx.Client]]:
    with Process(site) as process:
        transport = httpx.HTTPTransport(verify=site.trust, local_address=ADDRESS, trust_env=False)
        with httpx.Client(base_url=str(process.line.base_url), transport=transport, headers=HEADERS) as client:
            yield process, client


def test_no_canary_gets_into_the_log_or_where_it_does_not_belong(
    line: tuple[Process, httpx.Client], site: Site
) -> None:
    process, client = line
    phone = Phone(client, SigningKey(sha256(b"phone").digest()))
    with Store.open(site.url) as store:
        invite(store, phone.name)
    private = talk(client, phone)
    talk_nonsense(process.port, site.trust)
    stored = b"".join(Path(f"{site.url}{part}").read_bytes() for part in ("", "-wal"))
    break_store(site)
    assert refusal(phone.post("/v1/mail", encode(Mail((boxes(phone, SEALED + "2"),))))) == (503, "AWAY")
    assert refusal(client.post("/v1/devices", content=encode(phone.enrolment(code=CODE)))) == (503, "AWAY")
    process.ended_by(signal.SIGTERM)

    events = {entry["event"] for entry in process.lines()}  # each line is JSON
    assert events - {"library"} == {"serving", "the store failed", "the conductor failed", "stopped"}
    logged = process.logged()
    for canary in (SEALED, REFUSED, BODY, PATH, HEADER, CODE, LINE, "canary", ADDRESS, *private):
        assert canary not in logged
    assert SEALED.encode() in stored  # what was handed in, until its round is over
    assert phone.name in stored
    for canary in (REFUSED, BODY, PATH, HEADER, CODE, LINE, ADDRESS, phone.token):
        assert canary.encode() not in stored
