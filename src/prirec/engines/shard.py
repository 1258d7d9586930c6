"""A shard: some of the people of a run, with their records, models and cohorts. It knows no other shard.

A round, from its side: `mix` gives the sums of the cohorts that others are in too; `step` takes back what these opened,
opens the cohorts that are all its own, and gives its part of the sum over everyone. Ring sums are exact in any order:
the parts of any number of shards come to what engines/local has for everyone, bit for bit.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from prirec.engines.codes import codes_for
from prirec.engines.local import Part, Rounds
from prirec.engines.losses import summed
from prirec.engines.participation import standing
from prirec.engines.state import State, centres, mixes
from prirec.errors import StateError
from prirec.features.samples import Samples
from prirec.model.adam import Moments, no_moments
from prirec.settings import Settings
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray, RingArray


class Whole(NamedTuple):
    """What is public about the run that a shard is a part of."""

    people: int
    places: int
    features: int  # D
    cohorts: int


class Sums(NamedTuple):
    """Of cohorts that are split over shards: what one or more of these shards have."""

    numbers: OffsetArray  # (S,): which cohorts, ascending
    total: RingArray  # (S, D + 1)
    members: OffsetArray  # (S,): how many are in the sum
    rostered: OffsetArray  # (S,): how many were asked

    def plus(self, other: "Sums") -> "Sums":
        numbers = np.union1d(self.numbers, other.numbers)
        total = np.zeros((len(numbers), self.total.shape[1]), dtype=self.total.dtype)
        members, rostered = np.zeros((2, len(numbers)), dtype=np.int64)
        for part in (self, other):
            at = np.searchsorted(numbers, part.numbers)
            total[at] += part.total
            members[at] += part.members
            rostered[at] += part.rostered
        return Sums(numbers, total, members, rostered)

    def only(self, these: BoolArray) -> "Sums":
        return Sums(self.numbers[these], self.total[these], self.members[these], self.rostered[these])


class Stepped(NamedTuple):
    """One or more shards after a round: their part of the sum over everyone, and what the history tells."""

    total: RingArray  # (K * D,)
    losses: int | None
    records: int
    present: int
    counted: int
    opened: int  # cohorts of their own

    def plus(self, other: "Stepped") -> "Stepped":
        losses = None if self.losses is None or other.losses is None else self.losses + other.losses
        counts = (a + b for a, b in zip(self[2:], other[2:], strict=True))
        return Stepped(self.total + other.total, losses, *counts)


@dataclass(frozen=True, slots=True)
class Share:
    """What a shard starts from."""

    samples: Samples = field(repr=False)  # of its own people
    cohort: IndexArray = field(repr=False)  # (I,): their cohorts, by the run's numbers
    split: OffsetArray = field(repr=False)  # the cohorts of these that are in other shards too
    whole: Whole


class Shard:
    """Moved by whoever conducts. Its state is a run's, cut down to its people and cohorts."""

    def __init__(self, share: Share, settings: Settings, *, threads: int = 1):
        self.samples, self.settings, self.whole = owned(share.samples), settings, share.whole
        numbers, cohort = np.unique(share.cohort, return_inverse=True)
        people, places, features, _ = share.whole
        codes = codes_for(settings, people=people, places=places, features=features)
        part = Part(cohort.astype(np.int32), numbers.astype(np.int64), codes)
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

    def told(self) -> tuple[RealArray, OffsetArray, RealArray]:
        """The models of its people, and the numbers and means of its cohorts."""
        return self.state.linear, self.rounds.numbers, self.state.means

    def mix(self) -> Sums:
        """Step (b): the sums of cohorts that are in other shards too; those of its own it keeps."""
        there = standing(self.samples.keys, self.state.iteration, self.settings)
        noisy, cohorts = self.rounds.codes.linear.noise > 0, len(self.rounds.numbers)
        centre = centres(self.state, cohorts, public=noisy)
        rostered = np.bincount(self.rounds.cohort[there.online], minlength=cohorts)
        if mixes(self.state, noisy=noisy):
            total, members = self.rounds.contributions(self.state, there, centre)
        else:
            total, members = self.rounds.codes.linear.ring.zeros(centre.shape), np.zeros(cohorts, dtype=np.int64)
        self._mixed = (there, centre, total, members, rostered)
        out = self.elsewhere
        return Sums(self.rounds.numbers[out], total[out], members[out], rostered[out])

    def step(self, V: RealArray, moments: Moments, opened: Sums | None) -> Stepped:
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
        return Stepped(ring, summed(losses), records, present, counted, int(own.sum()))

    def _open(self, total: RingArray, members: OffsetArray, rostered: OffsetArray) -> BoolArray:
        """Cohorts that nobody else has a part of."""
        if not mixes(self.state, noisy=self.rounds.codes.linear.noise > 0):
            return np.zeros(len(members), dtype=np.bool_)
        alone = np.where(self.elsewhere, 0, members)  # the sum of none is never opened
        return self.rounds.open_cohorts(total, alone, rostered, self.state.iteration)

    def _take(self, opened: Sums | None, total: RingArray, members: OffsetArray) -> BoolArray:
        """What the split cohorts opened, in the place of this shard's own part of it."""
        if opened is None:
            return np.zeros(len(members), dtype=np.bool_)
        mine = np.isin(self.rounds.numbers, opened.numbers)
        at = np.searchsorted(opened.numbers, self.rounds.numbers[mine])
        total[mine], members[mine] = opened.total[at], opened.members[at]
        return mine


def owned(samples: Samples) -> Samples:
    """The same in memory of its own: what comes out of an object store is read-only, and kernels are compiled for
    arrays that are not."""
    train = samples.train
    arrays = {name: np.array(getattr(train, name)) for name in ("offsets", "person", "place", "label", "context")}
    return replace(
        samples, keys=np.array(samples.keys), people=np.array(samples.people), train=replace(train, **arrays)
    )
