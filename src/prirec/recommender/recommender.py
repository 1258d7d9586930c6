"""`Recommender`, the operator's side of a deployment, for use in programs.

    with Recommender.create("town.db", title="Springfield") as recommender:
        recommender.publish("town")
        with recommender.serving(port=8443) as url:
            ...                       # devices enrol
            recommender.begin()       # a campaign with everyone who has enrolled by now
            recommender.status()

Serving needs the extra `prirec[recommender]`; nothing else does, so what it needs is imported when it is called.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from socket import gethostname
from threading import Event, current_thread, main_thread
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from prirec.config import Settings, preset
from prirec.errors import StateError, UsageError
from prirec.recommender import operator, rotation
from prirec.recommender.conductor import Pace, conduct
from prirec.recommender.database import back_up, sqlite_path
from prirec.recommender.limits import Limits
from prirec.recommender.operator import CampaignStatus, DeploymentStatus, DeviceRecord, HelperAddress, HelperStatus
from prirec.recommender.release import Catalogue, CatalogueSource, StartingModel, from_folder
from prirec.recommender.store import Store
from prirec.recommender.tls import Certificates, check_hosts, expires_at
from prirec.simulate.privacy_plan import PrivacyPlan
from prirec.types import DAY
from prirec.util.async_twins import async_context, in_event_loop
from prirec.util.shown import counted
from prirec.util.system import needing
from prirec.wire.campaign import deployable
from prirec.wire.documents import Charter

if TYPE_CHECKING:
    from prirec.recommender.peer import Peer
    from prirec.recommender.server import Worker

LOCAL = "127.0.0.1"
LONGEST_CODE = 100  # characters of an enrolment code


class ServiceOptions(TypedDict, total=False):
    """How a deployment is served; what is left out has its default."""

    host: str  # address to listen on; 127.0.0.1
    operator: (
        tuple[str, int] | None
    )  # address and port of /operator, /metrics and /openapi.json; None: they are not served
    pace: Pace | None  # how long a sum waits for devices
    code: str | None  # enrolment code: only devices that know it may enrol; None: anybody
    limits: Limits | None  # how much one device or address may ask for
    certificate: Path | None  # PEM with its chain, and its key, if not those of the deployment's folder
    key: Path | None
    app_origins: Sequence[str]  # of apps in browsers that may be devices, such as https://app.example


class Service:
    """What one operator serves: its store (a file, or a PostgreSQL database) and its certificates."""

    role = "recommender"

    def __init__(self, url: str, store: Store, certificates: Certificates) -> None:
        self._url, self.store, self.certificates = url, store, certificates

    @classmethod
    def _create(
        cls, store: Path | str, found: Callable[[Store], object], *, title: str, hosts: Sequence[str],
        certificates: Path | str | None,
    ) -> Self:  # fmt: skip
        url, names = str(store), list(hosts) or [gethostname()]
        files = _certificates(url, certificates)
        operator.check_title(title)
        check_hosts(names)
        held = Store.open(url)
        try:
            held.check_unfounded()
            files.make(title=title, hosts=names, now=datetime.now(UTC))
            try:
                found(held)
            except BaseException:
                files.remove()  # or they would stand in the way of another try
                raise
        except BaseException:
            held.close()
            raise
        return cls(url, held, files)

    @classmethod
    def open(cls, store: Path | str, *, certificates: Path | str | None = None) -> Self:
        """A store that was founded before. StateError, and no file made, if there is none, or it is of the other
        operator."""
        url = str(store)
        file = sqlite_path(url)
        if file is not None and not file.exists():
            raise StateError(
                f"there is no store {file.name}; prirec {cls.role} init makes one, and {cls.__name__}.create"
            )
        held = Store.open(url)
        try:
            if held.founding().role != cls.role:
                raise StateError(f"this store is a {held.founding().role}'s, whose commands are another group")
        except BaseException:
            held.close()
            raise
        return cls(url, held, _certificates(url, certificates))

    def close(self) -> None:
        """Close the store. `with Recommender.open(store) as recommender:` does it by itself."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # what devices are given

    @property
    def authority(self) -> bytes:
        """CA certificate (PEM) that signed the server's: a device needs it to join."""
        try:
            return self.certificates.authority.read_bytes()
        except OSError:
            raise StateError(f"there is no certificate {self.certificates.authority}") from None

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the recommender's key, which devices pin: published where people trust it."""
        return operator.fingerprint(self.store.founding().identity)

    @property
    def certificate_until(self) -> datetime | None:
        """When the server's certificate expires; None if it is not in the folder."""
        file = self.certificates.certificate
        return expires_at(file) if file.exists() else None

    # serving

    @contextmanager
    def serving(self, *, port: int = 0, **options: Unpack[ServiceOptions]) -> Iterator[str]:
        """Serve devices, and conduct campaigns, in a thread of this process while the context lasts; gives the URL.

        Port 0 takes a free one. `options` are host ("127.0.0.1"), operator (address and port of metrics), pace (how
        long a sum waits for devices), code (an enrolment code), limits (how much one device or address may ask for),
        certificate and key (other files than those of the deployment's folder). Works inside a running event loop;
        `serving_async` does not hold it up while the service starts and stops."""
        with needing("recommender"):
            from prirec.recommender.server import running

        host = options.get("host", LOCAL)
        with running(self._worker(options), host=host, port=port, operator=options.get("operator")) as ports:
            yield f"https://{_reached(host)}:{ports.public}"

    serving_async = async_context(serving)

    def serve(
        self, *, port: int = 8443, workers: int = 1, app_port: int | None = None, **options: Unpack[ServiceOptions]
    ) -> None:
        """Serve devices, and conduct campaigns, until SIGTERM or Ctrl-C; requests under way are answered first.
        `options` are those of `serving`. At `app_port` of this machine My phone is served, for rehearsal.

        Inside a running event loop, or in a thread that is not the main one, there are no signals and one worker: it
        then serves until the caller is interrupted."""
        if current_thread() is main_thread() and not in_event_loop():
            with needing("recommender"):
                from prirec.recommender.server import serve

            host, operator = options.get("host", LOCAL), options.get("operator")
            serve(self._worker(options), host=host, port=port, operator=operator, workers=workers, app_port=app_port)
            return
        if workers != 1 or app_port is not None:
            raise UsageError("inside a running event loop or a thread a service has one worker, and no page for people")
        with self.serving(port=port, **options):
            Event().wait()

    async def serve_async(self, *, port: int = 8443, **options: Unpack[ServiceOptions]) -> None:
        """Serve until the task is cancelled; `options` are those of `serving`."""
        import asyncio

        async with self.serving_async(port=port, **options):
            await asyncio.Event().wait()

    def _worker(self, options: ServiceOptions) -> "Worker":
        with needing("recommender"):
            from prirec.recommender import observability
            from prirec.recommender.server import Worker
            from prirec.recommender.service import checked_origin

        if unknown := options.keys() - ServiceOptions.__annotations__.keys():
            raise TypeError(f"a service has no option {', '.join(sorted(unknown))}")
        code, certificate, key = options.get("code"), options.get("certificate"), options.get("key")
        if code is not None and not 0 < len(code) <= LONGEST_CODE:
            raise UsageError(f"an enrolment code has 1 to {LONGEST_CODE} characters")
        if (certificate is None) != (key is None):
            raise UsageError("a certificate and its key belong together: give both, or neither")
        files = self.certificates
        return Worker(
            self._url,
            certificate or files.certificate,
            key or files.key,
            partial(conduct, pace=options.get("pace") or Pace(), tell=observability.log_event)
            if self.role == "recommender"
            else None,
            options.get("limits") or Limits(),
            code,
            app_origins=tuple(map(checked_origin, options.get("app_origins", ()))),
            authority=files.authority if certificate is None and files.authority.exists() else None,
        )

    # upkeep

    def new_operator_token(self) -> str:
        """A new login token for the operator's page (/operator, on the port of metrics), which the store does not
        keep. The previous token is void from now on, and whoever is logged in is logged out."""
        return self.store.logins.new_token()

    def back_up(self, file: Path | str) -> int:
        """Copy a store that is a file while the service goes on; how many entries its log has. It holds secret keys."""
        return back_up(copyable(self._url), Path(file))

    @classmethod
    def restore(cls, store: Path | str, *, file: Path | str | None = None) -> int:
        """Put a store back from a copy, or make one safe that was put back; how many entries its log has. It opens no
        sum over two operators that began before. UsageError if there is a store already where the copy is to go."""
        if file is not None:
            with cls.open(file):
                return back_up(copyable(str(file)), copyable(str(store)))
        with cls.open(store) as service:
            service.store.joint.forget()
            return service.store.head().length

    def rotate_key(self) -> str:
        """Make this operator's next identity key, or go on with the one that was made; its fingerprint, which people of
        the other operator compare and approve. Nothing is in force yet. PolicyError while a campaign is under way."""
        return rotation.rotate_key(self.store, now=_now()).hex()

    def rotate_keys(self, *, sessions: bool = True, certificate: bool = True, hosts: Sequence[str] = ()) -> None:
        """Replace the key of sessions and the server's certificate; a service reads both when it starts."""
        if certificate:
            self.certificates.renew(hosts=list(hosts), now=datetime.now(UTC))
        if sessions:
            operator.rotate_sessions(self.store)


