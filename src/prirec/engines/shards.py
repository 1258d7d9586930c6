"""Rounds over shards. A shard has some of the people of a run, with their records, models and cohorts, and knows no
other shard; the driver adds what shards answer, opens what is split over several, and moves V.

Ring sums are exact in any order, so the parts of any number of shards come to what engines/local.py has for everyone,
bit for bit. The cluster package runs one shard in each Ray actor, tests run them all in one process.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from prirec.config import Settings
from prirec.engines.local import Rounds, ShardView, move_public
from prirec.engines.state import IterationReport, State
from prirec.errors import StateError, UsageError
from prirec.features.samples import Records, Samples
from prirec.model.public_half import Moments, no_moments
from prirec.rounds.definition import CohortSums, RoundRules, first_linear, mean_loss, sum_losses
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray, RingArray

# The driver


class ShardPool(Protocol):
    """Shards, wherever they are. They are called by the name of a method."""

    def each(self, call: str, *args: Any) -> list[Any]:
        """What every shard answers, in their order."""

    def summed(self, call: str, *args: Any) -> Any:
        """The sum of what every shard answers."""

    def one(self, at: int, call: str, *args: Any) -> Any:
        """What one of them answers."""

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


class ShardStep(NamedTuple):
    """One or more shards after a round: their part of the sum over everyone, and of what the history says."""

    total: RingArray  # (K * D,)
    losses: int | None
    records: int
    present: int
    counted: int
    opened: int  # cohorts that are in no other shard

    def plus(self, other: "ShardStep") -> "ShardStep":
        losses = None if self.losses is None or other.losses is None else self.losses + other.losses
        counts = (a + b for a, b in zip(self[2:], other[2:], strict=True))
        return ShardStep(self.total + other.total, losses, *counts)


class ShardDriver:
    """Rounds over shards; it holds V and nothing of a person. `split`: whether any cohort is in more than one shard."""

    def __init__(self, pool: ShardPool, rules: RoundRules, *, split: bool):
        self.pool, self.rules, self.split = pool, rules, split

    def advance(self, state: State) -> IterationReport:
        """One round t. Of the state only V and its moments are moved here, the rest is where the people are."""
        opened = self.open_split(self.pool.summed("mix"), state.iteration) if self.split else None
        done: ShardStep = self.pool.summed("step", state.interaction, state.moments, opened)
        # a copy: what comes out of Ray's object store is read-only, and noise is added in place
        moved = move_public(state, self.rules, done.total.copy(), survivors=done.counted, rostered=done.present)
        state.iteration += 1
        return IterationReport(
            iteration=state.iteration,
            loss=mean_loss(done.losses, done.records),
            took_part=done.present,
            in_sum=done.counted,
            cohorts_opened=done.opened + (0 if opened is None else len(opened.numbers)),
            opened=moved,
        )

    def open_split(self, sums: CohortSums, iteration: int) -> CohortSums:
        """Step (b) for the cohorts that are in several shards: those that are opened, with noise."""
        writable = sums._replace(total=sums.total.copy())
        return writable.only(self.rules.open_cohorts(writable, iteration))


# A shard


class RunSize(NamedTuple):
    """What is public about the run that a shard is a part of: ring codes and noise are sized for all of it."""

    people: int
    places: int
    features: int  # D
    cohorts: int


@dataclass(frozen=True, slots=True)
class ShardData:
    """What a shard starts from."""

    samples: Samples = field(repr=False)  # of its own people
    cohort: IndexArray = field(repr=False)  # (I,): their cohorts, by the run's numbers
    split: OffsetArray = field(repr=False)  # the cohorts of these that are in other shards too
    whole: RunSize


class Shard:
    """Moved by the driver: `mix` answers with its sums of the cohorts that are in other shards too; `step` takes back
    those that were opened, opens the cohorts that are all its own, and answers with its part of the sum over everyone.
    Its state is a run's, cut down to its people and cohorts."""

    def __init__(self, share: ShardData, settings: Settings, *, threads: int = 1):
        self.samples, self.whole = writable_copy(share.samples), share.whole
        numbers, cohort = np.unique(share.cohort, return_inverse=True)
        people, places, features, _ = share.whole
        rules = RoundRules.sized(settings, people=people, places=places, features=features)
        part = ShardView(cohort.astype(np.int32), numbers.astype(np.int64), rules)
        self.rounds = Rounds(self.samples, settings, threads=threads, part=part)
        self.elsewhere: BoolArray = np.isin(numbers, share.split)  # (C,): whether it is in other shards too
        self.restart()

    def restart(self) -> None:
        """All models are 0 again. V comes with each step."""
        D, K = self.whole.features, self.rounds.rules.settings.model.dimension
        linear, no_means = first_linear(len(self.samples.ids), D), first_linear(0, D)
        self.state = State(0, linear, np.zeros((D, K)), no_moments((D, K)), no_means)

    def begin(self, state: State) -> None:
        """Goes on from a checkpoint: models of its own people, means of its own cohorts."""
        if state.linear.shape != self.state.linear.shape or len(state.means) not in (0, len(self.rounds.numbers)):
            raise StateError("the models of a shard have not the size that these settings and data call for")
        self.state = state

    def take(self, V: RealArray, moments: Moments) -> None:
        """The V that the last round came to, which the driver alone has: a checkpoint is complete only with it."""
        self.state.interaction, self.state.moments = V, moments

    def models(self) -> tuple[RealArray, OffsetArray, RealArray]:
        """The models of its people, and the numbers and means of its cohorts."""
        return self.state.linear, self.rounds.numbers, self.state.means

    def mix(self) -> CohortSums:
        """Step (b): the sums of cohorts that are in other shards too."""
        self._there = self.rounds.participation(self.state.iteration)
        self._sums = self.rounds.sum_cohorts(self.state, self._there)
        return self._sums.only(self.elsewhere)

    def step(self, V: RealArray, moments: Moments, opened: CohortSums | None) -> ShardStep:
        """Steps (b) to (e). `opened` are the split cohorts that the driver opened; None where no cohort is split, and
        then nobody has called `mix`. V is the round's."""
        if opened is None:
            self.mix()
        state, rounds, there, sums = self.state, self.rounds, self._there, self._sums
        state.interaction, state.moments = V, moments
        own = self._open_own(sums)
        mixing = rounds.mixing(state, sums, own | self._take_opened(sums, opened))
        total, losses = rounds.step_everyone(state, there, mixing)
        state.iteration += 1
        records = int(self.samples.train.counts()[there.present].sum())
        present, counted = int(there.present.sum()), int(there.counted.sum())
        return ShardStep(total, sum_losses(losses), records, present, counted, int(own.sum()))

    def _open_own(self, sums: CohortSums) -> BoolArray:
        """Cohorts that are in no other shard. For the others no members are counted: the sum of nobody stays closed."""
        alone = sums._replace(members=np.where(self.elsewhere, 0, sums.members))
        return self.rounds.rules.open_cohorts(alone, self.state.iteration)

    def _take_opened(self, sums: CohortSums, opened: CohortSums | None) -> BoolArray:
        """The split cohorts that were opened: their sums replace this shard's own part of them."""
        if opened is None:
            return np.zeros(len(sums.numbers), dtype=np.bool_)
        mine = np.isin(sums.numbers, opened.numbers)
        at = np.searchsorted(opened.numbers, sums.numbers[mine])
        sums.total[mine], sums.members[mine] = opened.total[at], opened.members[at]
        return mine


