"""Runs over actors, for tests that have a Ray cluster."""

from collections.abc import Callable, Sequence

from prirec.cluster.pool import ActorPool
from prirec.cluster.train import ClusterEngine
from prirec.cluster.worker import GivenPeople, ShardSource
from prirec.config import Settings
from prirec.engines.shards import ShardData
from prirec.engines.state import IterationReport, State
from prirec.engines.train import run_engine
from prirec.features.samples import Samples
from support.shards import cut, pieces_of, rules_of


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
    shards: int = 2,
    progress: Callable[[IterationReport], None] = lambda passed: None,
) -> tuple[State, int]:
    """What a whole run over these sources ends in, and how many actors had to be made anew."""
    rows = cut(samples, shards)
    parts = pieces_of(samples, rows)
    pool = ActorPool(lambda at: source(at, parts[at]), shards, settings, public=samples.places)
    try:
        state = run_engine(ClusterEngine(pool, rules_of(samples, settings)), settings, progress=progress).state
        return state, pool.mended
    finally:
        pool.dismiss()
