"""A city from its first device to the last: started, taken through a campaign, asked for recommendations, stopped."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from prirec.device.device import Device
from prirec.device.recommend import Suggestion
from prirec.device.sync import catch_up
from prirec.errors import StateError
from prirec.metrics import Quality
from prirec.recommender import campaign as rules
from prirec.recommender.campaign import Progress
from prirec.recommender.operator import begin
from prirec.rehearsal.chaos import USUAL, Chaos, doomed
from prirec.rehearsal.crew import NONE, Crew, Traffic
from prirec.rehearsal.database import postgres, require
from prirec.rehearsal.measuring import Yardstick
from prirec.rehearsal.plan import Plan
from prirec.rehearsal.stage import Stage, stage
from prirec.rehearsal.station import Station
from prirec.rehearsal.town import Town, people_of, settle
from prirec.rehearsal.watching import OVER, Row, Watch
from prirec.util.keyed_random import generator

PAUSE = 0.1  # seconds between two looks
STALLED = 120.0  # seconds without anything new, beside what the pace allows for
ASKED, PLACES = 3, 5  # devices that are asked for recommendations, and how many places each names


@dataclass(frozen=True, slots=True)
class Status:
    """What there is to show at a moment."""

    doing: str
    rows: tuple[Row, ...] = ()
    seconds: float = 0.0
    traffic: Traffic = NONE


@dataclass(frozen=True, slots=True)
class Asked:
    """One device's answer. For the person's eyes, unless the person is made up."""

    device: int  # its row
    places: tuple[Suggestion, ...] = field(repr=False)
    epsilon: float  # spent by this person in all


@dataclass(frozen=True, slots=True)
class Outcome:
    """A rehearsal that went through."""

    plan: Plan
    made_up: bool
    labelled: bool  # whether the data tell what was ignored; else devices drew negatives of their own
    phase: str  # over, or failed: the sum of visits was not opened
    rows: tuple[Row, ...]
    seconds: float
    traffic: Traffic
    device_deaths: int
    server_deaths: int
    quality: Quality | None = None
    simulated: Quality | None = None
    asked: tuple[Asked, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()


Tell = Callable[[Status], None]


def rehearse(plan: Plan, *, tell: Tell = lambda status: None) -> Outcome:
    """Everything that is started is stopped again, whatever happens."""
    tell(Status("moving people in"))
    settings, people = plan.settings, people_of(plan)  # what cannot be is refused before anything is made
    if plan.postgres:
        require()
    with stage(plan) as on:
        town = settle(people, plan, on.devices)
        with _stationed(plan, on) as station:
            station.found(town, settings)
            return _Show(plan, on, town, station, tell).run()


@contextmanager
def _stationed(plan: Plan, on: Stage) -> Iterator[Station]:
    """On a store of its own; the recommender's processes are gone before its database is."""
    if not plan.postgres:
        made = Station(on, store=str(on.recommender / "store"), workers=1, pace=plan.pace)
        with closing(made.store):
            yield made
        return
    with postgres(on.postgres) as url:
        made = Station(on, store=url, workers=2, pace=plan.pace)
        try:
            with closing(made.store):
                yield made
        finally:
            on.end()


class _Show:
    """One run, from start to end."""

    def __init__(self, plan: Plan, on: Stage, town: Town, station: Station, tell: Tell) -> None:
        self.plan, self.on, self.town, self.station, self.tell = plan, on, town, station, tell
        self.began = self.moved = time.monotonic()
        self.crew: Crew
        self.watch = Watch(self.began)
        self.yardstick: Yardstick | None = None

    def run(self) -> Outcome:
        self._say("starting the recommender")
        self.station.start()
        self.crew = Crew(self.town.files, self.station, doomed=doomed(self.plan), start=self.on.start)
        self.crew.start()
        self._enrol()
        begin(self.station.store, self.plan.settings)
        chaos = Chaos(self.plan, self.crew, self.station)
        progress = self._campaign(chaos)
        traffic, seconds = self.crew.traffic, time.monotonic() - self.began
        asked = self._ask() if progress.phase == "over" else ()
        return Outcome(
            plan=self.plan,
            made_up=self.town.dataset.made_up,
            labelled=self.town.dataset.labelled,
            phase=progress.phase,
            rows=tuple(self.watch.rows),
            seconds=seconds,
            traffic=traffic,
            device_deaths=sum(group.deaths * len(group.files) for group in self.crew.groups),
            server_deaths=chaos.server_deaths,
            quality=None if self.yardstick is None else self.yardstick.measure(progress),
            simulated=None if self.yardstick is None else self.yardstick.simulated(),
            asked=asked,
            notes=self.town.notes,
        )

    def _enrol(self) -> None:
        """Until the recommender knows everyone."""
        known = -1
        while known < self.plan.devices:
            self._check()
            if (found := self.station.store.counts().people) != known:
                known, self.moved = found, time.monotonic()
            self._say(f"enrolling devices: {known:,} of {self.plan.devices:,}")
            time.sleep(PAUSE)

    def _campaign(self, chaos: Chaos) -> Progress:
        """Watches until it is over."""
        while True:
            self._check()
            now, progress = time.monotonic(), self._progress()
            if self.watch.look(progress, self.crew.traffic, now=now):
                self.moved = now
                self._measure(progress)
                if progress.phase in OVER:
                    return progress
                chaos.sum_begins(len(self.watch.rows), now=now, usual=self._usual())
            chaos.act(now=now)
            self._say("training")
            time.sleep(PAUSE)

    def _progress(self) -> Progress:
        held = self.station.store.progress()
        if held is None:
            raise StateError("the campaign is gone from the recommender's store")
        return rules.read_progress(held)

    def _usual(self) -> float:
        return self.watch.rows[-1].seconds if self.watch.rows and not self.watch.rows[-1].burnt else USUAL

    def _measure(self, progress: Progress) -> None:
        """After each round, and at its start once there is something to measure with."""
        if not progress.edition:
            return
        if self.yardstick is None:
            self.yardstick = Yardstick.of(self.town, self.station.store, progress)
        if self.watch.rows and self.watch.rows[-1].kind == "learning":
            self.watch.measured(self.yardstick.measure(progress))

    def _ask(self) -> tuple[Asked, ...]:
        """Some devices fetch what was published; then the recommender is stopped, and they answer without it."""
        self._say("asking some devices")
        rows = generator(self.plan.seed, "who is asked").permutation(len(self.town.files))[:ASKED].tolist()
        asyncio.run(self._fetched(rows))
        self.on.end()
        return tuple(self._asked(row) for row in rows)

    async def _fetched(self, rows: list[int]) -> None:
        for row in rows:
            with Device.open(self.town.files[row]) as device:
                async with device.online() as agent:
                    await catch_up(device.person, agent.client)

    def _asked(self, row: int) -> Asked:
        with Device.open(self.town.files[row]) as device:
            return Asked(row, device.recommend(k=PLACES), device.statement().lifetime.epsilon)

    def _check(self) -> None:
        self.station.check()
        self.crew.check()
        pace = self.plan.pace
        if time.monotonic() - self.moved > STALLED + pace.coming + 6 * pace.step:
            raise StateError("nothing has moved for minutes; with --out, the logs say why")

    def _say(self, doing: str) -> None:
        now, crew = time.monotonic(), getattr(self, "crew", None)
        traffic = NONE if crew is None else crew.traffic
        under_way = self.watch.under_way(traffic, now=now)
        rows = (*self.watch.rows, *(() if under_way is None else (under_way,)))
        self.tell(Status(doing, rows, now - self.began, traffic))
