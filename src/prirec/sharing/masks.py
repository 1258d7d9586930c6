"""Pads and masks: the key stream of AES-256 in counter mode, read as ring words.

Correct: both ends of a pair hold the same seed, hence the same words, and one adds what the other subtracts.
Private: to whoever does not hold the seed, the words cannot be told from uniform ones, as far as AES-256 is a
pseudorandom permutation; b blocks give at most b² / 2^129 away, since a key stream never repeats a block. The key is
the whole seed and the counter starts at 0, so a seed serves ONE purpose in ONE round: seeds come from `keys.derive`.
"""

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import DTypeLike

from prirec.errors import UsageError
from prirec.types import RingArray

SEED = 32  # bytes: the whole key of AES-256
_START = modes.CTR(bytes(16))  # the counter, from 0
_ZEROS = memoryview(bytes(2**16))  # a fresh page of zeros for every page of a long stream would cost more than AES
_LITTLE_ENDIAN = {8: "<u8", 4: "<u4"}


def stretch(seed: bytes, count: int, dtype: DTypeLike = np.uint64) -> RingArray:
    """`count` ring words from a seed of SEED bytes; a longer stream begins with the shorter one."""
    ring = np.dtype(dtype)
    if ring not in (np.uint64, np.uint32) or count < 0:
        raise UsageError("a seed is stretched to no fewer than 0 words, of the ring of 64 or 32 bits")
    if not isinstance(seed, bytes) or len(seed) != SEED:
        raise UsageError(f"a seed is {SEED} bytes, all of them secret")
    words = np.empty(count, dtype=_LITTLE_ENDIAN[ring.itemsize])
    _fill(words.view(np.uint8).data, seed)
    native: RingArray = words.astype(ring, copy=False)
    return native


def _fill(stream: memoryview, seed: bytes) -> None:
    encryptor = Cipher(algorithms.AES(seed), _START).encryptor()
    for start in range(0, len(stream), len(_ZEROS)):
        piece = stream[start : start + len(_ZEROS)]
        encryptor.update_into(_ZEROS[: len(piece)], piece)
