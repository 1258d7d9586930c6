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

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

from prirec.device.ledger import EMPTY, LedgerStore, load_budget, load_floor, save_budget, save_floor
from prirec.device.person import (
    GivenValue,
    Person,
    Point,
    Visit,
    checked_point,
    checked_value,
    read_visits,
    refuse_unfit,
    why_unfit,
)
from prirec.device.store import Membership, Store, ZeroSums, load_zeros
from prirec.errors import (
    DataError,
    Fault,
    PassingError,
    PeerError,
    PolicyError,
    ProtocolError,
    StateError,
    UsageError,
)
from prirec.features.encoding import ColumnBlock
from prirec.privacy.ledger import Account, Budget

# Only light modules here: an app that stores a visit must not wait for Numba, SciPy, asyncio or an HTTP client.
from prirec.types import DAY
from prirec.util.async_twins import blocking
from prirec.util.shown import Shown, Table, counted
from prirec.util.system import needing
from prirec.wire.rotations import RotatedKey

if TYPE_CHECKING:
    import asyncio
    import ssl

    from prirec.device.agent import Agent, RetryPolicy
    from prirec.device.sync import View
    from prirec.device.traffic import Traffic
    from prirec.features.encoding import Encoding, Value
    from prirec.protocols.prediction import Suggestion
    from prirec.wire.campaign import PublishedFigures


