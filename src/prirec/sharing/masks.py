"""Pads and masks: the key stream of AES-256 in counter mode, read as ring words.

Correct: both ends of a pair hold the same seed, hence the same words, and one adds what the other subtracts.
Private: to whoever does not hold the seed, the words cannot be told from uniform ones, as far as AES-256 is a
pseudorandom permutation; b blocks give at most b² / 2^129 away, since a key stream never repeats a block. The key is
the whole seed and the counter always starts alike, so a seed serves ONE purpose in ONE round: seeds come from
`keys.derive`.
"""

from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import DTypeLike

from prirec.errors import UsageError
from prirec.types import RingArray

SEED = 32  # bytes: the whole key of AES-256
_START = modes.CTR(bytes(15) + b"\2")  # where AES-GCM begins its key stream under the nonce 0
_NONCE = bytes(12)
_ZEROS = memoryview(bytes(2**16))  # a fresh page of zeros for every page of a long stream would cost more than AES
_LITTLE_ENDIAN: dict[Any, np.dtype[Any]] = {np.dtype(np.uint64): np.dtype("<u8"), np.dtype(np.uint32): np.dtype("<u4")}


def stretch(seed: bytes, count: int, dtype: DTypeLike = np.uint64) -> RingArray:
    """`count` ring words from a seed of SEED bytes; a longer stream begins with the shorter one."""
    ring = np.dtype(dtype)
    little = _LITTLE_ENDIAN.get(ring)
    if little is None or count < 0:
        raise UsageError("a seed is stretched to no fewer than 0 words, of the ring of 64 or 32 bits")
    if not isinstance(seed, bytes) or len(seed) != SEED:
        raise UsageError(f"a seed is {SEED} bytes, all of them secret")
    octets = count * ring.itemsize
    if octets <= len(_ZEROS):
        # the same stream as _fill's, in one call, for less than half the time; the tag at its end is left
        stream = AESGCM(seed).encrypt(_NONCE, _ZEROS[:octets], None)
        short: RingArray = np.frombuffer(stream, little, count).astype(ring)
        return short
    words = np.empty(octets, dtype=np.uint8)
    _fill(words.data, seed)
    native: RingArray = words.view(little).astype(ring, copy=False)
    return native


def _fill(stream: memoryview, seed: bytes) -> None:
    encryptor = Cipher(algorithms.AES(seed), _START).encryptor()
    for start in range(0, len(stream), len(_ZEROS)):
        piece = stream[start : start + len(_ZEROS)]
        encryptor.update_into(_ZEROS[: len(piece)], piece)
