"""Runs the service: TLS, worker processes on one store, and in each of them a conductor thread.

Workers know of each other only through the store. The conductor that holds the lease conducts; the others wait until
the lease is free, because its holder died or ended.
"""

import os
import signal
import socket
import ssl
from asyncio import TimerHandle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import sleep, time
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from fastapi import FastAPI
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.supervisors import Multiprocess

from prirec.errors import StateError, UsageError
from prirec.pages.local import listen, origin_of
from prirec.pages.my_phone import RecommenderAddress, rehearsed
from prirec.recommender import observability, tls
from prirec.recommender.conductor import WakePollers
from prirec.recommender.limits import Limits
from prirec.recommender.observability import SHARED_METRICS
from prirec.recommender.operator import fingerprint
from prirec.recommender.overview import AUTHORITY, SERVER
from prirec.recommender.service import ON_DISCONNECT, Endpoints, app
from prirec.recommender.store import Founding, Store
from prirec.util.system import allow_many_files

KEEP_ALIVE: Final = 65  # seconds that an idle connection stays open: longer than a long poll
GRACE_SECONDS: Final = 10  # seconds that running requests have when the service ends
EXPIRY_WARNING: Final = timedelta(days=14)  # before a certificate expires
LAST_PORT: Final = 65_535
RETRY_SECONDS: Final = 1.0  # before a conductor that failed is started again