class Device:
    """One person's device: private data, model, privacy budget and membership of one deployment, in one SQLite file.

    Not for use from several threads at once. Several processes may open the same file, but only one of them may take
    part at a time."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time) -> None:
        self.store, self.person, self._clock = store, Person(store), clock

    @classmethod
    def open(cls, path: Path | str, *, create: bool = True) -> Self:
        """Open the device's file; if there is none, or an empty one, it is created, readable by its owner only.

        StateError if the file is damaged, not a device's, or written by a newer version; with create=False also if
        there is none, or an empty one."""
        file = Path(path)
        if not create and not file.exists():
            raise StateError(f"there is no file {file.name}; prirec device init makes one")
        if not create and file.is_file() and file.stat().st_size == 0:  # else a ledger that was lost would begin anew
            raise StateError(f"{file.name} {EMPTY}")
        return cls(Store.open(file))

    def __repr__(self) -> str:
        return f"Device({self.store.path.name!r})"

    def close(self) -> None:
        """Close the file. `with Device.open(path) as device:` does it by itself."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def for_thread(self) -> "Device":
        """The same file opened once more, for another thread."""
        return Device(Store.open(self.store.path), clock=self._clock)

    # --- Offline: the person's data -----------------------------------------------------------------------------------

    def describe(self, values: Mapping[str, GivenValue | None], *, home: Point | None = None) -> None:
        """Set private features of the person, such as {"age": 34, "likes": ["ramen"]}; None deletes one.

        DataError, and nothing stored, for what the deployment has no place for: a name that is none of its features, a
        word for a number or the reverse, a value that is not among the declared. Before the device has a catalogue
        (`profile().features` is None) that cannot be checked, and everything is stored."""
        point = None if home is None else checked_point(*home)
        if (encoding := deployed_encoding(self.person)) is not None:
            given = {name: checked_value(value, column=name) for name, value in values.items() if value is not None}
            refuse_unfit(encoding.person, [given])
        self.person.set_profile(values)
        if point is not None:
            self.person.set_home(point)

    def profile(self) -> "Profile":
        """What describes the person on this device, and which of it the deployment can use."""
        encoding, values = deployed_encoding(self.person), self.person.profile()
        if encoding is None:
            return Profile(values, self.person.home(), None, {})
        features = tuple(block.column for block in encoding.person if isinstance(block, ColumnBlock))
        return Profile(values, self.person.home(), features, why_unfit(encoding.person, values))

    def record_visit(
        self, place: str, *, time: int | None = None, wanted: bool = True, id: str | None = None,  # noqa: A002
        context: Mapping[str, GivenValue] | None = None,
    ) -> bool:  # fmt: skip
        """Record that a place was visited or chosen, or with wanted=False that it was shown and ignored.

        `time` is in seconds since 1970 on the local wall clock; `context` says what else is known of the visit, such as
        {"spend": 12.5}, by the names that the deployment declares. Without an id, place and time identify a visit:
        recorded again, it is stored once, and False is returned. DataError for a place that the device does not have,
        as soon as it has a catalogue."""
        said = cast("Mapping[str, Value]", context or {})  # validated with the visit
        return self.record_visits([Visit(place, time, 1 if wanted else -1, said, id)]).new == 1

    def record_visits(self, visits: Sequence[Visit], *, skip_unknown: bool = False) -> "VisitsRecorded":
        """Record all of these visits or none. DataError for a context that does not fit the deployment's features, and
        for places that the device does not have; with `skip_unknown` visits there are left out instead, and counted.
        Before the device has a catalogue nothing of that can be checked."""
        view, fitting = deployment_view(self.person), list(visits)
        checked = view is not None and view.basis is not None
        if view is not None and view.basis is not None:
            refuse_unfit(view.basis.encoding.recorded, [visit.checked().context for visit in visits])
            known = view.known.positions(visit.place for visit in visits) >= 0
            fitting = [visit for visit, is_known in zip(visits, known, strict=True) if is_known]
        skipped = len(visits) - len(fitting)
        if skipped and not skip_unknown:
            which = "the visit is at a place" if len(visits) == 1 else f"{skipped:,} of {len(visits):,} are at places"
            raise DataError(
                f"{which} that this device does not have; look at the spelling, download the region around it, or "
                "leave it out"
            )
        new = self.person.record_visits(fitting)
        return VisitsRecorded(new, len(fitting) - new, skipped, checked)

    def import_visits(self, file: Path | str, *, skip_unknown: bool = False) -> "VisitsRecorded":
        """Record all visits of a CSV file, or none: columns poi and, if there are any, time, label and id; all other
        columns describe the visit. Other names that data folders know, such as venue_id or timestamp, will do as well.
        Visits are checked as by `record_visits`. With a column `label`, the device draws no negatives of its own from
        then on."""
        found = read_visits(Path(file))
        recorded = self.record_visits(found.visits, skip_unknown=skip_unknown)
        if found.labelled:
            self.person.set_labelled(labelled=True)
        return recorded

    def remove_visit(self, id: str) -> None:  # noqa: A002
        """Delete a visit: nothing is recommended from it any more. UsageError if there is none."""
        if not self.person.remove_visit(id):
            raise UsageError("there is no visit with that id; an export of the device lists all of them")

    def recommend(
        self, *, near: Point | None = None, at: int | None = None, k: int = 10, radius_km: float = 5.0
    ) -> "tuple[Suggestion, ...]":
        """The k best places that the person has not visited, within a radius of `near` (or of home), best first.

        Computed on the device from downloaded regions (Algorithm 3): nobody learns what was asked. Print `place` and
        `why` of each: its repr is empty, so that no log has where somebody was sent. `at` is a local time
        in seconds since 1970. `status().membership.model` says what it is computed with. StateError before the device
        has a catalogue; UsageError if no downloaded region is near the point."""
        from prirec.device.recommend import in_use, recommend
        from prirec.device.sync import View
        from prirec.protocols.prediction import Moment

        found = in_use(View.of(self.person))
        return recommend(self.person, found, moment=Moment(near, at), k=k, radius_km=radius_km)

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
        """Change the budget from now on. What was spent stays spent; a device over its budget adds to no sum any more,
        and goes on recommending."""
        with self.store.transaction() as rows:
            save_budget(rows, budget)

    @property
    def floor(self) -> int:
        """How many devices a sum must be over for this device to take part; 0: as many as the campaign says."""
        with self.store.reading() as rows:
            return load_floor(rows)

    def set_floor(self, devices: int) -> None:
        """Take part only in sums over at least so many devices from now on. An operator who makes up all the others
        then has to make up as many; what such a sum would be worth stands in the account, as the worst case."""
        with self.store.transaction() as rows:
            save_floor(rows, devices)

    @property
    def zeros(self) -> ZeroSums:
        """Sums that this device paid for and added nothing but zeros to, and why the last time. Nobody else can see
        which these are."""
        with self.store.reading() as rows:
            return load_zeros(rows)

    def account(self) -> Account:
        """The ledger against the budget: what was spent on what, and what is left. Prints with the verdict first."""
        return self.ledger_store.account(day=self.day)

    def traffic(self) -> "Traffic":
        """What this device sent for sums, field by field, and who learns what from it."""
        from prirec.device.sync import View
        from prirec.device.traffic import traffic_of

        view = None if self.person.membership() is None else View.of(self.person)
        return traffic_of(view, self.store, self.ledger_store)

    @property
    def ledger_store(self) -> LedgerStore:
        """The ledger on disk, as an `Agent` uses it."""
        return LedgerStore(self.store)

    @property
    def day(self) -> int:
        """Today, in days since 1970."""
        return int(self._clock() // DAY)

    # --- Online -------------------------------------------------------------------------------------------------------

    async def join_async(
        self, url: str, *, home: Point | None = None, authority: bytes | Path = b"", fingerprint: str | None = None,
        helper_fingerprint: str | None = None, code: str = "",
    ) -> Membership:  # fmt: skip
        """Join a deployment: pin the keys of its recommender and, if it has two operators, of its helper, and enrol.

        url: the recommender's HTTPS address.
        home: latitude and longitude; it stays on the device, which downloads the regions around it, without its name.
            Without a home it downloads all regions.
        authority: CA certificate (PEM, or a file with it) that signed the server's certificate; empty: the system's.
        fingerprint: what the recommender's key must begin with, at least 16 hexadecimal digits.
        helper_fingerprint: the same of the helper's key. Get it from the helper, not from the recommender: that
            privacy needs only one honest operator holds if the two are two.
        code: enrolment code, if the operator requires one. PeerError, and nothing is joined, where it is refused. If
            the recommender stops answering in between, the device is not enrolled yet, and enrols when it takes part.

        What is published is downloaded at once, so that the device can recommend; what is not, when it takes part.
        """
        with needing("device"):
            from prirec.device.client import home_cell, join
        from prirec.device.sync import catch_up
        from prirec.util.trust import read_authority

        here = None if home is None else checked_point(*home)
        trusted = read_authority(authority) if isinstance(authority, Path) else authority
        await join(
            self.person, url, cell=home_cell(here), authority=trusted, fingerprint=fingerprint,
            helper_fingerprint=helper_fingerprint, code=code,
        )  # fmt: skip
        if here is not None:
            self.person.set_home(here)
        with suppress(
            ProtocolError, PolicyError, PassingError
        ):  # the device has joined; its agent tells of the problem
            async with self.online() as agent:
                await catch_up(self.person, agent.client)
        return self.person.require_membership()

    join = blocking(join_async)

    async def take_part_async(
        self, *, seconds: float = 60.0, code: str = "", tell: Callable[[str], None] = lambda words: None
    ) -> None:
        """Follow the deployment's log and take part in the rounds that invite this device, for so many seconds.

        `tell` gets a sentence for each thing that happened; none contains a private value. `take_part_until` stops at
        an event instead."""
        import asyncio

        stop = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, stop.set)
        await self.take_part_until(stop, code=code, tell=tell)

    take_part = blocking(take_part_async)

    async def take_part_until(
        self, stop: "asyncio.Event", *, code: str = "", tell: Callable[[str], None] = lambda words: None
    ) -> None:
        """Take part until `stop` is set. Stopping is immediate and safe at any moment, like switching the device off.

        StateError if another agent works on the file: a message that one agent has fetched the other never sees."""
        import asyncio

        with needing("device"):
            from prirec.device.agent import AgentNews
        with self.store.agent_lock():
            self.ledger_store.see(self.day)  # a damaged ledger is told before anything is sent
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
        self, *, code: str = "", trust: "ssl.SSLContext | None" = None, retry: "RetryPolicy | None" = None
    ) -> "AsyncIterator[Agent]":
        """An agent for this device with connections of its own. Devices of one process may share a TLS context."""
        with needing("device"):
            from prirec.device.agent import Agent
            from prirec.device.client import Client, https_connection
            from prirec.util.trust import tls_context
        from prirec.device.sync import View

        member = View.of(self.person).member
        tls = tls_context(member.authority) if trust is None else trust
        async with https_connection(member.url, trust=tls) as public, https_connection(member.url, trust=tls) as named:
            client = Client(public, named, identity=member.identity, deployment=member.deployment)
            yield Agent(self.person, self.ledger_store, client, retry=retry, clock=self._clock, code=code)

    async def download_async(self, *, near: Point) -> int:
        """Download the regions around a point too, for a journey; returns how many places that adds. The request
        reveals the coarse cell of the point, and nothing finer."""
        with needing("device"):
            from prirec.device.client import home_cell
        from prirec.device.sync import View, catch_up, fetch_extra_regions, save_extra_region

        point = checked_point(*near)
        async with self.online() as agent:
            view = await catch_up(self.person, agent.client)
            if view.basis is None:
                raise StateError("nothing has been published yet")
            before = len(view.known)
            with self.store.transaction() as rows:
                save_extra_region(rows, home_cell(point))
            await fetch_extra_regions(self.person, agent.client)
        return len(View.of(self.person).known) - before

    download = blocking(download_async)

    async def leave_async(self) -> None:
        """Leave the deployment: it deletes the device, and the device deletes everything of it. Nothing is refunded."""
        async with self.online() as agent:
            await agent.client.leave()
        self.person.leave()

    leave = blocking(leave_async)

    def leave_and_forget(self, *, insist: bool = False) -> "Departure":
        """Leave the deployment if it can be reached, then `forget`. With `insist` nothing is erased unless the
        recommender has confirmed; otherwise one that cannot be reached keeps nobody from erasing."""
        departure = self._depart(insist=insist)
        self.forget()
        return departure

    def _depart(self, *, insist: bool) -> "Departure":
        if self.person.membership() is None:
            return Departure.NO_MEMBER
        try:
            self.leave()
        except (ProtocolError, UsageError) as problem:
            if isinstance(problem, PeerError) and problem.fault is Fault.AUTH:
                return Departure.UNKNOWN
            if insist:
                raise
            return Departure.UNREACHABLE
        return Departure.CONFIRMED


