"""One round, as everyone who has a part in it computes it: steps (a) to (f) of docs/how-it-works.md.

The fast engine (engines/local.py), the shards of a cluster (engines/shards.py), a device (device/rounds.py) and the
recommender (recommender/campaign.py) call the same rules. They differ in where models and records are, and in who opens
a sum. engines/plain.py, the oracle, uses nothing from here: it spells the round out by itself, so that a mistake in
these rules is noticed by the tests that compare bits.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from prirec.config import Settings
from prirec.errors import StateError
from prirec.features.samples import Samples
from prirec.model import adam
from prirec.model.adam import Moments
from prirec.model.block_steps import away_from
from prirec.model.equations import shrink
from prirec.model.local_step import DeviceRecords, Rates, contribution_of, local_step, rates_of, work
from prirec.model.public_half import Public
from prirec.protocols.terms import Code, codes, codes_for
from prirec.rounds.participation import NoiseKey, opens, simulated_noise
from prirec.types import BoolArray, OffsetArray, RealArray, RingArray
from prirec.util.keyed_random import Word, generator, iteration_key, mix, shuffle

# Before the first round


def first_interaction(features: int, settings: Settings) -> RealArray:
    """V (D, K): small and random, so that its gradient is not 0; from the seed, which is public."""
    shape = (features, settings.model.dimension)
    return generator(settings.seed, "start of V").normal(0.0, settings.model.spread, size=shape)


def first_linear(many: int, features: int) -> RealArray:
    """(many, D + 1): every linear model, and every cohort's mean of them, starts at 0."""
    return np.zeros((many, features + 1))


def last_means(means: RealArray, *, cohorts: int, features: int) -> RealArray:
    """(C, D + 1): what each cohort opened last. StateError if they are from other cohorts: checkpoints are read from a
    disk, and kernels do not check the size of an array."""
    if not len(means):  # no round has been run yet
        return first_linear(cohorts, features)
    if means.shape != (cohorts, features + 1):
        raise StateError("the cohorts' means are not as many or as long as these settings and data call for")
    return means


def mixing_weights(records: np.ndarray, settings: Settings) -> RealArray:
    """gamma_i (I,): how much of its cohort's mean a device takes, from how many records it has. A person with few
    records takes much (decisions/0002)."""
    if settings.linear.mixing == "fixed":
        return np.full(len(records), settings.linear.gamma)
    weights: RealArray = settings.linear.kappa / (settings.linear.kappa + records)
    return weights


class CohortSums(NamedTuple):
    """Step (b): the sums of linear models of some cohorts. Ring sums and counts: the parts that several shards have of
    a cohort can be added in any order."""

    numbers: OffsetArray  # (C,): which cohorts, ascending
    total: RingArray  # (C, D + 1)
    members: OffsetArray  # (C,): devices in the sum
    rostered: OffsetArray  # (C,): devices that were asked

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
        """A copy with some of the cohorts."""
        return CohortSums(self.numbers[these], self.total[these], self.members[these], self.rostered[these])


