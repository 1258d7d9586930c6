"""Several workers on one PostgreSQL: sessions hold at each, messages reach whoever waits, one conducts."""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from prirec.protocols.messages import Round
from prirec.recommender.store import Store
from support.postgres import GROUP, Server
from support.services import Process, Site, line
from support.stores import DEPLOYMENT, of

pytestmark = GROUP


@pytest.fixture(scope="module")
def process(postgres: Server) -> Iterator[Process]:
    with TemporaryDirectory() as folder, postgres.lent() as url:
        site = Site.founded(Path(folder), url)
        with Process(site, workers=2) as running:
            running.until(lambda: len(conductors(running)) == 2)
            yield running


def conductors(process: Process) -> set[int]:
    return {int(file.name.partition("-")[2]) for file in process.site.folder.glob("conductor-*")}


def figure(process: Process, name: str) -> float:
    page = process.figures()
    return float(page.partition(f"\n{name} ")[2].split()[0])


def test_two_workers_share_sessions_polls_and_metrics(process: Process) -> None:
    phones = [process.phone(at) for at in range(8)]
    for phone in phones:
        phone.log_in()
    for _ in range(10):  # each on a line of its own: the system deals them out to workers
        with line(process.site, process.port) as other:
            phones[0].line = other
            assert phones[0].mail().refused == ()
    with ThreadPoolExecutor(8) as pool, Store.open(process.site.url) as store:
        lines = [line(process.site, process.port) for _ in phones]
        for phone, own in zip(phones, lines, strict=True):
            phone.line = own
        waiting = [pool.submit(phone.mail, wait=30) for phone in phones]
        process.until(lambda: figure(process, "prirec_waiting_polls") == 8)  # of both workers, whichever is asked
        store.deliver([(phone.name, of(), b"%d" % at) for at, phone in enumerate(phones)])
        bodies = [[message.body for message in answer.result().messages] for answer in waiting]
        assert bodies == [[b"%d" % at] for at in range(8)]
        for own in lines:
            own.close()
    answered = figure(process, 'prirec_requests_total{route="/v1/mail",status="200"}')
    assert answered == figure(process, 'prirec_requests_total{route="/v1/mail",status="200"}') == 18


def test_what_a_database_cannot_hold_is_refused_before_it_gets_there(process: Process) -> None:
    phone = process.phone(200)
    post = phone.mail(phone.says(to=Round(DEPLOYMENT, "lin\0ear", 1)), phone.says())
    assert post.refused == ("ORDER: message 0 is for a round that is not open",)


def test_when_the_worker_that_conducts_is_killed_another_takes_over(process: Process) -> None:
    phone = process.phone(100)
    first = phone.mail(phone.says(mark=1), wait=20)
    (killed,) = [int(message.body) for message in first.messages]
    assert killed in conductors(process)
    os.kill(killed, signal.SIGKILL)
    process.line.close()
    process.line = phone.line = line(process.site, process.port)
    process.until(lambda: process._answers())
    heard = phone.mail(phone.says(mark=2), after=first.messages[-1].number, wait=20)
    assert heard.refused == ()
    assert {int(message.body) for message in heard.messages} <= conductors(process) - {killed}
    assert heard.messages
    process.until(lambda: len(conductors(process)) == 3)  # and the dead one is replaced
    assert process.ended_by(signal.SIGTERM) == 0
