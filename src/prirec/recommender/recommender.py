"""The operator's side of a deployment for whoever builds it into a program of their own.

    with Recommender.create("town.db", title="Springfield") as recommender:
        recommender.publish("town")
        with recommender.serving(port=8443) as url:
            ...                       # devices enrol
            recommender.begin()       # a campaign with everyone who has enrolled by now
            recommender.status()

Serving needs the extra `prirec[recommender]`; nothing else does, so what it needs is imported when it is called.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from socket import gethostname
from threading import Event, current_thread, main_thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from prirec.config import Settings, preset
from prirec.errors import StateError, UsageError
from prirec.recommender import operator
from prirec.recommender.conductor import Pace, conduct
from prirec.recommender.database import back_up, sqlite_path
from prirec.recommender.limits import Limits
from prirec.recommender.operator import CampaignStatus, DeploymentStatus
from prirec.recommender.release import Catalogue, CatalogueSource, from_folder
from prirec.recommender.store import Store
from prirec.recommender.tls import Certificates, check_hosts
from prirec.wire.campaign import deployable
from prirec.wire.documents import Charter

if TYPE_CHECKING:
    from prirec.recommender.server import Worker

LONGEST_CODE = 100  # characters of an enrolment code


class Recommender:
    """One deployment: its store (a file, or a PostgreSQL database), its certificates, its campaigns."""

    def __init__(self, url: str, store: Store, certificates: Certificates) -> None:
        self._url, self.store, self.certificates = url, store, certificates

    @classmethod
    def create(
        cls, store: Path | str, *, title: str, hosts: Sequence[str] = (), certificates: Path | str | None = None
    ) -> Self:
        """Found a deployment: its keys, its certificates and an empty store.

        `title` is what people are shown when their devices join. `hosts` are the names by which devices reach the
        server, by default this machine's; localhost is always among them. Certificates are made in the folder
        `certificates`, by default STORE.tls. StateError if the store holds a deployment already."""
        url, names = str(store), list(hosts) or [gethostname()]
        files = _certificates(url, certificates)
        operator.check_title(title)
        check_hosts(names)
        held = Store.open(url)
        try:
            operator.refuse_second_deployment(held)
            files.make(title=title, hosts=names, now=datetime.now(UTC))
            operator.found_deployment(held, title=title)
        except BaseException:
            held.close()
            raise
        return cls(url, held, files)

    @classmethod
    def open(cls, store: Path | str, *, certificates: Path | str | None = None) -> Self:
        """A deployment that was founded before. StateError, and no file made, if there is none."""
        url = str(store)
        file = sqlite_path(url)
        if file is not None and not file.exists():
            raise StateError(f"there is no store {file.name}; Recommender.create makes one")
        held = Store.open(url)
        try:
            held.founding()
        except BaseException:
            held.close()
            raise
        return cls(url, held, _certificates(url, certificates))

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        found = self.status()
        campaign = (
            "no campaign yet" if found.campaign is None else f"campaign {found.campaign.number}: {found.campaign.phase}"
        )
        return f"Recommender '{found.title}': {found.counts.people:,} people enrolled, {campaign}"

    # what devices are handed

    @property
    def authority(self) -> bytes:
        """The certificate (PEM) of the authority that signed the server's: devices are handed it when they join."""
        try:
            return self.certificates.authority.read_bytes()
        except OSError:
            raise StateError(f"there is no certificate {self.certificates.authority}") from None

    @property
    def fingerprint(self) -> str:
        """Of the recommender's key, which devices pin: people compare it over a channel that they trust."""
        return operator.fingerprint(self.store.founding().identity)

    # catalogue and campaigns

    def publish(self, places: Path | str | CatalogueSource, settings: Settings | None = None) -> Catalogue:
        """Publish a catalogue for campaigns that begin from now on: the `pois` and schema.toml of a data folder.

        No other file of the folder is opened. Private columns are those that schema.toml declares: devices are asked
        for them, and keep them."""
        chosen = deployable(settings if settings is not None else preset("private"))
        source = places if isinstance(places, CatalogueSource) else from_folder(Path(places), chosen.features)
        return operator.publish_catalogue(self.store, source)

    def begin(self, settings: Settings | None = None) -> Charter:
        """Begin a campaign with everyone who has enrolled by now; settings are those of "private" unless given.

        PolicyError while another campaign is under way, or while fewer devices have enrolled than the floor."""
        return operator.begin_campaign(self.store, settings if settings is not None else preset("private"))

    def end(self) -> None:
        """End a campaign that does not go on: open sums are given up, and nothing is published of it."""
        operator.end_campaign(self.store)

    def status(self) -> DeploymentStatus:
        """People enrolled, catalogue, campaign, queued messages: public facts and counts only."""
        return operator.deployment_status(self.store)

    def campaign(self) -> CampaignStatus | None:
        """The campaign under way, or the last one; None before the first."""
        return operator.campaign_status(self.store)

    # serving

    @contextmanager
    def serving(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        pace: Pace | None = None,
        code: str | None = None,
        limits: Limits | None = None,
    ) -> Iterator[str]:
        """Serve devices, and conduct campaigns, in a thread of this process while the context lasts; gives the URL.

        Port 0 takes a free one. With an enrolment `code` only devices that know it may enrol. `pace` says how long a
        sum waits for devices, `limits` how much one device or address may ask for. Works inside a running event loop;
        `serving_async` does not hold it up while the service starts and stops."""
        from prirec.recommender.server import running

        with running(self._worker(pace, code, limits), host=host, port=port) as at:
            yield f"https://{_reached(host)}:{at}"

    @asynccontextmanager
    async def serving_async(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        pace: Pace | None = None,
        code: str | None = None,
        limits: Limits | None = None,
    ) -> AsyncIterator[str]:
        """`serving` for asynchronous code."""
        context = self.serving(host=host, port=port, pace=pace, code=code, limits=limits)
        url = await asyncio.to_thread(context.__enter__)
        try:
            yield url
        finally:
            await asyncio.to_thread(context.__exit__, None, None, None)

    def serve(
        self, *, host: str = "127.0.0.1", port: int = 8443, workers: int = 1, pace: Pace | None = None,
        code: str | None = None, limits: Limits | None = None,
    ) -> None:  # fmt: skip
        """Serve devices, and conduct campaigns, until SIGTERM or Ctrl-C; requests under way are answered first.

        Inside a running event loop, or in a thread that is not the main one, there are no signals and one worker: it
        then serves until the caller is interrupted."""
        if current_thread() is main_thread() and not _in_a_loop():
            from prirec.recommender.server import serve

            serve(self._worker(pace, code, limits), host=host, port=port, workers=workers)
            return
        if workers != 1:
            raise UsageError("inside a running event loop or a thread a service has one worker")
        with self.serving(host=host, port=port, pace=pace, code=code, limits=limits):
            Event().wait()

    async def serve_async(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 8443,
        pace: Pace | None = None,
        code: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Serve until the task is cancelled."""
        async with self.serving_async(host=host, port=port, pace=pace, code=code, limits=limits):
            await asyncio.Event().wait()

    def _worker(self, pace: Pace | None, code: str | None, limits: Limits | None) -> "Worker":
        from prirec.recommender import observability
        from prirec.recommender.server import Worker

        if code is not None and not 0 < len(code) <= LONGEST_CODE:
            raise UsageError(f"an enrolment code has 1 to {LONGEST_CODE} characters")
        conducting = partial(conduct, pace=pace if pace is not None else Pace(), tell=observability.log_event)
        files = self.certificates
        return Worker(self._url, files.certificate, files.key, conducting, limits or Limits(), code)

    # upkeep

    def back_up(self, file: Path | str) -> int:
        """Copy a store that is a file while the service goes on; how many entries its log has. It holds secret keys."""
        source = sqlite_path(self._url)
        if source is None:
            raise UsageError("a database is copied by its own means, such as pg_dump --schema=prirec")
        return back_up(source, Path(file))

    def rotate_keys(self, *, sessions: bool = True, certificate: bool = True, hosts: Sequence[str] = ()) -> None:
        """Replace the key of sessions and the server's certificate; a service reads both when it starts."""
        if certificate:
            self.certificates.renew(hosts=list(hosts), now=datetime.now(UTC))
        if sessions:
            operator.rotate_sessions(self.store)


def _certificates(store: str, folder: Path | str | None) -> Certificates:
    return Certificates.beside(store) if folder is None else Certificates(Path(folder))


def _reached(host: str) -> str:
    """By what name this machine reaches a service that listens there."""
    return "localhost" if host in ("127.0.0.1", "0.0.0.0", "::", "::1") else host  # noqa: S104


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
