"""What a device's requests look like to a server that looks closely."""

import asyncio
import json
import re
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from prirec.device import client as clients
from prirec.device.client import Client, UnavailableError, https_connection
from prirec.device.person import Person
from prirec.device.store import Membership, Store
from prirec.errors import PeerError, UsageError
from prirec.protocols.codec import encode
from prirec.protocols.messages import Report
from prirec.recommender import tls
from prirec.sharing.keys import SigningKey
from prirec.util.trust import tls_context
from prirec.wire import documents, http
from prirec.wire.rotations import Operators
from support import messages
from support.joint_sums import honest, joint_task, vectors
from support.pages import ROOT

TRAFFIC = ROOT / "docs" / "how-to" / "traffic.md"
DOCUMENT = b"a public document"
COOKIE = "set-cookie: who=you; Path=/; Max-Age=99999\r\n"


class Watcher:
    """A server that answers everything, sets cookies, and remembers each request with the connection it came on."""

    def __init__(self, *, drip: float = 0.0) -> None:
        self.requests: list[tuple[int, bytes]] = []
        self.drip, self._connections = drip, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        number = self._connections
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""
                self.requests.append((number, head + body))
                await self._answer(head, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ")[1]
        answers = {b"/v1/challenges": http.Challenge(b"sign this"), b"/v1/sessions": http.Session("token", 900)}
        body = DOCUMENT if path.startswith(b"/v1/documents") else encode(answers.get(path, http.Inbox((), 0)))
        writer.write(f"HTTP/1.1 200 OK\r\n{COOKIE}content-length: {len(body)}\r\n\r\n".encode())
        for at in range(len(body)):
            writer.write(body[at : at + 1])
            if self.drip:
                await writer.drain()
                await asyncio.sleep(self.drip)
        await writer.drain()

    def of(self, path: bytes) -> list[tuple[int, bytes]]:
        return [one for one in self.requests if one[1].split(b" ")[1].startswith(path)]


@asynccontextmanager
async def listening(watcher: Watcher, folder: Path) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    now = datetime.now(UTC)
    authority = tls.new_authority("a town", now=now)
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    tls.server_certificate(authority, hosts=["localhost"], now=now).write(certificate, key)
    (folder / "authority.pem").write_bytes(authority.certificate)
    server = await asyncio.start_server(watcher.serve, "localhost", 0, ssl=tls.server_context(certificate, key))
    async with server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}", tls_context(authority.certificate)


def with_clients(
    folder: Path, watcher: Watcher, work: Callable[[Client], Awaitable[None]], *, devices: int = 1
) -> None:  # fmt: skip
    async def run() -> None:
        async with listening(watcher, folder) as (url, trust):
            for at in range(devices):
                async with https_connection(url, trust=trust) as public, https_connection(url, trust=trust) as named:
                    identity = SigningKey(bytes([at + 1]) * 32)
                    await work(Client(public, named, identity=identity, deployment=bytes(16)))

    asyncio.run(run())


async def usual(client: Client) -> None:
    for _ in range(2):
        await client.mail([], after=0, wait=0)
        assert await client.document(b"\7" * 32) == DOCUMENT


def test_two_devices_make_the_same_requests_for_a_document_byte_for_byte(tmp_path):
    watcher = Watcher()
    with_clients(tmp_path, watcher, usual, devices=2)
    asked = [request for _, request in watcher.of(b"/v1/documents")]
    assert len(asked) == 4
    assert len(set(asked)) == 1


def test_no_cookie_is_kept_and_no_name_goes_along_with_a_request_for_what_is_public(tmp_path):
    watcher = Watcher()
    with_clients(tmp_path, watcher, usual)
    assert not any(b"\r\ncookie:" in request.lower() for _, request in watcher.requests)
    assert not any(b"authorization" in request.lower() for _, request in watcher.of(b"/v1/documents"))
    assert all(b"authorization: bearer token" in request.lower() for _, request in watcher.of(b"/v1/mail"))


def test_what_is_public_is_asked_for_on_a_connection_of_its_own(tmp_path):
    watcher = Watcher()
    with_clients(tmp_path, watcher, usual)
    public = {number for number, _ in watcher.of(b"/v1/documents")}
    named = {number for number, _ in [*watcher.of(b"/v1/mail"), *watcher.of(b"/v1/sessions")]}
    assert len(public) == len(named) == 1
    assert public != named


def test_a_response_that_comes_byte_by_byte_times_out(tmp_path, monkeypatch):
    monkeypatch.setattr(clients, "WHOLE", 0.3)

    async def dripping(client: Client) -> None:
        with pytest.raises(UnavailableError, match=messages.Foreign.TIMEOUT):
            await client.document(b"\7" * 32)

    with_clients(tmp_path, Watcher(drip=0.1), dripping)


