"""A rehearsal from start to end: devices enrol, a campaign trains, accuracy is measured, some devices recommend."""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any

from prirec.device.device import Device
from prirec.device.sync import catch_up
from prirec.errors import StateError
from prirec.metrics import Quality
from prirec.pages.local import listen, origin_of
from prirec.pages.my_phone import RecommenderAddress, rehearsed
from prirec.protocols.messages import Round
from prirec.protocols.prediction import Suggestion
from prirec.recommender import campaign as rules
from prirec.recommender.campaign import CampaignState
from prirec.recommender.operator import own_document
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
from prirec.rehearsal.events import Recorder, ShowEvent
from prirec.rehearsal.plan import Plan
from prirec.rehearsal.population import Population, QualityMeter, load_people, make_devices
from prirec.rehearsal.processes import Sandbox, sandbox
from prirec.util.keyed_random import generator
from prirec.wire.documents import Window, read

PAUSE = 0.1  # seconds between two looks
STALLED_SECONDS = 120.0  # without progress, beyond what the pace allows for
DEVICES_ASKED, PLACES_EACH = 3, 5  # devices that are asked for recommendations, and how many places each names
APP_SECONDS = 4  # between two looks of an app at the log: windows are short here
ENDED = ("over", "failed")


@dataclass(frozen=True, slots=True)
class SumRow:
    """A row of the table of sums; still under way while `opened` is None."""

    kind: str  # visits, moments, learning or quality
    round: int  # counted from 1; 0 for the sums before the first round
    seconds: float
    traffic: Traffic
    opened: bool | None = None
    survivors: int = 0
    rostered: int = 0
    burnt: bool = False  # by the conductor that took over after a kill, or because nobody came
    quality: Quality | None = None

    @property
    def lost(self) -> int:
        return max(self.rostered - self.survivors, 0)

    def to_dict(self) -> dict[str, Any]:
        kept = ("kind", "round", "opened", "survivors", "rostered", "burnt")
        return {name: getattr(self, name) for name in kept} | {
            "seconds": round(self.seconds, 3),
            "bytes_sent": self.traffic.sent,
            "bytes_received": self.traffic.received,
            "requests": self.traffic.requests,
            "log_loss": None if self.quality is None else self.quality.log_loss,
            "auc": None if self.quality is None else self.quality.auc,
        }


@dataclass(frozen=True, slots=True)
class Status:
    """Progress of a rehearsal, as the user is shown it."""

    doing: str
    rows: tuple[SumRow, ...] = ()
    seconds: float = 0.0
    traffic: Traffic = NO_TRAFFIC


@dataclass(frozen=True, slots=True)
class DeviceAnswer:
    """One device's recommendations: private to the person, unless the person is made up."""

    device: int  # its row in the data
    places: tuple[Suggestion, ...] = field(repr=False)
    epsilon: float  # that this person has spent in all


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a rehearsal."""

    plan: Plan
    made_up: bool
    labelled: bool  # whether the data hold ignored places; else devices drew their own negatives
    phase: str  # over, or failed: the sum of visits or of moments was not opened
    rows: tuple[SumRow, ...]
    seconds: float
    traffic: Traffic
    device_deaths: int
    server_deaths: int
    quality: Quality | None = None
    simulated: tuple[Quality, ...] = ()  # the same campaign in simulations, each with draws of its own
    asked: tuple[DeviceAnswer, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = ()


ShowStatus = Callable[[Status], None]


def rehearse(
    plan: Plan, *, tell: ShowStatus = lambda status: None, record: ShowEvent = lambda event: None,
    personal: bool | None = None, tell_app: Callable[[str], None] = lambda link: None,
    tell_pages: Callable[[Mapping[str, str]], None] = lambda pages: None,
) -> Outcome:  # fmt: skip
    """Run a deployment by this plan on this machine. Every process is stopped again, whatever happens. `record` is
    called with each event (events.py); what only its owner can know is in them with `personal`, by default where the
    people are made up. `tell_app` is told the link to My phone, if the plan has it; `tell_pages` the address of each
    operator's page."""
    tell(Status("preparing the data"))
    people = load_people(plan)  # an impossible plan is refused before anything is created
    if plan.postgres:
        require_postgres()
    with sandbox(plan) as on:
        population = make_devices(people, plan, on.devices)
        tell(Status("starting the recommender"))
        with _recommender(plan, on, population, tell_app) as recommender:
            tell_pages(recommender.operator_pages)
            recorder = Recorder(record, plan, personal=plan.data is None if personal is None else personal)
            return _Run(plan, on, population, recommender, tell, recorder).run()


