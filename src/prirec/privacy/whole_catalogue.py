"""A bit for every POI under one (ε, δ) for each USER: what each of the J bits of randomised response may then cost.

Proof. Each bit is a coin that is right with p = e^ε₀ / (1 + e^ε₀) at most, so J of them tell no more than how many of J
such coins are right, K of law Bin(J, p) or Bin(J, 1-p), with the log ratio (2K - J) ε₀ (Kairouz, Oh and Viswanath
2015). They are (ε, δ)-private for δ = P(K > k) - e^ε P'(K > k), k = ⌊(ε/ε₀ + J) / 2⌋, and reached: no bit could cost
more. Holds between any two visit vectors. With δ = 0 it would be ε/J, basic composition.
"""

import math

from scipy.special import bdtrc

from prirec.errors import UsageError
from prirec.privacy.units import PrivacyLoss, Unit, checked_epsilon, local_loss

_SAFE = 1 - 1e-6  # of δ: the tails of a binomial are off by less
_STEPS = 60
_LARGEST = 700.0  # e^700 is about the largest float; a smaller e^ε only makes δ larger


def delta_of_bits(epsilon_per_bit: float, *, pois: int, epsilon_per_user: float) -> float:
    """The δ at which so many bits are (ε, δ)-private together."""
    if not pois * epsilon_per_bit > epsilon_per_user:
        return 0.0
    k = math.floor((epsilon_per_user / epsilon_per_bit + pois) / 2)
    right = 1 / (1 + math.exp(-epsilon_per_bit))
    wrong = 1 / (1 + math.exp(min(epsilon_per_bit, _LARGEST)))
    told = bdtrc(k, pois, right) - math.exp(min(epsilon_per_user, _LARGEST)) * bdtrc(k, pois, wrong)
    return max(0.0, float(told))


def epsilon_of_a_bit(epsilon_per_user: float, *, delta: float, pois: int) -> PrivacyLoss:
    """The most that each of J bits may cost for all of them to be (ε, δ)-private, rounded down; never more than ε."""
    checked_epsilon(epsilon_per_user, "epsilon_per_user")
    if pois < 1 or not 0 <= delta < 1:
        raise UsageError("a catalogue has at least one POI, and delta is from 0 to below 1")
    low, high = epsilon_per_user / pois * (1 - 2**-50), epsilon_per_user
    for _ in range(_STEPS if delta > 0 else 0):
        middle = (low + high) / 2
        fits = delta_of_bits(middle, pois=pois, epsilon_per_user=epsilon_per_user) <= delta * _SAFE
        low, high = (middle, high) if fits else (low, middle)
    return local_loss(low, Unit.BIT)
