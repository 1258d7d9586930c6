"""A training by rounds, as everyone who has a part in it computes it: steps (a) to (d) of docs/how-it-works.md.

First comes the sum of moments, once; then in each round a device adds its gradient of B, and the recommender moves B.
What a person alone learns, w_i, is no part of a round (model/own_model.py).

The fast engine (engines/local.py), the shards of a cluster (engines/shards.py), a device (device/rounds.py) and the
recommender (recommender/campaign.py) call the same rules. They differ in where records are, and in who opens a sum.
engines/plain.py, the oracle, uses nothing from here: it spells the round out by itself, so that a mistake in these
rules is noticed by the tests that compare bits.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from math import nan, sqrt
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from prirec.config import Settings
from prirec.features.columns import Columns, Moments, PlaceColumns, WordScales
from prirec.model.equations import shrink
from prirec.model.estimate import Estimate
from prirec.model.shared_model import (
    TYPICAL,
    ContributionScale,
    OwnRecords,
    SharedModel,
    coefficients,
    gradient,
    row_for,
    write,
)
from prirec.privacy.noise import NoiseShare, OperatorNoise, Stream
from prirec.privacy.plan import participants
from prirec.protocols.mask_graph import least_survivors
from prirec.protocols.terms import RingCode, RoundCodes, round_codes
from prirec.sharing.fixed_point import Encoder, add_encoded, shorten
from prirec.types import BoolArray, FeatureArray, KeyArray, LabelArray, OffsetArray, RealArray, RingArray
from prirec.util.jit import kernel
from prirec.util.keyed_random import Word, iteration_key, mix, run_key, uniform


@dataclass(frozen=True, slots=True)
class RoundRules:
    """What is computed in a training under these settings. It holds no record.

    The two ring codes say for each kind of sum how long a contribution may be (its clip), how it is written in whole
    numbers, and how noisy the opened sum must be.
    """

    settings: Settings
    columns: Columns = field(repr=False)
    codes: RoundCodes

    @classmethod
    def sized(cls, settings: Settings, *, people: int, places: int, columns: Columns) -> Self:
        """Rules of a run over so many people and places."""
        return cls(settings, columns, round_codes(settings, people=people, places=places, size=columns.size))

    # The sum of moments, before the first round

    def moment_contributions(
        self, people: FeatureArray, context: FeatureArray, label: LabelArray, offsets: OffsetArray
    ) -> RealArray:
        """(I, length): what devices add, each clipped; a device asks for itself alone."""
        vectors = self.columns.moments.vectors(people, context, label, offsets)
        clip_rows(vectors, self.codes.moments.clip)
        return vectors

    def moments(self, total: RingArray, *, survivors: int, noise: Fraction) -> Moments:
        """After opening a sum of so many survivors, whose shares of noise have this variance together."""
        ring = self.codes.moments.ring
        return self.columns.moments.read(ring.decode(total), survivors, sqrt(noise) / ring.scale)

    # Learning: the sum of a round

    def first_estimate(self, moments: Moments) -> Estimate:
        """B before the first round: 0."""
        return Estimate.nothing(self.columns, moments)

    def model(self, estimate: Estimate, moments: Moments, words: WordScales) -> SharedModel:
        """Step (a): what the recommender publishes."""
        return SharedModel.of(estimate.B, self.columns.layout, words, positive=moments.positive)

    @property
    def scale(self) -> ContributionScale:
        code = self.codes.interaction
        return ContributionScale(code.clip * code.ring.scale, code.most, TYPICAL)

    def contribution(self, own: OwnRecords, rows: PlaceColumns, model: SharedModel) -> tuple[RingArray, float]:
        """Step (b) on one device: its gradient of B, scaled and clipped, in the ring (entries,), and its summed loss.
        For many devices at once: model/shared_model.py, add_contributions."""
        layout, who, mine, g = model.layout, own.who[0], np.empty(model.layout.width), np.empty(model.layout.width)
        some, whole = np.empty(len(layout.crossed)), np.empty(self.columns.entries, dtype=np.int64)
        coefficients(who, model, some, mine)
        lost = gradient(own, 0, rows, model, mine, row_for(layout), g)
        write(who, g, layout.crossed, len(own.place), self.scale, some, whole)
        return whole.view(np.uint64).astype(self.codes.interaction.ring.dtype), lost

    def moved(self, estimate: Estimate, total: RingArray, *, survivors: int, noise: Fraction) -> Estimate:
        """Step (d): B after the opened sum of so many survivors, whose shares of noise have this variance together."""
        ring = self.codes.interaction.ring
        return estimate.after(ring.decode(total) / survivors, sqrt(noise) / ring.scale / survivors)

    # Opening, in simulation. In a deployment devices add their own noise, and protocols/secure_sum.py opens.

    def open(self, total: RingArray, code: RingCode, *, survivors: int, rostered: int, where: "NoiseKey") -> bool:
        """Step (c): whether the sum has enough survivors; if so `total` gets noise, in place."""
        if not opens(survivors, rostered=rostered, settings=self.settings):
            return False
        if code.noise > 0:
            total += simulated_noise(
                code.noise, len(total), rostered=rostered, survivors=survivors, settings=self.settings, where=where
            ).astype(total.dtype)
        return True

    def noise_variance(self, code: RingCode, *, survivors: int, rostered: int) -> Fraction:
        """Of the noise in an entry of a sum that was opened, in squared whole numbers."""
        if code.noise == 0:
            return Fraction(0)
        return noise_shares(code.noise, rostered=rostered, settings=self.settings).total_variance(survivors)


@kernel
def add_rows(vectors: RealArray, left: BoolArray, code: Encoder, total: RingArray) -> bool:
    """total += the clipped rows of those who are left, in the ring: RingCode.write for many devices at once. False if a
    value is outside the bound."""
    fine = True
    for i in range(len(vectors)):
        if left[i]:
            if code.most > 0:
                shorten(vectors[i], code.scale, code.most)
            fine &= add_encoded(vectors[i], code.scale, code.bound, total)
    return fine


@kernel
def clip_rows(vectors: RealArray, clip: float) -> None:
    """Each row no longer than `clip`."""
    for i in range(len(vectors)):
        shrink(vectors[i], clip, vectors[i])


# Simulation: who takes part, which sums are opened, and with what noise.
#
# Everything here is drawn from the run's seed, so that every engine, every repetition and every number of shards gives
# the same bits. In a deployment devices come and go by themselves, and draw their noise from the operating system.


class Participation(NamedTuple):
    """Which devices reach which step of a round."""

    online: BoolArray  # (I,): is on the roster of the sum
    counted: BoolArray  # (I,): and is still there when it is opened


def participation(keys: KeyArray, iteration: int, settings: Settings) -> Participation:
    """A function of seed, iteration and person alone, so that a run that was interrupted repeats it."""
    online, dropout = settings.participation.online, settings.participation.dropout
    is_online = uniforms(iteration_key(settings.seed, "participation", iteration), keys) < online
    fate = uniforms(iteration_key(settings.seed, "drop-out", iteration), keys)
    return Participation(is_online, is_online & (fate >= dropout))


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


NoiseKey: TypeAlias = tuple[str | int, ...]  # which sum of a run this is: its kind, the iteration


def opens(survivors: int, *, rostered: int, settings: Settings) -> bool:
    """Whether a sum over this roster may be opened with so many survivors. In a deployment devices and the recommender
    hold to the same number: protocols/mask_graph.py. Over two operators only the floor counts."""
    if settings.sums.operators == 2:
        return survivors >= settings.floor
    return survivors >= least_survivors(rostered, floor=settings.floor, lost=settings.sums.lost)


def simulated_noise(
    wanted: int, count: int, *, rostered: int, survivors: int, settings: Settings, where: NoiseKey
) -> RingArray:  # fmt: skip
    """The noise in an opened sum, in whole numbers of the ring of 64 bits. The survivors' shares together, drawn at
    once from the distribution of their sum, or the draws of both operators; `wanted` is the planned variance, 0 for
    none.

    It follows from the seed, which everyone knows, so it protects nobody. A device draws its own share from the
    operating system's entropy (protocols/terms.py).
    """
    if wanted == 0:
        return np.zeros(count, dtype=np.uint64)
    shares = noise_shares(wanted, rostered=rostered, settings=settings)
    if isinstance(shares, OperatorNoise):
        return shares.draws(operator_seeds(settings, where), count).astype(np.uint64)
    seed = blake2b(repr((settings.seed, *where)).encode(), digest_size=32, person=b"prirec noise").digest()
    return shares.total(Stream(seed), survivors=survivors, count=count).astype(np.uint64)


def noise_shares(wanted: int, *, rostered: int, settings: Settings) -> NoiseShare:
    """The shares of noise of a roster of this size, or those of two operators."""
    return participants(settings, rostered).noise(Fraction(wanted))


def operator_seeds(settings: Settings, where: NoiseKey) -> list[bytes]:
    """From which leader and helper draw in simulation."""
    keys = (repr((settings.seed, *where, role)).encode() for role in ("leader", "helper"))
    return [blake2b(key, digest_size=32, person=b"prirec noise").digest() for key in keys]


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
