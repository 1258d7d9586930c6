"""Who takes part: a fraction of the devices is online, and some of those are lost on the way."""

from typing import NamedTuple

import numpy as np

from prirec.compiled import kernel
from prirec.engines.randomness import iteration_key, run_key
from prirec.keyed import Word, mix, uniform
from prirec.protocols.mask_graph import least_survivors
from prirec.settings import Settings
from prirec.types import BoolArray, KeyArray, RealArray


class Standing(NamedTuple):
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


def standing(keys: KeyArray, iteration: int, settings: Settings) -> Standing:
    """A function of seed, iteration and person alone, so that an interrupted run repeats it."""
    online, lost = settings.participation.online, settings.participation.dropout
    chance = uniforms(iteration_key(settings.seed, "participation", iteration), keys)
    fate = uniforms(iteration_key(settings.seed, "drop-out", iteration), keys)
    there = chance < online
    present = there & (fate >= lost / 2)
    return Standing(there, present, present & (fate >= lost))


def left_in_collection(keys: KeyArray, settings: Settings, *, of: str = "popularity") -> BoolArray:
    """(I,): who is not lost in the one collection of this. It waits until everyone has been online."""
    return uniforms(run_key(settings.seed, f"drop-out from {of}"), keys) >= settings.participation.dropout


def opens(survivors: int, *, rostered: int, settings: Settings) -> bool:
    """Whether a sum over this roster is opened with so many survivors; devices and the recommender ask the same."""
    return survivors >= least_survivors(rostered, floor=settings.floor, lost=settings.sums.lost)
