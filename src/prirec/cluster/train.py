"""Training on a Ray cluster: rounds over shards in actors, checkpoints, and recovery from lost actors.

`train` takes people whom the driver holds; `open_partitioned` a folder that no machine holds. Both give the bits of
engines/local: sums over shards are sums of integers, so that neither their number nor their order matters.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from prirec.cluster.checkpoints import CheckpointFolder
from prirec.cluster.pool import ActorLostError, ActorPool
from prirec.cluster.worker import GivenPeople, PartitionedPeople
from prirec.config import Settings
from prirec.data.partitioned import PLACES, read_partition
from prirec.data.schema import FILE as SCHEMA
from prirec.data.sources import MANIFEST
from prirec.engines.shards import RunSize, ShardDriver, ShardSplit
from prirec.engines.state import Checkpoint, IterationReport, State, identity
from prirec.engines.train import Checkpointing, Trained, iterate, refuse_past, start
from prirec.errors import StateError, UsageError
from prirec.features.samples import Samples
from prirec.graph.cohorts import cohort_numbers
from prirec.metrics import Quality
from prirec.model.public_half import no_moments
from prirec.privacy.plan import with_cohort_size
from prirec.rounds.definition import RoundRules, first_interaction, first_linear
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
LOST_IN_A_ROW = 5  # losses without a new iteration in between, after which the run is given up
AGAIN = "actors are lost again and again; look at the nodes of the cluster"


def refuse_unfit(settings: Settings) -> None:
    """UsageError for settings that cannot be trained in shards."""
    if settings.schedule != "rounds":
        raise UsageError(
            "the cluster runs rounds: in the paper's schedule a sample needs the V that the one before it moved, and a "
            "centralised model needs all records in one place; use the engine 'local'"
        )
    if settings.stopping.patience:
        raise UsageError("early stopping is not carried by the cluster: set stopping.patience to 0")
    if settings.latent.dimension:
        raise UsageError("latent vectors are not carried by the cluster: set latent.dimension to 0")


def last_checkpoint(checkpoints: CheckpointFolder | None, settings: Settings) -> Checkpoint | None:
    """V and the history, if there is a checkpoint; StateError if this run cannot resume from it."""
    if checkpoints is None or not checkpoints.exists():
        return None
    checkpoint = checkpoints.read()
    refuse_past(checkpoint, settings)
    return checkpoint


@dataclass(slots=True)
class ClusterRun:
    """Rounds from the start, or from the last checkpoint of the same run. Lost actors are replaced on the way."""

    pool: ActorPool
    settings: Settings
    whole: RunSize
    split: bool  # whether any cohort is in more than one shard
    checkpoints: CheckpointFolder | None = None
    progress: Callable[[IterationReport], None] = lambda passed: None

    def finished(self) -> Checkpoint:
        """Train to the last iteration: V and the history. Linear models stay in the shards.

        After a loss all shards go back to the last checkpoint, and what they have moved since is thrown away."""
        furthest = lost = 0

        def progress(report: IterationReport) -> None:
            nonlocal furthest, lost
            if report.iteration > furthest:  # an iteration that is only done again is no progress, and was reported
                furthest, lost = report.iteration, 0
                self.progress(report)

        while True:
            checkpoint = self._recovered()
            try:
                iterate(checkpoint, self, self.settings, save=self._save, progress=progress)
            except ActorLostError:
                lost += 1
                if lost > LOST_IN_A_ROW:
                    raise StateError(AGAIN) from None
            else:
                return checkpoint

    def afterwards(self, task: Callable[[], Answer]) -> Answer:
        """Run a task on the trained shards. If an actor is lost over it, a new one is trained to the same point, from
        the last checkpoint, and the task begins again."""
        for lost in range(LOST_IN_A_ROW):
            if lost:
                replace(self, progress=lambda passed: None).finished()
            with suppress(ActorLostError):
                return task()
        raise StateError(AGAIN)

    def advance(self, state: State) -> IterationReport:
        """One round, and how many bytes it moved between the driver and the actors."""
        people, places, features, _ = self.whole
        rules = RoundRules.sized(self.settings, people=people, places=places, features=features)
        before = self.pool.moved
        report = ShardDriver(self.pool, rules, split=self.split).advance(state)
        return msgspec.structs.replace(report, moved=self.pool.moved - before)

    def _save(self, checkpoint: Checkpoint) -> None:
        checkpoints = self.checkpoints
        if checkpoints is None or checkpoint.state.iteration % checkpoints.every != 0:
            return
        checkpoints.folder.mkdir(parents=True, exist_ok=True)
        self.pool.each("take", checkpoint.state.interaction, checkpoint.state.moments)
        self.pool.each_of("save_checkpoint", checkpoints.files(checkpoint.state.iteration))
        checkpoints.commit(checkpoint)

    def _recovered(self) -> Checkpoint:
        """Replace lost actors, and bring all of them to the last checkpoint, or to the start."""
        for _ in range(LOST_IN_A_ROW):
            with suppress(ActorLostError):  # another one was lost meanwhile
                self.pool.mend()
                return self._restored()
        raise StateError(AGAIN)

    def _restored(self) -> Checkpoint:
        checkpoint = last_checkpoint(self.checkpoints, self.settings)
        if self.checkpoints is None or checkpoint is None:
            self.pool.each("restart")
            return Checkpoint(self._start())
        self.pool.each_of("restore", self.checkpoints.files(checkpoint.state.iteration))
        return checkpoint

    def _start(self) -> State:
        V = first_interaction(self.whole.features, self.settings)
        none = first_linear(0, self.whole.features)
        return State(0, none, V, no_moments(V.shape), none)


# People whom the driver holds


def train(
    samples: Samples,
    settings: Settings,
    *,
    actors: int,
    checkpointing: Checkpointing | None = None,
    progress: Callable[[IterationReport], None] = lambda passed: None,
) -> Trained:
    """Rounds on the cluster that Ray is connected to, with the bits of engines/local. The checkpoint is a folder."""
    refuse_unfit(settings)
    settings = with_cohort_size(settings, people=len(samples.ids), features=samples.features)
    cut = ShardSplit.of(samples, cohort_numbers(samples, settings), shards=actors)
    checkpoints = CheckpointFolder.of(checkpointing, identity(samples, settings), len(cut.rows))
    last_checkpoint(checkpoints, settings)  # refuse a foreign checkpoint before actors take seconds to start
    pool = ActorPool(lambda at: GivenPeople(cut.share(at)), len(cut.rows), settings, public=samples.places)
    try:
        run = ClusterRun(pool, settings, cut.whole, bool(len(cut.split)), checkpoints, progress)
        checkpoint = run.finished()
        state = run.afterwards(partial(_whole, pool, cut, start(samples, settings), checkpoint.state))
    finally:
        pool.dismiss()
    return Trained(state, tuple(checkpoint.history))


def _whole(pool: ActorPool, cut: ShardSplit, state: State, driven: State) -> State:
    """The state as engines/local has it: models in the order of people, means in the order of cohorts."""
    means = np.zeros((cut.whole.cohorts, state.linear.shape[1]))
    for at, rows in enumerate(cut.rows):
        models, numbers, own = pool.one(at, "models")
        state.linear[rows], means[numbers] = models, own
    return State(driven.iteration, state.linear, driven.interaction, driven.moments, means)


# A partitioned folder: shards read its parts, and write the run


ATTEMPTS = 3  # to prepare a city; a loss on the way costs all of it


@dataclass(slots=True)
class PartitionedRun:
    """A partitioned city in actors: train it, measure it, save it."""

    pool: ActorPool = field(repr=False)
    city: PartitionedCity = field(repr=False)
    identity: str
    run: ClusterRun = field(init=False, repr=False)

    def train(self, *, checkpointing: Checkpointing | None, progress: Callable[[IterationReport], None]) -> Checkpoint:
        """Rounds, with the bits of engines/local on the same folder."""
        city, checkpoints = self.city, CheckpointFolder.of(checkpointing, self.identity, len(self.pool.actors))
        self.run = ClusterRun(self.pool, city.settings, city.whole, bool(len(city.split)), checkpoints, progress)
        return self.run.finished()

    def quality(self, checkpoint: Checkpoint) -> Quality:
        """On the test records; after `train`."""
        return self.run.afterwards(lambda: partitioned_quality(self.pool, checkpoint.state.interaction))

    def save(self, path: Path, checkpoint: Checkpoint, *, source: str) -> None:
        """A run folder, like that of any other engine; after `train`."""
        self.run.afterwards(lambda: save_partitioned(path, self.pool, self.city, checkpoint, source=source))


@contextmanager
def open_partitioned(folder: Path, settings: Settings, *, actors: int) -> Iterator[PartitionedRun]:
    """Read the folder into so many actors, or as many as it has parts; they end with the context."""
    refuse_unfit(settings)
    refuse_unpartitionable(settings)
    parts = deal_parts([part.people + part.records for part in read_partition(folder).parts], shards=actors)
    calls: list[Call] = []
    where = str(folder.resolve())
    pool = ActorPool(lambda at: PartitionedPeople(where, parts[at], tuple(calls)), len(parts), settings)
    try:
        city = _ready(pool, folder, settings, calls)
        yield PartitionedRun(pool, city, _identity_of(folder, city.settings))
    finally:
        pool.dismiss()


def _ready(pool: ActorPool, folder: Path, settings: Settings, calls: list[Call]) -> PartitionedCity:
    for _ in range(ATTEMPTS):
        preparing = PartitionedSetup(pool, folder, settings)
        try:
            city = preparing.city()
        except ActorLostError:
            pool.renew()
        else:
            calls.extend(preparing.calls)
            return city
    raise StateError("actors were lost again and again while the data were read; the nodes may lack memory")


def _identity_of(folder: Path, settings: Settings) -> str:
    """Identity of a run, which its checkpoints must have: settings, public tables, and parts by their sizes."""
    # without a budget a run may be prolonged; with one, iterations are part of the plan, and so of the identity
    open_ended = settings.privacy.epsilon_per_user is None
    compared = msgspec.structs.replace(settings, iterations=1) if open_ended else settings
    digest = hashlib.blake2b(msgspec.json.encode(compared), digest_size=16)
    for public in (MANIFEST, PLACES, SCHEMA):
        digest.update(hashlib.blake2b((folder / public).read_bytes()).digest())
    for file in sorted(folder.glob("*/part=*/*.parquet")):
        digest.update(f"{file.relative_to(folder)} {file.stat().st_size}".encode())
    return digest.hexdigest()
