"""A disk that is full, a database that is away: it is told once when it begins and once when it is over, the service is
not ready meanwhile, and nothing that was acknowledged is lost."""

import logging
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from prirec.errors import PassingError, StateError
from prirec.protocols.codec import encode
from prirec.recommender import observability
from prirec.recommender.conductor import Pace, conduct
from prirec.recommender.store import Store
from prirec.wire.documents import Model, written
from prirec.wire.http import Mail
from support.postgres import GROUP, Server
from support.services import Process, Site, refusal, served
from support.waiting import until

LARGE = written(Model(bytes(32), 0, bytes(80_000)))
FULL = 4096  # bytes: no file of a store is as small, and the log of a short test is


@contextmanager
def away(postgres: Server, url: str) -> Iterator[None]:
    """Its server takes no connection to this database, and ends those that there are."""
    name = url.partition("?")[0].rpartition("/")[2]
    postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    postgres.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")  # noqa: S608
    try:
        yield
    finally:
        postgres.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


@GROUP
def test_an_outage_of_a_database_is_told_once_and_its_end_once(postgres: Server) -> None:
    told = list[PassingError | None]()
    url = postgres.fresh()
    with Store.open(url) as store:
        store.watch(told.append)
        store.check_writable()
        for expected in (1, 3):
            with away(postgres, url):
                for call in (store.head, store.check_writable, store.people, store.check_writable):
                    with pytest.raises(StateError):
                        call()
                assert len(told) == expected
            store.head()
            store.check_writable()
    assert [problem is None for problem in told] == [False, True, False, True]


def test_on_a_full_disk_what_can_be_read_does_not_end_the_outage(tmp_path: Path) -> None:
    told = list[PassingError | None]()
    with Store.open(tmp_path / "store") as store:
        store.watch(told.append)
        with store._database.reading() as rows:  # the one connection that there is
            rows.execute("PRAGMA max_page_count=1")
        for _ in range(3):
            with pytest.raises(PassingError):
                store.put([LARGE])
            store.head()
        assert len(told) == 1
        with store._database.reading() as rows:
            rows.execute("PRAGMA max_page_count=100000")
        store.put([LARGE])
    assert told[1:] == [None]


@GROUP
def test_while_postgresql_is_away_the_log_of_a_service_says_so_once(
    postgres: Server, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "prirec.recommender")
    url, conducting = postgres.fresh(), partial(conduct, pace=Pace(60, 60), tell=observability.log_event, lease=0.3)
    with served(Site.founded(folder, url), conduct=conducting) as service:
        phone = service.phone(enrolled=False)
        phone.enrol()
        phone.log_in()
        until(lambda: service.line.get("/readyz").status_code == 200)
        with away(postgres, url):
            until(lambda: service.line.get("/readyz").status_code == 503)
            for _ in range(5):
                assert refusal(phone.post("/v1/mail", encode(Mail()))) == (503, "AWAY")
            until(lambda: "prirec_conductor_failures_total 0.0" not in service.figures())
            assert service.line.get("/healthz").status_code == 200
        until(lambda: service.line.get("/readyz").status_code == 200)
        assert phone.mail().messages == ()
    events = [record.msg for record in caplog.records if record.name == "prirec.recommender"]
    assert events == ["the store is away", "the store is back"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits another process")
def test_a_service_whose_disk_is_full_is_not_ready_and_loses_nothing(site: Site) -> None:
    with Process(site) as process, Store.open(site.url) as store:
        phone = process.phone()
        assert phone.mail(phone.says(mark=1)).refused == ()
        process.until(lambda: process.line.get("/readyz").json()["ready"])
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (FULL, resource.RLIM_INFINITY))
        process.until(lambda: process.line.get("/readyz").status_code == 503)
        for at in range(3):
            assert refusal(phone.post("/v1/mail", encode(Mail((phone.says(mark=2 + at),))))) == (503, "AWAY")
        assert process.line.get("/v1/log").status_code == 200  # what needs no room is answered
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        process.until(lambda: process.line.get("/readyz").json()["ready"])
        assert phone.mail(phone.says(mark=9)).refused == ()
        assert [body for _, body in store.incoming(0, 100)] == [phone.says(mark=1), phone.says(mark=9)]
        events = [line["event"] for line in process.lines() if line["event"].startswith("the store")]
        assert events == ["the store is away", "the store is back"]
