"""A run over shards beside the oracle: what is gathered from them must be the oracle's state, bit for bit."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prirec.config import Settings
from prirec.engines import plain
from prirec.engines.shards import Shard, ShardData, ShardDriver, ShardPool, ShardSplit, added, rows_of_shards
from prirec.engines.state import State
from prirec.engines.train import make_engine, start
from prirec.features.samples import Samples
from prirec.graph.cohorts import cohort_numbers
from prirec.rounds.definition import RoundRules
from support.cities import same_state

Made = Callable[[Sequence[ShardData], Settings], ShardPool]


class InProcess:
    """Shards in one process, one after another. A cluster must come to the same bits."""

    def __init__(self, shards: Sequence[Any]):
        self.shards = shards

    def one(self, at: int, call: str, *args: Any) -> Any:
        return getattr(self.shards[at], call)(*args)

    def among(self, give: str, take: str) -> None:
        for giver in self.shards:
            given = getattr(giver, give)()
            for taker in self.shards:
                getattr(taker, take)(given)

    def each(self, call: str, *args: Any) -> list[Any]:
        return [getattr(shard, call)(*args) for shard in self.shards]

    def summed(self, call: str, *args: Any) -> Any:
        return added(self.each(call, *args))


def in_one_process(parts: Sequence[ShardData], settings: Settings) -> ShardPool:
    return InProcess([Shard(part, settings) for part in parts])


def cut(samples: Samples, settings: Settings, shards: int) -> list[np.ndarray]:
    return rows_of_shards(cohort_numbers(samples, settings), samples.train.counts(), shards=shards)


def gathered(crew: ShardPool, rows: Sequence[np.ndarray], into: State) -> State:
    """The state as one machine would have it."""
    linear, means = np.full_like(into.linear, np.nan), {}
    for part, (models, numbers, own) in zip(rows, crew.each("models"), strict=True):
        linear[part] = models
        means |= dict(zip(numbers.tolist(), own, strict=True))
    return State(into.iteration, linear, into.interaction, into.moments, np.array([means[c] for c in sorted(means)]))


def assert_shards_equal_the_oracle(
    samples: Samples,
    settings: Settings,
    rows: Sequence[np.ndarray],
    *,
    made: Made = in_one_process,
    iterations: int = 3,
    rules: RoundRules | None = None,
) -> None:
    """`rules`: the driver's; shards have theirs from the settings."""
    oracle, state = plain.start(samples, settings), start(samples, settings)
    slow, cut_up = (
        make_engine("plain", samples, settings),
        ShardSplit.at(samples, cohort_numbers(samples, settings), list(rows)),
    )
    crew = made([cut_up.share(at) for at in range(len(rows))], settings)
    conductor = ShardDriver(crew, rules or RoundRules.of(samples, settings), split=bool(len(cut_up.split)))
    for _ in range(iterations):
        found, wanted = conductor.advance(state), slow.advance(oracle)
        if found != wanted:
            raise AssertionError(f"the shards say {found}, the oracle says {wanted}")
        if not same_state(gathered(crew, rows, state), oracle):
            raise AssertionError(f"after iteration {oracle.iteration} the states differ")
