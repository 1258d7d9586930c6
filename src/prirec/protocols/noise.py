"""A device's share of the noise that the terms call for: added to its vector before the pads are.

How much follows from the signed terms and the roster alone: the honest among the fewest survivors bring all of it, and
a sum of fewer is not opened (privacy/noise.py).
"""

from fractions import Fraction
from math import ceil

import numpy as np

from prirec.errors import PolicyError
from prirec.privacy.accountant import GRAINS, Spent
from prirec.privacy.exact_random import Stream
from prirec.privacy.noise import Crowd, NoiseShare
from prirec.privacy.norm import Norm
from prirec.protocols.messages import Terms
from prirec.types import RingArray


def share_for(terms: Terms, size: int) -> NoiseShare:
    """The share of noise that each device of a roster of this size adds."""
    crowd = Crowd(size, floor=terms.floor, lost=terms.lost / 1000, corrupt=terms.corrupt / 1000)
    return NoiseShare(Fraction(terms.noise), crowd.survivors, crowd.colluders)


def drawn(terms: Terms, size: int, *, seed: bytes) -> RingArray:
    """One device's share of the noise, in the ring, from 32 secret bytes that are used for nothing else."""
    whole = share_for(terms, size).draw(Stream(seed), terms.length)
    ring = np.uint64 if terms.ring_bits == 64 else np.uint32
    return whole.astype(np.uint64).astype(ring)


def cost(terms: Terms, *, norm: Norm) -> Spent:
    """Privacy loss of one round on these terms, for a person whose vector is no longer than the norm. From the signed
    terms, so that the loss is never counted lower than the noise that is really there allows."""
    if not terms.noise:
        raise PolicyError("a sum without noise has no price that a budget could cover")
    return Spent(ceil(norm.units**2 * Fraction(GRAINS, terms.noise)))


def room(terms: Terms, size: int) -> int:
    """A bound on what noise adds to an entry of the sum; it fails with probability 2^-60."""
    if not terms.noise:
        return 0
    shares = share_for(terms, size)
    return shares.tail(survivors=max(size, shares.survivors), count=terms.length)
