"""Rounds over shards. A shard has some of the people of a run, with their records, and knows no other shard; the driver
adds what shards answer, opens the sums, and moves B. A shard remembers nothing from one round to the next, so one that
is lost is made anew from its people alone.

Ring sums are exact in any order, so the parts of any number of shards come to what engines/local.py has for everyone,
bit for bit. The cluster package runs one shard in each Ray actor, tests run them all in one process.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from prirec.config import Settings
from prirec.engines.local import Rounds, move, opened_start
from prirec.engines.state import IterationReport, RoundsState
from prirec.errors import UsageError
from prirec.features.samples import Records, Samples
from prirec.model.scoring import SharedModels
from prirec.rounds.definition import RoundRules, mean_loss, sum_losses
from prirec.types import OffsetArray, RingArray

# The driver


class ShardPool(Protocol):
    """Shards, wherever they are. They are called by the name of a method."""

    def each(self, call: str, *args: Any) -> list[Any]:
        """Call a method on every shard; the answers in the order of shards."""

    def summed(self, call: str, *args: Any) -> Any:
        """The sum of what every shard answers."""

    def one(self, at: int, call: str, *args: Any) -> Any:
        """Call a method on one shard."""

    def among(self, give: str, take: str) -> None:
        """Every shard gets, by `take`, what every shard (itself too) answers to `give`, one after another."""


class Summable(Protocol):
    """What can be added in any order."""

    def plus(self, other: Any) -> Any: ...


Sum = TypeVar("Sum", bound=Summable)


def added(parts: Sequence[Sum]) -> Sum:
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    return total


class ShardSum(NamedTuple):
    """The part of a sum over everyone that one or more shards have, and of what the history says."""

    total: RingArray
    rostered: int
    counted: int
    records: int = 0
    losses: int | None = 0

    def plus(self, other: "ShardSum") -> "ShardSum":
        losses = None if self.losses is None or other.losses is None else self.losses + other.losses
        return ShardSum(
            self.total + other.total,
            self.rostered + other.rostered,
            self.counted + other.counted,
            self.records + other.records,
            losses,
        )


class ShardDriver:
    """Rounds over shards; it holds what is public and nothing of a person."""

    def __init__(self, pool: ShardPool, rules: RoundRules):
        self.pool, self.rules = pool, rules

    def start(self) -> RoundsState:
        """The sum of moments, opened."""
        found: ShardSum = self.pool.summed("moment_sum")
        # a copy: what comes out of Ray's object store is read-only, and noise is added in place
        return opened_start(self.rules, found.total.copy(), survivors=found.counted, rostered=found.rostered)

    def advance(self, state: RoundsState) -> IterationReport:
        """One round t."""
        found: ShardSum = self.pool.summed("gradient_sum", state)
        opened = move(state, self.rules, found.total.copy(), survivors=found.counted, rostered=found.rostered)
        return IterationReport(
            iteration=state.iteration,
            loss=mean_loss(found.losses, found.records),
            took_part=found.rostered,
            in_sum=found.counted,
            opened=opened,
        )


# A shard


@dataclass(frozen=True, slots=True)
class ShardData:
    """What a shard starts from."""

    samples: Samples = field(repr=False)  # of its own people
    people: int  # of the whole run, which ring codes and noise are sized for


class Shard:
    """Some of the people of a run."""

    def __init__(self, share: ShardData, settings: Settings, *, threads: int = 1):
        self.samples = writable_copy(share.samples)
        rules = RoundRules.sized(
            settings, people=share.people, places=len(self.samples.places), columns=self.samples.columns
        )
        self.rounds = Rounds(self.samples, settings, threads=threads, rules=rules)

    def moment_sum(self) -> ShardSum:
        total, counted = self.rounds.moment_sum()
        return ShardSum(total, len(self.samples.ids), counted)

    def gradient_sum(self, state: RoundsState) -> ShardSum:
        """Step (b) of the round that the state is at."""
        there = self.rounds.participation(state.iteration)
        total, losses = self.rounds.gradient_sum(deepcopy(state), there)
        records = int(self.samples.train.counts()[there.online].sum())
        return ShardSum(total, int(there.online.sum()), int(there.counted.sum()), records, sum_losses(losses))

    def models(self, state: RoundsState) -> SharedModels:
        return self.rounds.models(deepcopy(state))


# What comes out of Ray's object store is read-only, and kernels are compiled for arrays that are not: a shard copies
# what it is given. Features of places go to no kernel, and stay where all actors of a node share them.


def writable_copy(samples: Samples) -> Samples:
    train = samples.train
    arrays = {name: np.array(getattr(train, name)) for name in ("offsets", "person", "place", "label", "context")}
    return replace(
        samples, keys=np.array(samples.keys), people=np.array(samples.people), train=replace(train, **arrays),
        columns=deepcopy(samples.columns),
    )  # fmt: skip


# Splitting people into shards


def rows_of_shards(records: OffsetArray, *, shards: int) -> list[OffsetArray]:
    """Rows of people for each shard, with about as much work each, from how many records people have."""
    if shards < 1:
        raise UsageError("there must be at least one shard")
    shards = min(shards, len(records))
    effort = np.cumsum(records + 1)  # a person costs as much as a record
    cuts = [0]
    for wanted in effort[-1] / shards * np.arange(1, shards):
        at, last = int(np.searchsorted(effort, wanted)) + 1, len(records) - (shards - len(cuts))
        cuts.append(min(max(at, cuts[-1] + 1), last))  # everyone after this one still gets somebody
    return [np.arange(a, b) for a, b in pairwise([*cuts, len(records)])]


def part_of(samples: Samples, rows: OffsetArray) -> Samples:
    """These people only. Their ids stay behind: keys say who they are. Test records too."""
    none = np.empty(0, dtype=np.int64)
    return replace(
        samples,
        ids=("",) * len(rows),
        keys=samples.keys[rows],
        home=None,  # rounds ask nobody where they live
        area=None,
        people=np.ascontiguousarray(samples.people[rows]),
        train=_records(samples.train, rows),
        test=_records(samples.test, none),
    )


def _records(records: Records, rows: OffsetArray) -> Records:
    counts = records.counts()[rows]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    at = np.repeat(records.offsets[:-1][rows] - offsets[:-1], counts) + np.arange(offsets[-1])
    person = np.repeat(np.arange(len(rows), dtype=np.int32), counts)
    return Records(offsets, person, records.place[at], records.label[at], records.context[at])
