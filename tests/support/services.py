"""A recommender's service as tests meet it: over TLS on loopback, and phones that talk to it, honest or not."""

import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import count
from pathlib import Path
from time import sleep, time
from typing import Any, Self, TypeVar

import httpx
import msgspec
import pytest

from prirec.protocols.codec import decode, encode
from prirec.protocols.messages import VERSION, Agreement, Round, WireStruct
from prirec.recommender import tls
from prirec.recommender.authentication import Authenticator
from prirec.recommender.limits import Limits, Rate
from prirec.recommender.mailbox import LongPoll
from prirec.recommender.server import Worker, running
from prirec.recommender.store import Store
from prirec.sharing.keys import SigningKey
from prirec.wire.http import (
    Challenge,
    Claim,
    Done,
    Enrolment,
    Inbox,
    Mail,
    Refusal,
    Session,
    SignedClaim,
    SignedEnrolment,
)
from support.stores import DEPLOYMENT, FOUNDING, IDENTITY, enter, invite, of
from support.waiting import NEVER, PATIENCE

_numbers = count(1_000_000)
ANY = TypeVar("ANY", bound=WireStruct)
MANY = Rate(1e6, 1_000_000)
OPEN = Limits(
    device=MANY, device_bytes=Rate(1e9, 2**30), address=MANY, enrolment=MANY, enrolments=MANY, guess=MANY, guesses=MANY
)


@dataclass(frozen=True)
class Site:
    """Files of a deployment that is founded, with a round that is open."""

    folder: Path
    url: str

    @classmethod
    def founded(cls, folder: Path, url: str | None = None) -> "Site":
        now = datetime.now(UTC)
        authority = tls.new_authority("a city", now=now)
        authority.write(folder / "authority.pem", folder / "authority.key")
        tls.server_certificate(authority, hosts=["localhost", "127.0.0.1"], now=now).write(
            folder / "server.pem", folder / "server.key"
        )
        with Store.open(url or str(folder / "store")) as store:
            store.found(FOUNDING)
            enter(store, of())
        return cls(folder, url or str(folder / "store"))

    def worker(self, **changes: Any) -> Worker:
        files = {"certificate": self.folder / "server.pem", "key": self.folder / "server.key"}
        return Worker(self.url, **(files | {"limits": OPEN} | changes))

    @property
    def trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.folder / "authority.pem")
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context


@dataclass(frozen=True)
class Served:
    """A service that runs, its store beside it, and a line to it."""

    site: Site
    port: int
    store: Store
    line: httpx.Client
    operator: httpx.Client  # a line to the operator's port

    def figures(self) -> str:
        return self.operator.get("/metrics").text

    def phone(self, number: int = 1, *, enrolled: bool = True) -> "Phone":
        """One that has enrolled was invited to the round that is open."""
        phone = Phone(self.line, SigningKey(sha256(b"phone %d" % number).digest()))
        if enrolled:
            phone.enrol()
            invite(self.store, phone.name)
        return phone

    def newcomer(self) -> "Phone":
        """A phone that no other test has used."""
        return self.phone(next(_numbers))


@contextmanager
def served(site: Site, **changes: Any) -> Iterator[Served]:
    with (
        running(site.worker(**changes), operator=("127.0.0.1", 0)) as (port, operator_port),
        Store.open(site.url) as store,
        line(site, port) as client,
        line(site, operator_port) as operator,
    ):
        yield Served(site, port, store, client, operator)


def line(site: Site, port: int) -> httpx.Client:
    return httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=site.trust, trust_env=False, timeout=PATIENCE)


