"""The piecewise mechanism of Wang et al. 2019 for a real number with public bounds, on an exact grid.

In the paper the answer is a real number, uniform on a window around the value with high density and on the rest with
low density: floats would give some answers away. Here answers are the cells 0 .. N-1. A value is rounded to one of
the N-w+1 places g at which a window of w cells can begin; the answer is uniform on the window g .. g+w-1 with
probability 1-o, and uniform on the other N-w cells with probability o, drawn from random words alone.
Proof. A cell has probability (1-o)/w inside the window and o/(N-w) outside; o = n/2^64 is the least with (1-o)(N-w) /
(o w) ≤ E ≤ e^ε. Every answer's ratio between two values is 1, that fraction, or its inverse.
Unbiased: E[cell | g] = A g + B exactly, A = 1 - o - o w/(N-w), since moving the window by one moves the mean by the
same amount everywhere; (cell - B)/A is the estimate of g. As in the paper, w/N is about 1/(e^(ε/2) + 1).
"""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from prirec.errors import UsageError
from prirec.privacy.one_bit_mean import check_bounds, grid_steps
from prirec.privacy.randomness import Stream
from prirec.privacy.units import WORDS, PrivacyLoss, Unit, checked_epsilon, exp_below, local_loss, words_at_least
from prirec.types import OffsetArray, RealArray

CELLS = 2**20  # N


@dataclass(frozen=True, slots=True)
class Piecewise:
    """The mechanism for values in [low, high]; both bounds are public and chosen without looking at anyone's values."""

    low: float
    high: float
    epsilon_per_value: float
    width: int = field(init=False, repr=False)  # w
    outside_words: int = field(init=False, repr=False)  # o · 2^64

    def __post_init__(self) -> None:
        check_bounds(self.low, self.high)
        epsilon = checked_epsilon(self.epsilon_per_value, "epsilon_per_value")
        width = max(1, round(CELLS / (exp_below(epsilon / 2) + 1)))
        rest = CELLS - width
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "outside_words", words_at_least(rest / (exp_below(epsilon) * width + rest)))
        if self.likelihood_ratio() <= 1:
            raise UsageError("epsilon_per_value is so small that an answer would say nothing; give at least 1e-4")

    @property
    def outside(self) -> Fraction:
        """o: the probability of an answer outside the window."""
        return Fraction(self.outside_words, WORDS)

    def cell_probability(self, cell: int, place: int) -> Fraction:
        """P(answer = cell | the window begins at `place`), exactly."""
        inside = place <= cell < place + self.width
        return (1 - self.outside) / self.width if inside else self.outside / (CELLS - self.width)

    def likelihood_ratio(self) -> Fraction:
        """A cell in one window and outside the other: at most e^ε."""
        return (1 - self.outside) * (CELLS - self.width) / (self.outside * self.width)

    def loss(self) -> PrivacyLoss:
        return local_loss(self.epsilon_per_value, Unit.VALUE)

    def answers(self, values: RealArray, stream: Stream) -> OffsetArray:
        """One cell for each value (any shape). Runs on the device; the cells may leave it."""
        rest = CELLS - self.width
        places = grid_steps(values, low=self.low, high=self.high, steps=rest).reshape(-1)
        outside = stream.bernoulli(self.outside_words, places.size)
        drawn = stream.below(np.where(outside, rest, self.width))
        # outside, the cells from the window on are numbered without it
        behind = np.where(outside, np.where(drawn < places, 0, self.width), places)
        return (drawn + behind).reshape(values.shape)

    def estimates(self, cells: OffsetArray) -> RealArray:
        """The value behind each cell, unbiased: average them, or add them up. They may lie outside the bounds."""
        slope, start = self._line()
        places = (cells - float(start)) / float(slope)
        step = (self.high - self.low) / (CELLS - self.width)
        return np.asarray(self.low + places * step, dtype=np.float64)

    def standard_deviation(self, values: RealArray) -> float:
        """Of the sum of the estimates over people with these values."""
        slope, _ = self._line()
        variances = self._cell_variance(grid_steps(values, low=self.low, high=self.high, steps=CELLS - self.width))
        step = (self.high - self.low) / (CELLS - self.width)
        return float(step / float(slope) * np.sqrt(variances.sum()))

    def _line(self) -> tuple[Fraction, Fraction]:
        """A and B of E[cell | g] = A g + B."""
        N, w, o = CELLS, self.width, self.outside
        slope = 1 - o - o * Fraction(w, N - w)
        start = (1 - o) * Fraction(w - 1, 2) + o * Fraction(N * (N - 1) - w * (w - 1), 2 * (N - w))
        return slope, start

    def _cell_variance(self, places: OffsetArray) -> RealArray:
        """Var[cell | g]: a mixture of uniform laws on w and on all N cells, the second with the weight taken back."""
        N, w, o = CELLS, self.width, float(self.outside)
        everywhere = o * N / (N - w)  # P = everywhere · U(all) + (1 - everywhere) · U(window)
        gap = places + (w - 1) / 2 - (N - 1) / 2
        spread = everywhere * (N**2 - 1) / 12 + (1 - everywhere) * (w**2 - 1) / 12
        return np.asarray(spread + everywhere * (1 - everywhere) * gap**2, dtype=np.float64)
