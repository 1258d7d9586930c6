"""Section 2.4: n-out-of-n additive sharing in Z_2^l, l = 64 or 32.

Correct: the owner's row is the secret minus all pads, so that the n rows add up to the secret, whatever the pads are.
Private: with uniform pads, any n - 1 rows are uniform and independent of the secret. The pads are; and where one pad is
missing and the owner's row is there instead, that row is the missing pad subtracted from something fixed.
Both stand or fall with the pads: uniform, used once, and never kept by whoever should not read the secret.
"""

import numpy as np

from prirec.errors import UsageError
from prirec.types import RingArray

_RINGS = (np.dtype(np.uint64), np.dtype(np.uint32))


def split(secret: RingArray, *, pads: RingArray, own: int) -> RingArray:
    """The shares (n, d) of a secret (d,): row j is for party j. The pads (n - 1, d) go to the others in their order,
    and row `own` stays with the owner."""
    _check(secret, pads=pads, own=own)
    shares = np.empty((len(pads) + 1, secret.size), dtype=secret.dtype)
    shares[:own] = pads[:own]
    shares[own + 1 :] = pads[own:]
    # a_i = a - Σ_j a_j mod 2^l
    np.subtract(secret, pads.sum(axis=0, dtype=pads.dtype), out=shares[own])
    return shares


def combine(shares: RingArray) -> RingArray:
    """Σ_i a_i mod 2^l: the secret (d,) from all its shares (n, d), or the sum of secrets from partial sums."""
    if shares.dtype not in _RINGS or shares.ndim != 2 or len(shares) == 0:
        raise UsageError("shares are the rows of one array of ring words, (n, d), and there is at least one row")
    total: RingArray = shares.sum(axis=0, dtype=shares.dtype)
    return total


def _check(secret: RingArray, *, pads: RingArray, own: int) -> None:
    if secret.dtype not in _RINGS or pads.dtype != secret.dtype:
        raise UsageError("the secret and its pads are words of one ring: both uint64 or both uint32")
    if secret.ndim != 1 or pads.ndim != 2 or pads.shape[1] != secret.size:
        raise UsageError("the secret is one vector (d,), and each row of the pads (n - 1, d) is as long as it")
    if len(pads) == 0:
        raise UsageError("a single share is the secret itself; share among at least two parties")
    if not 0 <= own <= len(pads):
        raise UsageError(f"the owner is one of {len(pads) + 1} parties, counted from 0")
