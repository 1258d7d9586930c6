"""A run over shards beside the oracle: what shards and driver come to must be the oracle's, bit for bit."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from prirec.config import Settings
from prirec.engines.shards import Shard, ShardData, ShardDriver, ShardPool, added, part_of, rows_of_shards
from prirec.engines.train import make_engine
from prirec.features.samples import Samples
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


def cut(samples: Samples, shards: int) -> list[np.ndarray]:
    return rows_of_shards(samples.train.counts(), shards=shards)


def pieces_of(samples: Samples, rows: Sequence[np.ndarray]) -> list[ShardData]:
    return [ShardData(part_of(samples, part), len(samples.ids)) for part in rows]


def rules_of(samples: Samples, settings: Settings) -> RoundRules:
    return RoundRules.sized(settings, people=len(samples.ids), places=len(samples.places), columns=samples.columns)


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
    slow, crew = make_engine("plain", samples, settings), made(pieces_of(samples, rows), settings)
    driver = ShardDriver(crew, rules or rules_of(samples, settings))
    oracle, state = slow.start(), driver.start()
    for _ in range(iterations):
        if not same_state(state, oracle):
            raise AssertionError(f"after iteration {oracle.iteration} the states differ")
        found, wanted = driver.advance(state), slow.advance(oracle)
        if found != wanted:
            raise AssertionError(f"the shards say {found}, the oracle says {wanted}")
    if not same_state(state, oracle):
        raise AssertionError(f"after iteration {oracle.iteration} the states differ")