class Departure(StrEnum):
    """Whether a device could leave its deployment when its person was erased."""

    NO_MEMBER = "the device was in no deployment"
    CONFIRMED = "the recommender has deleted this device too"
    UNKNOWN = "the recommender does not know this device"
    UNREACHABLE = "the recommender could not be reached: it still lists this device's key, which nobody holds any more"


class VisitsRecorded(NamedTuple):
    """How many visits were recorded, and how many were left out."""

    new: int
    repeated: int  # recorded before
    skipped: int  # left out, since they are at places that this device does not have
    checked: bool  # whether the device had a catalogue to check them against


async def _work(agent: "Agent", stop: "asyncio.Event", report: Callable[[], None]) -> None:
    """The log first: a device that is online for moments only has at least what was published."""
    from prirec.device.client import UnavailableError

    with suppress(UnavailableError, PassingError):
        await agent.follow()
    report()
    await agent.run(stop, after=report)


# --- Profile and status ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Profile:
    """What describes a person on their device. Private."""

    values: "Mapping[str, Value]"
    home: Point | None
    features: tuple[str, ...] | None  # columns of a person that the deployment uses; None before it is known
    unused: Mapping[str, str]  # what does not fit these, and why: it was stored before they were known

    @property
    def missing(self) -> tuple[str, ...]:
        """Columns that the deployment could use and the person has not given."""
        return tuple(name for name in self.features or () if name not in self.values)