def writable_copy(samples: Samples) -> Samples:
    """The samples in memory of their own: what comes out of Ray's object store is read-only, and kernels are compiled
    for arrays that are not."""
    train = samples.train
    arrays = {name: np.array(getattr(train, name)) for name in ("offsets", "person", "place", "label", "context")}
    return replace(
        samples, keys=np.array(samples.keys), people=np.array(samples.people), train=replace(train, **arrays)
    )


# Splitting people into shards: by geography, each cohort in one shard where that can be, since a split cohort costs a
# second exchange in each round.


UNEVEN = 0.1  # the share of a shard's work that may be moved to the next shard, so that a cohort stays whole


def rows_of_shards(cohort: IndexArray, records: OffsetArray, *, shards: int) -> list[OffsetArray]:
    """Rows of people for each shard, with about as much work each. Cohorts are numbered along the map, so a shard is a
    region. A border falls between two cohorts unless that would be uneven."""
    if shards < 1:
        raise UsageError("there must be at least one shard")
    shards = min(shards, len(cohort))
    order = np.argsort(cohort, kind="stable")
    effort = np.cumsum(records[order] + 1)
    even = effort[-1] / shards
    borders = 1 + np.flatnonzero(np.diff(cohort[order]))  # where a new cohort begins
    cuts = [0]
    for wanted in even * np.arange(1, shards):
        at = int(np.searchsorted(effort, wanted)) + 1
        near = borders[np.argmin(np.abs(effort[borders - 1] - wanted))] if len(borders) else at
        whole = abs(effort[near - 1] - wanted) <= UNEVEN * even
        last = len(order) - (shards - len(cuts))  # everyone after this one still gets somebody
        cuts.append(min(max(int(near) if whole else at, cuts[-1] + 1), last))
    return [np.sort(order[a:b]) for a, b in pairwise([*cuts, len(order)])]


@dataclass(frozen=True, slots=True)
class ShardSplit:
    """All people of a run, and which of them are in which shard."""

    samples: Samples = field(repr=False)
    cohort: IndexArray = field(repr=False)  # (I,)
    rows: list[OffsetArray] = field(repr=False)
    split: OffsetArray = field(repr=False)  # cohorts that are in more than one shard

    @classmethod
    def of(cls, samples: Samples, cohort: IndexArray, *, shards: int) -> Self:
        return cls.at(samples, cohort, rows_of_shards(cohort, samples.train.counts(), shards=shards))

    @classmethod
    def at(cls, samples: Samples, cohort: IndexArray, rows: list[OffsetArray]) -> Self:
        """With these people in each."""
        return cls(samples, cohort, rows, split_cohorts([np.unique(cohort[part]) for part in rows]))

    @property
    def whole(self) -> RunSize:
        s = self.samples
        return RunSize(len(s.ids), len(s.places), s.features, int(self.cohort.max()) + 1)

    def share(self, at: int) -> ShardData:
        """What this shard starts from."""
        rows = self.rows[at]
        mine = self.cohort[rows]
        return ShardData(part_of(self.samples, rows), mine, np.intersect1d(self.split, mine), self.whole)


def split_cohorts(numbers: list[OffsetArray]) -> OffsetArray:
    """Cohorts that more than one shard has somebody of, from the cohorts of each."""
    found, times = np.unique(np.concatenate(numbers), return_counts=True)
    return found[times > 1].astype(np.int64)


def part_of(samples: Samples, rows: OffsetArray) -> Samples:
    """These people only. Their ids stay behind: keys say who they are. Test records too."""
    none = np.empty(0, dtype=np.int64)
    return replace(
        samples,
        ids=("",) * len(rows),
        keys=samples.keys[rows],
        home=None if samples.home is None else samples.home[rows],
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
