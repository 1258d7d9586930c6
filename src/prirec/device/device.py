"""How a device stands, for its person: what it keeps, where it belongs, what it can do."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from prirec.device.ledger import PaidStore, held_budget, save_budget
from prirec.device.person import Person, Point, Visit
from prirec.device.records import records_of
from prirec.device.rounds import visited_places
from prirec.device.store import Membership, Store
from prirec.device.sync import View
from prirec.device.values import Given, checked_point, checked_value
from prirec.errors import PassingError, PrirecError, StateError
from prirec.features.encoding import Encoding, rows_to_columns
from prirec.privacy.ledger import Budget, Statement
from prirec.wire.regions import Known


@dataclass(frozen=True, slots=True)
class Belonging:
    """Public, but for that it is this person's device."""

    title: str
    url: str
    recommender: str  # its key, as it was pinned, in hexadecimal
    enrolled: bool
    tells_a_cell: bool
    entries: int  # of the log, checked
    campaign: int | None
    takes_part: bool  # whether the campaign lists this device
    learnt: int  # rounds of the campaign that are in this device's model
    rounds: int  # that the campaign has
    places: int  # downloaded, of the catalogue
    can_recommend: bool
    unusable: str  # why nothing can be learnt from the person's data as they are; empty: something can


@dataclass(frozen=True, slots=True)
class Status:
    """Counts, and nothing that they count."""

    visits: int
    described_by: tuple[str, ...]  # names of what the person told
    home: bool  # whether one was told
    belonging: Belonging | None


def status(person: Person) -> Status:
    belongs = None if person.membership() is None else _belonging(View.of(person))
    return Status(len(person.visits()), tuple(person.profile()), person.home() is not None, belongs)


def _belonging(view: View) -> Belonging:
    member, campaign = view.member, view.campaign
    kept = None if campaign is None else view.shelf.person.model(campaign.name)
    return Belonging(
        title=member.title,
        url=member.url,
        recommender=member.recommender.hex(),
        enrolled=member.enrolled,
        tells_a_cell=member.cell != 0,
        entries=member.head.length,
        campaign=None if campaign is None else campaign.charter.campaign,
        takes_part=view.position is not None,
        learnt=0 if kept is None else kept.iteration,
        rounds=0 if campaign is None else campaign.settings.iterations,
        places=0 if campaign is None else len(view.known),
        can_recommend="publication" in view.standing,
        unusable=_unusable(view),
    )


def _unusable(view: View) -> str:
    """Whoever takes part regardless adds zeros, at the full price (contributing.py): nobody else is told, so the person
    is told here."""
    person, campaign = view.shelf.person, view.campaign
    if campaign is None:
        return ""
    try:
        visited_places(person, campaign, view.known)
        if campaign.edition is not None:
            records_of(person, campaign, view.known)
    except PrirecError as problem:
        return str(problem)
    except Exception as problem:
        return f"an unforeseen fault, {type(problem).__name__}"  # its words could repeat a value
    return ""


# What the deployment's devices use of a person, once a campaign has told: to find slips while the person is there to
# mend them. Nobody is told what was asked here.


def encoding_of(person: Person) -> Encoding | None:
    """None while nothing is known of a campaign."""
    campaign = None if person.membership() is None else View.of(person).campaign
    return None if campaign is None else campaign.encoding


def places_of(person: Person) -> Known | None:
    """The places that this device has downloaded; None before it has any."""
    if person.membership() is None:
        return None
    view = View.of(person)
    return None if view.campaign is None else view.known


def refuse_unfit(person: Person, values: Mapping[str, Given | None]) -> None:
    """DataError, with a column and without its value, for words where numbers belong, or the reverse."""
    if (encoding := encoding_of(person)) is not None:
        told = {name: checked_value(value, column=name) for name, value in values.items() if value is not None}
        rows_to_columns(encoding.person, [told])


def refuse_unfit_visits(person: Person, visits: Sequence[Visit]) -> None:
    """The same for what describes moments."""
    if (encoding := encoding_of(person)) is not None:
        rows_to_columns(encoding.context, [visit.context for visit in visits])


def unknown_places(person: Person, visits: Sequence[Visit]) -> int:
    """How many visits are to places that this device does not have: nothing is learnt from those."""
    known = places_of(person)
    return 0 if known is None else int((known.positions(visit.place for visit in visits) < 0).sum())


# A device for whoever builds it into an app.
#
#     with Device.open(path) as device:
#         device.join("https://recommender:8443", home=(35.68, 139.76))
#         device.record_visit("poi-17")
#         device.take_part()
#         for place in device.recommend(near=(35.68, 139.76)):
#             ...
#
# Everything that a person tells it stays in the one file. `join`, `take_part`, `download` and `leave` go online, and
# need the extra `prirec[device]`; nothing else does, so what they need is imported when they are called.


if TYPE_CHECKING:
    from prirec.device.agent import Agent, Patience
    from prirec.device.recommend import Suggestion

DAY = 86_400