class ConductorLoop(Protocol):
    """Conducts rounds until `stop` is set (conductor.conduct). `came` is set when messages were posted, and to stop;
    `wake` is to be called when messages were delivered, `failed` after a failure."""

    def __call__(
        self, store: Store, stop: Event, *, came: Event, wake: WakePollers, failed: Callable[[], None]
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class Worker:
    """Configuration of a worker. It can be pickled to another process; calling it there makes the service."""

    store_url: str = field(repr=False)  # may hold a password
    certificate: Path
    key: Path
    conduct: ConductorLoop | None = None
    limits: Limits = field(default_factory=Limits)
    code: str | None = field(default=None, repr=False)
    operator_port: int | None = None  # the port on which the operator's routes are served
    app_origins: tuple[str, ...] = ()  # of apps in browsers that may be devices
    authority: Path | None = None  # which has signed the certificate
    clock: Callable[[], float] = time

    def __call__(self) -> FastAPI:
        store = Store.open(self.store_url)
        store.watch(observability.log_outage)
        try:
            return app(
                store,
                limits=self.limits,
                code=self.code,
                operator_port=self.operator_port,
                app_origins=self.app_origins,
                clock=self.clock,
                alongside=partial(_with_conductor, store=store, conduct=self.conduct),
                certificates={SERVER: self.certificate} | ({AUTHORITY: self.authority} if self.authority else {}),
            )
        except BaseException:
            store.close()
            raise


Address: TypeAlias = tuple[str, int]  # host and port; port 0 takes a free one


class Ports(NamedTuple):
    """The ports that a service listens on."""

    public: int
    operator: int | None


def serve(
    worker: Worker, *, host: str, port: int, operator: Address | None = None, workers: int = 1,
    app_port: int | None = None,
) -> None:  # fmt: skip
    """Serve until SIGTERM or SIGINT; requests that are under way are answered first. At the address `operator`, metrics
    and the OpenAPI document are served, and nothing for devices. At `app_port` of this machine My phone is served, for
    rehearsal."""
    if workers < 1:
        raise UsageError("a service has at least one worker")
    with Store.open(worker.store_url) as store:  # a store that cannot be used is an error here, once
        founding = store.founding()
    role = founding.role
    if app_port is not None and (role != "recommender" or founding.peer is None):
        raise UsageError("My phone is for deployments over two operators: this one has no helper")
    tls.server_context(worker.certificate, worker.key)
    sockets, ports = _listen_at((host, port), operator)
    allow_many_files()  # each waiting device holds a connection
    with _my_phone(founding, ports, app_port) as page:
        origins, links = ((), {}) if page is None else ((page[0],), {"my_phone": page[1]})
        worker = replace(worker, operator_port=ports.operator, app_origins=(*worker.app_origins, *origins))
        config = _configured(worker, workers=workers, log_config=observability.configuration())
        _warn_of_expiry(worker.certificate, now=datetime.now(UTC))
        enrolment = "open to anybody" if worker.code is None else "asks for a code"
        who = {"role": role} if role == "helper" else {"enrolment": enrolment}
        metrics = {} if ports.operator is None else {"operator_port": ports.operator}
        observability.note("serving", host=host, port=ports.public, **metrics, workers=workers, **who, **links)
        with _ended_by_signals():
            if workers == 1:
                Server(config).run(sockets=sockets)
            else:
                with _shared_metrics():
                    Multiprocess(config, sockets=sockets).run()
    observability.note("stopped")


@contextmanager
def _my_phone(founding: Founding, ports: Ports, app_port: int | None) -> Iterator[tuple[str, str] | None]:
    """My phone on this machine, if there is a port for it: the page's origin, and the link with which people join."""
    if app_port is None:
        yield None
        return
    helper = (founding.peer or b"").hex()
    at = RecommenderAddress(f"https://localhost:{ports.public}", fingerprint(founding.identity), helper)
    with listen(app_port) as listening, rehearsed(at, listening) as link:
        yield origin_of(listening), link


def _warn_of_expiry(certificate: Path, *, now: datetime) -> None:
    """Log a warning: once a certificate has expired, all devices refuse the service at the same moment."""
    end = tls.expires_at(certificate)
    if end <= now:
        observability.warning("the certificate has ended", until=end.isoformat())
    elif end - now < EXPIRY_WARNING:
        observability.warning("the certificate ends soon", until=end.isoformat(), days=(end - now).days)


@contextmanager
def running(
    worker: Worker, *, host: str = "127.0.0.1", port: int = 0, operator: Address | None = None
) -> Iterator[Ports]:
    """The service in a thread of this process, while the context lasts. Logging is left as it is."""
    sockets, ports = _listen_at((host, port), operator)
    config = _configured(replace(worker, operator_port=ports.operator), workers=1, log_config=None)
    try:
        config.load()  # a bad certificate is an error here, not in the thread
    except BaseException:
        for one in sockets:
            one.close()
        raise
    server = Server(config)
    thread = Thread(target=server.run, kwargs={"sockets": sockets}, name="service", daemon=True)
    thread.start()
    while not server.started:
        if not thread.is_alive():
            raise StateError("the service did not start")
        sleep(0.005)
    try:
        yield ports
    finally:
        server.should_exit = True
        thread.join()


def _configured(worker: Worker, *, workers: int, log_config: dict[str, Any] | None) -> Config:
    return Config(
        worker,
        factory=True,
        workers=workers,
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=log_config,
        access_log=False,  # it would log who asked for what
        proxy_headers=False,  # a client could choose its address, and so evade its limits
        server_header=False,
        limit_concurrency=worker.limits.connections,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_worker_healthcheck=30,
        ssl_context_factory=partial(_context, worker.certificate, worker.key),
    )


def _context(certificate: Path, key: Path, config: Config, default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    return tls.server_context(certificate, key)


def _listen_at(public: Address, operator: Address | None) -> tuple[list[socket.socket], Ports]:
    """Listening sockets. Requests are told apart by the port that they come to, so the two must differ."""
    sockets = [_listen(*public)]
    try:
        sockets += [] if operator is None else [_listen(*operator)]
        ports = Ports(sockets[0].getsockname()[1], None if operator is None else sockets[1].getsockname()[1])
        if ports.public == ports.operator:
            raise UsageError("devices and the operator need a port each, also where their addresses differ")
    except BaseException:
        for one in sockets:
            one.close()
        raise
    return sockets, ports


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= LAST_PORT:  # the system would take another one without a word
        raise UsageError(f"a port is a number from 0, which takes a free one, to {LAST_PORT}")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.create_server(address[:2], family=family, backlog=2048)
    except (OSError, OverflowError):
        raise UsageError(
            f"port {port} of {host} cannot be listened on: it is in use, not this machine's, or needs a privilege"
        ) from None
    made.set_inheritable(True)
    return made


@contextmanager
def _with_conductor(at: Endpoints, *, store: Store, conduct: ConductorLoop | None) -> Iterator[None]:
    """Run a conductor in a thread of its own while the service lives; close the store at the end."""
    stop, failures = Event(), at.metrics.conductor_failures

    def keep_conducting() -> None:
        while conduct is not None and not stop.is_set():
            try:
                conduct(store, stop, came=at.mailbox.came, wake=at.mailbox.wake, failed=failures.inc)
            except Exception as error:  # the service goes on, and the conductor tries again
                observability.failure("the conductor failed", error)
                failures.inc()
            stop.wait(RETRY_SECONDS)

    conducting = Thread(target=keep_conducting, name="conductor", daemon=True)
    conducting.start()
    try:
        yield
    finally:
        stop.set()
        at.mailbox.came.set()  # it may be waiting for messages
        conducting.join()
        store.close()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Leave the context at SIGTERM or SIGINT. Uvicorn ends in good order and then raises the signal again, which would
    skip the cleanup of this process."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # raises KeyboardInterrupt, as SIGINT does
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _shared_metrics() -> Iterator[None]:
    """A folder through which workers share their metrics, so that any of them can report those of all."""
    with TemporaryDirectory(prefix="prirec-metrics-") as folder:
        os.environ[SHARED_METRICS] = folder
        try:
            yield
        finally:
            del os.environ[SHARED_METRICS]


# HTTP connections with deadlines. uvicorn has none: slow clients (Slowloris) could hold all connections open. A request
# must arrive, and its answer leave, in time, and a request's headers are bounded in size (bodies: service.py).


HEAD_SECONDS: Final = 20.0  # for all headers of a request, however slowly they trickle in
BODY_SECONDS: Final = 20.0  # for any body, in or out; a large one gets more
SLOWEST: Final = 128 * 2**10  # bytes a second at which a large body must move: a slow mobile network has more
LONGEST: Final = 64 * 2**20  # bytes: a larger declared length earns no more time
GOODBYE_SECONDS: Final = 0.5  # that a client has to close its side when the service ends
HEAD_BYTES: Final = 16_384  # a device sends some 500
HEAD_LINES: Final = 64  # a device sends eight
UNREAD: Final = 131_072  # bytes of an answer that are buffered for a client


class Connection(HttpToolsProtocol):
    """One client's connection."""

    _deadline: TimerHandle | None = None
    _leaving: TimerHandle | None = None  # deadline for the answer
    _head: int | None = 0  # bytes of incomplete headers; None while a body is awaited
    _parsed, _lines = 0, 0  # bytes and lines of the head under way that were parsed

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNREAD)  # or a client that reads nothing fills this process's memory
        self._expect(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        # uvicorn bounds no headers with this parser: a client could send one without end.
        if self._head is not None and self._head > HEAD_BYTES and not self.transport.is_closing():
            self.send_400_response("The head of this request is too long.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._parsed = self._lines = 0
        if self._deadline is None:  # else the deadline of the connection's first bytes goes on: no trickling
            self._expect(HEAD_SECONDS)

    def on_url(self, url: bytes) -> None:
        self._count_head(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(name, value)
        self._lines += 1
        super().on_header(name, value)

    def _count_head(self, *parts: bytes) -> None:
        """A head that comes in one piece is bounded while it is parsed. The parser passes the error on, and uvicorn
        answers with status 400 and closes the connection."""
        self._parsed += sum(map(len, parts))
        if self._parsed > HEAD_BYTES or self._lines >= HEAD_LINES:
            raise ValueError("the head of a request is too long")

    def on_headers_complete(self) -> None:
        self._head = None
        declared = next((value for name, value in self.headers if name == b"content-length"), b"")
        self._expect(_seconds(int(declared) if declared.isdigit() else 0))
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._head = 0
        self._expect(None)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._leaving is None:
            seconds = _seconds(0 if self.cycle is None else self.cycle.expected_content_length)
            self._leaving = self.loop.call_later(seconds, self.transport.abort)

    def on_response_complete(self) -> None:
        self._left()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        self._left()
        super().connection_lost(exc)
        if self.cycle is not None and (gone := self.cycle.scope["state"].get(ON_DISCONNECT)) is not None:
            gone()

    def shutdown(self) -> None:
        """The server ends: long polls are answered first."""
        if (release := self.app_state.get("release")) is not None:
            release()
        super().shutdown()
        if self.transport.is_closing():  # idle; a suspended client would never close its side
            self.loop.call_later(GOODBYE_SECONDS, self.transport.abort)

    def _expect(self, seconds: float | None) -> None:
        """Abort the connection after so long, unless this is called again; None: no deadline."""
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

    def _left(self) -> None:
        if self._leaving is not None:
            self._leaving.cancel()
        self._leaving = None


def _seconds(size: int) -> float:
    """Time that a body of this size is given."""
    return BODY_SECONDS + min(size, LONGEST) / SLOWEST
