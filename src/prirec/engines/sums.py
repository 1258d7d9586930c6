"""The four sums of a training, behind one interface: taken in the clear here, by protocols in engines/protocol.py."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from prirec.engines.participation import opens
from prirec.settings import Settings
from prirec.types import RealArray, RingArray


class Sums(Protocol):
    """Rows of people stand for their devices. A sum that may not be opened is None."""

    def over_cohort(
        self, cohort: int, values: Mapping[int, RingArray], *, survivors: Sequence[int], V: RealArray, iteration: int
    ) -> RingArray | None:
        """Step (b) of a round: `values` are those of the roster; opened to the members."""

    def over_everyone(
        self, values: Mapping[int, RingArray], *, survivors: Sequence[int], V: RealArray, iteration: int
    ) -> RingArray | None:
        """Step (e) of a round: opened to the recommender."""

    def over_neighbours(self, i: int, values: Mapping[int, RingArray], *, V: RealArray) -> RingArray:
        """Algorithm 1: the weighted models of N(i), opened to user i."""

    def over_batch(self, values: Sequence[tuple[int, RingArray]], *, V: RealArray) -> RingArray:
        """Algorithm 2, line 14: the gradients of V of one batch, opened to the recommender."""


class InTheClear:
    """What the protocols must come to."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def over_cohort(
        self, cohort: int, values: Mapping[int, RingArray], *, survivors: Sequence[int], V: RealArray, iteration: int
    ) -> RingArray | None:
        return self._of_survivors(values, survivors)

    def over_everyone(
        self, values: Mapping[int, RingArray], *, survivors: Sequence[int], V: RealArray, iteration: int
    ) -> RingArray | None:
        return self._of_survivors(values, survivors)

    def over_neighbours(self, i: int, values: Mapping[int, RingArray], *, V: RealArray) -> RingArray:
        return added(list(values.values()))

    def over_batch(self, values: Sequence[tuple[int, RingArray]], *, V: RealArray) -> RingArray:
        return added([value for _, value in values])

    def _of_survivors(self, values: Mapping[int, RingArray], survivors: Sequence[int]) -> RingArray | None:
        if not opens(len(survivors), rostered=len(values), settings=self.settings):
            return None  # abandoned: nothing is opened
        return added([values[i] for i in survivors])


def added(values: Sequence[RingArray]) -> RingArray:
    """At least one vector, summed in the ring."""
    total = values[0].copy()
    for value in values[1:]:
        total += value
    return total
