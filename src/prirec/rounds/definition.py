"""One round, as everyone who has a part in it computes it: steps (a) to (f) of docs/how-it-works.md.

The fast engine (engines/local.py), the shards of a cluster (engines/shards.py), a device (device/rounds.py) and the
recommender (recommender/campaign.py) call the same rules. They differ in where models and records are, and in who opens
a sum. engines/plain.py, the oracle, uses nothing from here: it spells the round out by itself, so that a mistake in
these rules is noticed by the tests that compare bits.
"""

from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from math import nan
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from prirec.config import Settings
from prirec.errors import StateError
from prirec.features.samples import Samples
from prirec.model import public_half
from prirec.model.block_steps import away_from
from prirec.model.equations import shrink
from prirec.model.local_step import DeviceRecords, Rates, contribution_of, local_step, rates_of, work
from prirec.model.public_half import Moments, Public
from prirec.privacy.noise import NoiseShare, Stream
from prirec.privacy.plan import participants
from prirec.protocols.mask_graph import least_survivors
from prirec.protocols.terms import RingCode, ring_codes, ring_codes_for
from prirec.types import BoolArray, KeyArray, OffsetArray, RealArray, RingArray
from prirec.util.jit import kernel
from prirec.util.keyed_random import Word, generator, iteration_key, mix, run_key, shuffle, uniform

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
    linear: RingCode  # sums of linear models, one for each cohort
    interaction: RingCode  # the sum of the gradients of V, over everyone

    @classmethod
    def of(cls, samples: Samples, settings: Settings) -> Self:
        return cls(settings, *ring_codes(samples, settings))

    @classmethod
    def sized(cls, settings: Settings, *, people: int, places: int, features: int) -> Self:
        """For a run of which only the size is known here: a shard's, or a campaign's."""
        return cls(settings, *ring_codes_for(settings, people=people, places=places, features=features))

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
        return public_half.adam_move(V, gradient, moments, alpha=s.interaction.alpha, lambda_v=s.model.lambda_v)

    def move_factors(
        self, P: RealArray, moments: Moments, total: RingArray, survivors: int
    ) -> tuple[RealArray, Moments]:  # fmt: skip
        """The factors of places (J, K'), where there is a latent part. Their penalty came with each record."""
        gradient = self.interaction.ring.decode(total) / survivors
        weighted = gradient.reshape(P.shape) / self.settings.latent.weight
        return public_half.adam_step(P, weighted, moments, alpha=self.settings.latent.pace)

    # Opening, in simulation. In a deployment devices add their own noise, and protocols/secure_sum.py opens.

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

    def _open(self, total: RingArray, code: RingCode, *, survivors: int, rostered: int, where: "NoiseKey") -> bool:
        if not opens(survivors, rostered=rostered, settings=self.settings):
            return False
        if code.noise > 0:
            total += simulated_noise(
                code.noise, len(total), rostered=rostered, survivors=survivors, settings=self.settings, where=where
            ).astype(total.dtype)
        return True


# Simulation: who takes part, which sums are opened, and with what noise.
#
# Everything here is drawn from the run's seed, so that every engine, every repetition and every number of shards gives
# the same bits. In a deployment devices come and go by themselves, and draw their noise from the operating system.


class Participation(NamedTuple):
    """Which devices reach which step of a round.

    A device that is lost before the mixing keeps its model. One that is lost after its local step has moved its model,
    but its gradient is in no sum. Those online are the roster of their cohort's sum, those present the roster of the
    sum over everyone.
    """

    online: BoolArray  # (I,): enters the round
    present: BoolArray  # (I,): takes part in the mixing and learns
    counted: BoolArray  # (I,): and its gradient of V is in the sum


def participation(keys: KeyArray, iteration: int, settings: Settings) -> Participation:
    """A function of seed, iteration and person alone, so that a run that was interrupted repeats it."""
    online, dropout = settings.participation.online, settings.participation.dropout
    is_online = uniforms(iteration_key(settings.seed, "participation", iteration), keys) < online
    fate = uniforms(iteration_key(settings.seed, "drop-out", iteration), keys)
    present = is_online & (fate >= dropout / 2)  # half of the drop-outs before the mixing, half after the local step
    return Participation(is_online, present, present & (fate >= dropout))


def left_in_collection(keys: KeyArray, settings: Settings, *, of: str = "popularity") -> BoolArray:
    """(I,): who does not drop out of a sum that is collected once, before any round. It waits until everyone has been
    online, so that participation.online does not count here."""
    return uniforms(run_key(settings.seed, f"drop-out from {of}"), keys) >= settings.participation.dropout


@kernel
def uniforms(key: Word, keys: KeyArray) -> RealArray:
    """One keyed draw from [0, 1) for each key: it does not depend on the order of people, nor on who else is there."""
    out = np.empty(keys.size)
    for i in range(keys.size):
        out[i] = uniform(mix(key, keys[i]))
    return out


# Opening a sum


NoiseKey: TypeAlias = tuple[str | int, ...]  # which sum of a run this is: its kind, the iteration, the cohort


def opens(survivors: int, *, rostered: int, settings: Settings) -> bool:
    """Whether a sum over this roster may be opened with so many survivors. In a deployment devices and the recommender
    hold to the same number: protocols/mask_graph.py."""
    return survivors >= least_survivors(rostered, floor=settings.floor, lost=settings.sums.lost)


def simulated_noise(
    wanted: int, count: int, *, rostered: int, survivors: int, settings: Settings, where: NoiseKey
) -> RingArray:  # fmt: skip
    """The noise in an opened sum, in whole numbers of the ring of 64 bits. The survivors' shares together, drawn at
    once from the distribution of their sum; `wanted` is the planned variance, 0 for none.

    It follows from the seed, which everyone knows, so it protects nobody. A device draws its own share from the
    operating system's entropy (protocols/terms.py).
    """
    if wanted == 0:
        return np.zeros(count, dtype=np.uint64)
    among = participants(settings, rostered)
    shares = NoiseShare(Fraction(wanted), among.survivors, among.colluders)
    seed = blake2b(repr((settings.seed, *where)).encode(), digest_size=32, person=b"prirec noise").digest()
    return shares.total(Stream(seed), survivors=survivors, count=count).astype(np.uint64)


# The loss of a round is added in whole numbers of 2^-32: the sum is the same in any order and over any shards.


_UNIT = 2.0**-32
_LARGEST = 2.0**30  # of one person's loss; beyond it the models have diverged
_LOW = 0xFFFFFFFF


def sum_losses(losses: RealArray) -> int | None:
    """The sum in units of 2^-32; None if a loss is not a number, or so large that the models have diverged."""
    if not (np.abs(losses) < _LARGEST).all():
        return None
    whole = np.rint(losses / _UNIT).astype(np.int64)
    # by halves of 32 bits: one loss may have 62 bits, and the sum of a few of them would not fit in 64
    return (int((whole >> 32).sum()) << 32) + int((whole & _LOW).sum())


def mean_loss(total: int | None, records: int) -> float:
    """The mean loss of a record; nan if the sum is None."""
    return nan if total is None else total * _UNIT / max(records, 1)
