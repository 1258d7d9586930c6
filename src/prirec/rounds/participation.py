"""Who takes part in a simulated round, and how a simulated sum is opened: enough survivors, noise, exact losses.

Everything here is drawn from the run's seed, so that every engine, every repetition and every number of shards gives
the same bits. In a deployment devices come and go by themselves, and draw their noise from the operating system.
"""

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
    """Which devices reach which step of a round.

    A device that is lost before the mixing keeps its model. One that is lost after its local step has moved its model,
    but its gradient is in no sum. Those online are the roster of their cohort's sum, those present the roster of the
    sum over everyone.
    """

    online: BoolArray  # (I,): enters the round
    present: BoolArray  # (I,): takes part in the mixing and learns
    counted: BoolArray  # (I,): and its gradient of V is in the sum


def participation(keys: KeyArray, iteration: int, settings: Settings) -> Participation:
    """A function of seed, iteration and person alone, so that a run that was interrupted repeats it."""
    online, dropout = settings.participation.online, settings.participation.dropout
    is_online = uniforms(iteration_key(settings.seed, "participation", iteration), keys) < online
    fate = uniforms(iteration_key(settings.seed, "drop-out", iteration), keys)
    present = is_online & (fate >= dropout / 2)  # half of the drop-outs before the mixing, half after the local step
    return Participation(is_online, present, present & (fate >= dropout))


def left_in_collection(keys: KeyArray, settings: Settings, *, of: str = "popularity") -> BoolArray:
    """(I,): who does not drop out of a sum that is collected once, before any round. It waits until everyone has been
    online, so that participation.online does not count here."""
    return uniforms(run_key(settings.seed, f"drop-out from {of}"), keys) >= settings.participation.dropout


@kernel
def uniforms(key: Word, keys: KeyArray) -> RealArray:
    """One keyed draw from [0, 1) for each key: it does not depend on the order of people, nor on who else is there."""
    out = np.empty(keys.size)
    for i in range(keys.size):
        out[i] = uniform(mix(key, keys[i]))
    return out


# Opening a sum


NoiseKey: TypeAlias = tuple[str | int, ...]  # which sum of a run this is: its kind, the iteration, the cohort


def opens(survivors: int, *, rostered: int, settings: Settings) -> bool:
    """Whether a sum over this roster may be opened with so many survivors. In a deployment devices and the recommender
    hold to the same number: protocols/mask_graph.py."""
    return survivors >= least_survivors(rostered, floor=settings.floor, lost=settings.sums.lost)


def simulated_noise(
    wanted: int, count: int, *, rostered: int, survivors: int, settings: Settings, where: NoiseKey
) -> RingArray:  # fmt: skip
    """The noise in an opened sum, in whole numbers of the ring of 64 bits. The survivors' shares together, drawn at
    once from the distribution of their sum; `wanted` is the planned variance, 0 for none.

    It follows from the seed, which everyone knows, so it protects nobody. A device draws its own share from the
    operating system's entropy (protocols/noise.py).
    """
    if wanted == 0:
        return np.zeros(count, dtype=np.uint64)
    among = crowd(settings, rostered)
    shares = NoiseShare(Fraction(wanted), among.survivors, among.colluders)
    seed = blake2b(repr((settings.seed, *where)).encode(), digest_size=32, person=b"prirec noise").digest()
    return shares.total(Stream(seed), survivors=survivors, count=count).astype(np.uint64)


# The loss of a round is added in whole numbers of 2^-32: the sum is the same in any order and over any shards.


_UNIT = 2.0**-32
_LARGEST = 2.0**30  # of one person's loss; beyond it the models have diverged
_LOW = 0xFFFFFFFF


def summed(losses: RealArray) -> int | None:
    """The sum in units of 2^-32; None if a loss is not a number, or so large that the models have diverged."""
    if not (np.abs(losses) < _LARGEST).all():
        return None
    whole = np.rint(losses / _UNIT).astype(np.int64)
    # by halves of 32 bits: one loss may have 62 bits, and the sum of a few of them would not fit in 64
    return (int((whole >> 32).sum()) << 32) + int((whole & _LOW).sum())


def mean(total: int | None, records: int) -> float:
    """The mean loss of a record; nan if the sum is None."""
    return nan if total is None else total * _UNIT / max(records, 1)
