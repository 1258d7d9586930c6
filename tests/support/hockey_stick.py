"""The privacy of one Skellam draw by its own law, which nothing of prirec enters: the hockey-stick divergence."""

from fractions import Fraction

import numpy as np


def log_skellam(variance: float, reach: int) -> np.ndarray:
    """ln P(Z = k) for k = 0 .. reach, by the backward recurrence of the ratios r_k = I_k+1(v) / I_k(v), which forgets
    where it began: 1 / r_k = 2 (k + 1) / v + r_k+1."""
    ratios, ratio = np.empty(2 * reach + 1000), 0.0
    for k in range(len(ratios) - 1, -1, -1):
        ratio = 1 / (2 * (k + 1) / variance + ratio)
        ratios[k] = ratio
    logs = np.concatenate([[0.0], np.cumsum(np.log(ratios))])
    both = np.concatenate([logs[:0:-1], logs])
    whole: np.ndarray = logs[: reach + 1] - (both.max() + np.log(np.exp(both - both.max()).sum()))
    return whole


def epsilon_of_one_share(variance: Fraction, shift: int, *, delta: float) -> float:
    """The least ε with Σ max(0, P(Z = k) − e^ε P(Z = k + shift)) ≤ δ."""
    sd = float(variance) ** 0.5
    reach = int(12 * sd) + 100
    logs = log_skellam(float(variance), reach + shift)
    k = np.arange(-reach, reach + 1)
    here, there = logs[np.abs(k)], logs[np.abs(k + shift)]

    def left(epsilon: float) -> float:
        more = here > there + epsilon
        return float((np.exp(here[more]) * -np.expm1(epsilon + there[more] - here[more])).sum())

    low, high = 0.0, 1e6
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if left(middle) <= delta else (middle, high)
    return high