class Flooding(Watcher):
    """Answers without an end."""

    sent = 0

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"10000\r\n" + bytes(2**16) + b"\r\n")
            await writer.drain()
            self.sent += 2**16


@pytest.mark.parametrize(
    ("ask", "most"),
    [
        (lambda client: client.hello(), clients.SHORT),
        (lambda client: client.log(0), clients.LONGEST_PAGE),
        (lambda client: client.mail([], after=0, wait=0), clients.SHORT),  # before that a session
        (lambda client: client.document(bytes(32)), 64 * 2**20),
    ],
    ids=["hello", "log", "session", "document"],
)
def test_a_response_without_an_end_is_cut_off_at_what_could_be_meant(tmp_path, ask, most):
    watcher = Flooding()

    async def flooded(client: Client) -> None:
        with pytest.raises(PeerError, match=messages.RESPONSE_TOO_LONG):
            await ask(client)

    with_clients(tmp_path, watcher, flooded)
    assert watcher.sent < most + 16 * 2**20  # the rest is in buffers of the network


# A capture on the wire, beside what `prirec device traffic` says


class Capture:
    """Passes bytes on between a device and a server, and keeps those that the device sends, by connection."""

    def __init__(self) -> None:
        self.sent: list[bytearray] = []

    @asynccontextmanager
    async def on_the_way_to(self, url: str) -> AsyncIterator[str]:
        port = int(url.rpartition(":")[2])

        passing = set[asyncio.Task[None] | None]()

        async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            passing.add(asyncio.current_task())
            self.sent.append(kept := bytearray())
            there, back = await asyncio.open_connection("localhost", port)
            await asyncio.gather(_passed_on(reader, back, kept), _passed_on(there, writer, bytearray()))

        server = await asyncio.start_server(between, "localhost", 0)
        async with server:
            yield f"https://localhost:{server.sockets[0].getsockname()[1]}"
            await asyncio.gather(*filter(None, passing))  # the device has hung up by then

    def records(self) -> list[int]:
        """Lengths of the records of application data, as `tshark -e tls.record.length` prints them."""
        found = []
        for kept in map(bytes, self.sent):
            at = 0
            while at < len(kept):
                length = int.from_bytes(kept[at + 3 : at + 5], "big")
                found += [length] if kept[at] == 23 else []
                at += 5 + length
        return found


async def _passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray) -> None:
    try:
        while data := await reader.read(2**16):
            kept += data
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


class Taking(Watcher):
    """Takes reports."""

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ")[1]
        answers = {b"/v1/challenges": http.Challenge(b"sign this"), b"/v1/sessions": http.Session("token", 900)}
        body = encode(answers.get(path, http.Done()))
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()


def test_a_report_is_found_in_a_capture_by_the_lengths_that_traffic_prints_and_by_nothing_else(tmp_path):
    task, capture, watcher = joint_task(), Capture(), Taking()
    report = honest(task, 0, vectors(1, task.terms)[0])

    async def run() -> None:
        async with (
            listening(watcher, tmp_path) as (url, trust), capture.on_the_way_to(url) as way,
            https_connection(way, trust=trust) as public, https_connection(way, trust=trust) as named,
        ):  # fmt: skip
            device = Client(public, named, identity=SigningKey(b"\1" * 32), deployment=bytes(16))
            await device.report(encode(report))

    asyncio.run(run())
    assert len(watcher.of(b"/v1/reports")) == 1
    captured = b"".join(map(bytes, capture.sent))
    assert len(captured) > len(encode(report))
    fields = {one.name: len(getattr(report, one.name)) for one in msgspec.structs.fields(Report)[4:]}
    for name in fields:
        assert getattr(report, name)[:8] not in captured
    # as the page says, with what it says
    (tmp_path / "records.txt").write_text("\n".join(map(str, capture.records())))
    said = {"sums": [{"fields": [{"name": name, "bytes": length} for name, length in fields.items()]}]}
    (tmp_path / "traffic.json").write_text(json.dumps(said))
    block = re.findall(r"```python\n(.*?)```", TRAFFIC.read_text(encoding="utf-8"), flags=re.DOTALL)[0]
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert line.endswith(f": {len(encode(report))} bytes, {sum(fields.values())} of them in the fields of the report")


# Joining: whose keys are pinned


RECOMMENDER, HELPER = b"\x0a" * 32, b"\x0b" * 32


