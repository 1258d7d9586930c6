"""The recommender's step in rounds: Adam on the aggregated gradient, in place of Eq. (9).

Kingma and Ba 2015, in the more efficient form that closes their Section 2, where the small constant is not corrected.
A round moves V once, by the mean gradient over everyone, where Eq. (9) takes a step for every sample.
"""

from typing import NamedTuple

import numpy as np

from prirec.types import RealArray


class Moments(NamedTuple):
    """What Adam remembers between rounds; public, since it is computed from opened sums only."""

    first: RealArray
    second: RealArray
    steps: int


BETA_FIRST, BETA_SECOND, SMALL = 0.9, 0.99, 1e-8


def no_moments(shape: tuple[int, ...]) -> Moments:
    """Moments before the first round: all zeros."""
    return Moments(np.zeros(shape), np.zeros(shape), 0)


def move(
    V: RealArray, mean_gradient: RealArray, moments: Moments, *, alpha: float, lambda_v: float
) -> tuple[RealArray, Moments]:
    """Step (f) of a round: the opened mean gradient (K * D,), V's regularisation once, and one step."""
    D, K = V.shape
    return step(V, mean_gradient.reshape(K, D).T + 2 * lambda_v * V, moments, alpha=alpha)


def step(V: RealArray, gradient: RealArray, moments: Moments, *, alpha: float) -> tuple[RealArray, Moments]:
    t = moments.steps + 1
    first = BETA_FIRST * moments.first + (1 - BETA_FIRST) * gradient
    second = BETA_SECOND * moments.second + (1 - BETA_SECOND) * gradient**2
    pace = alpha * (1 - BETA_SECOND**t) ** 0.5 / (1 - BETA_FIRST**t)
    return V - pace * first / (np.sqrt(second) + SMALL), Moments(first, second, t)