@dataclass(frozen=True, slots=True)
class MembershipStatus:
    """A device's deployment, and how far the device is in it. Public, except that it is this person's device."""

    title: str
    url: str
    recommender_key: str  # the pinned key, in hexadecimal
    helper_key: str  # likewise; empty: the deployment has one operator
    rotated: tuple[RotatedKey, ...]  # keys that were pinned before, and are in force no more
    enrolled: bool
    all_regions: bool  # whether the device downloads all regions; else those around its home
    log_entries: int  # verified
    campaign: int | None
    takes_part: bool  # whether the campaign's roster lists this device or, with a helper, the operators' list
    people: int  # whom that roster lists, or the list of the last window
    window_closes: int | None  # with a helper, when the last window does or did, in seconds since 1970
    fewest: int  # of them that must be in a sum over everyone, as the campaign or the person asks for
    corrupt: float  # with one operator, the share of a sum's devices that may work with it: ε rests on that
    round: int  # rounds that the campaign has behind it,
    rounds: int  # of so many
    places: int  # of the catalogue, downloaded
    can_recommend: bool  # from when it has a catalogue
    model: str  # what it recommends with: "campaign 3", "start" (the operator's starting model), "own records alone"
    unusable_because: str  # why nothing can be learnt from the person's data as they are; empty: something can
    visits_elsewhere: int  # visits at places that this device does not have: nothing is learnt from them
    visits_unfit: int  # visits that are described by what the deployment does not use
    unfit_because: str  # why, the first of them
    zeros: int  # sums that this device added nothing but zeros to, at the full price
    zeros_because: str  # why, the last time
    visits_held_out: int  # visits that nothing is learnt from, for quality figures
    quality: "PublishedFigures | None"  # of the model that it recommends with; None: none are published

    @property
    def recommends_with(self) -> str:
        """`model` in a few words."""
        others = {
            "start": "with the operator's starting model",
            "own records alone": "from the person's own records alone, since no model is published yet",
        }
        return others.get(self.model, f"with the model of {self.model}")


