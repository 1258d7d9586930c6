"""What the rivals share: passes in a shuffled order, what stops them, and where their factors start."""

from collections.abc import Callable
from math import isfinite
from typing import TypeAlias

import numpy as np

from prirec.config import Section
from prirec.errors import UsageError
from prirec.features.samples import Records
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray
from prirec.util.keyed_random import generator, iteration_key, shuffle

Tell: TypeAlias = Callable[[int, float], None]  # the number of a pass, from 1, and its mean loss before each step


def quiet(number: int, loss: float) -> None:
    """Reports nothing."""


class Descent(Section, frozen=True):
    """Settings that every rival has; each has values of its own, found on held-out training records."""

    dimension: int = 5  # K; 0 leaves biases alone
    alpha: float = 0.05
    lambda_w: float = 0.0  # of biases and linear weights, once a sample as in Eq. (3)
    lambda_v: float = 0.0  # of factors, once a sample as in Eq. (4)
    passes: int = 10
    spread: float = 0.05  # factors start from N(0, spread^2)
    seed: int = 0

    def check(self) -> None:
        """UsageError for settings with which no descent can run."""
        if self.dimension < 0 or self.passes < 1 or self.seed < 0:
            raise UsageError("dimension and seed must be 0 or more, passes at least 1")
        if not (0 < self.alpha < np.inf and 0 <= self.spread < np.inf):
            raise UsageError("alpha must be above 0, spread 0 or more, and both finite")
        if not (0 <= self.lambda_w < np.inf and 0 <= self.lambda_v < np.inf):
            raise UsageError("lambda_w and lambda_v must be 0 or more, and finite")


def descend(one_pass: Callable[[OffsetArray], float], settings: Descent, *, records: int, tell: Tell) -> None:
    """Passes over all records in a keyed order; `one_pass` moves the model and answers with the summed loss."""
    settings.check()
    order = np.empty(records, dtype=np.int64)
    for number in range(settings.passes):
        shuffle(iteration_key(settings.seed, "order", number), order)
        loss = one_pass(order) / max(records, 1)
        if not isfinite(loss):
            raise UsageError("the loss is no longer a number: give alpha or the penalties a smaller value")
        tell(number + 1, loss)


def refuse_infinite(*arrays: np.ndarray) -> None:
    """The loss is taken before each step, so that the last step of all is looked at here."""
    if not all(np.isfinite(array).all() for array in arrays):
        raise UsageError("a model is no longer a number: give alpha or the penalties a smaller value")


def initial_factors(settings: Descent, purpose: str, known: BoolArray) -> RealArray:
    """Factors to start from, (rows, K); 0 for rows without a training record, which nothing would ever move: random
    factors would only add noise to what is known."""
    shape = (len(known), settings.dimension)
    start: RealArray = generator(settings.seed, purpose).normal(0.0, settings.spread, size=shape)
    start[~known] = 0.0
    return start


def rows_with_records(rows: IndexArray, many: int) -> BoolArray:
    """(many,): which rows at least one record names."""
    there: BoolArray = np.bincount(rows, minlength=many) > 0
    return there


def people_and_places(train: Records, *, places: int) -> tuple[BoolArray, BoolArray]:
    """(I,) and (J,): which people and which places have a training record."""
    return train.counts() > 0, rows_with_records(train.place, places)
