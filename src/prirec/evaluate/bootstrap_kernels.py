"""What a resample of people comes to, LANES resamples at a time: one walk over sorted records serves them all."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from prirec.compiled import kernel
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray

LANES = 32  # a person's 32 multiplicities fill a cache line
Times: TypeAlias = NDArray[np.int16]  # (I, LANES): how often each person is in each resample


@kernel
def counted(drawn: IndexArray) -> Times:
    """From who is drawn, (LANES, I), to how often each is."""
    times = np.zeros((drawn.shape[1], LANES), np.int16)
    for b in range(LANES):
        for at in range(drawn.shape[1]):
            times[drawn[b, at], b] += 1
    return times


@kernel
def weighted_wins(
    person: IndexArray, positive: BoolArray, ends: BoolArray, times: Times
) -> tuple[OffsetArray, OffsetArray, OffsetArray]:
    """Doubled wins of positives over negatives, a tie counting one, and the weights of both classes: (LANES,) each.

    2 wins = Σ over runs of equal scores of p (2 below + n), p and n the run's positives and negatives. Over 200,000
    records and 7,000 people forty times as fast as metrics.auc of the records that a resample repeats.
    """
    wins, all_positive, below = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    p, n = np.zeros(LANES, np.int64), np.zeros(LANES, np.int64)
    for r in range(len(person)):
        mine = times[person[r]]
        side = p if positive[r] else n
        for b in range(LANES):
            side[b] += mine[b]
        if ends[r]:
            for b in range(LANES):
                wins[b] += p[b] * (2 * below[b] + n[b])
                below[b] += n[b]
                all_positive[b] += p[b]
                p[b] = 0
                n[b] = 0
    return wins, all_positive, below


@kernel
def weighted_sums(person: OffsetArray, values: RealArray, times: Times) -> RealArray:
    """(LANES,): Σ x_i · times_i, in the same order for every model, so that equal models are equal to the last bit."""
    total = np.zeros(LANES)
    for at in range(len(person)):
        mine, value = times[person[at]], values[at]
        for b in range(LANES):
            if mine[b]:  # nobody times an infinite loss is no loss
                total[b] += value * mine[b]
    return total
