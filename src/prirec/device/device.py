"""`Device`: one person's device in one file, for building PriRec into an app.

    with Device.open("phone.db") as device:
        device.join("https://recommender.example:8443", home=(35.68, 139.76))
        device.describe({"age": 34, "likes": ["ramen", "museums"]})
        device.record_visit("poi-17")
        device.take_part(seconds=60)
        for place in device.recommend(near=(35.68, 139.76)):
            print(place.words, place.probability)

Everything that a person enters stays in the file. `join`, `take_part`, `download` and `leave` go online and need the
extra `prirec[device]`; each has an asynchronous twin (`join_async`, ...). Everything else works offline.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

# Only light modules here: an app that stores a visit must not wait for Numba, SciPy or an HTTP client to be imported.
from prirec.device.ledger import LedgerStore, load_budget, save_budget
from prirec.device.person import GivenValue, Person, Point, Visit, checked_point, checked_value
from prirec.device.store import Membership, Store
from prirec.errors import PassingError, PrirecError, StateError
from prirec.privacy.ledger import Budget, Statement

if TYPE_CHECKING:
    from prirec.device.agent import Agent, RetryPolicy
    from prirec.device.sync import View
    from prirec.features.encoding import Encoding
    from prirec.protocols.prediction import Suggestion
    from prirec.wire.regions import KnownPlaces

DAY = 86_400
Answer = TypeVar("Answer")


class Device:
    """One person's device: private data, model, privacy budget and membership of one deployment, in one SQLite file.

    Not for use from several threads at once. Several processes may open the same file, but only one of them may take
    part at a time."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time) -> None:
        self.store, self.person, self._clock = store, Person(store), clock

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open the device's file; created, readable by its owner only, if there is none.

        StateError if the file is damaged, not a device's, or written by a newer version."""
        return cls(Store.open(Path(path)))

    def close(self) -> None:
        """Close the file. `with Device.open(path) as device:` does it by itself."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- Offline: the person's data -----------------------------------------------------------------------------------

    def describe(self, values: Mapping[str, GivenValue | None]) -> None:
        """Set private features of the person, such as {"age": 34, "likes": ["ramen"]}; None deletes one.

        The names are those of the deployment's encoding; others are stored and not used. DataError, and nothing stored,
        for a word where the deployment expects a number, or the reverse."""
        check_profile(self.person, values)
        self.person.set_profile(values)

    def record_visit(self, place: str, *, time: int | None = None, wanted: bool = True, id: str | None = None) -> bool:  # noqa: A002
        """Record that a place was visited or chosen, or with wanted=False that it was shown and ignored.

        `time` is in seconds since 1970 on the local wall clock. Without an id, place and time identify a visit:
        recorded again, it is stored once, and False is returned."""
        return self.person.record_visit(place, time=time, label=1 if wanted else -1, id=id)

    def recommend(
        self, *, near: Point | None = None, at: int | None = None, k: int = 10, radius_km: float = 5.0
    ) -> "tuple[Suggestion, ...]":
        """The k best places that the person has not visited, within a radius of `near` (or of home), best first.

        Computed on the device from downloaded regions (Algorithm 3): nobody learns what was asked. `at` is a local time
        in seconds since 1970. StateError before the deployment has published a model; UsageError if no downloaded
        region is near the point."""
        from prirec.device.recommend import published, recommend
        from prirec.device.sync import View
        from prirec.protocols.prediction import Moment

        found = View.of(self.person).publication
        if found is None:
            raise StateError("there is nothing to recommend with yet: take part, or wait until a model is published")
        return recommend(self.person, published(*found), moment=Moment(near, at), k=k, radius_km=radius_km)

    def status(self) -> "DeviceStatus":
        """Counts and public facts: what the device stores, where it belongs, what it can do. No private value."""
        return status(self.person)

    def export(self) -> dict[str, Any]:
        """Everything that the file holds on the person, ready for JSON, without secret keys."""
        return self.person.export()

    def forget(self) -> None:
        """Erase all personal data and the membership from the file.

        The privacy ledger and the journal of rounds stay: nothing spent is refunded, and no round is entered twice."""
        self.person.forget()

    # --- Offline: the privacy budget ----------------------------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        """(ε, δ) that everything this device ever sends about the person stays within."""
        with self.store.reading() as rows:
            return load_budget(rows)

    def set_budget(self, budget: Budget) -> None:
        """Change the budget from now on. What was spent stays spent; a device over its budget only learns locally."""
        with self.store.transaction() as rows:
            save_budget(rows, budget)

    def statement(self) -> Statement:
        """What was spent on what, and in total."""
        return self.ledger_store.statement(day=self.day)

    @property
    def ledger_store(self) -> LedgerStore:
        """The ledger on disk, as an `Agent` uses it."""
        return LedgerStore(self.store)

    @property
    def day(self) -> int:
        """Today, in days since 1970."""
        return int(self._clock() // DAY)

    # --- Online -------------------------------------------------------------------------------------------------------

    def join(
        self, url: str, *, home: Point | None = None, authority: bytes = b"", fingerprint: str | None = None,
        code: str | None = None,
    ) -> Membership:  # fmt: skip
        """Join a deployment and pin its recommender's key.

        url: the recommender's HTTPS address.
        home: latitude and longitude. The recommender gets the coarse H3 cell around it (about 36 km²); without a home
            it gets none, and the device downloads all regions.
        authority: CA certificate (PEM) that signed the server's certificate; empty: the system's authorities.
        fingerprint: what the recommender's key must begin with, at least 16 hexadecimal digits.
        code: enrolment code; with one (it may be empty) the device enrols at once, else when it first takes part.
        """
        return self._run(
            lambda device: device.join_async(url, home=home, authority=authority, fingerprint=fingerprint, code=code)
        )

    async def join_async(
        self, url: str, *, home: Point | None = None, authority: bytes = b"", fingerprint: str | None = None,
        code: str | None = None,
    ) -> Membership:  # fmt: skip
        """`join` for asynchronous code."""
        from prirec.device.client import home_cell, join

        here = None if home is None else checked_point(*home)
        joined = await join(
            self.person, url, cell=home_cell(here), authority=authority, fingerprint=fingerprint, code=code
        )
        if here is not None:
            self.person.set_home(here)
        return joined

    def take_part(
        self, *, seconds: float = 60.0, code: str = "", tell: Callable[[str], None] = lambda words: None
    ) -> None:
        """Follow the deployment's log and take part in the rounds that invite this device, for so many seconds.

        `tell` gets a sentence for each thing that happened; none contains a private value."""
        self._run(lambda device: device.take_part_async(seconds=seconds, code=code, tell=tell))

    async def take_part_async(
        self, *, seconds: float = 60.0, code: str = "", tell: Callable[[str], None] = lambda words: None
    ) -> None:
        """`take_part` for asynchronous code; see also `take_part_until`."""
        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        await self.take_part_until(stop, code=code, tell=tell)

    async def take_part_until(
        self, stop: asyncio.Event, *, code: str = "", tell: Callable[[str], None] = lambda words: None
    ) -> None:
        """Take part until `stop` is set. Stopping is immediate and safe at any moment, like switching the device off.

        StateError if another agent works on the file: letters that one agent has read the other never sees."""
        from prirec.device.agent import AgentNews

        with self.store.agent_lock():
            async with self.online(code=code) as agent:
                news = AgentNews(agent)

                def report() -> None:
                    for words in news.news():
                        tell(words)

                working = asyncio.ensure_future(_work(agent, stop, report))
                stopped = asyncio.ensure_future(stop.wait())
                await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
                for task in (working, stopped):
                    task.cancel()
                with suppress(asyncio.CancelledError):
                    await working

    @asynccontextmanager
    async def online(
        self, *, code: str = "", trust: ssl.SSLContext | None = None, retry: "RetryPolicy | None" = None
    ) -> "AsyncIterator[Agent]":
        """An agent for this device with connections of its own. Devices of one process may share a TLS context."""
        from prirec.device.agent import Agent
        from prirec.device.client import Client, https_connection, tls_context
        from prirec.device.sync import View

        member = View.of(self.person).member
        tls = tls_context(member.authority) if trust is None else trust
        async with https_connection(member.url, trust=tls) as public, https_connection(member.url, trust=tls) as named:
            client = Client(public, named, identity=member.identity, deployment=member.deployment)
            yield Agent(self.person, self.ledger_store, client, retry=retry, clock=self._clock, code=code)

    def download(self, *, near: Point) -> None:
        """Download the regions around a point too, for a journey. The request reveals the coarse cell of the point, and
        nothing finer."""
        self._run(lambda device: device.download_async(near=near))

    async def download_async(self, *, near: Point) -> None:
        """`download` for asynchronous code."""
        from prirec.device.client import home_cell
        from prirec.device.sync import catch_up, fetch_extra_regions, save_extra_region

        point = checked_point(*near)
        async with self.online() as agent:
            view = await catch_up(self.person, agent.client)
            if view.campaign is None:
                raise StateError("nothing has been published yet")
            with self.store.transaction() as rows:
                save_extra_region(rows, home_cell(point))
            await fetch_extra_regions(self.person, agent.client)

    def leave(self) -> None:
        """Leave the deployment: it deletes the device, and the device deletes everything of it. Nothing is refunded."""
        self._run(lambda device: device.leave_async())

    async def leave_async(self) -> None:
        """`leave` for asynchronous code."""
        async with self.online() as agent:
            await agent.client.leave()
        self.person.leave()

    def _run(self, work: "Callable[[Device], Coroutine[Any, Any, Answer]]") -> Answer:
        """Run a coroutine to its end, also where an event loop runs already, as in a notebook.

        There it gets a thread, and the file a second connection, since one of SQLite's belongs to its thread. The
        caller waits; whoever must not hold up the running loop awaits the asynchronous twin instead."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(work(self))

        def in_thread() -> Answer:
            with Device(Store.open(self.store.path), clock=self._clock) as twin:
                return asyncio.run(work(twin))

        with ThreadPoolExecutor(1, thread_name_prefix="prirec") as thread:
            return thread.submit(in_thread).result()


