"""Training on a Ray cluster: rounds over shards in actors, checkpoints, and recovery from lost actors.

`train` takes people whom the driver holds; `open_partitioned` a folder that no machine holds. Both give the bits of
engines/local: sums over shards are sums of integers, so that neither their number nor their order matters.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from prirec.cluster.pool import ActorLostError, ActorPool
from prirec.cluster.worker import GivenPeople, PartitionedPeople
from prirec.config import Settings
from prirec.data.partitioned import PLACES, read_partition
from prirec.data.schema import FILE as SCHEMA
from prirec.data.sources import MANIFEST
from prirec.engines.shards import ShardData, ShardDriver, part_of, rows_of_shards
from prirec.engines.state import Checkpoint, IterationReport, RoundsState
from prirec.engines.train import CheckpointFile, Checkpointing, Trained, run_engine
from prirec.errors import StateError, UsageError
from prirec.features.columns import WordScales
from prirec.features.samples import Samples
from prirec.metrics import Quality
from prirec.model.scoring import SharedModels
from prirec.rounds.definition import RoundRules
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
LOST_IN_A_ROW = 5  # losses over one question, after which the run is given up


def refuse_unfit(settings: Settings) -> None:
    """UsageError for settings that cannot be trained in shards."""
    if settings.schedule != "rounds":
        raise UsageError(
            "the cluster runs rounds: in the paper's schedule a sample needs the V that the one before it moved, and a "
            "centralised model needs all records in one place; use the engine 'local'"
        )
    if settings.stopping.patience:
        raise UsageError("early stopping is not carried by the cluster: set stopping.patience to 0")


class ClusterEngine:
    """Rounds over shards in actors, as an engine of engines/train.py. Shards remember nothing of a round, so a lost
    actor is replaced, and what it did not answer is asked again."""

    def __init__(self, pool: ActorPool, rules: RoundRules):
        self.pool, self.driver = pool, ShardDriver(pool, rules)

    def start(self) -> RoundsState:
        return self.asked(self.driver.start)

    def advance(self, state: RoundsState) -> IterationReport:
        """One round, and how many bytes it moved between the driver and the actors."""
        before = self.pool.moved
        report = self.asked(partial(self.driver.advance, state))
        return msgspec.structs.replace(report, moved=self.pool.moved - before)

    def asked(self, task: Callable[[], Answer]) -> Answer:
        """What the task, which asks shards, returns; from its beginning again, if an actor is lost over it."""
        for lost in range(LOST_IN_A_ROW):
            if lost:
                self.pool.mend()
            with suppress(ActorLostError):
                return task()
        raise StateError("actors are lost again and again; look at the nodes of the cluster")


# People whom the driver holds


def train(
    samples: Samples,
    settings: Settings,
    *,
    actors: int,
    checkpointing: Checkpointing | None = None,
    progress: Callable[[IterationReport], None] = lambda passed: None,
) -> Trained:
    """Rounds on the cluster that Ray is connected to, with the bits of engines/local, whose checkpoint it writes."""
    refuse_unfit(settings)
    file = None if checkpointing is None else CheckpointFile.of(checkpointing, samples, settings)
    if file is not None:
        file.load(settings)  # refuse a foreign checkpoint before actors take seconds to start
    rows, people = rows_of_shards(samples.train.counts(), shards=actors), len(samples.ids)
    rules = RoundRules.sized(settings, people=people, places=len(samples.places), columns=samples.columns)
    pool = ActorPool(
        lambda at: GivenPeople(ShardData(part_of(samples, rows[at]), people)), len(rows), settings,
        public=samples.places,
    )  # fmt: skip
    try:
        engine = ClusterEngine(pool, rules)
        run = run_engine(engine, settings, file=file, progress=progress)
        state = _of_rounds(run)
    finally:
        pool.dismiss()
    shared = rules.model(state.estimate, state.moments, WordScales.of(samples.places, samples.columns))
    return Trained(state, SharedModels(shared, state.moments), tuple(run.history))


def _of_rounds(run: Checkpoint) -> RoundsState:
    return cast(RoundsState, run.state)  # as the engine started it


# A partitioned folder: shards read its parts, and write the run


ATTEMPTS = 3  # to prepare a city; a loss on the way costs all of it


@dataclass(slots=True)
class PartitionedRun:
    """A partitioned city in actors: train it, measure it, save it."""

    pool: ActorPool = field(repr=False)
    city: PartitionedCity = field(repr=False)
    identity: str

    @property
    def engine(self) -> ClusterEngine:
        return ClusterEngine(self.pool, self.city.rules)

    def checkpoint_file(self, checkpointing: Checkpointing) -> CheckpointFile:
        made = partial(RoundsState.of_arrays, columns=self.city.columns)
        return CheckpointFile(checkpointing.path, checkpointing.every, self.identity, made)

    def train(self, *, checkpointing: Checkpointing | None, progress: Callable[[IterationReport], None]) -> Checkpoint:
        """Rounds, with the bits of engines/local on the same folder."""
        file = None if checkpointing is None else self.checkpoint_file(checkpointing)
        return run_engine(self.engine, self.city.settings, file=file, progress=progress)

    def quality(self, trained: Checkpoint) -> Quality:
        """On the test records."""
        return self.engine.asked(lambda: partitioned_quality(self.pool, _of_rounds(trained)))

    def save(self, path: Path, trained: Checkpoint, *, source: str) -> None:
        """A run folder, like that of any other engine."""
        state, history = _of_rounds(trained), trained.history
        self.engine.asked(lambda: save_partitioned(path, self.pool, self.city, state, history, source=source))


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
