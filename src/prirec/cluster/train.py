"""A whole run over shards: rounds, history, checkpoints, and what is lost on the way made good."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from prirec.cluster.checkpoints import Shelf
from prirec.cluster.pool import LostError, RayCrew
from prirec.cluster.worker import Given, Replayed
from prirec.config import Settings
from prirec.data.partitioned import MANIFEST, PLACES, read_partition
from prirec.data.schema import FILE as SCHEMA
from prirec.engines.checkpoint import Checkpoint, identity
from prirec.engines.shards import RunSize, ShardDriver, ShardSplit
from prirec.engines.state import IterationReport, State
from prirec.engines.train import Keeping, Trained, iterate, refuse_past, start
from prirec.errors import StateError, UsageError
from prirec.features.samples import Samples
from prirec.graph.neighbourhoods import cohort_numbers
from prirec.metrics import Quality
from prirec.model.adam import no_moments
from prirec.privacy.plan import sized
from prirec.rounds.definition import RoundRules, first_interaction, first_linear
from prirec.simulate.partitioned import Call, CityApart, Preparing, dealt, quality_apart, refuse_unfit_apart, save_apart

Answer = TypeVar("Answer")
LOST_IN_A_ROW = 5  # without an iteration that is new: the cluster is not one to work on
AGAIN = "actors are lost again and again; look at the nodes of the cluster"


def refuse_unfit(settings: Settings) -> None:
    """What shards cannot do."""
    if settings.schedule != "rounds":
        raise UsageError(
            "the cluster runs rounds: in the paper's schedule a sample needs the V that the one before it moved, and a "
            "centralised model needs all records in one place; use --engine local"
        )
    if settings.stopping.patience:
        raise UsageError("early stopping is not carried by the cluster: set stopping.patience to 0")
    if settings.latent.dimension:
        raise UsageError("latent vectors are not carried by the cluster: set latent.dimension to 0")


def kept_course(shelf: Shelf | None, settings: Settings) -> Checkpoint | None:
    """V and the history of the last checkpoint, if there is one; StateError if this run cannot go on from it."""
    if shelf is None or not shelf.there():
        return None
    course = shelf.conductor()
    refuse_past(course, settings)
    return course


@dataclass(slots=True)
class Run:
    """Rounds from the start, or from the last checkpoint of the same run."""

    crew: RayCrew
    settings: Settings
    whole: RunSize
    split: bool  # whether any cohort is in more than one shard
    shelf: Shelf | None = None
    every: int = 5
    tell: Callable[[IterationReport], None] = lambda passed: None

    def finished(self) -> Checkpoint:
        """V and the history; models are where the people are. Where a shard is lost, all of them go back to the last
        checkpoint, and what they have moved since is thrown away."""
        furthest = lost = 0

        def tell(report: IterationReport) -> None:
            nonlocal furthest, lost
            if report.iteration > furthest:  # an iteration that is only done again is no progress, and was reported
                furthest, lost = report.iteration, 0
                self.tell(report)

        while True:
            course = self._recovered()
            try:
                iterate(course, self, self.settings, save=self._save, tell=tell)
            except LostError:
                lost += 1
                if lost > LOST_IN_A_ROW:
                    raise StateError(AGAIN) from None
            else:
                return course

    def afterwards(self, task: Callable[[], Answer]) -> Answer:
        """What is asked of the shards when all rounds are done. Where one is lost over it, a new one is brought to the
        same point, from the last checkpoint, and all are asked again."""
        for lost in range(LOST_IN_A_ROW):
            if lost:
                replace(self, tell=lambda passed: None).finished()
            with suppress(LostError):
                return task()
        raise StateError(AGAIN)

    def advance(self, state: State) -> IterationReport:
        """One round, and how many bytes it moved between the driver and the actors."""
        people, places, features, _ = self.whole
        rules, before = (
            RoundRules.sized(self.settings, people=people, places=places, features=features),
            self.crew.moved,
        )
        report = ShardDriver(self.crew, rules, split=self.split).advance(state)
        return msgspec.structs.replace(report, moved=self.crew.moved - before)

    def _save(self, course: Checkpoint) -> None:
        shelf = self.shelf
        if shelf is None or course.state.iteration % self.every != 0:
            return
        shelf.folder.mkdir(parents=True, exist_ok=True)
        names, folder = shelf.names(course.state.iteration), str(shelf.folder.resolve())
        self.crew.each("take", course.state.interaction, course.state.moments)
        self.crew.each_of("keep", [(folder, name, shelf.label(at)) for at, name in enumerate(names)])
        shelf.commit(course)

    def _recovered(self) -> Checkpoint:
        """A crew with nobody missing, all of them at the last checkpoint or at the start."""
        for _ in range(LOST_IN_A_ROW):
            with suppress(LostError):  # one more was lost meanwhile
                self.crew.mend()
                return self._restored()
        raise StateError(AGAIN)

    def _restored(self) -> Checkpoint:
        course = kept_course(self.shelf, self.settings)
        if self.shelf is None or course is None:
            self.crew.each("restart")
            return Checkpoint(self._start())
        names, folder = self.shelf.names(course.state.iteration), str(self.shelf.folder.resolve())
        self.crew.each_of("restore", [(folder, name, self.shelf.label(at)) for at, name in enumerate(names)])
        return course

    def _start(self) -> State:
        V = first_interaction(self.whole.features, self.settings)
        none = first_linear(0, self.whole.features)
        return State(0, none, V, no_moments(V.shape), none)


# Training on a cluster of people who are all known to the driver: the bits of engines/train.py.


def train(
    samples: Samples,
    settings: Settings,
    *,
    actors: int,
    keeping: Keeping | None = None,
    tell: Callable[[IterationReport], None] = lambda passed: None,
) -> Trained:
    """Rounds on the cluster that Ray is connected to, with the bits of engines/local. The checkpoint is a folder."""
    refuse_unfit(settings)
    settings = sized(settings, people=len(samples.ids), features=samples.features)
    cut = ShardSplit.of(samples, cohort_numbers(samples, settings), shards=actors)
    shelf = None if keeping is None else Shelf(keeping.path, identity(samples, settings), len(cut.rows))
    kept_course(shelf, settings)  # what cannot be gone on from is refused before actors take seconds to start
    crew = RayCrew(lambda at: Given(cut.share(at)), len(cut.rows), settings, public=samples.places)
    try:
        every = 1 if keeping is None else keeping.every
        run = Run(crew, settings, cut.whole, bool(len(cut.split)), shelf, every, tell)
        course = run.finished()
        state = run.afterwards(partial(_whole, crew, cut, start(samples, settings), course.state))
    finally:
        crew.dismiss()
    return Trained(state, tuple(course.history))


def _whole(crew: RayCrew, cut: ShardSplit, state: State, conducted: State) -> State:
    """Every model in its row, every cohort's mean in its own."""
    means = np.zeros((cut.whole.cohorts, state.linear.shape[1]))
    for at, rows in enumerate(cut.rows):
        models, numbers, own = crew.one(at, "models")
        state.linear[rows], means[numbers] = models, own
    return State(conducted.iteration, state.linear, conducted.interaction, conducted.moments, means)


