"""What the parties of a round agree on, from settings: how each kind of sum is encoded in the ring, its terms, and the
noise that the terms call for. Settings under which a sum could wrap are refused here."""

from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from math import floor as floor_of
from math import inf, isqrt
from typing import Literal, NamedTuple

import numpy as np

from prirec.config import Settings, Sums
from prirec.errors import PolicyError
from prirec.features.columns import ModelSize
from prirec.privacy.accountant import Spent
from prirec.privacy.noise import NoiseShare, Participants, Stream
from prirec.privacy.norm import Norm
from prirec.privacy.plan import Kind, Release, cost, participants, plan_for
from prirec.protocols.codec import ring_dtype
from prirec.protocols.messages import Terms
from prirec.sharing.fixed_point import Encoder, FixedPoint, outside, shorten
from prirec.types import RealArray, RingArray

_ROUNDING = 1.001  # a vector scaled to its norm may have an entry a few bits larger than it


@dataclass(frozen=True, slots=True)
class RingCode:
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


class RoundCodes(NamedTuple):
    """The encodings of the sums of a training by rounds."""

    moments: RingCode  # of means and squares of private columns, once
    interaction: RingCode  # of the gradients of B, in each round


def round_codes(settings: Settings, *, people: int, places: int, size: ModelSize) -> RoundCodes:
    """Clipped vectors of up to everyone, with noise if there is a budget."""
    if settings.privacy.epsilon_per_user is not None:
        plan = plan_for(settings, people=people, pois=places, size=size)
        return RoundCodes(*(_noisy(plan.release(kind), people, settings) for kind in (Kind.MOMENTS, Kind.INTERACTION)))
    bits = settings.ring.fraction_bits, settings.ring.bits
    return RoundCodes(
        *(RingCode(FixedPoint(people, _ROUNDING * clip, *bits), clip) for clip in (size.moments_norm, 1.0))
    )


class PaperCodes(NamedTuple):
    """The encodings of the paper's sums: models of N neighbours, and a batch of gradients of V."""

    linear: RingCode
    interaction: RingCode


def paper_codes(settings: Settings) -> PaperCodes:
    bits = settings.ring.fraction_bits, settings.ring.bits
    sizes = settings.neighbours.count, settings.interaction.batch
    return PaperCodes(*(RingCode(FixedPoint(size, settings.ring.bound, *bits)) for size in sizes))


def _noisy(release: Release, people: int, settings: Settings) -> RingCode:
    """An encoding as fine as the plan says, with room for rounding in the norm and for noise in the ring."""
    norm, length = release.norm, release.of.length
    clip = float(norm.before_rounding(length))
    ring = FixedPoint(people, _ROUNDING * norm.sensitivity, norm.fraction_bits, settings.ring.bits)
    release.noise(participants(settings, people)).check_ring(
        summands=people, largest=Fraction(ring.bound) * 2**norm.fraction_bits, count=length, ring_bits=ring.ring_bits
    )
    # two operators prove a whole number as the norm
    most = int(norm.units) ** 2 if settings.sums.operators == 2 else int(norm.units**2)
    return RingCode(ring, clip, most, release.wanted_whole)


# Terms of a round


def model_hash(*models: RealArray) -> bytes:
    """The hash of what everybody must hold alike, B say: of shapes and every bit. A device hashes what it holds itself:
    so a collector cannot have it train on another model than everybody else, which would single it out."""
    digest = sha256(b"prirec model")
    for model in models:
        digest.update(np.array([model.ndim, *model.shape], dtype="<u8").tobytes() + model.astype("<f8").tobytes())
    return digest.digest()


def double_masks(code: FixedPoint, *, length: int, floor: int, sums: Sums, noise: int = 0) -> Terms:
    """Terms of a sum that survives drop-outs: the default. The noise is a variance, in whole numbers of the ring."""
    shares = {"corrupt": round(1000 * sums.corrupt), "lost": round(1000 * sums.lost)}
    return _terms(code, "double", length=length, floor=floor, noise=noise, **shares)


def over_two_operators(code: RingCode, *, length: int, floor: int) -> Terms:
    """Terms of a sum over two operators: every report proves that it is no longer than the norm of the code."""
    norm = isqrt(code.most)
    return Terms("two_operators", length, 64, code.ring.fraction_bits, norm, floor, 0, 0, code.noise)


def all_or_nothing(code: FixedPoint, method: Literal["shares", "pads"], *, length: int, people: int) -> Terms:
    """Terms of a sum as in the paper, by shares or under pads: nobody may drop out."""
    return _terms(code, method, length=length, floor=people, corrupt=0, lost=0)


def _terms(
    code: FixedPoint, method: Literal["shares", "pads", "double"], *,
    length: int, floor: int, corrupt: int, lost: int, noise: int = 0,
) -> Terms:  # fmt: skip
    bits: Literal[32, 64] = 64 if code.ring_bits == 64 else 32
    largest = floor_of(Fraction(code.bound) * 2**code.fraction_bits + Fraction(1, 2))  # entry, after rounding
    return Terms(method, length, bits, code.fraction_bits, max(1, largest), floor, corrupt, lost, noise)


# Noise. Each device adds its share to its vector before the pads. How much follows from the signed terms and the roster
# alone: the honest among the fewest survivors bring all of it, and a sum of fewer is not opened (privacy/noise.py).


def noise_share(terms: Terms, size: int) -> NoiseShare:
    """The share of noise that each device of a roster of this size adds."""
    among = Participants(size, floor=terms.floor, lost=terms.lost / 1000, corrupt=terms.corrupt / 1000)
    return NoiseShare(Fraction(terms.noise), among.survivors, among.colluders)


def draw_noise(terms: Terms, size: int, *, seed: bytes) -> RingArray:
    """One device's share of the noise, in the ring, from 32 secret bytes that are used for nothing else."""
    whole = noise_share(terms, size).draw(Stream(seed), terms.length)
    return whole.astype(np.uint64).astype(ring_dtype(terms))


def privacy_cost(terms: Terms, *, norm: Norm) -> Spent:
    """Privacy loss of one round on these terms, for a person whose vector is no longer than the norm. From the signed
    terms, so that the loss is never counted lower than the noise that is really there allows."""
    if not terms.noise:
        raise PolicyError("a sum without noise has no price that a budget could cover")
    return cost(norm, Fraction(terms.noise))


def cost_at_worst(terms: Terms, size: int, *, norm: Norm) -> Spent:
    """Privacy loss of the same round if all other names of the roster are made up: only the device's own share of the
    noise hides it. Between two operators, of whom one is honest, it is the same."""
    if terms.method == "two_operators":
        return privacy_cost(terms, norm=norm)
    return cost(norm, noise_share(terms, size).hides(1))


def noise_bound(terms: Terms, size: int) -> int:
    """A bound on what noise adds to an entry of the sum; it fails with probability 2^-60."""
    if not terms.noise:
        return 0
    shares = noise_share(terms, size)
    return shares.tail(survivors=max(size, shares.survivors), count=terms.length)
