"""A city from its first device to the last: started, taken through a campaign, asked for recommendations, stopped."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from prirec.device.device import Device
from prirec.device.recommend import Suggestion
from prirec.device.sync import catch_up
from prirec.errors import StateError
from prirec.metrics import Quality
from prirec.recommender import campaign as rules
from prirec.recommender.campaign import Progress
from prirec.recommender.operator import begin_campaign
from prirec.rehearsal.deployment import (
    NO_TRAFFIC,
    TYPICAL_SECONDS,
    DeviceProcesses,
    FaultInjector,
    RecommenderProcess,
    Traffic,
    devices_to_kill,
    postgres,
    require_postgres,
)
from prirec.rehearsal.plan import Plan
from prirec.rehearsal.population import Population, QualityMeter, load_people, make_devices
from prirec.rehearsal.processes import Sandbox, sandbox
from prirec.util.keyed_random import generator

PAUSE = 0.1  # seconds between two looks
STALLED_SECONDS = 120.0  # seconds without anything new, beside what the pace allows for
DEVICES_ASKED, PLACES_EACH = 3, 5  # devices that are asked for recommendations, and how many places each names


@dataclass(frozen=True, slots=True)
class Status:
    """What there is to show at a moment."""

    doing: str
    rows: "tuple[SumRow, ...]" = ()
    seconds: float = 0.0
    traffic: Traffic = NO_TRAFFIC


@dataclass(frozen=True, slots=True)
class Answered:
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
    rows: "tuple[SumRow, ...]"
    seconds: float
    traffic: Traffic
    device_deaths: int
    server_deaths: int
    quality: Quality | None = None
    simulated: Quality | None = None
    asked: tuple[Answered, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()


ShowStatus = Callable[[Status], None]


def rehearse(plan: Plan, *, tell: ShowStatus = lambda status: None) -> Outcome:
    """Everything that is started is stopped again, whatever happens."""
    tell(Status("moving people in"))
    settings, people = plan.settings, load_people(plan)  # what cannot be is refused before anything is made
    if plan.postgres:
        require_postgres()
    with sandbox(plan) as on:
        town = make_devices(people, plan, on.devices)
        with _stationed(plan, on) as station:
            station.found(town, settings)
            return _Run(plan, on, town, station, tell).run()


@contextmanager
def _stationed(plan: Plan, on: Sandbox) -> Iterator[RecommenderProcess]:
    """On a store of its own; the recommender's processes are gone before its database is."""
    if not plan.postgres:
        made = RecommenderProcess(on, store=str(on.recommender / "store"), workers=1, pace=plan.pace)
        with closing(made.store):
            yield made
        return
    with postgres(on.postgres) as url:
        made = RecommenderProcess(on, store=url, workers=2, pace=plan.pace)
        try:
            with closing(made.store):
                yield made
        finally:
            on.end()


class _Run:
    """One run, from start to end."""

    def __init__(
        self, plan: Plan, on: Sandbox, town: Population, station: RecommenderProcess, tell: ShowStatus
    ) -> None:
        self.plan, self.on, self.town, self.station, self.tell = plan, on, town, station, tell
        self.began = self.moved = time.monotonic()
        self.crew: DeviceProcesses
        self.watch = CampaignMonitor(self.began)
        self.yardstick: QualityMeter | None = None

    def run(self) -> Outcome:
        self._say("starting the recommender")
        self.station.start()
        self.crew = DeviceProcesses(
            self.town.files, self.station, doomed=devices_to_kill(self.plan), start=self.on.start
        )
        self.crew.start()
        self._enrol()
        begin_campaign(self.station.store, self.plan.settings)
        chaos = FaultInjector(self.plan, self.crew, self.station)
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

    def _campaign(self, chaos: FaultInjector) -> Progress:
        """Watches until it is over."""
        while True:
            self._check()
            now, progress = time.monotonic(), self._progress()
            if self.watch.look(progress, self.crew.traffic, now=now):
                self.moved = now
                self._measure(progress)
                if progress.phase in ENDED:
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
        return self.watch.rows[-1].seconds if self.watch.rows and not self.watch.rows[-1].burnt else TYPICAL_SECONDS

    def _measure(self, progress: Progress) -> None:
        """After each round, and at its start once there is something to measure with."""
        if not progress.edition:
            return
        if self.yardstick is None:
            self.yardstick = QualityMeter.of(self.town, self.station.store, progress)
        if self.watch.rows and self.watch.rows[-1].kind == "learning":
            self.watch.measured(self.yardstick.measure(progress))

    def _ask(self) -> tuple[Answered, ...]:
        """Some devices fetch what was published; then the recommender is stopped, and they answer without it."""
        self._say("asking some devices")
        rows = generator(self.plan.seed, "who is asked").permutation(len(self.town.files))[:DEVICES_ASKED].tolist()
        asyncio.run(self._fetched(rows))
        self.on.end()
        return tuple(self._asked(row) for row in rows)

    async def _fetched(self, rows: list[int]) -> None:
        for row in rows:
            with Device.open(self.town.files[row]) as device:
                async with device.online() as agent:
                    await catch_up(device.person, agent.client)

    def _asked(self, row: int) -> Answered:
        with Device.open(self.town.files[row]) as device:
            return Answered(row, device.recommend(k=PLACES_EACH), device.statement().lifetime.epsilon)

    def _check(self) -> None:
        self.station.check()
        self.crew.check()
        pace = self.plan.pace
        if time.monotonic() - self.moved > STALLED_SECONDS + pace.coming + 6 * pace.step:
            raise StateError("nothing has moved for minutes; with --out, the logs say why")

    def _say(self, doing: str) -> None:
        now, crew = time.monotonic(), getattr(self, "crew", None)
        traffic = NO_TRAFFIC if crew is None else crew.traffic
        under_way = self.watch.under_way(traffic, now=now)
        rows = (*self.watch.rows, *(() if under_way is None else (under_way,)))
        self.tell(Status(doing, rows, now - self.began, traffic))


