"""The noise in an opened sum, in simulation: the survivors' shares together, drawn at once from their law.

It comes from the run's seed, so that every engine and every repetition has the same bits, and it protects nobody. A
device draws its own share from the operating system's entropy: protocols/noise.py.
"""

from fractions import Fraction
from hashlib import blake2b
from typing import TypeAlias

import numpy as np

from prirec.privacy.budget import crowd
from prirec.privacy.noise_share import NoiseShare
from prirec.privacy.randomness import Stream
from prirec.settings import Settings
from prirec.types import RingArray

Where: TypeAlias = tuple[str | int, ...]  # which sum of a run this is


def simulated_noise(
    wanted: int, count: int, *, rostered: int, survivors: int, settings: Settings, where: Where
) -> RingArray:  # fmt: skip
    """The noise of a sum that is opened, in whole numbers of the ring of 64 bits; zeros where none is wanted."""
    if wanted == 0:
        return np.zeros(count, dtype=np.uint64)
    among = crowd(settings, rostered)
    shares = NoiseShare(Fraction(wanted), among.survivors, among.colluders)
    return shares.total(_stream(settings.seed, where), survivors=survivors, count=count).astype(np.uint64)


def _stream(seed: int, where: Where) -> Stream:
    return Stream(blake2b(repr((seed, *where)).encode(), digest_size=32, person=b"prirec noise").digest())
