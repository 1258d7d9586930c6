"""What a mechanism gives away at least: a lower bound on its ε from runs, without looking inside it.

Run it many times on two inputs and count an event. With Clopper and Pearson's exact intervals, ln((P - δ) / P') is at
least the log of the lowest P less δ over the highest P'; but for the stated odds, it cannot exceed a true claim. The
runs on one input may share their randomness with those on the other: each interval holds by itself.
"""

import math
from collections.abc import Mapping

from numpy.typing import NDArray
from scipy.stats import beta

from prirec.privacy.accountant import Adjacency, Spent

ODDS = 1e-9  # of a bound above the truth, for each of the two intervals
# At δ = 1e-6 all that could break a claim happens a few times in a million runs. A claim about noise is a whole curve
# of ε and δ, and a mistake in it shows where events are common.
DELTAS = (1e-6, 1e-3, 0.01, 0.03, 0.05)
_THRESHOLDS = (0.1, 0.7, 1.5, 2.3, 3.0)  # in standard deviations of the noise


def lowest(hits: int, runs: int, odds: float = ODDS) -> float:
    """Clopper and Pearson's lower limit of a probability."""
    return float(beta.ppf(odds, hits, runs - hits + 1)) if hits else 0.0


def highest(hits: int, runs: int, odds: float = ODDS) -> float:
    """Clopper and Pearson's upper limit of a probability."""
    return float(beta.ppf(1 - odds, hits + 1, runs - hits)) if hits < runs else 1.0


def epsilon_at_least(here: NDArray, there: NDArray, odds: float = ODDS, *, delta: float = 0.0) -> float:
    """A lower bound on ε from whether the event happened in each run on one input, and in each run on another."""
    low = lowest(int(here.sum()), here.size, odds) - delta
    return math.log(low / highest(int(there.sum()), there.size, odds)) if low > 0 else 0.0


def shown(noise: NDArray, *, move: float, sd: float) -> dict[float, float]:
    """For each δ, the most that thresholds show between sums that a contribution moves up and sums that it does not,
    both ways round; sd is that of the noise. False alarm 2e-8: ten pairs of intervals."""
    events = [(noise + move > z * sd, noise > z * sd) for z in _THRESHOLDS]
    events += [(noise < move - z * sd, noise + move < move - z * sd) for z in _THRESHOLDS]
    return {delta: max(epsilon_at_least(*event, delta=delta) for event in events) for delta in DELTAS}


def claimed(spent: Spent, adjacency: Adjacency = Adjacency.ZERO_OUT) -> dict[float, float]:
    """For each δ, the ε that the accountant claims."""
    return {delta: spent.loss(delta, adjacency).epsilon for delta in DELTAS}


def excess(seen: Mapping[float, float], claim: Mapping[float, float]) -> float:
    """How far what was shown is above the claim, at the δ where it is worst; at most 0 for a true one."""
    return max(seen[delta] - claim[delta] for delta in DELTAS)


def share_shown(seen: Mapping[float, float], claim: Mapping[float, float]) -> float:
    """Which part of the claim was shown, at the δ where it is most."""
    return max(seen[delta] / claim[delta] for delta in DELTAS)
