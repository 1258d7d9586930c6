"""Too many requests, and connections that never get to the point: bounded, and others are served meanwhile."""

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from prirec.protocols.codec import encode
from prirec.recommender import server
from prirec.recommender.limits import Limits, Rate
from prirec.wire.http import Mail
from support.services import OPEN, Served, Site, handed_in, refusal, served
from support.stores import of
from support.waiting import NEVER, PATIENCE, until

FEW = Rate(0.01, 2)
HEAD = "POST /v1/mail HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n"


@contextmanager
def connected(service: Served) -> Iterator[ssl.SSLSocket]:
    plain = socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE)
    with plain, service.site.trust.wrap_socket(plain, server_hostname="localhost") as line:
        yield line


def ended(line: ssl.SSLSocket) -> bytes:
    """What still came before the other side closed. If it does not close, reading ends with TimeoutError."""
    came = b""
    try:
        while part := line.recv(10_000):
            came += part
    except (ConnectionError, ssl.SSLError):
        pass
    return came


def only_deadline(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Of the deadlines of a connection only this one ever ends."""
    for each in ("HEAD_SECONDS", "BODY_SECONDS"):
        monkeypatch.setattr(server, each, 0.5 if each == name else NEVER)


def test_a_device_above_its_rate_gets_429_and_others_do_not(site: Site) -> None:
    with served(site, limits=replace(OPEN, device=Rate(0.01, 3))) as service:
        eve, bob = service.phone(1), service.phone(2)
        statuses = [eve.post("/v1/mail", encode(Mail())).status_code for _ in range(6)]
        assert statuses == [200] * 3 + [429] * 3
        answer = eve.post("/v1/mail", encode(Mail((eve.says(),))))
        assert refusal(answer) == (429, "TOO_MANY")
        assert 1 <= int(answer.headers["retry-after"]) <= 100
        assert bob.mail(bob.says()).refused == ()
        assert handed_in(service.store) == [bob.says()]


def test_a_new_session_gives_a_device_no_more(site: Site) -> None:
    with served(site, limits=replace(OPEN, device=Rate(0.01, 2))) as service:
        phone = service.phone()
        for expected in (200, 200, 429, 429):
            phone.log_in()
            assert phone.post("/v1/mail", encode(Mail())).status_code == expected


def test_an_address_above_its_rate_gets_429(site: Site) -> None:
    with served(site, limits=replace(OPEN, address=Rate(0.01, 5))) as service:
        paths = ["/v1/deployment", "/v1/log", f"/v1/documents/{'ab' * 32}", "/readyz", "/v1/log", "/v1/deployment"]
        assert [service.line.get(path).status_code for path in paths] == [200, 200, 404, 200, 200, 429]
        assert refusal(service.line.post("/v1/challenges")) == (429, "TOO_MANY")
        assert refusal(service.line.post("/v1/mail")) == (429, "TOO_MANY")
        assert service.line.get("/healthz").status_code == 200


@pytest.mark.parametrize("limits", [replace(OPEN, enrolment=FEW), replace(OPEN, enrolments=FEW)], ids=["one", "all"])
def test_few_identities_enrol_at_once_from_one_address_or_all(site: Site, limits: Limits) -> None:
    with served(site, limits=limits) as service:
        phones = [service.phone(at, enrolled=False) for at in range(4)]
        answers = [service.line.post("/v1/devices", content=encode(phone.enrolment())) for phone in phones]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert len(service.store.people()) == 2


def test_forged_enrolments_use_up_nobodys_turn(site: Site) -> None:
    with served(site, limits=replace(OPEN, enrolments=Rate(0.01, 1))) as service:
        mallory, bob = service.phone(1, enrolled=False), service.phone(2, enrolled=False)
        forged = encode(bob.enrolment()).replace(bob.name, mallory.name)
        assert [service.line.post("/v1/devices", content=forged).status_code for _ in range(5)] == [401] * 5
        bob.enrol()


def test_what_a_device_hands_in_is_bounded_in_bytes(site: Site) -> None:
    with served(site, limits=replace(OPEN, device_bytes=Rate(0.01, 1000))) as service:
        phone = service.phone()
        size = len(phone.says())
        answers = [phone.post("/v1/mail", encode(Mail((phone.says(mark=at),)))).status_code for at in range(20)]
        taken = 1000 // size
        assert answers[:taken] == [200] * taken
        assert answers[taken + 1 :] == [429] * (19 - taken)
        assert phone.mail().messages == ()  # messages are still fetched


@pytest.mark.usefixtures("endless_polls")
def test_above_the_limit_of_polls_the_next_is_answered_at_once(site: Site) -> None:
    with served(site, limits=replace(OPEN, polls=1)) as service, ThreadPoolExecutor() as pool:
        one, other = service.phone(1), service.phone(2)
        one.log_in()
        other.log_in()
        first = pool.submit(one.mail, wait=20)
        until(lambda: "prirec_waiting_polls 1.0" in service.figures())
        assert other.mail(wait=20).messages == ()
        assert not first.done()
        service.store.deliver([(one.name, of(), b"hello")])
        assert len(first.result().messages) == 1


def test_a_truncated_body_is_not_stored(service: Served) -> None:
    phone = service.phone()
    body = encode(Mail((phone.says(),)))
    phone.log_in()
    for cut in (0, 1, len(body) // 2, len(body) - 1):
        with connected(service) as line:
            line.sendall(HEAD.format(phone.token, len(body)).encode() + body[:cut])
    assert phone.mail(phone.says(mark=1)).refused == ()
    assert handed_in(service.store) == [phone.says(mark=1)]


def test_a_head_that_does_not_end_is_not_waited_for(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    only_deadline(monkeypatch, "HEAD_SECONDS")
    for said in (b"", b"GET /v1/deployment HTTP/1.1\r\nhost: local"):
        with connected(service) as line:
            line.sendall(said)
            assert ended(line) == b""


def test_a_second_head_on_a_connection_is_not_waited_for_either(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", NEVER)
    with connected(service) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert b"200" in line.recv(10_000)
        only_deadline(monkeypatch, "HEAD_SECONDS")
        line.sendall(b"GET /healthz HTTP/1.1\r\nho")
        ended(line)


def test_a_body_that_does_not_come_is_not_waited_for(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    phone = service.phone()
    phone.log_in()
    only_deadline(monkeypatch, "BODY_SECONDS")
    with connected(service) as line:
        line.sendall(HEAD.format(phone.token, 100).encode() + b"\x94")
        ended(line)


def test_a_request_that_has_come_whole_may_wait_without_a_deadline(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    given, real, phone = list[float | None](), server.Connection._expect, service.phone()
    phone.log_in()

    def watched(self: server.Connection, seconds: float | None) -> None:
        given.append(seconds)
        real(self, seconds)

    monkeypatch.setattr(server.Connection, "_expect", watched)
    assert phone.mail(wait=1).messages == ()
    assert given == [server.HEAD_SECONDS, pytest.approx(server.BODY_SECONDS, rel=0.01), None]


def test_a_head_without_end_is_cut_off(shared_service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", NEVER)  # by its size, then
    with connected(shared_service) as line:
        with suppress(ConnectionError, ssl.SSLError):
            line.sendall(b"GET /healthz HTTP/1.1\r\n")
            for at in range(100):
                line.sendall(b"x-filler-%d: %b\r\n" % (at, b"x" * 1000))
        came = ended(line)
    assert came == b"" or came.startswith(b"HTTP/1.1 400 ")
    assert shared_service.line.get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "head",
    [b"x: %b\r\n" % (b"x" * server.HEAD_BYTES), b"x: 1\r\n" * (server.HEAD_LINES + 1)],
    ids=["one long line", "many short lines"],
)
def test_a_head_that_comes_in_one_piece_is_bounded_too(shared_service: Served, head: bytes) -> None:
    with connected(shared_service) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\n" + head + b"\r\n")
        assert ended(line).startswith(b"HTTP/1.1 400 ")


def test_an_address_without_end_is_refused(shared_service: Served) -> None:
    with connected(shared_service) as line:
        line.sendall(b"GET /v1/log?after=%b HTTP/1.1\r\nhost: a\r\n\r\n" % (b"1" * server.HEAD_BYTES))
        assert ended(line).startswith(b"HTTP/1.1 400 ")


def test_each_head_of_a_connection_is_counted_by_itself(shared_service: Served) -> None:
    for _ in range(4):
        headers = [("x", "x" * (server.HEAD_BYTES // 2)), *[("y", "1")] * (server.HEAD_LINES // 2)]
        assert shared_service.line.get("/healthz", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01" * 50,
        b"GET / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n\r\n",
        b"POST /v1/mail HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/mail HTTP/1.1\r\ncontent-length: 99999999999999999999999\r\n\r\n",
        b"POST /v1/mail HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        b"GET /v1/log?after=\xff\xfe HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"GET /v1/deployment HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET http://elsewhere/ HTTP/1.1\r\nhost: elsewhere\r\n\r\n",
        b"CONNECT elsewhere:443 HTTP/1.1\r\nhost: elsewhere\r\n\r\n",
    ],
)
def test_malformed_requests_do_no_harm(shared_service: Served, said: bytes) -> None:
    with connected(shared_service) as line:
        line.settimeout(0.3)
        line.sendall(said)
        try:
            came = line.recv(10_000)
        except (TimeoutError, ConnectionError, ssl.SSLError):
            came = b""
    assert b" 500 " not in came[:20]
    assert shared_service.line.get("/healthz").status_code == 200
