"""A shard: some of the people of a run, with their records, models and cohorts. It knows no other shard.

A round, from its side: `mix` gives the sums of the cohorts that others are in too; `step` takes back what these opened,
opens the cohorts that are all its own, and gives its part of the sum over everyone. Ring sums are exact in any order:
the parts of any number of shards come to what engines/local has for everyone, bit for bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from prirec.config import Settings
from prirec.engines.local import Rounds, ShardView
from prirec.engines.state import IterationReport, State, centres, mixes, move_public
from prirec.errors import StateError, UsageError
from prirec.features.samples import Records, Samples
from prirec.model.adam import Moments, no_moments
from prirec.protocols.terms import Code, Codes, codes_for
from prirec.rounds.participation import NoiseKey, mean, opens, participation, simulated_noise, summed
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray, RingArray


class RunSize(NamedTuple):
    """What is public about the run that a shard is a part of."""

    people: int
    places: int
    features: int  # D
    cohorts: int


class CohortSums(NamedTuple):
    """Of cohorts that are split over shards: what one or more of these shards have."""

    numbers: OffsetArray  # (S,): which cohorts, ascending
    total: RingArray  # (S, D + 1)
    members: OffsetArray  # (S,): how many are in the sum
    rostered: OffsetArray  # (S,): how many were asked

    def plus(self, other: "CohortSums") -> "CohortSums":
        numbers = np.union1d(self.numbers, other.numbers)
        total = np.zeros((len(numbers), self.total.shape[1]), dtype=self.total.dtype)
        members, rostered = np.zeros((2, len(numbers)), dtype=np.int64)
        for part in (self, other):
            at = np.searchsorted(numbers, part.numbers)
            total[at] += part.total
            members[at] += part.members
            rostered[at] += part.rostered
        return CohortSums(numbers, total, members, rostered)

    def only(self, these: BoolArray) -> "CohortSums":
        return CohortSums(self.numbers[these], self.total[these], self.members[these], self.rostered[these])


class ShardStep(NamedTuple):
    """One or more shards after a round: their part of the sum over everyone, and what the history tells."""

    total: RingArray  # (K * D,)
    losses: int | None
    records: int
    present: int
    counted: int
    opened: int  # cohorts of their own

    def plus(self, other: "ShardStep") -> "ShardStep":
        losses = None if self.losses is None or other.losses is None else self.losses + other.losses
        counts = (a + b for a, b in zip(self[2:], other[2:], strict=True))
        return ShardStep(self.total + other.total, losses, *counts)


@dataclass(frozen=True, slots=True)
class ShardData:
    """What a shard starts from."""

    samples: Samples = field(repr=False)  # of its own people
    cohort: IndexArray = field(repr=False)  # (I,): their cohorts, by the run's numbers
    split: OffsetArray = field(repr=False)  # the cohorts of these that are in other shards too
    whole: RunSize


class Shard:
    """Moved by whoever conducts. Its state is a run's, cut down to its people and cohorts."""

    def __init__(self, share: ShardData, settings: Settings, *, threads: int = 1):
        self.samples, self.settings, self.whole = writable_copy(share.samples), settings, share.whole
        numbers, cohort = np.unique(share.cohort, return_inverse=True)
        people, places, features, _ = share.whole
        codes = codes_for(settings, people=people, places=places, features=features)
        part = ShardView(cohort.astype(np.int32), numbers.astype(np.int64), codes)
        self.rounds = Rounds(self.samples, settings, threads=threads, part=part)
        self.elsewhere: BoolArray = np.isin(numbers, share.split)
        self.state = self._start()

    def _start(self) -> State:
        D, K = self.whole.features, self.settings.model.dimension
        linear, none = np.zeros((len(self.samples.ids), D + 1)), np.zeros((0, D + 1))
        return State(0, linear, np.zeros((D, K)), no_moments((D, K)), none)

    def restart(self) -> None:
        """All models are 0 again."""
        self.state = self._start()

    def begin(self, state: State) -> None:
        """Again from here: models of its own people, means of its own cohorts."""
        if state.linear.shape != self.state.linear.shape or len(state.means) not in (0, len(self.rounds.numbers)):
            raise StateError("the models of a shard have not the size that these settings and data call for")
        self.state = state

    def take(self, V: RealArray, moments: Moments) -> None:
        """The V that the round came to: a checkpoint is whole only with it."""
        self.state.interaction, self.state.moments = V, moments

    def models(self) -> tuple[RealArray, OffsetArray, RealArray]:
        """The models of its people, and the numbers and means of its cohorts."""
        return self.state.linear, self.rounds.numbers, self.state.means

    def mix(self) -> CohortSums:
        """Step (b): the sums of cohorts that are in other shards too; those of its own it keeps."""
        there = participation(self.samples.keys, self.state.iteration, self.settings)
        noisy, cohorts = self.rounds.codes.linear.noise > 0, len(self.rounds.numbers)
        centre = centres(self.state, cohorts, public=noisy)
        rostered = np.bincount(self.rounds.cohort[there.online], minlength=cohorts)
        if mixes(self.state, noisy=noisy):
            total, members = self.rounds.contributions(self.state, there, centre)
        else:
            total, members = self.rounds.codes.linear.ring.zeros(centre.shape), np.zeros(cohorts, dtype=np.int64)
        self._mixed = (there, centre, total, members, rostered)
        out = self.elsewhere
        return CohortSums(self.rounds.numbers[out], total[out], members[out], rostered[out])

    def step(self, V: RealArray, moments: Moments, opened: CohortSums | None) -> ShardStep:
        """Steps (b) to (e), with what the split cohorts opened; V is the round's."""
        if opened is None:
            self.mix()
        state, rounds = self.state, self.rounds
        state.interaction, state.moments = V, moments
        there, centre, total, members, rostered = self._mixed
        own = self._open(total, members, rostered)
        among = self._take(opened, total, members)
        mixing = rounds.with_means(state, centre, total, members, own | among)
        ring, losses = rounds.step_everyone(state, there, mixing)
        state.iteration += 1
        records = int(self.samples.train.counts()[there.present].sum())
        present, counted = int(there.present.sum()), int(there.counted.sum())
        return ShardStep(ring, summed(losses), records, present, counted, int(own.sum()))

    def _open(self, total: RingArray, members: OffsetArray, rostered: OffsetArray) -> BoolArray:
        """Cohorts that nobody else has a part of."""
        if not mixes(self.state, noisy=self.rounds.codes.linear.noise > 0):
            return np.zeros(len(members), dtype=np.bool_)
        alone = np.where(self.elsewhere, 0, members)  # the sum of none is never opened
        return self.rounds.open_cohorts(total, alone, rostered, self.state.iteration)

    def _take(self, opened: CohortSums | None, total: RingArray, members: OffsetArray) -> BoolArray:
        """What the split cohorts opened, in the place of this shard's own part of it."""
        if opened is None:
            return np.zeros(len(members), dtype=np.bool_)
        mine = np.isin(self.rounds.numbers, opened.numbers)
        at = np.searchsorted(opened.numbers, self.rounds.numbers[mine])
        total[mine], members[mine] = opened.total[at], opened.members[at]
        return mine


