"""A whole run over shards: rounds, history, checkpoints, and what is lost on the way made good."""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from pathlib import Path
from time import monotonic
from typing import TypeVar

import msgspec
import numpy as np

from prirec.cluster.checkpoints import CheckpointFolder
from prirec.cluster.pool import ActorLostError, ActorPool
from prirec.cluster.worker import GivenPeople, PartitionedPeople
from prirec.config import Settings
from prirec.data.partitioned import MANIFEST, PLACES, read_partition
from prirec.data.schema import FILE as SCHEMA
from prirec.engines.checkpoint import Checkpoint, identity
from prirec.engines.shards import Conductor, Cut, Whole
from prirec.engines.state import IterationReport, State, first_interaction, start
from prirec.engines.train import Keeping, Trained
from prirec.errors import StateError, UsageError
from prirec.features.samples import Samples
from prirec.graph.neighbourhoods import cohort_numbers
from prirec.metrics import Quality
from prirec.model.adam import no_moments
from prirec.privacy.plan import sized
from prirec.protocols.terms import codes_for
from prirec.simulate.partitioned import (
    Call,
    PartitionedCity,
    PartitionedSetup,
    deal_parts,
    partitioned_quality,
    refuse_unpartitionable,
    save_partitioned,
)

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


def last_checkpoint(shelf: CheckpointFolder | None, settings: Settings) -> Checkpoint | None:
    """V and the history of the last checkpoint, if there is one; StateError if this run cannot go on from it."""
    if shelf is None or not shelf.there():
        return None
    course = shelf.conductor()
    if course.state.iteration > settings.iterations:
        many = settings.iterations
        raise StateError(f"the checkpoint is at iteration {course.state.iteration}, past the {many} asked for")
    return course


@dataclass(slots=True)
class ClusterRun:
    """Rounds from the start, or from the last checkpoint of the same run."""

    crew: ActorPool
    settings: Settings
    whole: Whole
    split: bool  # whether any cohort is in more than one shard
    shelf: CheckpointFolder | None = None
    every: int = 5
    tell: Callable[[IterationReport], None] = lambda passed: None

    def finished(self) -> Checkpoint:
        """V and the history; models are where the people are."""
        course, told, furthest, lost = self._recovered(), 0, 0, 0
        while True:
            for passed in course.history[told:]:
                self.tell(passed)
            told = max(told, len(course.history))
            if course.state.iteration >= self.settings.iterations:
                return course
            try:
                self._advance(course)
            except ActorLostError:
                lost += 1
                if lost > LOST_IN_A_ROW:
                    raise StateError(AGAIN) from None
                course = self._recovered()
            if course.state.iteration > furthest:  # what is only done again is no progress
                furthest, lost = course.state.iteration, 0

    def afterwards(self, task: Callable[[], Answer]) -> Answer:
        """What is asked of the shards when all rounds are done. Where one is lost over it, a new one is brought to the
        same point, from the last checkpoint, and all are asked again."""
        for lost in range(LOST_IN_A_ROW):
            if lost:
                replace(self, tell=lambda passed: None).finished()
            with suppress(ActorLostError):
                return task()
        raise StateError(AGAIN)

    def _advance(self, course: Checkpoint) -> None:
        """One round; whatever is lost in it leaves the course behind, to be thrown away."""
        people, places, features, _ = self.whole
        codes = codes_for(self.settings, people=people, places=places, features=features)
        before, began = self.crew.moved, monotonic()
        passed = Conductor(self.crew, self.settings, codes, split=self.split).advance(course.state)
        if not isfinite(passed.loss):
            raise UsageError("the loss is no longer a number: give linear.alpha or interaction.alpha a smaller value")
        seconds = monotonic() - began
        course.note(msgspec.structs.replace(passed, seconds=seconds, moved=self.crew.moved - before))
        if self.shelf is not None and course.state.iteration % self.every == 0:
            self._keep(course, self.shelf)

    def _keep(self, course: Checkpoint, shelf: CheckpointFolder) -> None:
        shelf.folder.mkdir(parents=True, exist_ok=True)
        names, folder = shelf.names(course.state.iteration), str(shelf.folder.resolve())
        self.crew.each("take", course.state.interaction, course.state.moments)
        self.crew.each_of("keep", [(folder, name, shelf.label(at)) for at, name in enumerate(names)])
        shelf.commit(course)

    def _recovered(self) -> Checkpoint:
        """A crew with nobody missing, all of them at the last checkpoint or at the start."""
        for _ in range(LOST_IN_A_ROW):
            with suppress(ActorLostError):  # one more was lost meanwhile
                self.crew.mend()
                return self._restored()
        raise StateError(AGAIN)

    def _restored(self) -> Checkpoint:
        course = last_checkpoint(self.shelf, self.settings)
        if self.shelf is None or course is None:
            self.crew.each("restart")
            return Checkpoint(self._start())
        names, folder = self.shelf.names(course.state.iteration), str(self.shelf.folder.resolve())
        self.crew.each_of("restore", [(folder, name, self.shelf.label(at)) for at, name in enumerate(names)])
        return course

    def _start(self) -> State:
        V = first_interaction(self.whole.features, self.settings)
        none = np.zeros((0, self.whole.features + 1))
        return State(0, none, V, no_moments(V.shape), none)