@pytest.fixture
def endless_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Long polls do not end by themselves, whatever time their devices asked for: one that is answered was woken."""
    make_polls_endless(monkeypatch.setattr)


def make_polls_endless(replace: Callable[[type, str, object], None] = setattr) -> None:
    real = LongPoll.__init__
    replace(LongPoll, "__init__", lambda self, after, until: real(self, after, until + NEVER))


class Phone:
    """A device with an identity; what it sends is honest unless a test makes it otherwise."""

    def __init__(self, line: httpx.Client, identity: SigningKey) -> None:
        self.line, self.identity, self.token = line, identity, ""

    @property
    def name(self) -> bytes:
        return self.identity.public

    def enrol(self, *, code: str = "") -> None:
        good(Done, self.line.post("/v1/devices", content=encode(self.enrolment(code=code))))

    def enrolment(self, *, code: str = "", deployment: bytes = DEPLOYMENT, challenge: bytes = b"") -> SignedEnrolment:
        wanted = Enrolment(deployment, self.name, code, challenge or self.challenge())
        return SignedEnrolment(wanted, self.identity.sign(encode(wanted)))

    def challenge(self) -> bytes:
        return good(Challenge, self.line.post("/v1/challenges")).challenge

    def claim(self, challenge: bytes, *, deployment: bytes = DEPLOYMENT, name: bytes | None = None) -> SignedClaim:
        claim = Claim(deployment, name or self.name, challenge)
        return SignedClaim(claim, self.identity.sign(encode(claim)))

    def log_in(self) -> Session:
        session = good(Session, self.line.post("/v1/sessions", content=encode(self.claim(self.challenge()))))
        self.token = session.token
        return session

    def post(self, path: str, content: bytes = b"", **headers: str) -> httpx.Response:
        if not self.token:
            self.log_in()
        return self.line.post(path, content=content, headers={"authorization": f"Bearer {self.token}", **headers})

    def mail(self, *messages: bytes, after: int = 0, wait: int = 0) -> Inbox:
        return good(Inbox, self.post("/v1/mail", encode(Mail(messages, after, wait))))

    def says(self, *, to: Round | None = None, mark: int = 0, **changes: Any) -> bytes:
        """A message to the recommender, in a round; `mark` makes it one of its own."""
        wanted: dict[str, Any] = {"round": to or of(), "sender": self.name, "receiver": IDENTITY.public} | changes
        return encode(Agreement(VERSION, signature=mark.to_bytes(64, "big"), **wanted))


def good(kind: type[ANY], answer: httpx.Response) -> ANY:
    """The answer, which must be a good one and of this kind."""
    if answer.status_code != 200:
        raise AssertionError(f"{answer.status_code}: {answer.content!r}")
    return msgspec.msgpack.decode(answer.content, type=kind)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Status and fault of a refusal."""
    return answer.status_code, msgspec.msgpack.decode(answer.content, type=Refusal).fault


def token_of(name: bytes, *, clock: Callable[[], float] = time, key: bytes = FOUNDING.token_key) -> str:
    """What a doorkeeper with this key would have given to somebody, at another time if need be."""
    door = Authenticator(DEPLOYMENT, key, clock=clock, entropy=bytes)
    return door.session(name, made=int(clock())).token


def handed_in(store: Store, *, by: Phone | None = None) -> Sequence[bytes]:
    """The messages that the store holds, of everyone or of one."""
    bodies = [body for _, body in store.incoming(0, 1000)]
    return [body for body in bodies if by is None or decode(body).sender == by.name]


PROGRAM = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from functools import partial
from pathlib import Path
from prirec.recommender import server
from support.fake_conductors import echo
from support.services import Site, make_polls_endless

folder, url, workers = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
make_polls_endless()  # one that is answered was woken
server.GRACE_SECONDS = 60  # for a busy machine: what is still open then is cancelled, which the log says
worker, here = Site(folder, url).worker(conduct=partial(echo, folder=folder)), "127.0.0.1"
server.serve(worker, host=here, port=0, operator=(here, 0), workers=workers)
"""


class Process:
    """A service in a process of its own, or in several, and what it logs."""

    def __init__(self, site: Site, *, workers: int = 1) -> None:
        self.site, self._log = site, site.folder / "log"
        with self._log.open("wb") as log:
            command = [sys.executable, "-c", PROGRAM, str(site.folder), site.url, str(workers)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        (serving,) = self.until(lambda: [line for line in self.lines() if line["event"] == "serving"])
        self.port, self.operator_port = int(serving["port"]), int(serving["operator_port"])
        self.line = line(site, self.port)
        self.until(self._answers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.line.close()
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(PATIENCE)

    def figures(self) -> str:
        with line(self.site, self.operator_port) as operator:
            return operator.get("/metrics").text

    def phone(self, number: int = 1) -> Phone:
        phone = Phone(self.line, SigningKey(sha256(b"phone %d" % number).digest()))
        phone.enrol()
        with Store.open(self.site.url) as store:
            invite(store, phone.name)
        return phone

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended_by(self, number: int) -> int:
        """The exit code after a signal."""
        self._process.send_signal(number)
        return self._process.wait(PATIENCE)

    def lines(self) -> list[dict[str, Any]]:
        """What was logged so far: every line of it must be JSON."""
        return [json.loads(line) for line in self.logged().splitlines()]

    def logged(self) -> str:
        return self._log.read_text()

    def until(self, found: Callable[[], Any], *, seconds: float = PATIENCE) -> Any:
        """What is found, as soon as it is anything."""
        end = time() + seconds
        while not (something := found()):
            if self._process.poll() is not None or time() > end:
                raise AssertionError(f"it ended, or was too slow: {self.logged()}")
            sleep(0.02)
        return something

    def _answers(self) -> bool:
        try:
            return self.line.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False
