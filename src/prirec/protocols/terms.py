"""From settings to what a round is agreed on: how each kind of sum is encoded in the ring, and its terms. Settings
under which a sum could wrap are refused here."""

from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from math import floor as floor_of
from math import inf
from typing import Literal, NamedTuple

import numpy as np

from prirec.config import Settings, Sums
from prirec.features.samples import Samples
from prirec.model.block_steps import Encoder
from prirec.privacy.plan import Kind, Release, crowd, plan_for
from prirec.protocols.messages import Terms
from prirec.sharing.fixed_point import FixedPoint, outside, shorten
from prirec.types import RealArray, RingArray

_ROUNDING = 1.001  # a vector scaled to its norm may have an entry a few bits larger than it


@dataclass(frozen=True, slots=True)
class Code:
    """The encoding of one kind of sum: how long a contribution may be, and how much noise hides it."""

    ring: FixedPoint
    clip: float = inf  # norm to which a contribution is clipped, before rounding
    most: int = 0  # bound on its squared norm in whole numbers, after rounding; 0: none
    noise: int = 0  # variance of the Gaussian noise, in whole numbers; 0: none

    @property
    def encoder(self) -> Encoder:
        return Encoder(self.ring.scale, self.ring.bound, self.most)

    def write(self, clipped: RealArray) -> RingArray:
        """A device's contribution, which is clipped already, in the ring: within the norm even after rounding."""
        values = clipped.copy()
        if not (abs(values) <= self.ring.bound).all():
            raise outside(self.ring.bound)
        if self.most:
            shorten(values, self.ring.scale, self.most)
        return self.ring.encode(values)


class Codes(NamedTuple):
    """The encodings of both kinds of sums: of linear models, and of gradients of V."""

    linear: Code
    interaction: Code


def codes(samples: Samples, settings: Settings) -> Codes:
    """The encodings for these samples."""
    return codes_for(settings, people=len(samples.ids), places=len(samples.places), features=samples.features)


def codes_for(settings: Settings, *, people: int, places: int, features: int) -> Codes:
    """Schedule `rounds`: clipped vectors of up to everyone, with noise if there is a budget. Schedule `samples`: models
    of N neighbours, and a batch of gradients."""
    ring = settings.ring
    bits = {"fraction_bits": ring.fraction_bits, "ring_bits": ring.bits}
    if settings.privacy.epsilon_per_user is not None:
        plan = plan_for(settings, people=people, pois=places, features=features)
        linear, interaction = plan.release(Kind.MIXING), plan.release(Kind.INTERACTION)
        return Codes(_noisy(linear, people, settings), _noisy(interaction, people, settings))
    if settings.schedule == "rounds":
        W, V = settings.linear.clip, settings.interaction.clip
        return Codes(
            Code(FixedPoint(summands=people, bound=_ROUNDING * W, **bits), W),
            Code(FixedPoint(summands=people, bound=_ROUNDING * V, **bits), V),
        )
    return Codes(
        Code(FixedPoint(summands=settings.neighbours.count, bound=ring.bound, **bits)),
        Code(FixedPoint(summands=settings.interaction.batch, bound=ring.bound, **bits)),
    )


def _noisy(release: Release, people: int, settings: Settings) -> Code:
    """An encoding as fine as the plan says, with room for rounding in the norm and for noise in the ring."""
    norm, length = release.norm, release.of.length
    clip = float(norm.before_rounding(length))
    ring = FixedPoint(
        summands=people,
        bound=_ROUNDING * norm.sensitivity,
        fraction_bits=norm.fraction_bits,
        ring_bits=settings.ring.bits,
    )
    release.noise(crowd(settings, people)).check_ring(
        summands=people, largest=Fraction(ring.bound) * 2**norm.fraction_bits, count=length, ring_bits=ring.ring_bits
    )
    return Code(ring, clip, int(norm.units**2), release.wanted_whole)


# Terms of a round


def model_hash(*models: RealArray) -> bytes:
    """H(V), or the hash of V and a cohort's centre: of shapes and every bit. A device hashes the V that it holds: so a
    collector cannot have it train on another V than everybody else, which would single it out."""
    digest = sha256(b"prirec V")
    for model in models:
        digest.update(np.array([model.ndim, *model.shape], dtype="<u8").tobytes() + model.astype("<f8").tobytes())
    return digest.digest()


def double_masks(
    code: FixedPoint, *, length: int, opening: Literal["collector", "members"], floor: int, sums: Sums, noise: int = 0
) -> Terms:
    """Terms of a sum that survives drop-outs: the default. The noise is a variance, in whole numbers of the ring."""
    shares = {"corrupt": round(1000 * sums.corrupt), "lost": round(1000 * sums.lost)}
    return _terms(code, "double", opening, length=length, floor=floor, noise=noise, **shares)


def all_or_nothing(code: FixedPoint, method: Literal["shares", "pads"], *, length: int, people: int) -> Terms:
    """Terms of a sum as in the paper, by shares or under pads: nobody may drop out."""
    return _terms(code, method, "collector", length=length, floor=people, corrupt=0, lost=0)


def _terms(
    code: FixedPoint, method: Literal["shares", "pads", "double"], opening: Literal["collector", "members"], *,
    length: int, floor: int, corrupt: int, lost: int, noise: int = 0,
) -> Terms:  # fmt: skip
    bits: Literal[32, 64] = 64 if code.ring_bits == 64 else 32
    bound = max(
        1, floor_of(Fraction(code.bound) * 2**code.fraction_bits + Fraction(1, 2))
    )  # largest entry after rounding
    return Terms(method, opening, length, bits, code.fraction_bits, bound, floor, corrupt, lost, noise)
