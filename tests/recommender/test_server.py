"""A service as it is run: its conductor beside it, and its end in good order."""

import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from prirec.errors import StateError, UsageError
from prirec.recommender import mailbox, server
from prirec.recommender.server import LAST_PORT, running, serve
from support import messages
from support.fake_conductors import echo, failing
from support.services import Process, Site, line, served
from support.stores import of
from support.waiting import PATIENCE, until


@pytest.mark.usefixtures("endless_polls")
def test_a_conductor_beside_the_service_answers_and_wakes(
    site: Site, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "CHECK_EVERY", 1000.0)  # only a conductor's own word wakes
    with served(site, conduct=partial(echo, folder=folder)) as service:
        phone = service.phone()
        post = phone.mail(phone.says(), wait=20)
        assert [message.body for message in post.messages] == [b"%d" % os.getpid()]
        assert not list(folder.glob("ended-*"))
    assert len(list(folder.glob("ended-*"))) == 1


def test_a_conductor_that_fails_begins_again_and_the_service_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "RETRY_SECONDS", 0.01)
    with served(site, conduct=failing) as service:

        def failures() -> float:
            page = service.figures()
            return float(page.partition("\nprirec_conductor_failures_total ")[2].split()[0])

        until(lambda: failures() >= 2)
        phone = service.phone()
        assert phone.mail(phone.says()).refused == ()
    assert "the conductor failed" in caplog.text
    assert "canary-41aa" not in caplog.text


def test_what_a_conductor_could_not_do_is_counted(site: Site) -> None:
    def troubled(store: object, stop: Event, *, came: Event, wake: object, failed: Callable[[], None]) -> None:
        failed()
        failed()
        stop.wait()

    with served(site, conduct=troubled) as service:
        until(lambda: "prirec_conductor_failures_total 2.0" in service.figures())


def test_a_conductor_is_woken_by_posted_messages_and_by_the_stop(site: Site) -> None:
    told = list[bool]()

    def listening(store: object, stop: Event, *, came: Event, wake: object, failed: object) -> None:
        while not stop.is_set():
            told.append(came.wait(PATIENCE))
            came.clear()

    with served(site, conduct=listening) as service:
        phone = service.phone()
        phone.log_in()
        assert not told
        phone.mail(phone.says())
        until(lambda: told)
    assert told == [True, True]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(site: Site, folder: Path, number: int) -> None:
    with Process(site) as process, ThreadPoolExecutor() as pool:
        phone = process.phone()
        phone.log_in()
        waiting = pool.submit(phone.mail, wait=30)
        process.until(lambda: "prirec_waiting_polls 1.0" in process.figures())
        assert process.ended_by(number) == 0
        assert waiting.result().messages == ()  # the poll, which does not end by itself, was answered
        assert [line["event"] for line in process.lines()] == ["serving", "stopped"]
    assert len(list(folder.glob("ended-*"))) == 1
    assert not (folder / "store-wal").exists()  # and the store was closed


def test_invalid_addresses_stores_and_certificates_are_refused_before_serving(site: Site, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=messages.ADDRESS_TAKEN):
            serve(site.worker(), host="127.0.0.1", port=port)
        with pytest.raises(UsageError, match=messages.ADDRESS_TAKEN), running(site.worker(), port=port):
            pass
    with pytest.raises(UsageError, match=messages.ADDRESS_TAKEN):
        serve(site.worker(), host="192.0.2.1", port=0)
    with pytest.raises(UsageError, match=messages.NO_WORKERS):
        serve(site.worker(), host="127.0.0.1", port=0, workers=0)
    with pytest.raises(StateError):
        serve(replace(site.worker(), store_url=str(tmp_path / "unfounded")), host="127.0.0.1", port=0)
    with pytest.raises(StateError), running(replace(site.worker(), store_url=str(tmp_path / "unfounded"))):
        pass
    with pytest.raises(StateError, match=messages.certificate_or_key_unreadable("server.pem")):
        serve(replace(site.worker(), key=site.folder / "authority.key"), host="127.0.0.1", port=0)


def test_devices_and_the_operator_have_a_port_each(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (
        pytest.raises(UsageError, match=messages.SAME_PORTS),
        running(site.worker(), port=port, operator=("127.0.0.2", port)),
    ):
        pass
    with running(site.worker(), port=port, operator=("127.0.0.1", 0)) as ports:  # the sockets of before are closed
        assert port == ports.public != ports.operator


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_does_not_exist_is_refused(site: Site, port: int) -> None:
    for ports in ({"port": port}, {"port": 0, "operator": ("127.0.0.1", port)}):
        with pytest.raises(UsageError, match=messages.not_a_port(LAST_PORT)), running(site.worker(), **ports):
            pass


def test_without_an_operators_port_nobody_is_served_metrics(site: Site) -> None:
    with running(site.worker()) as (port, operator), line(site, port) as client:
        assert operator is None
        assert [client.get(path).status_code for path in ("/metrics", "/openapi.json", "/healthz")] == [404, 404, 200]


def test_a_worker_does_not_print_what_is_secret(site: Site) -> None:
    worker = replace(site.worker(), store_url="postgresql://user:hunter2@host/database", code="hunter2")
    assert "hunter2" not in repr(worker)


def test_a_service_starts_again_where_it_ended(site: Site) -> None:
    with served(site) as service:
        phone = service.phone()
        phone.mail(phone.says())
        token = phone.token
        service.store.deliver([(phone.name, of(), b"hello")])
    with served(site) as service:
        again = service.phone(enrolled=False)
        again.token = token  # a session outlives the worker that opened it
        assert [message.body for message in again.mail().messages] == [b"hello"]
        assert service.store.counts().messages == 1