class Device:
    """One person's device, in one file."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time) -> None:
        self.store, self.person, self._clock = store, Person(store), clock

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Opens the file, or makes it, for its owner alone."""
        return cls(Store.open(Path(path)))

    def close(self) -> None:
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # what stays here

    def describe(self, values: Mapping[str, Given | None]) -> None:
        """Private features of the person, by the names that the deployment asks for; None forgets one. DataError, and
        nothing kept, for words where the deployment has numbers, or the reverse."""

        refuse_unfit(self.person, values)
        self.person.set_profile(values)

    def record_visit(self, place: str, *, time: int | None = None, wanted: bool = True, id: str | None = None) -> bool:  # noqa: A002
        """A place that was visited or chosen, or one that was shown and ignored. Whether it is new."""
        return self.person.record_visit(place, time=time, label=1 if wanted else -1, id=id)

    def recommend(
        self, *, near: Point | None = None, at: int | None = None, k: int = 10, radius_km: float = 5.0
    ) -> "tuple[Suggestion, ...]":
        """Algorithm 3, offline, on the regions that were downloaded."""
        from prirec.device.recommend import published, recommend
        from prirec.device.sync import View
        from prirec.protocols.prediction import Moment

        found = View.of(self.person).publication
        if found is None:
            raise StateError("there is nothing to recommend with yet: take part, or wait until a model is published")
        return recommend(self.person, published(*found), moment=Moment(near, at), k=k, radius_km=radius_km)

    def status(self) -> "Status":
        """What the device keeps, where it belongs, and what it can do; no private value."""

        return status(self.person)

    def statement(self) -> Statement:
        """What was spent on what, and in all."""
        return self.paid().statement(day=self.day)

    def allow(self, budget: Budget) -> None:
        """The most that may be told of this person from now on."""
        with self.store.transaction() as rows:
            save_budget(rows, budget)

    @property
    def budget(self) -> Budget:
        with self.store.reading() as rows:
            return held_budget(rows)

    @property
    def day(self) -> int:
        """Today, in days since 1970."""
        return int(self._clock() // DAY)

    def paid(self) -> PaidStore:
        return PaidStore(self.store)

    def export(self) -> dict[str, Any]:
        """All that the file holds on the person."""
        return self.person.export()

    def forget(self) -> None:
        """Erases the person from this file. The ledger stays: what was spent is not refunded."""
        self.person.forget()

    # what goes online

    def join(
        self, url: str, *, home: Point | None = None, authority: bytes = b"", fingerprint: str | None = None,
        code: str | None = None,
    ) -> Membership:  # fmt: skip
        """Belongs to a deployment from now on, and tells it a coarse cell around the home, if one is given. With a
        code, which may be empty, it enrols at once; else when it first takes part."""
        from prirec.device.client import cell_of, join

        here = None if home is None else checked_point(*home)
        joined = asyncio.run(
            join(self.person, url, cell=cell_of(here), authority=authority, fingerprint=fingerprint, code=code)
        )
        if here is not None:
            self.person.set_home(here)
        return joined

    def take_part(
        self, *, seconds: float = 60.0, code: str = "", tell: Callable[[str], None] = lambda words: None
    ) -> None:
        """Follows the log and takes part in what it is invited to, for so long. What it does is told, without a private
        value."""

        async def for_so_long() -> None:
            stop = asyncio.Event()
            asyncio.get_running_loop().call_later(seconds, stop.set)
            await self.take_part_until(stop, code=code, tell=tell)

        asyncio.run(for_so_long())

    async def take_part_until(
        self, stop: asyncio.Event, *, code: str = "", tell: Callable[[str], None] = lambda words: None
    ) -> None:
        """Until it is stopped, at once: whatever it was doing is as if it had been switched off then. StateError if
        another agent is at work on the file: letters that one has read the other never sees."""
        from prirec.device.agent import Watch

        with self.store.alone():
            async with self.online(code=code) as agent:
                watch = Watch(agent)

                def look() -> None:
                    for words in watch.news():
                        tell(words)

                working = asyncio.ensure_future(self._work(agent, stop, look))
                stopped = asyncio.ensure_future(stop.wait())
                await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
                for task in (working, stopped):
                    task.cancel()
                with suppress(asyncio.CancelledError):
                    await working

    async def _work(self, agent: "Agent", stop: asyncio.Event, look: Callable[[], None]) -> None:
        """The log first: who is online for moments only has what was published all the same."""
        from prirec.device.client import AwayError

        with suppress(AwayError, PassingError):
            await agent.follow()
        look()
        await agent.run(stop, after=look)

    @asynccontextmanager
    async def online(
        self, *, code: str = "", trust: ssl.SSLContext | None = None, patience: "Patience | None" = None
    ) -> "AsyncIterator[Agent]":
        """An agent for this device, on a line of its own. Devices of one process may share what they trust."""
        from prirec.device.agent import Agent
        from prirec.device.client import Client, carrier, trusting
        from prirec.device.sync import View

        member = View.of(self.person).member
        believed = trusting(member.authority) if trust is None else trust
        async with carrier(member.url, trust=believed) as public, carrier(member.url, trust=believed) as named:
            client = Client(public, named, identity=member.identity, deployment=member.deployment)
            yield Agent(self.person, self.paid(), client, patience=patience, clock=self._clock, code=code)

    def download(self, *, near: Point) -> None:
        """The regions around a point as well. They follow from the coarse cell that the point is in: nothing finer can
        be told from what is asked for."""
        asyncio.run(self._download(*checked_point(*near)))

    async def _download(self, lat: float, lon: float) -> None:
        from prirec.device.client import cell_of
        from prirec.device.sync import catch_up, fetch_asked, save_region

        async with self.online() as agent:
            view = await catch_up(self.person, agent.client)
            if view.campaign is None:
                raise StateError("nothing has been published yet")
            with self.store.transaction() as rows:
                save_region(rows, cell_of((lat, lon)))
            await fetch_asked(self.person, agent.client)

    def leave(self) -> None:
        """The deployment forgets the device, and the device the deployment. What was spent is not refunded."""

        async def leaving() -> None:
            async with self.online() as agent:
                await agent.client.leave()

        asyncio.run(leaving())
        self.person.leave()