async def _work(agent: "Agent", stop: asyncio.Event, report: Callable[[], None]) -> None:
    """The log first: a device that is online for moments only has at least what was published."""
    from prirec.device.client import UnavailableError

    with suppress(UnavailableError, PassingError):
        await agent.follow()
    report()
    await agent.run(stop, after=report)


# --- Status ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MembershipStatus:
    """Where a device belongs, and how far it is. Public, except that it is this person's device."""

    title: str
    url: str
    recommender: str  # the pinned key, in hexadecimal
    enrolled: bool
    tells_a_cell: bool  # whether the recommender knows a coarse cell
    entries: int  # verified entries of the log
    campaign: int | None
    takes_part: bool  # whether the campaign's roster lists this device
    learnt: int  # rounds of the campaign that are in this device's model
    rounds: int  # that the campaign has
    places: int  # of the catalogue, downloaded
    can_recommend: bool
    unusable: str  # why nothing can be learnt from the person's data as they are; empty: something can


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """What a device stores, as counts and names."""

    visits: int
    described_by: tuple[str, ...]  # names of the profile's columns
    home: bool  # whether one was given
    belonging: MembershipStatus | None


def status(person: Person) -> DeviceStatus:
    """`Device.status` for whoever has no `Device`."""
    view = _view(person)
    member = None if view is None else _membership_status(view)
    return DeviceStatus(len(person.visits()), tuple(person.profile()), person.home() is not None, member)