@dataclass(frozen=True, slots=True, repr=False)
class DeviceStatus(Shown):
    """What a device stores, as counts and names."""

    visits: int
    profile: tuple[str, ...]  # names of the profile's columns
    home: bool  # whether one was given
    membership: MembershipStatus | None

    @property
    def verdict(self) -> str:
        """In one sentence: whether the device can recommend and, if not, what is missing."""
        of = self.membership
        if of is None:
            return "in no deployment yet; let it join one"
        if not of.enrolled:
            return f"joined {of.title}, not enrolled yet; it enrols when it next takes part"
        if not of.can_recommend:
            from prirec.device.sync import NO_CATALOGUE

            return f"enrolled in {of.title}; cannot recommend: {NO_CATALOGUE}"
        return f"enrolled in {of.title}; ready to recommend, {of.recommends_with}"

    def panels(self) -> Iterator[str | Table]:
        yield f"Device with {counted(self.visits, 'visit')}: {self.verdict}."


def status(person: Person) -> DeviceStatus:
    """`Device.status` for whoever has no `Device`."""
    view = deployment_view(person)
    member = None if view is None else _membership_status(view)
    return DeviceStatus(len(person.visits()), tuple(person.profile()), person.home() is not None, member)


def _membership_status(view: "View") -> MembershipStatus:
    from prirec.wire.campaign import PublishedFigures

    member, campaign = view.member, view.campaign
    with view.documents.person.store.reading() as rows:
        floor, zeros = load_floor(rows), load_zeros(rows)
    elsewhere, unfit = _unused_visits(view)
    rounds = 0 if campaign is None else campaign.settings.iterations
    return MembershipStatus(
        title=member.title,
        url=member.url,
        recommender_key=member.recommender.hex(),
        helper_key=member.helper.hex(),
        rotated=tuple(RotatedKey.of(one) for one in member.rotations),
        enrolled=member.enrolled,
        all_regions=member.cell == 0,
        log_entries=member.head.length,
        campaign=None if campaign is None else campaign.charter.campaign,
        takes_part=view.takes_part,
        people=len(view.names) if view.window is None else view.window.people,
        window_closes=None if view.window is None else view.window.closes,
        fewest=0 if campaign is None else max(campaign.settings.floor, campaign.fewest(len(view.names)), floor),
        corrupt=0.0 if campaign is None or member.helper else campaign.settings.sums.corrupt,
        round=rounds if view.learnt else 0 if view.model is None else view.model.iteration,
        rounds=rounds,
        places=0 if view.basis is None else len(view.known),
        can_recommend=bool(view.in_use),
        model=view.in_use,
        unusable_because=_why_unusable(view),
        visits_elsewhere=elsewhere,
        visits_unfit=len(unfit),
        unfit_because=next(iter(unfit), ""),
        zeros=zeros.many,
        zeros_because=zeros.why,
        visits_held_out=_held_out(view),
        quality=None if view.figures is None else PublishedFigures.of(view.figures),
    )


def _unused_visits(view: "View") -> tuple[int, list[str]]:
    """How many visits are at places that this device does not have, and why others are described by what is not used:
    they were recorded before the catalogue came."""
    if view.basis is None:
        return 0, []
    visits, blocks = view.documents.person.visits(), view.basis.encoding.recorded
    elsewhere = int((view.known.positions(visit.place for visit in visits) < 0).sum())
    unfit = [why_unfit(blocks, visit.context) for visit in visits if visit.context]
    return elsewhere, [f"column '{name}': {why}" for one in unfit for name, why in list(one.items())[:1]]


def _held_out(view: "View") -> int:
    from prirec.device.records import parted_visits

    if view.campaign is None:
        return 0
    share = view.campaign.charter.settings.held_out
    return len(parted_visits(view.documents.person, share=share)[1])


def _why_unusable(view: "View") -> str:
    """A device whose records cannot be used takes part with zeros, at the full price, and tells nobody, since anything
    else would reveal something about the records (device/rounds.py). So the person has to learn of it here."""
    from prirec.device.records import encode_records, reason, visited_positions

    person, campaign = view.documents.person, view.campaign
    if campaign is None:
        return ""
    try:
        visited_positions(person.visits(), view.known)
        if campaign.edition is not None:
            encode_records(person, campaign, view.known, negatives=False)  # negatives repeat the moments of visits
    except Exception as problem:
        return reason(problem)
    return ""


# --- The deployment as this device knows it -------------------------------------------------------------------------


def deployed_encoding(person: Person) -> "Encoding | None":
    """The features that the deployment uses; None before the device has a catalogue."""
    view = deployment_view(person)
    return None if view is None or view.basis is None else view.basis.encoding


def deployment_view(person: Person) -> "View | None":
    """The documents of the deployment that are in force; None for a device that has joined none."""
    if person.membership() is None:
        return None
    from prirec.device.sync import View

    return View.of(person)
