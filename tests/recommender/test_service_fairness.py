"""Large bodies, slow lines and strangers: what one of them does, nobody else has to wait for."""

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from socket import SO_RCVBUF, SOL_SOCKET, socket
from ssl import SSLError, SSLSocket
from time import sleep
from typing import Any

import pytest

from prirec.protocols.codec import encode
from prirec.protocols.messages import VERSION, Masked
from prirec.recommender import authentication, database, server
from prirec.recommender.limits import LARGE_BODY, DownloadSlots, Rate
from prirec.recommender.responses import CHUNK, MessagePackResponse
from prirec.recommender.service import FilteredMessages, MessageFilter
from prirec.recommender.store import Store
from prirec.wire.documents import address
from prirec.wire.http import Mail
from support.services import OPEN, Phone, Process, Served, Site, handed_in, line, refusal, served
from support.stores import IDENTITY, of
from support.waiting import NEVER, PATIENCE, until

HEAD = "POST /v1/mail HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {}\r\ncontent-length: {}\r\n\r\n"


@contextmanager
def connected(service: Served) -> Iterator[SSLSocket]:
    """A line that takes little at a time."""
    with socket() as plain:
        plain.settimeout(PATIENCE)
        plain.setsockopt(SOL_SOCKET, SO_RCVBUF, 4096)
        plain.connect(("127.0.0.1", service.port))
        with service.site.trust.wrap_socket(plain, server_hostname="localhost") as secured:
            yield secured


def vector(phone: Phone, size: int = 2 * LARGE_BODY) -> bytes:
    """A large message."""
    return encode(Masked(VERSION, of(), phone.name, IDENTITY.public, bytes(size), bytes(64)))


def answered(phone: Phone, message: bytes) -> int:
    return phone.post("/v1/mail", encode(Mail((message,)))).status_code


@contextmanager
def uploading(service: Served, phone: Phone, *, declared: int, sent: int) -> Iterator[SSLSocket]:
    """A body of which some arrives, and no more."""
    phone.log_in()
    with connected(service) as slow:
        slow.sendall(HEAD.format(phone.token, declared).encode() + bytes(sent))
        yield slow


def test_a_device_has_one_large_body_under_way_and_gives_its_place_back(service: Served) -> None:
    eve, bob = service.phone(1), service.phone(2)

    def crowded() -> bool:
        with uploading(service, eve, declared=8 * LARGE_BODY, sent=4 * LARGE_BODY):
            sleep(0.3)  # until it has its place: nobody sees that from outside
            if answered(eve, vector(eve)) != 429:
                return False  # the vector was there first, and the upload was sent away
            assert eve.mail(eve.says()).refused == ()  # what is small needs no place
            assert answered(bob, vector(bob)) == 200
            return True

    until(crowded)
    until(lambda: answered(eve, vector(eve)) == 200)  # who went away has given it back