def _membership_status(view: "View") -> MembershipStatus:
    member, campaign = view.member, view.campaign
    model = None if campaign is None else view.documents.person.model(campaign.name)
    return MembershipStatus(
        title=member.title,
        url=member.url,
        recommender=member.recommender.hex(),
        enrolled=member.enrolled,
        tells_a_cell=member.cell != 0,
        entries=member.head.length,
        campaign=None if campaign is None else campaign.charter.campaign,
        takes_part=view.position is not None,
        learnt=0 if model is None else model.iteration,
        rounds=0 if campaign is None else campaign.settings.iterations,
        places=0 if campaign is None else len(view.known),
        can_recommend="publication" in view.latest,
        unusable=_why_unusable(view),
    )


def _why_unusable(view: "View") -> str:
    """A device whose records cannot be used takes part with zeros, at the full price, and tells nobody, since anything
    else would reveal something about the records (device/rounds.py). So the person has to learn of it here."""
    from prirec.device.records import encode_records
    from prirec.device.rounds import visited_places

    person, campaign = view.documents.person, view.campaign
    if campaign is None:
        return ""
    try:
        visited_places(person, campaign, view.known)
        if campaign.edition is not None:
            encode_records(person, campaign, view.known)
    except PrirecError as problem:
        return str(problem)
    except Exception as problem:
        return f"an unforeseen fault, {type(problem).__name__}"  # its text could repeat a value
    return ""


# --- Profile check: mistakes are found while the person is there to correct them. Nothing is sent --------------------


def campaign_encoding(person: Person) -> "Encoding | None":
    """The features that the deployment uses; None before a campaign is known."""
    view = _view(person)
    return None if view is None or view.campaign is None else view.campaign.encoding


def known_places(person: Person) -> "KnownPlaces | None":
    """The places that this device has downloaded; None before it has any."""
    view = _view(person)
    return None if view is None or view.campaign is None else view.known


def check_profile(person: Person, values: Mapping[str, GivenValue | None]) -> None:
    """DataError, naming a column and not its value, for words where the deployment expects numbers, or the reverse."""
    if (encoding := campaign_encoding(person)) is not None:
        from prirec.features.encoding import rows_to_columns

        given = {name: checked_value(value, column=name) for name, value in values.items() if value is not None}
        rows_to_columns(encoding.person, [given])


def check_visits(person: Person, visits: Sequence[Visit]) -> None:
    """`check_profile` for the values that describe moments."""
    if (encoding := campaign_encoding(person)) is not None:
        from prirec.features.encoding import rows_to_columns

        rows_to_columns(encoding.context, [visit.context for visit in visits])


def count_unknown_places(person: Person, visits: Sequence[Visit]) -> int:
    """How many visits are to places that this device has not downloaded: nothing is learnt from those."""
    known = known_places(person)
    return 0 if known is None else int((known.positions(visit.place for visit in visits) < 0).sum())


def _view(person: Person) -> "View | None":
    if person.membership() is None:
        return None
    from prirec.device.sync import View

    return View.of(person)
