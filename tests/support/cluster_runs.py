"""Runs over actors, for tests that have a Ray cluster."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from prirec.cluster.checkpoints import CheckpointFolder
from prirec.cluster.pool import ActorPool
from prirec.cluster.train import ClusterRun
from prirec.cluster.worker import GivenPeople, ShardSource
from prirec.config import Settings
from prirec.engines.shards import ShardData, ShardSplit
from prirec.engines.state import IterationReport, State
from prirec.features.samples import Samples
from prirec.graph.cohorts import cohort_numbers
from support.shards import gathered


def in_actors(parts: Sequence[ShardData], settings: Settings) -> ActorPool:
    return ActorPool(lambda at: GivenPeople(parts[at]), len(parts), settings, public=parts[0].samples.places)


def moved_into(pool: ActorPool, parts: Sequence[ShardData], settings: Settings) -> ActorPool:
    """The same actors with other people: new ones would take seconds to start."""
    pool.source, pool.settings = (lambda at: GivenPeople(parts[at])), settings
    pool._public = pool.ray.put(parts[0].samples.places)
    pool.ray.get([pool.load(actor, at) for at, actor in enumerate(pool.actors)])
    return pool


def after_all(
    samples: Samples,
    settings: Settings,
    *,
    source: Callable[[int, ShardData], ShardSource],
    kept: Path | None = None,
    every: int = 2,
    shards: int = 2,
    progress: Callable[[IterationReport], None] = lambda passed: None,
) -> tuple[State, int]:
    """The state that a whole run over these sources ends in, and how many actors had to be made anew."""
    pieces = ShardSplit.of(samples, cohort_numbers(samples, settings), shards=shards)
    pool = ActorPool(lambda at: source(at, pieces.share(at)), shards, settings, public=samples.places)
    try:
        shelf = None if kept is None else CheckpointFolder(kept, "a test", shards, every)
        course = ClusterRun(pool, settings, pieces.whole, bool(len(pieces.split)), shelf, progress).finished()
        conducted = course.state
        whole = State(conducted.iteration, np.empty((len(samples.ids), samples.features + 1)), conducted.interaction,
                      conducted.moments, conducted.means)  # fmt: skip
        return gathered(pool, pieces.rows, whole), pool.mended
    finally:
        pool.dismiss()
