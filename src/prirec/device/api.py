"""A device for whoever builds it into an app.

    with Device.open(path) as device:
        device.join("https://recommender:8443", home=(35.68, 139.76))
        device.record_visit("poi-17")
        device.take_part()
        for place in device.recommend(near=(35.68, 139.76)):
            ...

Everything that a person tells it stays in the one file. `join`, `take_part`, `download` and `leave` go online, and need
the extra `prirec[device]`; nothing else does, so what they need is imported when they are called.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from prirec.device.ledger import PaidStore, held_budget, save_budget
from prirec.device.membership import Membership
from prirec.device.person import Person, Point
from prirec.device.store import Store
from prirec.device.values import Given, checked_point
from prirec.errors import PassingError, StateError
from prirec.privacy.ledger import Budget, Statement

if TYPE_CHECKING:
    from prirec.device.agent import Agent, Patience
    from prirec.device.recommending import Suggestion
    from prirec.device.status import Status

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
        from prirec.device.asked import refuse_unfit

        refuse_unfit(self.person, values)
        self.person.set_profile(values)

    def record_visit(self, place: str, *, time: int | None = None, wanted: bool = True, id: str | None = None) -> bool:  # noqa: A002
        """A place that was visited or chosen, or one that was shown and ignored. Whether it is new."""
        return self.person.record_visit(place, time=time, label=1 if wanted else -1, id=id)

    def recommend(
        self, *, near: Point | None = None, at: int | None = None, k: int = 10, radius_km: float = 5.0
    ) -> "tuple[Suggestion, ...]":
        """Algorithm 3, offline, on the regions that were downloaded."""
        from prirec.device.recommending import published, recommend
        from prirec.device.view import View
        from prirec.protocols.guide import Moment

        found = View.of(self.person).publication
        if found is None:
            raise StateError("there is nothing to recommend with yet: take part, or wait until a model is published")
        return recommend(self.person, published(*found), moment=Moment(near, at), k=k, radius_km=radius_km)

    def status(self) -> "Status":
        """What the device keeps, where it belongs, and what it can do; no private value."""
        from prirec.device.status import status

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
        from prirec.device.joining import cell_of, join

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
        from prirec.device.watching import Watch

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
        from prirec.device.view import View

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
        from prirec.device.following import catch_up, fetch_asked
        from prirec.device.joining import cell_of
        from prirec.device.view import save_region

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