# Training on a cluster of people who are all known to the driver: the same as engines.training.train, elsewhere.


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
    cut = Cut.of(samples, cohort_numbers(samples, settings), shards=actors)
    shelf = None if keeping is None else CheckpointFolder(keeping.path, identity(samples, settings), len(cut.rows))
    last_checkpoint(shelf, settings)  # what cannot be gone on from is refused before actors take seconds to start
    crew = ActorPool(lambda at: GivenPeople(cut.share(at)), len(cut.rows), settings, public=samples.places)
    try:
        every = 1 if keeping is None else keeping.every
        run = ClusterRun(crew, settings, cut.whole, bool(len(cut.split)), shelf, every, tell)
        course = run.finished()
        state = run.afterwards(partial(_whole, crew, cut, start(samples, settings), course.state))
    finally:
        crew.dismiss()
    return Trained(state, tuple(course.history))


def _whole(crew: ActorPool, cut: Cut, state: State, conducted: State) -> State:
    """Every model in its row, every cohort's mean in its own."""
    means = np.zeros((cut.whole.cohorts, state.linear.shape[1]))
    for at, rows in enumerate(cut.rows):
        models, numbers, own = crew.one(at, "told")
        state.linear[rows], means[numbers] = models, own
    return State(conducted.iteration, state.linear, conducted.interaction, conducted.moments, means)


# Training on data that no machine holds: shards read parts of a partitioned folder, and write the run.


ATTEMPTS = 3  # to get a city ready; what is lost on the way costs all of it


@dataclass(slots=True)
class PartitionedRun:
    """A crew that has a partitioned city, and what has become of it."""

    crew: ActorPool = field(repr=False)
    city: PartitionedCity = field(repr=False)
    whose: str
    run: ClusterRun = field(init=False, repr=False)

    def train(self, *, keeping: Keeping | None, tell: Callable[[IterationReport], None]) -> Checkpoint:
        """Rounds, to the bits of engines/local on the same folder."""
        shelf = None if keeping is None else CheckpointFolder(keeping.path, self.whose, len(self.crew.actors))
        every = 1 if keeping is None else keeping.every
        city = self.city
        self.run = ClusterRun(self.crew, city.settings, city.whole, bool(len(city.split)), shelf, every, tell)
        return self.run.finished()

    def quality(self, course: Checkpoint) -> Quality:
        """When all rounds are done."""
        return self.run.afterwards(lambda: partitioned_quality(self.crew, course.state.interaction))

    def save(self, path: Path, course: Checkpoint, *, source: str) -> None:
        """The same."""
        self.run.afterwards(lambda: save_partitioned(path, self.crew, self.city, course, source=source))


@contextmanager
def open_partitioned(folder: Path, settings: Settings, *, actors: int) -> Iterator[PartitionedRun]:
    """The city of this folder in so many actors, or in as many as it has parts."""
    refuse_unfit(settings)
    refuse_unpartitionable(settings)
    parts = deal_parts([part.people + part.records for part in read_partition(folder).parts], shards=actors)
    calls: list[Call] = []
    where = str(folder.resolve())
    crew = ActorPool(lambda at: PartitionedPeople(where, parts[at], tuple(calls)), len(parts), settings)
    try:
        city = _ready(crew, folder, settings, calls)
        yield PartitionedRun(crew, city, _whose(folder, city.settings))
    finally:
        crew.dismiss()


def _ready(crew: ActorPool, folder: Path, settings: Settings, calls: list[Call]) -> PartitionedCity:
    for _ in range(ATTEMPTS):
        preparing = PartitionedSetup(crew, folder, settings)
        try:
            city = preparing.city()
        except ActorLostError:
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
