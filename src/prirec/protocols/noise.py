"""A device's share of the noise that the terms call for: added to its vector before the pads are laid on.

How much follows from the signed terms and the roster alone: the honest among the fewest survivors bring all of it, and
whoever collects less than that opens nothing (privacy/noise.py).
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
    """What each device of a roster of this size adds."""
    crowd = Crowd(size, floor=terms.floor, lost=terms.lost / 1000, corrupt=terms.corrupt / 1000)
    return NoiseShare(Fraction(terms.noise), crowd.survivors, crowd.colluders)


def drawn(terms: Terms, size: int, *, seed: bytes) -> RingArray:
    """One device's share in the ring, from 32 secret bytes that serve nothing else."""
    whole = share_for(terms, size).draw(Stream(seed), terms.length)
    ring = np.uint64 if terms.ring_bits == 64 else np.uint32
    return whole.astype(np.uint64).astype(ring)


def cost(terms: Terms, *, norm: Norm) -> Spent:
    """What one round on these terms costs a person whose vector is no longer than the norm: from what was signed, so
    that nobody is charged for more noise than there is."""
    if not terms.noise:
        raise PolicyError("a sum without noise has no price that a budget could cover")
    return Spent(ceil(norm.units**2 * Fraction(GRAINS, terms.noise)))


def room(terms: Terms, size: int) -> int:
    """The most that noise may add to an entry of the sum, but for odds of 2^-60."""
    if not terms.noise:
        return 0
    shares = share_for(terms, size)
    return shares.tail(survivors=max(size, shares.survivors), count=terms.length)
