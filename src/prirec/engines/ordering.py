"""Algorithm 2, line 6: the order in which a pass takes the samples."""

import numpy as np

from prirec.config import Settings
from prirec.features.samples import Samples
from prirec.types import BoolArray, IndexArray, OffsetArray
from prirec.util.keyed_random import iteration_key, shuffle


def sample_order(samples: Samples, settings: Settings, *, iteration: int, online: BoolArray) -> OffsetArray:
    """Rows of the training records of those online, each once.

    `shuffled` is the paper's. `windows` shuffles too, then walks each stretch of I samples along the curve on which
    people stand: nobody comes twice in one walk, but the models that a sample needs are still in the processor's cache.
    """
    rows = np.flatnonzero(online[samples.train.person])
    order = np.empty(len(rows), dtype=np.int64)
    shuffle(iteration_key(settings.seed, "order", iteration), order)
    if settings.order == "windows":
        order = order[_in_windows(samples.train.person[rows[order]], width=len(samples.ids))]
    return rows[order]


def _in_windows(person: IndexArray, *, width: int) -> OffsetArray:
    """Within each window by person; whoever comes again waits for the next walk through the window."""
    many, people = len(person), int(person.max(initial=0)) + 1
    at, window = np.arange(many), np.arange(many) // width
    by_person = np.sort((window * people + person) * many + at)  # whole numbers sort much faster than their indices
    new = np.diff(by_person // max(many, 1), prepend=-1) != 0
    walk = np.empty(many, dtype=np.int64)
    walk[by_person % max(many, 1)] = at - np.flatnonzero(new)[np.cumsum(new) - 1]
    walked = (window * (int(walk.max(initial=0)) + 1) + walk) * people + person
    order: OffsetArray = np.sort(walked * many + at) % max(many, 1)
    return order