class Welcoming(Watcher):
    """Enrols everybody, and says who it is."""

    def __init__(
        self, *, helper: bytes | None = HELPER, version: int = documents.VERSION, recommender: bytes = RECOMMENDER,
        rotations: tuple[documents.Rotation, ...] = (),
    ) -> None:  # fmt: skip
        super().__init__()
        self.rotations = rotations
        said = version, bytes(16), recommender, "a town"
        self.hello = http.Hello(*said) if helper is None else http.JointHello(*said, helper)

    async def _answer(self, head: bytes, writer: asyncio.StreamWriter) -> None:
        path = head.split(b" ")[1]
        answers = {
            b"/v1/deployment": self.hello, b"/v1/challenges": http.Challenge(b"sign this"),
            b"/v1/rotations": documents.Rotations(self.rotations),
        }  # fmt: skip
        body = encode(answers.get(path, http.Done()))
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()


def joined(folder: Path, watcher: Watcher, **wanted: str) -> Membership | None:
    """The membership after an attempt, which may raise."""
    person = Person(Store.open(folder / "device.db"))

    async def run() -> None:
        async with listening(watcher, folder) as (url, _):
            await clients.join(person, url, cell=0, authority=(folder / "authority.pem").read_bytes(), **wanted)

    try:
        asyncio.run(run())
    finally:
        found = person.membership()
        person.store.close()
    return found


@pytest.mark.parametrize("wanted", [{}, {"helper_fingerprint": "0b0b 0b0b:0b0b0b0b"}, {"fingerprint": "0a" * 32}])
def test_a_device_pins_the_keys_of_both_operators(tmp_path, wanted):
    member = joined(tmp_path, Welcoming(), **wanted)
    assert (member.recommender, member.helper, member.enrolled) == (RECOMMENDER, HELPER, True)


def rotated() -> tuple[bytes, documents.Rotation]:
    """The recommender's new key, and how it came to be."""
    old, new, peer = (SigningKey(bytes([at]) * 32) for at in (1, 2, 3))
    change = Operators(old.public, peer.public).change("recommender", new.public, deployment=bytes(16), time=0)
    return peer.public, documents.Rotation(change, *(one.sign(encode(change)) for one in (old, new, peer)))


def test_a_device_that_joins_after_a_rotation_pins_the_new_key_and_knows_which_one_began_the_log(tmp_path):
    helper, rotation = rotated()
    new = rotation.change.new
    member = joined(
        tmp_path, Welcoming(helper=helper, recommender=new, rotations=(rotation,)), fingerprint=new.hex()[:16]
    )
    assert (member.recommender, member.operators.first.recommender) == (new, rotation.change.old)


@pytest.mark.parametrize("lie", ["the old key", "another helper", "no signature"])
def test_a_device_joins_nobody_whose_key_rotations_do_not_lead_to(tmp_path, lie):
    helper, rotation = rotated()
    said = {"helper": helper, "recommender": rotation.change.new, "rotations": (rotation,)} | {
        "the old key": {"recommender": rotation.change.old},
        "another helper": {"helper": HELPER},
        "no signature": {"rotations": (msgspec.structs.replace(rotation, by_peer=b""),)},
    }[lie]
    with pytest.raises(PeerError, match=messages.any_of(messages.EQUIVOCATION, messages.AUTH)):
        joined(tmp_path, Welcoming(**said))


def test_a_device_of_one_operator_pins_no_helper(tmp_path):
    assert joined(tmp_path, Welcoming(helper=None)).helper == b""


@pytest.mark.parametrize(
    ("watcher", "wanted", "problem"),
    [
        (Welcoming(helper=None), {"helper_fingerprint": "0b" * 8}, messages.ANOTHER_HELPER),
        (Welcoming(helper=b"\x0c" * 32), {"helper_fingerprint": "0b" * 8}, messages.ANOTHER_HELPER),
        (Welcoming(helper=RECOMMENDER), {}, messages.ANOTHER_HELPER),
        (Welcoming(version=2), {}, messages.NOT_THE_SAME_VERSION),
        (Welcoming(helper=None, version=2), {}, messages.NOT_THE_SAME_VERSION),
    ],
    ids=["none", "another", "the recommender itself", "an earlier version", "an earlier version of one operator"],
)  # fmt: skip
def test_a_device_joins_nobody_else(tmp_path, watcher, wanted, problem):
    with pytest.raises(PeerError, match=problem):
        joined(tmp_path, watcher, **wanted)
    with Store.open(tmp_path / "device.db") as store:
        assert Person(store).membership() is None


def test_a_fingerprint_of_the_helper_that_is_too_short_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match=messages.digits_of_a_fingerprint(16)):
        joined(tmp_path, Welcoming(), helper_fingerprint="0b0b")