@dataclass(frozen=True, slots=True)
class RoundRules:
    """What a round computes under these settings. It holds no model and no record.

    The two ring codes say for each kind of sum how long a contribution may be (its clip), how it is written in whole
    numbers, and how noisy the opened sum must be.
    """

    settings: Settings
    linear: Code  # sums of linear models, one for each cohort
    interaction: Code  # the sum of the gradients of V, over everyone

    @classmethod
    def of(cls, samples: Samples, settings: Settings) -> Self:
        return cls(settings, *codes(samples, settings))

    @classmethod
    def sized(cls, settings: Settings, *, people: int, places: int, features: int) -> Self:
        """For a run of which only the size is known here: a shard's, or a campaign's."""
        return cls(settings, *codes_for(settings, people=people, places=places, features=features))

    # Steps (b) and (c): mixing in a cohort

    def mixes(self, iteration: int) -> bool:
        """Whether round t sums linear models. In the first round all of them are 0: noise would be paid for, and would
        be all that is opened."""
        return iteration > 0 or self.linear.noise == 0

    def centres(self, means: RealArray) -> RealArray:
        """What contributions are measured from, for each cohort. A noisy mean is public, so everyone in the cohort has
        the last one, and models are close to it: the clip can be small (decisions/0013). Without noise only those who
        were there know a mean, so the centre is 0."""
        return means if self.linear.noise > 0 else np.zeros_like(means)

    def mixing_contribution(self, w: RealArray, centre: RealArray) -> RingArray:
        """Step (b) on one device: clip(W_i - centre) in the ring; W_i itself stays as it is. For many devices at once:
        model/block_steps.py, contribute_models."""
        away = np.empty_like(w)
        away_from(centre, w, away)
        shrink(away, self.linear.clip, away)
        return self.linear.write(away)

    def cohort_mean(self, centre: RealArray, total: RingArray, survivors: int | OffsetArray) -> RealArray:
        """Step (b), after opening: the mean model of a cohort, or of several in rows."""
        return centre + self.linear.ring.decode(total) / survivors

    # Steps (d) and (e): learning on a device

    def order_key(self, iteration: int) -> np.uint64:
        """With a person's key: the order in which the device takes its records in round t."""
        return iteration_key(self.settings.seed, "order", iteration)

    @property
    def rates(self) -> Rates:
        return rates_of(self.settings, clip=self.interaction.clip)

    def learn(
        self, w: RealArray, shared: Public, own: DeviceRecords, *, key: Word, iteration: int
    ) -> tuple[RealArray, float]:
        """Step (d) on one device: moves w by a pass over its own records. Returns its mean gradient of V (K * D,),
        clipped, and the summed loss. For many devices at once: model/block_steps.py, step_people.

        Without a latent part: a deployment has a budget, and within a budget there is none.
        """
        D, K = len(shared.lanes), self.settings.model.dimension
        order = np.empty(len(own.place), dtype=np.int32)
        shuffle(mix(self.order_key(iteration), key), order)
        made, no_latent = contribution_of(K, D), np.empty(0)
        losses = local_step(w, no_latent, shared, own, order, self.rates, work(K, D), made)
        return made.whole(), losses

    # Step (f): V moves on

    def move_interaction(
        self, V: RealArray, moments: Moments, total: RingArray, survivors: int
    ) -> tuple[RealArray, Moments]:  # fmt: skip
        """One step of Adam along the mean gradient of the survivors, from the opened sum (K * D,). The penalty lambda_v
        is added here, once, and not by each device."""
        gradient = self.interaction.ring.decode(total) / survivors
        s = self.settings
        return adam.move(V, gradient, moments, alpha=s.interaction.alpha, lambda_v=s.model.lambda_v)

    def move_factors(
        self, P: RealArray, moments: Moments, total: RingArray, survivors: int
    ) -> tuple[RealArray, Moments]:  # fmt: skip
        """The factors of places (J, K'), where there is a latent part. Their penalty came with each record."""
        gradient = self.interaction.ring.decode(total) / survivors
        weighted = gradient.reshape(P.shape) / self.settings.latent.weight
        return adam.step(P, weighted, moments, alpha=self.settings.latent.pace)

    # Opening, in simulation. In a deployment devices add their own noise, and protocols/collector.py opens.

    def open_cohorts(self, sums: CohortSums, iteration: int) -> BoolArray:
        """Which cohorts are opened: those with enough survivors, in a round that mixes. Their totals get noise, in
        place; it follows from the cohort's number in the run, whichever shard opens it."""
        if not self.mixes(iteration):
            return np.zeros(len(sums.numbers), dtype=np.bool_)
        counts = zip(sums.total, *(part.tolist() for part in (sums.numbers, sums.members, sums.rostered)), strict=True)
        opened = [
            self._open(total, self.linear, survivors=survivors, rostered=asked, where=("linear", iteration, number))
            for total, number, survivors, asked in counts
        ]
        return np.array(opened, dtype=np.bool_)

    def open_everyone(self, total: RingArray, *, survivors: int, rostered: int, iteration: int) -> bool:
        """Whether the sum over everyone has enough survivors; if so `total` gets noise, in place."""
        where = ("interaction", iteration)
        return self._open(total, self.interaction, survivors=survivors, rostered=rostered, where=where)

    def _open(self, total: RingArray, code: Code, *, survivors: int, rostered: int, where: NoiseKey) -> bool:
        if not opens(survivors, rostered=rostered, settings=self.settings):
            return False
        if code.noise > 0:
            total += simulated_noise(
                code.noise, len(total), rostered=rostered, survivors=survivors, settings=self.settings, where=where
            ).astype(total.dtype)
        return True