class Recommender(Service):
    """One deployment: its store (a file, or a PostgreSQL database), its certificates, its campaigns."""

    @classmethod
    def create(
        cls, store: Path | str, *, title: str, hosts: Sequence[str] = (), certificates: Path | str | None = None,
        helper: HelperAddress | None = None,
    ) -> Self:  # fmt: skip
        """Found a deployment: its keys, its certificates and an empty store.

        `title` is what people are shown when their devices join. `hosts` are the names by which devices reach the
        server, by default this machine's; localhost is always among them. Certificates are made in the folder
        `certificates`, by default STORE.tls. With a `helper` sums are over two operators, for good: devices pin both.
        StateError if the store holds a deployment already."""
        found = partial(operator.found_deployment, title=title, helper=helper)
        return cls._create(store, found, title=title, hosts=hosts, certificates=certificates)

    def __repr__(self) -> str:
        found = self.status()
        campaign = "no campaign yet" if found.campaign is None else found.campaign.verdict
        people = counted(found.counts.people, "person")
        return f"Recommender '{found.title}': {people} enrolled, {campaign}"

    # identity keys

    def finish_rotation(self, fingerprint: str) -> bool:
        """Put the key that `rotate_key` made in force. False, and nothing changed, if the helper's operator has not
        approved it yet. Done again, it does what is left of it."""
        key = operator.public_key(fingerprint)
        if self.store.founding().peer is None:
            return rotation.finish(self.store, key)
        with self._peer() as peer:
            return rotation.finish(self.store, key, peer=peer)

    def approve_key(self, fingerprint: str) -> None:
        """Put the helper's next key in force, by the fingerprint that its operator has given. PolicyError if the helper
        has no such key."""
        with self._peer() as peer:
            rotation.approve_helper(self.store, operator.public_key(fingerprint), peer=peer)

    @contextmanager
    def _peer(self) -> "Iterator[Peer]":
        with needing("recommender"):
            from prirec.recommender.peer import HttpsLine, Peer
        founding = self.store.founding()
        if founding.peer is None:
            raise UsageError("this deployment has no helper")
        with closing(HttpsLine(founding)) as line:
            yield Peer(self.store, line)

    # catalogue and campaigns

    def publish(
        self, places: Path | str | CatalogueSource, settings: Settings | None = None, *,
        start: StartingModel | None = None,
    ) -> Catalogue:  # fmt: skip
        """Publish a catalogue for campaigns that begin from now on: the `pois` and schema.toml of a data folder.

        No other file of the folder is opened. Private columns are those that schema.toml declares: devices use them,
        and never send them.

        start: a model for devices to recommend with until a campaign has published one, such as
            `prirec.load("run").starting_model`. It is published as it is, with its popularity: train it on public data,
            or on those of people who agreed. UsageError if it was trained on other features than devices use here,
            PolicyError once a campaign has published a model."""
        source = places if isinstance(places, CatalogueSource) else self.read_places(places, settings)
        return operator.publish_catalogue(self.store, source, start=start)

    def read_places(self, folder: Path | str, settings: Settings | None = None) -> CatalogueSource:
        """What `publish` would publish of a data folder, with the features that devices would use and notes on it.
        PolicyError for settings that only a simulation may have."""
        chosen = deployable(settings if settings is not None else preset("private"))
        return from_folder(Path(folder), chosen.features)

    def forecast(self, settings: Settings | None = None) -> PrivacyPlan:
        """What a campaign with everyone who has enrolled by now would promise each person, and whether noise would
        leave something to learn. Nothing is begun. PolicyError where `begin` could not begin one."""
        return operator.forecast_campaign(self.store, settings if settings is not None else preset("private"))

    def begin(
        self, settings: Settings | None = None, *, anyway: bool = False, window: int = DAY, most: int | None = None
    ) -> Charter:
        """Begin a campaign with everyone who has enrolled by now; settings are those of "private" unless given. It
        learns anew, and what it has learnt replaces the model that devices recommended with.

        PolicyError while another campaign is under way, or while fewer devices have enrolled than the floor; and if
        noise would take much from what so many people can teach (`forecast`), unless `anyway`.

        With a helper each sum has a window of so many seconds, in which devices report when they like, and those who
        enrol later join the next one; sums are sized for `most` people, by default twice as many as are enrolled."""
        chosen = settings if settings is not None else preset("private")
        if not anyway:
            operator.refuse_noisy(self.forecast(chosen))
        if self.store.founding().peer is None:
            return operator.begin_campaign(self.store, chosen)
        with self._peer() as peer:
            return operator.begin_campaign(self.store, chosen, window=window, most=most, peer=peer)

    def end(self) -> str:
        """End a campaign that does not go on, and return the phase that it was in: open sums are given up, and nothing
        is published of it. PolicyError if none is under way."""
        return operator.end_campaign(self.store).phase

    def status(self) -> DeploymentStatus:
        """People enrolled, catalogue, campaign, queued messages: public facts and counts only."""
        return operator.deployment_status(self.store)

    def campaign(self) -> CampaignStatus | None:
        """The campaign under way, or the last one; None before the first."""
        return operator.campaign_status(self.store)

    # devices that lie

    def exclude(self, name: str, *, reason: str) -> None:
        """Exclude a device from rosters, sessions and enrolment, from now on; in sums under way it counts as lost,
        unless both operators have accepted its report by now.

        `name` is its public key, 64 hexadecimal digits; `reason`, one line, stays on record. It stops one key: where
        anybody may enrol, its owner can come again with another."""
        operator.exclude_device(self.store, name, reason=reason, day=_today())

    def readmit(self, name: str) -> None:
        """End the exclusion of a device, which then takes part as before."""
        operator.readmit_device(self.store, name, day=_today())

    def device_records(self) -> list[DeviceRecord]:
        """Devices that broke the protocol, for certain, and devices that were ever excluded."""
        return operator.device_records(self.store)


