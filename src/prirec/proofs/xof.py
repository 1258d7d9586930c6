"""The XOF of PINE here: HMAC-SHA256 makes a key and a starting counter, AES-128 in counter mode makes the stream.

Both are in every browser's WebCrypto. Each use has a domain separation tag of its own, so that two seeds never serve
two purposes. The counter is the lower 64 bits of the block alone, as in the published vectors' own code.
"""

from enum import IntEnum
from hashlib import sha256
from hmac import digest

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

SEED = 32  # bytes
_VERSION, _ALGORITHM = 1, 0xFFFF1004  # of the draft; of PINE over Field64 with this XOF, as its vectors have it
_BLOCK = 16


class Usage(IntEnum):
    """What a stream is for: the last part of the tag."""

    ENCODED_SHARE = 1
    PROOFS_SHARE = 2
    JOINT_RANDOMNESS = 3
    PROVER_RANDOMNESS = 4
    QUERY_RANDOMNESS = 5
    JOINT_SEED = 6
    JOINT_PART = 7
    CHECK_VECTORS = 8
    CHECK_SEED = 9
    CHECK_PART = 10


def stream(seed: bytes, usage: Usage, binder: bytes, size: int) -> bytes:
    """The first `size` bytes for this seed, use and binder; a longer stream begins with the shorter."""
    tag = bytes([_VERSION]) + _ALGORITHM.to_bytes(4, "big") + usage.to_bytes(2, "big")
    drawn = digest(seed, bytes([len(tag)]) + tag + binder, sha256)
    return key_stream(drawn[:_BLOCK], drawn[_BLOCK:], size)


def key_stream(key: bytes, start: bytes, size: int) -> bytes:
    """AES-128 of start, start + 1, ...: only the lower 64 bits count, and after 2^64 - 1 comes 0."""
    before_wrap = _BLOCK * (2**64 - int.from_bytes(start[8:], "big"))
    if size > before_wrap:
        return key_stream(key, start, before_wrap) + key_stream(key, start[:8] + bytes(8), size - before_wrap)
    return Cipher(algorithms.AES(key), modes.CTR(start)).encryptor().update(bytes(size))


def derived_seed(seed: bytes, usage: Usage, binder: bytes) -> bytes:
    return stream(seed, usage, binder, SEED)