# Training on data that no machine holds: shards read parts of a partitioned folder, and write the run.


ATTEMPTS = 3  # to get a city ready; what is lost on the way costs all of it


@dataclass(slots=True)
class Expedition:
    """A crew that has a partitioned city, and what has become of it."""

    crew: RayCrew = field(repr=False)
    city: CityApart = field(repr=False)
    whose: str
    run: Run = field(init=False, repr=False)

    def train(self, *, keeping: Keeping | None, tell: Callable[[IterationReport], None]) -> Checkpoint:
        """Rounds, to the bits of engines/local on the same folder."""
        shelf = None if keeping is None else Shelf(keeping.path, self.whose, len(self.crew.actors))
        every = 1 if keeping is None else keeping.every
        city = self.city
        self.run = Run(self.crew, city.settings, city.whole, bool(len(city.split)), shelf, every, tell)
        return self.run.finished()

    def quality(self, course: Checkpoint) -> Quality:
        """When all rounds are done."""
        return self.run.afterwards(lambda: quality_apart(self.crew, course.state.interaction))

    def save(self, path: Path, course: Checkpoint, *, source: str) -> None:
        """The same."""
        self.run.afterwards(lambda: save_apart(path, self.crew, self.city, course, source=source))


@contextmanager
def opened(folder: Path, settings: Settings, *, actors: int) -> Iterator[Expedition]:
    """The city of this folder in so many actors, or in as many as it has parts."""
    refuse_unfit(settings)
    refuse_unfit_apart(settings)
    parts = dealt([part.people + part.records for part in read_partition(folder).parts], shards=actors)
    calls: list[Call] = []
    where = str(folder.resolve())
    crew = RayCrew(lambda at: Replayed(where, parts[at], tuple(calls)), len(parts), settings)
    try:
        city = _ready(crew, folder, settings, calls)
        yield Expedition(crew, city, _whose(folder, city.settings))
    finally:
        crew.dismiss()


def _ready(crew: RayCrew, folder: Path, settings: Settings, calls: list[Call]) -> CityApart:
    for _ in range(ATTEMPTS):
        preparing = Preparing(crew, folder, settings)
        try:
            city = preparing.city()
        except LostError:
            crew.renew()
        else:
            calls.extend(preparing.calls)
            return city
    raise StateError("actors were lost again and again while the data were read; the nodes may lack memory")


def _whose(folder: Path, settings: Settings) -> str:
    """What a checkpoint must agree with: the settings, what is public, and the folder's parts by their sizes."""
    open_ended = settings.privacy.epsilon_per_user is None
    compared = msgspec.structs.replace(settings, iterations=1) if open_ended else settings
    digest = hashlib.blake2b(msgspec.json.encode(compared), digest_size=16)
    for public in (MANIFEST, PLACES, SCHEMA):
        digest.update(hashlib.blake2b((folder / public).read_bytes()).digest())
    for file in sorted(folder.glob("*/part=*/*.parquet")):
        digest.update(f"{file.relative_to(folder)} {file.stat().st_size}".encode())
    return digest.hexdigest()