# What a rehearsal sees of a campaign: the recommender's own account, which holds opened sums and public things only,
# and the devices' traffic.


ENDED = ("over", "failed")


@dataclass(frozen=True, slots=True)
class SumRow:
    """One sum, or the sums of all cohorts: under way while `opened` is None."""

    kind: str  # visits, mixing or learning
    round: int  # counted from 1; visits are before all
    seconds: float
    traffic: Traffic
    opened: int | None = None
    gathered: int = 0
    survivors: int = 0
    rostered: int = 0
    burnt: bool = False  # given up by whoever took over from a recommender that died, or because nobody came
    quality: Quality | None = None

    @property
    def lost(self) -> int:
        return max(self.rostered - self.survivors, 0)

    def as_dict(self) -> dict[str, Any]:
        kept = ("kind", "round", "opened", "gathered", "survivors", "rostered", "burnt")
        return {name: getattr(self, name) for name in kept} | {
            "seconds": round(self.seconds, 3),
            "bytes_sent": self.traffic.sent,
            "bytes_received": self.traffic.received,
            "requests": self.traffic.requests,
            "log_loss": None if self.quality is None else self.quality.log_loss,
            "auc": None if self.quality is None else self.quality.auc,
        }


@dataclass(slots=True)
class CampaignMonitor:
    """Fed with progress as it is at a moment; it keeps a row for each sum."""

    since: float
    rows: list[SumRow] = field(default_factory=list)
    _key: tuple[str, int, int] | None = None  # of the sum under way
    _past: int = 0
    _carried: Traffic = NO_TRAFFIC

    def look(self, progress: Progress, traffic: Traffic, *, now: float) -> bool:
        """Whether another sum has begun since, or the campaign is over."""
        key = (progress.phase, progress.iteration, progress.attempt)
        moved = key != self._key
        if moved and self._key is not None:
            self._close(progress, traffic, now=now)
        if moved:
            self._key, self.since, self._carried = key, now, traffic
        return moved

    def under_way(self, traffic: Traffic, *, now: float) -> SumRow | None:
        if self._key is None or self._key[0] in ENDED:
            return None
        return self._row(traffic, now=now)

    def measured(self, quality: Quality) -> None:
        """The model after the last sum."""
        self.rows[-1] = replace(self.rows[-1], quality=quality)

    def _close(self, progress: Progress, traffic: Traffic, *, now: float) -> None:
        """A row for each line that is new in the account; a sum with nobody in it was burnt."""
        row, lines = self._row(traffic, now=now), progress.past[self._past :]
        self._past = len(progress.past)
        for line in lines:
            self.rows.append(
                replace(
                    row, kind=line.kind, round=_round(line.kind, line.iteration), opened=line.opened,
                    gathered=line.gathered, survivors=line.survivors, rostered=line.rostered, burnt=line.rostered == 0,
                )
            )  # fmt: skip

    def _row(self, traffic: Traffic, *, now: float) -> SumRow:
        kind, iteration, _ = self._key or ("", 0, 0)
        return SumRow(kind, _round(kind, iteration), now - self.since, traffic - self._carried)


def _round(kind: str, iteration: int) -> int:
    return 0 if kind == "visits" else iteration + 1


def rounds_opened(rows: Sequence[SumRow]) -> int:
    """Rounds in which V moved."""
    return sum(row.kind == "learning" and bool(row.opened) for row in rows)
