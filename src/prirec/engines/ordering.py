"""Algorithm 2, line 6: the order in which a pass takes the samples."""

import numpy as np

from prirec.config import Settings
from prirec.features.samples import Samples
from prirec.types import BoolArray, IndexArray, OffsetArray
from prirec.util.keyed_random import iteration_key, shuffle


def sample_order(samples: Samples, settings: Settings, *, iteration: int, online: BoolArray) -> OffsetArray:
    """Rows of the training records of those online, each once.

    `shuffled` is the paper's order. `windows` shuffles too, then takes each window of I samples in the order of people,
    who are numbered along a curve over the map: the models that a sample needs are still in the processor's cache from
    the sample before. Nobody comes twice in one walk through a window.
    """
    rows = np.flatnonzero(online[samples.train.person])
    order = np.empty(len(rows), dtype=np.int64)
    shuffle(iteration_key(settings.seed, "order", iteration), order)
    if settings.order == "windows":
        order = order[_in_windows(samples.train.person[rows[order]], width=len(samples.ids))]
    return rows[order]


def _in_windows(person: IndexArray, *, width: int) -> OffsetArray:
    """The order within each window: by person; a person's second sample waits for the second walk, and so on."""
    many, people = len(person), int(person.max(initial=0)) + 1
    at, window = np.arange(many), np.arange(many) // width
    by_person = np.sort((window * people + person) * many + at)  # whole numbers sort much faster than their indices
    new = np.diff(by_person // max(many, 1), prepend=-1) != 0
    walk = np.empty(many, dtype=np.int64)
    walk[by_person % max(many, 1)] = at - np.flatnonzero(new)[np.cumsum(new) - 1]
    walked = (window * (int(walk.max(initial=0)) + 1) + walk) * people + person
    order: OffsetArray = np.sort(walked * many + at) % max(many, 1)
    return order
