"""Z-order (Morton 1966): one number a place, such that near numbers are mostly near places."""

import numpy as np

from prirec.geography import located
from prirec.types import KeyArray, RealArray

NOWHERE = np.uint64(2**32)  # sorts after every real code
_STEPS = 2.0**16
_SPREAD = ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555))


def morton(location: RealArray) -> KeyArray:
    """(n, 2) degrees to (n,) codes of 32 bits, 16 each of latitude and longitude interleaved; NOWHERE if unknown."""
    known = located(location)
    share = (location[known] + (90.0, 180.0)) / (180.0, 360.0)
    quantised = np.minimum(np.floor(share * _STEPS), _STEPS - 1).astype(np.uint64)
    codes = np.full(len(location), NOWHERE)
    codes[known] = (_spread(quantised[:, 0]) << np.uint64(1)) | _spread(quantised[:, 1])
    return codes


def _spread(x: KeyArray) -> KeyArray:
    """A zero bit before each of the 16 bits of x."""
    for shift, mask in _SPREAD:
        x = (x | (x << np.uint64(shift))) & np.uint64(mask)
    return x