@contextmanager
def _recommender(
    plan: Plan, on: Sandbox, population: Population, tell_app: Callable[[str], None]
) -> Iterator[RecommenderProcess]:
    """A recommender on a store of its own, started. With PostgreSQL, all processes end before the database does."""
    with ExitStack() as stack:
        listening = stack.enter_context(listen()) if plan.app and plan.operators == 2 else None
        own = () if listening is None else (origin_of(listening),)
        store, workers = str(on.recommender / "store"), 1
        if plan.postgres:
            store, workers = stack.enter_context(postgres(on.postgres)), 2
            stack.callback(on.end)
        made = RecommenderProcess(
            on,
            population,
            plan.settings,
            store=store,
            workers=workers,
            pace=plan.pace,
            operators=plan.operators,
            app_origins=(*plan.app_origins, *own),
        )
        with closing(made):
            made.start()
            if listening is not None and made.helper_fingerprint is not None:
                address = RecommenderAddress(made.address, made.fingerprint, made.helper_fingerprint)
                tell_app(stack.enter_context(rehearsed(address, listening, seconds=APP_SECONDS)))
            yield made


class _Run:
    """State of one rehearsal while it runs."""

    def __init__(
        self, plan: Plan, on: Sandbox, population: Population, recommender: RecommenderProcess, tell: ShowStatus,
        recorder: Recorder,
    ) -> None:  # fmt: skip
        self.plan, self.on, self.population, self.recommender, self.tell = plan, on, population, recommender, tell
        self.recorder = recorder
        order = generator(plan.seed, "who is asked").permutation(len(population.files))
        self.asked: list[int] = order[:DEVICES_ASKED].tolist()
        self.began = self.moved = time.monotonic()
        self.devices: DeviceProcesses
        self.monitor = CampaignMonitor(self.began)
        self.window = 0  # seconds
        self.meter: QualityMeter | None = None
        self.thread = ThreadPoolExecutor(1, "accuracy")  # measuring takes seconds, in which others want to be looked at
        self.measuring: list[tuple[Future[Quality | None], int, int]] = []  # with the row of the sum, and the round
        self.rows_measured = 0

    def run(self) -> Outcome:
        try:
            return self._run()
        finally:
            self.thread.shutdown(cancel_futures=True)

    def _run(self) -> Outcome:
        self.recorder.city(self.population, self.asked, at=self._at)
        self.devices = DeviceProcesses(
            self.population.files, self.recommender, doomed=devices_to_kill(self.plan), start=self.on.start,
            watched=self.asked if self.recorder.personal else (),
        )  # fmt: skip
        self.devices.start()
        began = time.monotonic()
        self._enrol()
        self.window = self.plan.window(time.monotonic() - began)
        self.recommender.deployment.begin(
            self.plan.settings, anyway=True, window=self.window, most=self.plan.most
        )  # fmt: skip
        faults = FaultInjector(self.plan, self.devices, self.recommender)
        progress = self._campaign(faults)
        traffic, seconds = self.devices.traffic, time.monotonic() - self.began
        self._take_measured(wait=True)
        asked = self._recommend() if progress.phase == "over" else ()
        found = None if self.meter is None else self.meter.measure(progress)
        simulated = () if self.meter is None else self.meter.simulated()
        self.recorder.end(progress.phase, found, simulated, at=self._at)
        return Outcome(
            plan=self.plan,
            made_up=self.population.dataset.made_up,
            labelled=self.population.dataset.labelled,
            phase=progress.phase,
            rows=tuple(self.monitor.rows),
            seconds=seconds,
            traffic=traffic,
            device_deaths=sum(group.deaths * len(group.files) for group in self.devices.groups),
            server_deaths=faults.server_deaths,
            quality=found,
            simulated=simulated,
            asked=asked,
            notes=self.population.notes,
        )

    def _enrol(self) -> None:
        """Wait until all devices are enrolled."""
        known = -1
        while known < self.plan.devices:
            self._check()
            if (found := self.recommender.store.counts().people) != known:
                known, self.moved = found, time.monotonic()
            self._show(f"enrolling devices: {known:,} of {self.plan.devices:,}")
            time.sleep(PAUSE)

    def _campaign(self, faults: FaultInjector) -> CampaignState:
        """Follow the campaign, and inject faults, until it is over."""
        while True:
            self._check()
            now, progress = time.monotonic(), self._progress()
            self.recorder.campaign(
                progress, self.recommender.store, self.population, at=self._at, now=time.time()
            )  # fmt: skip
            if self.monitor.look(progress, self.devices.traffic, now=now):
                self.moved = now
                self._measure(progress)
                if progress.phase in ENDED:
                    return progress
                faults.sum_begins(len(self.monitor.rows), now=now, usual=self._usual())
            faults.act(now=now)
            self._take_measured()
            self._show(self._training(progress))
            time.sleep(PAUSE)

    def _progress(self) -> CampaignState:
        held = self.recommender.store.progress()
        if held is None:
            raise StateError("the campaign is gone from the recommender's store")
        return rules.decode_state(held)

    def _training(self, progress: CampaignState) -> str:
        """Condition for which a window waits, with two operators."""
        if not progress.window:
            return "training"
        store = self.recommender.store
        window = read(Window, own_document(store, progress.window), name=progress.window)
        reports = store.joint.count_reports(Round(store.founding().deployment, window.kind, window.number))
        left = max(0, ceil(window.closes - time.time()))
        return f"{reports:,} of {window.people:,} devices have reported, the window closes in {left} s"

    def _usual(self) -> float:
        rows = self.monitor.rows
        return rows[-1].seconds if rows and not rows[-1].burnt else TYPICAL_SECONDS

    def _measure(self, progress: CampaignState) -> None:
        """Accuracy after each round, once the shared model has begun; the city goes on meanwhile."""
        rows = self.monitor.rows
        if progress.scales and len(rows) > self.rows_measured:  # else a window was extended, and nothing was learnt
            self.rows_measured = len(rows)
            learnt = rows[-1].kind == "learning"
            self.measuring.append((
                self.thread.submit(self._accuracy, progress, learnt=learnt), len(rows) - 1, progress.rounds
            ))  # fmt: skip

    def _accuracy(self, progress: CampaignState, *, learnt: bool) -> Quality | None:
        if self.meter is None:
            self.meter = QualityMeter.of(self.population, self.recommender.store, progress)
        return self.meter.measure(progress) if learnt else None

    def _take_measured(self, *, wait: bool = False) -> None:
        """What was measured by now, or with `wait` all of it."""
        while self.measuring and (wait or self.measuring[0][0].done()):
            measured, row, round_ = self.measuring.pop(0)
            if (found := measured.result()) is not None:
                self.monitor.measured(row, found)
                self.recorder.accuracy(round_, found, at=self._at)

    def _recommend(self) -> tuple[DeviceAnswer, ...]:
        """Some devices download what was published; then the recommender is stopped, and they recommend offline."""
        self._show("asking some devices")
        asyncio.run(self._download(self.asked))
        self.on.end()
        answers = tuple(self._answer(row) for row in self.asked)
        for one in answers:
            self.recorder.recommended(one.device, one.places, self.population, at=self._at)
        return answers

    async def _download(self, rows: list[int]) -> None:
        for row in rows:
            with Device.open(self.population.files[row]) as device:
                async with device.online() as agent:
                    await catch_up(device.person, agent.client)

    def _answer(self, row: int) -> DeviceAnswer:
        with Device.open(self.population.files[row]) as device:
            return DeviceAnswer(row, device.recommend(k=PLACES_EACH), device.account().lifetime.epsilon)

    def _check(self) -> None:
        self.recommender.check()
        self.devices.check()
        pace = self.plan.pace
        if time.monotonic() - self.moved > STALLED_SECONDS + pace.coming + 6 * pace.step + self.window:
            raise StateError("nothing has moved for minutes; the logs say why, where the files of the city are kept")

    @property
    def _at(self) -> float:
        """Seconds since the start, as events have them."""
        return round(time.monotonic() - self.began, 2)

    def _show(self, doing: str) -> None:
        now, devices = time.monotonic(), getattr(self, "devices", None)
        traffic = NO_TRAFFIC if devices is None else devices.traffic
        under_way = self.monitor.under_way(traffic, now=now)
        rows = (*self.monitor.rows, *(() if under_way is None else (under_way,)))
        self.recorder.doing(doing.partition(":")[0], at=self._at)
        if devices is not None:
            self.recorder.devices(devices.contributions, at=self._at)
            self.recorder.watched(devices.watched, at=self._at)
            self.recorder.traffic(traffic.sent, traffic.received, traffic.requests, at=self._at)
        self.tell(Status(doing, rows, now - self.began, traffic))


