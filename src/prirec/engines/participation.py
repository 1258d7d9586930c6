"""Who takes part: a fraction of the devices is online, and some of those are lost on the way."""

from fractions import Fraction
from hashlib import blake2b
from math import nan
from typing import NamedTuple, TypeAlias

import numpy as np

from prirec.config import Settings
from prirec.privacy.exact_random import Stream
from prirec.privacy.noise import NoiseShare
from prirec.privacy.plan import crowd
from prirec.protocols.mask_graph import least_survivors
from prirec.types import BoolArray, KeyArray, RealArray, RingArray
from prirec.util.jit import kernel
from prirec.util.keyed_random import Word, iteration_key, mix, run_key, uniform


class Participation(NamedTuple):
    """A device lost before the mixing keeps its model; one lost after its local step has moved its model, but its
    gradient is in no sum. Those online make the roster of the mixing, those present the roster of the sum over all."""

    online: BoolArray  # (I,): enters the round
    present: BoolArray  # (I,): takes part in the mixing and learns
    counted: BoolArray  # (I,): and is in the sum of gradients of V


@kernel
def uniforms(key: Word, keys: KeyArray) -> RealArray:
    out = np.empty(keys.size)
    for i in range(keys.size):
        out[i] = uniform(mix(key, keys[i]))
    return out


def participation(keys: KeyArray, iteration: int, settings: Settings) -> Participation:
    """A function of seed, iteration and person alone, so that an interrupted run repeats it."""
    online, lost = settings.participation.online, settings.participation.dropout
    chance = uniforms(iteration_key(settings.seed, "participation", iteration), keys)
    fate = uniforms(iteration_key(settings.seed, "drop-out", iteration), keys)
    there = chance < online
    present = there & (fate >= lost / 2)
    return Participation(there, present, present & (fate >= lost))


def left_in_collection(keys: KeyArray, settings: Settings, *, of: str = "popularity") -> BoolArray:
    """(I,): who is not lost in the one collection of this. It waits until everyone has been online."""
    return uniforms(run_key(settings.seed, f"drop-out from {of}"), keys) >= settings.participation.dropout


def opens(survivors: int, *, rostered: int, settings: Settings) -> bool:
    """Whether a sum over this roster is opened with so many survivors; devices and the recommender ask the same."""
    return survivors >= least_survivors(rostered, floor=settings.floor, lost=settings.sums.lost)


# The noise in an opened sum, in simulation: the survivors' shares together, drawn at once from their law.
#
# It comes from the run's seed, so that every engine and every repetition has the same bits, and it protects nobody. A
# device draws its own share from the operating system's entropy: protocols/noise.py.


NoiseKey: TypeAlias = tuple[str | int, ...]  # which sum of a run this is


def simulated_noise(
    wanted: int, count: int, *, rostered: int, survivors: int, settings: Settings, where: NoiseKey
) -> RingArray:  # fmt: skip
    """The noise of a sum that is opened, in whole numbers of the ring of 64 bits; zeros where none is wanted."""
    if wanted == 0:
        return np.zeros(count, dtype=np.uint64)
    among = crowd(settings, rostered)
    shares = NoiseShare(Fraction(wanted), among.survivors, among.colluders)
    return shares.total(_stream(settings.seed, where), survivors=survivors, count=count).astype(np.uint64)


def _stream(seed: int, where: NoiseKey) -> Stream:
    return Stream(blake2b(repr((seed, *where)).encode(), digest_size=32, person=b"prirec noise").digest())


# The loss of a round, summed exactly: whole numbers of 2^-32 have the same sum in any order, over any shards.


_UNIT = 2.0**-32
_LARGEST = 2.0**30  # of one person's loss; beyond it the models have diverged
_LOW = 0xFFFFFFFF


def summed(losses: RealArray) -> int | None:
    """In units of 2^-32; None where one of them is not a number, or beyond all that a model could still learn from."""
    if not (np.abs(losses) < _LARGEST).all():
        return None
    whole = np.rint(losses / _UNIT).astype(np.int64)
    return (int((whole >> 32).sum()) << 32) + int((whole & _LOW).sum())


def mean(total: int | None, records: int) -> float:
    """Of a record; nan where the sum was none."""
    return nan if total is None else total * _UNIT / max(records, 1)
