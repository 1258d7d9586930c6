"""Seeded randomness, for simulation only. What protects a person never comes from here."""

from hashlib import blake2b

import numpy as np

from prirec.keyed import Word, mix


def run_key(seed: int, purpose: str) -> np.uint64:
    """A key for one purpose of a run; no two purposes share a stream."""
    digest = blake2b(f"{purpose}\0{seed}".encode(), digest_size=8, person=b"prirec run").digest()
    return np.uint64(int.from_bytes(digest, "little"))


def iteration_key(seed: int, purpose: str, iteration: int) -> np.uint64:
    """The same, for one round or pass: nothing has to be remembered between them."""
    key: Word = mix(run_key(seed, purpose), np.uint64(iteration))
    return np.uint64(key)


def generator(seed: int, purpose: str) -> np.random.Generator:
    """A NumPy generator for one purpose of a run."""
    return np.random.Generator(np.random.PCG64(int(run_key(seed, purpose))))
