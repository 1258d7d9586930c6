"""What a mechanism gives away at least: a lower bound on its ε from runs, without looking inside it.

Run it many times on two inputs and count an event. With Clopper and Pearson's exact intervals, ln(P / P') is at least
the log of the lowest P over the highest P'; but for the stated odds, it cannot exceed a true claim.
"""

import math

from numpy.typing import NDArray
from scipy.stats import beta

ODDS = 1e-9  # of a bound above the truth, for each of the two intervals


def lowest(hits: int, runs: int, odds: float = ODDS) -> float:
    """Clopper and Pearson's lower limit of a probability."""
    return float(beta.ppf(odds, hits, runs - hits + 1)) if hits else 0.0


def highest(hits: int, runs: int, odds: float = ODDS) -> float:
    """Clopper and Pearson's upper limit of a probability."""
    return float(beta.ppf(1 - odds, hits + 1, runs - hits)) if hits < runs else 1.0


def epsilon_at_least(here: NDArray, there: NDArray, odds: float = ODDS) -> float:
    """A lower bound on ε from whether the event happened in each run on one input, and in each run on another."""
    low = lowest(int(here.sum()), here.size, odds)
    return math.log(low / highest(int(there.sum()), there.size, odds)) if low else 0.0
