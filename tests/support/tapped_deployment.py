"""A deployment in which every private value is a canary, with a tap on all that leaves a device or comes to the
recommender: requests and answers as bytes, what it can open of sealed messages, its store, its log."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from prirec.config import Settings
from prirec.data.dataset import Category, Dataset, Numbers
from prirec.device import rounds
from prirec.device.agent import Agent
from prirec.device.client import HEADERS, Client
from prirec.device.ledger import LedgerStore
from prirec.device.person import Person
from prirec.device.recommend import own_model, published
from prirec.device.sync import View
from prirec.privacy.ledger import Budget
from prirec.protocols import secure_sum, terms
from prirec.protocols.messages import AnyMessage, Roster
from prirec.protocols.party import Action
from prirec.protocols.secure_sum import Collector, Member
from prirec.recommender import conductor as conducting
from prirec.recommender import observability
from prirec.recommender.conductor import Conductor, Pace
from prirec.recommender.limits import Limits, Rate
from prirec.recommender.observability import JsonLines
from prirec.recommender.operator import begin_campaign
from prirec.recommender.service import app
from prirec.recommender.store import Store
from support.canaries import (
    Tap,
    described,
    flat,
    forms,
    of_moment,
    of_number,
    of_pair,
    of_reals,
    of_ring,
    of_text,
    on_disk,
)
from support.cities import small_city
from support.deployment import AT_ONCE, NOW, Deployment, Entropy, deployed

OFTEN = Rate(1e6, 1_000_000)
OPEN = Limits(device=OFTEN, address=OFTEN, enrolment=OFTEN, enrolments=OFTEN)
PUBLIC_TABLES = ("documents", "log")


def planted(people: int, tap: Tap) -> Dataset:
    """A small city whose people, homes, visits and moments are canaries. Its places are public, as ids go."""
    city, rng = small_city(people=people, places=20, records=8 * people), np.random.default_rng(99)

    def word(what: str) -> str:
        return f"canary-{what}-{rng.bytes(6).hex()}"

    who = {
        "shoe": Numbers(rng.uniform(20.0, 50.0, people)),
        "rent": Numbers(rng.uniform(400.0, 4000.0, people)),
        "illness": Category(np.arange(people, dtype=np.int32), tuple(word("illness") for _ in range(people))),
    }
    home = city.people.location + rng.uniform(-1e-3, 1e-3, (people, 2))
    moods = Category(np.arange(len(city.visits), dtype=np.int32), tuple(word("mood") for _ in range(len(city.visits))))
    visits = replace(
        city.visits, context={"mood": moods}, time=rng.integers(1_500_000_000, 1_800_000_000, len(city.visits))
    )
    for i in range(people):
        tap.everywhere.add("profile", of_number(who["shoe"].values[i]) | of_number(who["rent"].values[i]))
        tap.everywhere.add("profile", of_pair(who["shoe"].values[i], who["rent"].values[i]))
        tap.everywhere.add("profile", of_text(who["illness"].words[i]))
        tap.everywhere.add("home", of_number(home[i, 0]) | of_number(home[i, 1]) | of_pair(*home[i]))
    for at in range(len(visits)):
        tap.everywhere.add("visits", of_text(moods.words[at]) | of_moment(int(visits.time[at])))
    ids = tuple(word("place") for _ in city.places.ids)
    tap.own.add("places", set().union(*map(of_text, ids)))
    return replace(
        city, people=replace(city.people, columns=who, location=home), places=replace(city.places, ids=ids),
        visits=visits,
    )  # fmt: skip


class PlantedMember(Member):
    """What it adds, its share of the noise and its secrets are canaries from the moment that they exist."""

    def __init__(self, tap: Tap, *task: Any, value: np.ndarray, entropy: bytes, **rest: Any) -> None:
        super().__init__(*task, value=value, entropy=entropy, **rest)
        self.tap, self.vector, self.draws_from = tap, value.copy(), secure_sum.noise_seed(entropy)
        tap.everywhere.add("secrets", set().union(*(forms(entropy[at : at + 32]) for at in range(0, len(entropy), 32))))

    def supply(self, value: np.ndarray) -> None:
        super().supply(value)
        self.vector = value.copy()
        self.tap.everywhere.add("vectors", of_ring(value))

    def handle(self, message: AnyMessage) -> list[Action]:
        if isinstance(message, Roster):
            share = terms.draw_noise(self.task.terms, message.size, seed=self.draws_from)
            self.tap.everywhere.add("vectors", of_ring(share) | of_ring(self.vector + share))
        return super().handle(message)


class TappedCollector(Collector):
    """Whatever it can open."""

    def __init__(self, tap: Tap, *task: Any, **rest: Any) -> None:
        super().__init__(*task, **rest)
        self.tap = tap

    def unseal(self, *box: Any) -> bytes:
        content = super().unseal(*box)
        self.tap.hear("opened boxes", content)
        return content


class Line(httpx.AsyncBaseTransport):
    """The service in this process, as HTTP: every byte of questions and answers is heard."""

    def __init__(self, service: Any, tap: Tap) -> None:
        self._service, self._tap = httpx.ASGITransport(app=service), tap

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = f"{request.method} {request.url}\n".encode() + described(request.headers) + await request.aread()
        self._tap.hear("requests", asked)
        answer = await self._service.handle_async_request(request)
        body = await answer.aread()
        self._tap.hear("answers", described(answer.headers) + body, published=True)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=httpx.ByteStream(body))


class Ear(logging.Handler):
    """Everything that anybody logs, as this program writes it out and as it stands."""

    def __init__(self, tap: Tap) -> None:
        super().__init__(logging.DEBUG)
        self._tap, self._lines = tap, JsonLines()

    def emit(self, record: logging.LogRecord) -> None:
        self._tap.hear("log", f"{self._lines.format(record)}\n{record.getMessage()}\n{record.__dict__}".encode())


class TappedTown:
    """The deployment."""

    def __init__(self, folder: Path, settings: Settings, *, people: int, patch: pytest.MonkeyPatch) -> None:
        self.tap, self.folder, self.settings = Tap(), folder, settings
        patch.setattr(rounds, "Member", partial(PlantedMember, self.tap))
        patch.setattr(conducting, "Collector", partial(TappedCollector, self.tap))
        self.town: Deployment = deployed(planted(people, self.tap), settings, folder)
        self.store: Store = self.town.store
        self.models: dict[tuple[str, int], np.ndarray] = {}  # all that devices ever had, by name and round
        for person in self.town.people.values():
            self.tap.everywhere.add("secrets", forms(_member(person).secret))
            cell = _member(person).cell
            self.tap.everywhere.add("cells", {f"{cell:x}".encode(), cell.to_bytes(8, "big")})

    @asynccontextmanager
    async def online(self, *, code: str = "") -> AsyncIterator[list[Agent]]:
        """A service, and an agent for each device on a line to it. `code` is what they say when they enrol."""
        service = app(self.store, limits=OPEN)
        ear, root = Ear(self.tap), logging.getLogger()
        root.addHandler(ear)
        level, own = root.level, logging.getLogger("prirec.recommender")
        root.setLevel(logging.DEBUG)
        own.setLevel(logging.DEBUG)
        try:
            async with service.router.lifespan_context(service):
                line = httpx.AsyncClient(base_url="https://town", transport=Line(service, self.tap), headers=HEADERS)
                async with line, AsyncExitStack() as ending:
                    agents = [self._agent(name, line, code=code) for name in self.town.people]
                    for agent in agents:
                        ending.push_async_callback(agent.stop_downloads)
                    yield agents
        finally:
            root.removeHandler(ear)
            root.setLevel(level)
            own.setLevel(logging.NOTSET)

    def _agent(self, name: str, line: httpx.AsyncClient, *, code: str) -> Agent:
        person = self.town.people[name]
        mine = _member(person)
        client = Client(line, identity=mine.identity, deployment=mine.deployment)
        paid, entropy = LedgerStore(person.store, Budget(epsilon=50.0)), Entropy(bytes.fromhex(name))
        return Agent(person, paid, client, retry=AT_ONCE, clock=lambda: NOW, entropy=entropy, code=code)

    async def campaign(self, agents: list[Agent], *, enough: Callable[[], bool] = lambda: False) -> None:
        """From enrolment to publication, or until that is enough; everything is looked at after every tick."""
        await _turn(agents)
        begin_campaign(self.store, self.settings)
        conductor = Conductor(
            self.store, pace=Pace(1e9, 1e9), clock=lambda: 0.0, entropy=Entropy(b"server"), tell=observability.log_event
        )
        for _ in range(500):
            moved = conductor.tick()
            self.look()
            if enough() or not (moved or conductor.sum):
                break
            await _turn(agents)
            self._plant_models()
        await _turn(agents)
        self.look(thoroughly=True)

    def look(self, *, thoroughly: bool = False) -> None:
        """All rows of what is not public; thoroughly, all rows and the files as they are on the disk."""
        with self.store._database.reading() as rows:
            for (table,) in rows.all("SELECT name FROM sqlite_master WHERE type = 'table'"):
                public = table in PUBLIC_TABLES
                if thoroughly or not public:
                    for row in rows.all(f"SELECT * FROM {table}"):  # noqa: S608
                        self.tap.hear(f"table {table}", flat(row), published=public)
        if thoroughly:
            for data in on_disk(self.folder, "recommender"):
                self.tap.hear("files", data, published=True)

    def _plant_models(self) -> None:
        """What every device would recommend with, as the log is now, as far as it is the person's own."""
        for name, person in self.town.people.items():
            view = View.of(person)
            if view.campaign is None or view.model is None or (name, view.model.iteration) in self.models:
                continue
            of = published(view.model, view.campaign, view.known)
            mine = own_model(person, of)
            mine = mine[mine * 2**16 % 1 != 0]  # where the own records say nothing, it is a multiple of that
            self.models[name, view.model.iteration] = mine
            self.tap.everywhere.add("models", of_reals(mine))


async def _turn(agents: list[Agent]) -> None:
    """A step of each. What an agent did not foresee it forgets, with the message, and its round waits for it for ever:
    here it is a fault of the test, and is raised."""
    for agent in agents:
        await agent.step(wait=0)
        if agent.last_fault is not None:
            raise agent.last_fault


def _member(person: Person):  # type: ignore[no-untyped-def]
    member = person.membership()
    assert member is not None
    return member