# Following the campaign


@dataclass(slots=True)
class CampaignMonitor:
    """Turns successive campaign states, which hold public facts and opened sums only, into a row for each sum."""

    since: float
    rows: list[SumRow] = field(default_factory=list)
    _key: tuple[str, int, int] | None = None  # of the sum under way
    _past: int = 0
    _carried: Traffic = NO_TRAFFIC

    def look(self, progress: CampaignState, traffic: Traffic, *, now: float) -> bool:
        """Compare the state with the last one: whether another sum has begun since, or the campaign is over."""
        key = (progress.phase, progress.iteration, progress.attempt)
        if key == self._key:
            return False
        before = len(self.rows)
        if self._key is not None:
            self._close(progress, traffic, now=now)
        if self._key is None or len(self.rows) > before:  # else the window of the same sum was extended
            self.since, self._carried = now, traffic
        self._key = key
        return True

    def under_way(self, traffic: Traffic, *, now: float) -> SumRow | None:
        if self._key is None or self._key[0] in ENDED:
            return None
        return self._row(traffic, now=now)

    def measured(self, row: int, quality: Quality) -> None:
        """Add the accuracy of the model after this sum."""
        self.rows[row] = replace(self.rows[row], quality=quality)

    def _close(self, progress: CampaignState, traffic: Traffic, *, now: float) -> None:
        """A row for each sum that is new among the past ones; a sum with nobody on its roster was burnt."""
        row, lines = self._row(traffic, now=now), progress.past[self._past :]
        self._past = len(progress.past)
        for line in lines:
            self.rows.append(
                replace(
                    row, kind=line.kind, round=_round(line.kind, line.iteration), opened=line.opened,
                    survivors=line.survivors, rostered=line.rostered, burnt=line.rostered == 0,
                )
            )  # fmt: skip

    def _row(self, traffic: Traffic, *, now: float) -> SumRow:
        kind, iteration, _ = self._key or ("", 0, 0)
        return SumRow(kind, _round(kind, iteration), now - self.since, traffic - self._carried)


def _round(kind: str, iteration: int) -> int:
    return iteration + 1 if kind == "learning" else 0


def rounds_opened(rows: Sequence[SumRow]) -> int:
    """Number of rounds in which the shared model moved."""
    return sum(row.kind == "learning" and bool(row.opened) for row in rows)