def test_small_bodies_pass_when_there_is_no_room_for_large_ones(site: Site) -> None:
    with served(site, limits=replace(OPEN, under_way=5 * LARGE_BODY)) as service:
        eve, bob = service.phone(1), service.phone(2)
        with uploading(service, eve, declared=8 * LARGE_BODY, sent=5 * LARGE_BODY - 1000):
            until(lambda: answered(bob, vector(bob, LARGE_BODY)) == 429)
            sleep(0.3)  # until all of it is there: nobody sees that from outside
            assert bob.mail(bob.says()).refused == ()
            assert answered(bob, vector(bob, LARGE_BODY // 2)) == 200


def test_a_large_body_is_charged_for_as_it_comes(site: Site) -> None:
    with served(site, limits=replace(OPEN, device_bytes=Rate(1.0, 4 * LARGE_BODY))) as service:
        eve = service.phone()
        with uploading(service, eve, declared=8 * LARGE_BODY, sent=5 * LARGE_BODY) as slow:
            assert slow.recv(1000).startswith(b"HTTP/1.1 429 ")
        assert eve.mail().messages == ()


def test_a_body_is_given_time_by_its_length(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    phone, given, real = service.phone(), list[float | None](), server.Connection._expect
    phone.log_in()

    def watched(self: server.Connection, seconds: float | None) -> None:
        given.append(seconds)
        real(self, seconds)

    monkeypatch.setattr(server, "HEAD_SECONDS", NEVER)
    monkeypatch.setattr(server, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(server, "SLOWEST", 8 * LARGE_BODY)
    monkeypatch.setattr(server.Connection, "_expect", watched)
    for many in (8, 4 * LARGE_BODY):
        with connected(service) as slow:
            slow.sendall(HEAD.format(phone.token, many).encode())
            with suppress(ConnectionError, SSLError):
                assert slow.recv(1000) == b""  # cut off: nothing else ends this connection
    assert [one for one in given if one not in (None, NEVER)] == [0.5 + 1 / LARGE_BODY, 1.0]


def test_large_bodies_are_read_beside_the_event_loop(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, real = list[str](), MessageFilter.apply

    def watched(self: MessageFilter, messages: Sequence[bytes], *, sender: bytes) -> FilteredMessages:
        threads.append(threading.current_thread().name)
        return real(self, messages, sender=sender)

    monkeypatch.setattr(MessageFilter, "apply", watched)
    phone = service.phone()
    assert phone.mail(phone.says(), vector(phone)).refused == ()
    assert phone.mail(phone.says(mark=1)).refused == ()
    assert [name.startswith("reader") for name in threads] == [True, False]
    assert len(handed_in(service.store)) == 3


def test_a_large_answer_waits_for_its_reader_piece_by_piece() -> None:
    given, body, ended = list[bytes](), os.urandom(3 * CHUNK + 1), list[bool]()

    async def run(enough: int) -> None:
        full = asyncio.Event()

        async def send(message: Any) -> None:
            if len(given) == enough:
                full.set()
                await asyncio.Event().wait()
            given.append(message.get("body", b""))

        answer = MessagePackResponse(body, sent=lambda: ended.append(True))
        sending = asyncio.create_task(answer({"type": "http"}, None, send))  # type: ignore[arg-type]
        reader = asyncio.create_task(full.wait())
        await asyncio.wait([sending, reader], return_when=asyncio.FIRST_COMPLETED)
        stopped = reader.done()
        for task in (sending, reader):
            task.cancel()
        await asyncio.wait([sending, reader])
        assert stopped == sending.cancelled() == (enough == 3)

    asyncio.run(run(3))
    assert given == [b"", body[:CHUNK], body[CHUNK : 2 * CHUNK]]
    assert ended == [True]
    given.clear()
    asyncio.run(run(100))
    assert b"".join(given) == body
    assert all(len(piece) <= CHUNK for piece in given)
    assert ended == [True, True]


@pytest.mark.parametrize("size", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK])
def test_answers_of_every_size_arrive_whole(shared_service: Served, size: int) -> None:
    body = os.urandom(size)
    shared_service.store.put([(address(body), body)])
    answer = shared_service.line.get(f"/v1/documents/{address(body).hex()}")
    assert (answer.status_code, answer.content) == (200, body)
    assert answer.headers["content-length"] == str(size)


@contextmanager
def one_download_at_a_time(site: Site, body: bytes) -> Iterator[tuple[Served, SSLSocket, str]]:
    """A service, a client that has begun to download and does not read on, and the path of the document."""
    path = f"/v1/documents/{address(body).hex()}"
    with served(site, limits=replace(OPEN, downloads=1)) as service, connected(service) as slow:
        service.store.put([(address(body), body)])
        slow.sendall(f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        yield service, slow, path


def test_a_second_download_of_an_address_waits_for_the_first_and_other_requests_do_not(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", NEVER)
    body, asked, real = os.urandom(8 * 2**20), list[str](), DownloadSlots.take

    async def watched(self: DownloadSlots, host: str) -> Any:
        asked.append(host)
        return await real(self, host)

    monkeypatch.setattr(DownloadSlots, "take", watched)
    with one_download_at_a_time(site, body) as (service, slow, path), ThreadPoolExecutor() as pool:
        second = pool.submit(service.line.get, path)
        until(lambda: len(asked) == 2)
        assert service.line.get("/v1/log").status_code == 200
        assert not second.done()
        slow.close()
        assert second.result().content == body


def test_a_client_that_does_not_read_is_cut_off_and_the_next_of_the_address_has_its_turn(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    body, deadlines = os.urandom(8 * 2**20), [0.5]  # seconds for the first download, which nobody reads

    def seconds(size: int) -> float:
        return deadlines.pop() if size and deadlines else NEVER  # a request has no body, its answer has one

    monkeypatch.setattr(server, "_seconds", seconds)
    with one_download_at_a_time(site, body) as (service, slow, path):
        assert service.line.get(path).content == body
        came = 0
        with suppress(ConnectionError, SSLError):
            while part := slow.recv(2**20):
                came += len(part)
        assert came < len(body) // 2


def test_readers_do_not_wait_behind_those_who_enrol(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, real = list[bytes](), Store.use_challenge

    def watched(self: Store, challenge: bytes, **times: int) -> bool:
        begun.append(challenge)
        return real(self, challenge, **times)

    monkeypatch.setattr(Store, "use_challenge", watched)
    monkeypatch.setattr(database, "SQLITE_WAIT", PATIENCE)
    with Store.open(service.site.url) as other, ThreadPoolExecutor(8) as pool:
        with other._database.transaction():
            many = [line(service.site, service.port) for _ in range(8)]
            coming = [pool.submit(Phone(one, service.phone(at, enrolled=False).identity).enrol)
                      for at, one in enumerate(many)]  # fmt: skip
            until(lambda: begun)
            assert service.line.get("/v1/log").status_code == 200
            assert not any(one.done() for one in coming)
        for one in coming:
            one.result(PATIENCE)
        for each in many:
            each.close()
    assert len(service.store.people()) == 8


def test_claims_of_strangers_use_up_nothing(service: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authentication, "MOST_CHALLENGES", 2)
    stranger, bob = service.phone(1, enrolled=False), service.phone(2)
    for _ in range(5):
        claim = encode(stranger.claim(stranger.challenge()))
        assert refusal(service.line.post("/v1/sessions", content=claim)) == (401, "AUTH")
    claim = encode(bob.claim(bob.challenge()))
    assert service.line.post("/v1/sessions", content=claim).status_code == 200
    assert refusal(service.line.post("/v1/sessions", content=claim)) == (401, "AUTH")  # one challenge, one session


def waiting(service: Served | Process) -> bool:
    return "prirec_waiting_polls 1.0" in service.figures()


def asks_and_waits(service: Served | Process, phone: Phone) -> SSLSocket:
    """A line on which a device waits for messages."""
    phone.log_in()
    plain = socket()
    plain.connect(("127.0.0.1", service.port))
    secured = service.site.trust.wrap_socket(plain, server_hostname="localhost")
    body = encode(Mail((), 0, 30))
    secured.sendall(HEAD.format(phone.token, len(body)).encode() + body)
    until(lambda: waiting(service))
    return secured


@pytest.mark.usefixtures("endless_polls")
def test_the_poll_of_a_device_that_is_gone_ends(service: Served) -> None:
    phone = service.phone()
    asks_and_waits(service, phone).close()
    until(lambda: not waiting(service))


def test_a_service_whose_devices_are_gone_ends_without_waiting_for_them(site: Site) -> None:
    with Process(site) as process:
        asks_and_waits(process, process.phone()).close()
        process.line.close()
        assert process.ended_by(15) == 0
        assert "Cancelled" not in process.logged()  # as it would be with a poll that is still open when grace is over