class Helper(Service):
    """The second operator of a deployment (docs/decisions/0029): it co-signs what the recommender publishes, and no sum
    is opened without it."""

    role = "helper"

    @classmethod
    def create(
        cls, store: Path | str, *, title: str, hosts: Sequence[str] = (), certificates: Path | str | None = None
    ) -> Self:
        """Make a helper: its keys, its certificates and an empty store. Arguments are those of `Recommender.create`."""
        found = partial(operator.found_helper, title=title)
        return cls._create(store, found, title=title, hosts=hosts, certificates=certificates)

    def pair(self, *, deployment: str, recommender: str) -> None:
        """Pair the helper with a deployment, by the deployment's id and the recommender's whole key, in hexadecimal."""
        operator.pair_helper(self.store, deployment=deployment, recommender=recommender)

    def approve_key(self, fingerprint: str) -> None:
        """Approve the recommender's next key, by the fingerprint that its operator has given. This helper then signs
        the rotation to it."""
        self.check_paired()
        rotation.approve_key(self.store, operator.public_key(fingerprint), now=_now())

    def check_paired(self) -> None:
        """UsageError if it does not know its recommender yet."""
        if self.store.founding().peer is None:
            raise UsageError("this helper does not know its recommender yet: prirec helper pair")

    def status(self) -> HelperStatus:
        """How far it has signed the log, and its campaign: public facts and counts only."""
        return operator.helper_status(self.store)


def _now() -> int:
    return int(datetime.now(UTC).timestamp())


def _today() -> int:
    return _now() // DAY


def _certificates(store: str, folder: Path | str | None) -> Certificates:
    return Certificates.beside(store) if folder is None else Certificates(Path(folder))


def copyable(store: str) -> Path:
    """The path of a store that is a file. UsageError for PostgreSQL, which has backup tools of its own."""
    source = sqlite_path(store)
    if source is None:
        raise UsageError("a database is copied by its own means, such as pg_dump --schema=prirec")
    return source


def _reached(host: str) -> str:
    """By what name this machine reaches a service that listens there."""
    return "localhost" if host in (LOCAL, "0.0.0.0", "::", "::1") else host  # noqa: S104
