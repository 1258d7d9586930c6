"""Keyed randomness: numbers that follow from a key alone, on every engine, in any order, whatever a person's row is.

SplitMix64 (Steele, Lea and Flood 2014) is a counter-based generator for simulation and for keyed shuffles. It is not
a cipher: masks, shares and noise never come from here.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prirec.types import KeyArray
from prirec.util.jit import kernel_for, numpy_of

Word: TypeAlias = int | np.uint64  # 64 bits: uint64 inside kernels, a plain int as an answer to Python

# numba turns uint64 op int64 into float64, so every constant below is a uint64.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_11, _27, _30, _31, _32 = (np.uint64(bits) for bits in (11, 27, 30, 31, 32))


@kernel_for("uint64(uint64)")
def splitmix64(x: Word) -> Word:
    """One step of SplitMix64 from state x: a bijection of 64-bit words; each input bit flips half the output bits."""
    z = np.uint64(x) + GOLDEN
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@kernel_for("uint64(uint64, uint64)")
def mix(a: Word, b: Word) -> Word:
    """Two words to one; the order matters, and for a fixed `a` no two `b` collide."""
    return splitmix64(np.uint64(splitmix64(a)) ^ np.uint64(b))


@kernel_for("uint64(uint64, uint64)")
def word(key: Word, position: Word) -> Word:
    """The SplitMix64 sequence that starts at `key`, at any position without the ones before it."""
    return splitmix64(np.uint64(key) + np.uint64(position) * GOLDEN)


@kernel_for("uint64(uint64, uint64)")
def below(random_word: Word, bound: Word) -> Word:
    """floor(word · bound / 2^64) for a bound under 2^32: no division, and no value is likelier by more than 2^-64."""
    x, n = np.uint64(random_word), np.uint64(bound)
    return ((x >> _32) * n + (((x & _LOW_HALF) * n) >> _32)) >> _32


@kernel_for("float64(uint64)")
def uniform(key: Word) -> float:
    """A real number in [0, 1) with 53 random bits."""
    return float(np.uint64(splitmix64(key)) >> _11) * 2.0**-53


@kernel_for("void(uint64, int32[::1])", "void(uint64, int64[::1])")
def shuffle(key: Word, out: NDArray[np.integer[Any]]) -> None:
    """Fill `out` with a permutation of 0 .. len(out) - 1 (Fisher and Yates); biased by at most 2^-64 a step."""
    for i in range(len(out)):
        j = np.int64(below(word(key, i), i + 1))
        out[i] = out[j]
        out[j] = i


@kernel_for("uint64[::1](uint64, uint64[::1])")
def mix_each(a: Word, keys: KeyArray) -> KeyArray:
    """mix(a, key) for each key."""
    mixed = np.empty(len(keys), np.uint64)
    for i in range(len(keys)):
        mixed[i] = mix(a, keys[i])
    return mixed


@numpy_of(mix_each)
def _mix_each(a: Word, keys: KeyArray) -> KeyArray:
    return _step(_step(np.array([a], dtype=np.uint64)) ^ keys)


def _step(x: KeyArray) -> KeyArray:
    """`splitmix64` of each word."""
    z = x + GOLDEN
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@kernel_for("uint64[::1](uint64[::1], uint64[::1])")
def mix_pairs(a: KeyArray, b: KeyArray) -> KeyArray:
    """mix(a, b) for each pair."""
    mixed = np.empty(len(a), np.uint64)
    for i in range(len(a)):
        mixed[i] = mix(a[i], b[i])
    return mixed


@kernel_for("uint64[::1](uint64[::1], uint64[::1])")
def below_each(words: KeyArray, bounds: KeyArray) -> KeyArray:
    """below(word, bound) for each pair."""
    found = np.empty(len(words), np.uint64)
    for i in range(len(words)):
        found[i] = below(words[i], bounds[i])
    return found


def person_keys(ids: Sequence[str]) -> KeyArray:
    """A key for each person from the id alone, shape (I,): what happens to someone does not depend on the row."""
    # surrogatepass: an id that is not valid text must not end in an error that prints it
    digests = (blake2b(i.encode("utf-8", "surrogatepass"), digest_size=8, person=b"prirec person") for i in ids)
    return np.frombuffer(b"".join(d.digest() for d in digests), dtype="<u8").astype(np.uint64)


# Seeded randomness, for simulation only. What protects a person never comes from here.


def run_key(seed: int, purpose: str) -> np.uint64:
    """A key for one purpose of a run; no two purposes share a stream."""
    # A hash, not seed + purpose number: neighbouring seeds must not give overlapping streams.
    digest = blake2b(f"{purpose}\0{seed}".encode(), digest_size=8, person=b"prirec run").digest()
    return np.uint64(int.from_bytes(digest, "little"))


def iteration_key(seed: int, purpose: str, iteration: int) -> np.uint64:
    """A key for one purpose in one round or pass of a run: no state has to be carried from one to the next."""
    key: Word = mix(run_key(seed, purpose), np.uint64(iteration))
    return np.uint64(key)


def generator(seed: int, purpose: str) -> np.random.Generator:
    """A NumPy generator for one purpose of a run."""
    return np.random.Generator(np.random.PCG64(int(run_key(seed, purpose))))