def writable_copy(samples: Samples) -> Samples:
    """The same in memory of its own: what comes out of an object store is read-only, and kernels are compiled for
    arrays that are not."""
    train = samples.train
    arrays = {name: np.array(getattr(train, name)) for name in ("offsets", "person", "place", "label", "context")}
    return replace(
        samples, keys=np.array(samples.keys), people=np.array(samples.people), train=replace(train, **arrays)
    )


# The conductor of shards: adds their sums, opens what is split over several, moves V. It holds nothing of a person.


class Summable(Protocol):
    """What can be added in any order."""

    def plus(self, other: Any) -> Any: ...


Sum = TypeVar("Sum", bound=Summable)


class ShardPool(Protocol):
    """Shards, wherever they are."""

    def each(self, call: str, *args: Any) -> list[Any]:
        """What every shard answers, in their order."""

    def summed(self, call: str, *args: Any) -> Any:
        """The sum of what every shard answers."""

    def one(self, at: int, call: str, *args: Any) -> Any:
        """What one of them answers."""

    def among(self, give: str, take: str) -> None:
        """Every shard is told by `take` what every shard, itself too, answers to `give`, one after another."""


class InProcess:
    """Shards in one process, one after another: what a cluster must come to."""

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


def added(parts: Sequence[Sum]) -> Sum:
    total = parts[0]
    for part in parts[1:]:
        total = total.plus(part)
    return total


class ShardDriver:
    """Rounds over shards. `split`: whether any cohort is in more than one of them."""

    def __init__(self, crew: ShardPool, settings: Settings, codes: Codes, *, split: bool):
        self.crew, self.settings, self.codes, self.split = crew, settings, codes, split

    def advance(self, state: State) -> IterationReport:
        """One round t. Of the state V and its moments are moved here, the rest where the people are."""
        among = self.opened(self.crew.summed("mix"), state) if self.split else None
        done: ShardStep = self.crew.summed("step", state.interaction, state.moments, among)
        opened = opens(done.counted, rostered=done.present, settings=self.settings)
        if opened:
            code, total = self.codes.interaction, done.total.copy()
            self._add_noise(total, code, done.present, done.counted, ("interaction", state.iteration))
            move_public(state, code.ring.decode(total) / done.counted, self.settings)
        state.iteration += 1
        return IterationReport(
            iteration=state.iteration,
            loss=mean(done.losses, done.records),
            took_part=done.present,
            in_sum=done.counted,
            cohorts_opened=done.opened + (0 if among is None else len(among.numbers)),
            opened=opened,
        )

    def opened(self, sums: CohortSums, state: State) -> CohortSums:
        """Step (b) for the cohorts that are in several shards: those that are opened, with noise."""
        if not mixes(state, noisy=self.codes.linear.noise > 0):
            return sums.only(np.zeros(len(sums.numbers), dtype=np.bool_))
        pairs = zip(sums.members.tolist(), sums.rostered.tolist(), strict=True)
        enough = np.array([opens(some, rostered=all_, settings=self.settings) for some, all_ in pairs], dtype=np.bool_)
        found = sums.only(enough)
        for at, number in enumerate(found.numbers.tolist()):
            many = int(found.rostered[at]), int(found.members[at])
            self._add_noise(found.total[at], self.codes.linear, *many, ("linear", state.iteration, number))
        return found

    def _add_noise(self, total: RingArray, code: Code, rostered: int, survivors: int, where: NoiseKey) -> None:
        total += simulated_noise(
            code.noise, len(total), rostered=rostered, survivors=survivors, settings=self.settings, where=where
        ).astype(total.dtype)


# People cut into shards: by geography, whole cohorts together where that can be.


UNEVEN = 0.1  # how much of a shard's work may be moved to a neighbour, so that a cohort stays whole


def rows_of_shards(cohort: IndexArray, records: OffsetArray, *, shards: int) -> list[OffsetArray]:
    """Rows of people for each shard, with about as much work each. Cohorts are numbered along the map, so that a shard
    is a region. A cut falls between two cohorts unless that would be uneven."""
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
