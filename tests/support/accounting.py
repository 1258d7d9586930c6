"""What releases cost, by Gaussian noise and by Google's dp-accounting: for comparison with the accountant's figures."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import reduce

from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld

from prirec.privacy.accountant import GRAINS, Spent


def gaussian(noise_multiplier: float) -> Spent:
    """The cost of one release with Gaussian noise of so many times the norm of a contribution, rounded up."""
    return Spent(math.ceil(GRAINS / Fraction(noise_multiplier) ** 2))


def epsilon_by_pld(releases: Sequence[Spent], delta: float, *, grid: float = 1e-4) -> float:
    """ε of these releases by privacy loss distributions on a grid: an independent upper bound. Time grows with the
    range of losses over `grid`, and the bound is above ε by at most one step of it for each release."""
    noisy = Counter(one.grains for one in releases if one.grains)
    local = Counter((loss.epsilon, loss.delta) for one in releases for loss in one.local)
    parts = [
        *(
            pld.from_gaussian_mechanism(
                Spent(grains).noise_multiplier, value_discretization_interval=grid
            ).self_compose(times)
            for grains, times in noisy.items()
        ),
        *(
            pld.from_privacy_parameters(
                common.DifferentialPrivacyParameters(*given), value_discretization_interval=grid
            ).self_compose(times)
            for given, times in local.items()
        ),
    ]
    return float(reduce(lambda one, other: one.compose(other), parts).get_epsilon_for_delta(delta))
