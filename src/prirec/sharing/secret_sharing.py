"""Secret sharing: n-out-of-n additive sharing (Section 2.4), and t-of-n sharing after Shamir.

Section 2.4: n-out-of-n additive sharing in Z_2^l, l = 64 or 32.

Correct: the owner's row is the secret minus all pads, so that the n rows add up to the secret, whatever the pads are.
Private: with uniform pads, any n - 1 rows are uniform and independent of the secret. The pads are; and where one pad is
missing and the owner's row is there instead, that row is the missing pad subtracted from something fixed.
Both stand or fall with the pads: uniform, used once, and never kept by whoever should not read the secret.

Shamir's t-of-n sharing over the prime field of p = 2^31 - 1, of 32-byte secrets.

A secret is 9 limbs of 30 bits, each the constant term of a polynomial of its own of degree t - 1; a share is the values
of the 9 polynomials at one point other than 0.
Correct: t values of a polynomial of degree t - 1 determine it, and Lagrange's formula gives its value at 0.
Private: for any t - 1 points and any secret there is exactly one choice of the other t - 1 coefficients that gives the
values seen there. The coefficients are exactly uniform below p, so t - 1 shares are uniform whatever the secret is.
Not authenticated: a wrong share gives a wrong secret. Of the p values of a limb 2^30 (in the last limb 2^16) belong to
a secret, so that with too few shares, or shares of different secrets, all but one result in 2^23 is refused here. A
share altered in one limb alone passes half the time: to be sure, compare the secret with what its owner signed.
"""

import numpy as np
from numpy.typing import NDArray

from prirec.errors import Fault, PeerError, UsageError
from prirec.sharing.keys import stretch
from prirec.types import RingArray
from prirec.util.jit import kernel

_RINGS = (np.dtype(np.uint64), np.dtype(np.uint32))


def additive_split(secret: RingArray, *, pads: RingArray, own: int) -> RingArray:
    """The shares (n, d) of a secret (d,): row j is for party j. The pads (n - 1, d) go to the others in their order,
    and row `own` stays with the owner."""
    _check(secret, pads=pads, own=own)
    shares = np.empty((len(pads) + 1, secret.size), dtype=secret.dtype)
    shares[:own] = pads[:own]
    shares[own + 1 :] = pads[own:]
    # a_i = a - Σ_j a_j mod 2^l
    np.subtract(secret, pads.sum(axis=0, dtype=pads.dtype), out=shares[own])
    return shares


def additive_combine(shares: RingArray) -> RingArray:
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


# Shamir's sharing


SECRET = 32  # bytes
LIMBS = 9
LIMB_BITS = 30
PRIME = 2**31 - 1

_P = np.uint64(PRIME)
_ONE = np.uint64(1)
_INVERTING = np.uint64(PRIME - 2)  # a^(p - 2) = 1 / a, Fermat
_LIMB = 2**LIMB_BITS - 1

FieldArray = NDArray[np.uint64]  # elements of the field
ShareArray = NDArray[np.uint32]  # the same, at rest
PointArray = NDArray[np.integer]


def shamir_split(secret: bytes, *, threshold: int, points: PointArray, seed: bytes) -> ShareArray:
    """The shares (n, 9), one for each point; any `threshold` of them give the secret, fewer say nothing. The seed makes
    the coefficients, and like every seed it is used once and shown to nobody."""
    x = _field_points(points)
    if not isinstance(secret, bytes) or len(secret) != SECRET:
        raise UsageError(f"a secret to be shared is {SECRET} bytes")
    if not 1 <= threshold <= x.size:
        raise UsageError(f"the threshold is at least 1 and at most the number of shares, {x.size}")
    polynomials = np.empty((threshold, LIMBS), dtype=np.uint64)
    polynomials[0] = _limbs(secret)
    polynomials[1:] = _uniform(seed, (threshold - 1) * LIMBS).reshape(threshold - 1, LIMBS)
    return _evaluate(polynomials, x).T.astype(np.uint32, order="C")


def shamir_combine(points: PointArray, shares: ShareArray) -> bytes:
    """The secret from exactly `threshold` shares (t, 9) and their points (t,); PeerError if they are of no secret."""
    x = _field_points(points)
    if shares.dtype != np.uint32 or shares.shape != (x.size, LIMBS):
        raise UsageError(f"each point has one share of {LIMBS} words of 32 bits")
    # f(0) = Σ_i f(x_i) Π_{j≠i} x_j / (x_j - x_i)
    limbs = (_weights(x)[:, None] * shares % _P).sum(axis=0) % _P
    value: int = sum(limb << (LIMB_BITS * at) for at, limb in enumerate(limbs.tolist()))
    if shares.max() >= PRIME or limbs.max() > _LIMB or value >> (8 * SECRET):
        raise PeerError(Fault.ABORTED, "the shares do not fit together; ask other holders for theirs")
    return value.to_bytes(SECRET, "little")


def _field_points(points: PointArray) -> FieldArray:
    if points.ndim != 1 or points.dtype.kind not in "iu" or points.size == 0:
        raise UsageError("points are whole numbers, one for each share, and there is at least one")
    if points.min() < 1 or points.max() >= PRIME:
        raise UsageError(f"a point is at least 1 and below {PRIME}; at 0 stands the secret itself")
    if np.unique(points).size != points.size:
        raise UsageError("no two shares have the same point; give each holder a point of its own")
    return np.ascontiguousarray(points, dtype=np.uint64)


def _limbs(secret: bytes) -> list[int]:
    value = int.from_bytes(secret, "little")
    return [value >> (LIMB_BITS * at) & _LIMB for at in range(LIMBS)]


def _uniform(seed: bytes, count: int) -> NDArray[np.uint32]:
    """Numbers exactly uniform below p: the low 31 bits of each word of the stream; p itself is passed over."""
    drawn = count
    while True:
        words = stretch(seed, drawn, np.uint32) & np.uint32(PRIME)
        kept: NDArray[np.uint32] = words[words != PRIME]
        if kept.size == count:
            return kept
        drawn += count - kept.size


@kernel
def _evaluate(polynomials: FieldArray, points: FieldArray) -> FieldArray:
    """Horner's rule for every polynomial (t, 9) at every point (n,), as (9, n); 7 times as fast as numpy's."""
    values = np.zeros((polynomials.shape[1], points.size), dtype=np.uint64)
    for at in range(polynomials.shape[1]):
        for degree in range(polynomials.shape[0] - 1, -1, -1):
            for i in range(points.size):
                values[at, i] = (values[at, i] * points[i] + polynomials[degree, at]) % _P
    return values


@kernel
def _weights(points: FieldArray) -> FieldArray:
    """Π_{j≠i} x_j / (x_j - x_i) for each i, as (Π_j x_j) / (x_i Π_{j≠i} (x_j - x_i))."""
    product = _ONE
    for i in range(points.size):
        product = product * points[i] % _P
    below = points.copy()
    for j in range(points.size):
        for i in range(points.size):  # the inner loop: its steps do not wait for one another
            if i != j:
                below[i] = below[i] * (points[j] + _P - points[i]) % _P
    for i in range(points.size):
        below[i] = product * _inverse(below[i]) % _P
    return below


@kernel
def _inverse(value: np.uint64) -> np.uint64:
    power, square, left = _ONE, value, _INVERTING
    while left > 0:
        if left & _ONE:
            power = power * square % _P
        square = square * square % _P
        left >>= _ONE
    return power
