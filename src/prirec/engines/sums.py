"""The four sums of a training, behind one interface: taken in the clear here, by protocols in engines/protocol.py."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from prirec.engines.codes import Code, codes
from prirec.engines.noise import Where, simulated_noise
from prirec.engines.participation import opens
from prirec.features.samples import Samples
from prirec.settings import Settings
from prirec.types import RealArray, RingArray


class Sums(Protocol):
    """Rows of people stand for their devices. A sum that may not be opened is None. In a round everyone must have the
    same public models (Models.public)."""

    def over_cohort(
        self, cohort: int, values: Mapping[int, RingArray], *,
        survivors: Sequence[int], public: Sequence[RealArray], centre: RealArray, iteration: int,
    ) -> RingArray | None:  # fmt: skip
        """Step (b) of a round: `values` are those of the roster; opened to the members."""

    def over_everyone(
        self, values: Mapping[int, RingArray], *, survivors: Sequence[int], public: Sequence[RealArray], iteration: int
    ) -> RingArray | None:
        """Step (e) of a round: opened to the recommender."""

    def over_neighbours(self, i: int, values: Mapping[int, RingArray], *, V: RealArray) -> RingArray:
        """Algorithm 1: the weighted models of N(i), opened to user i."""

    def over_batch(self, values: Sequence[tuple[int, RingArray]], *, V: RealArray) -> RingArray:
        """Algorithm 2, line 14: the gradients of V of one batch, opened to the recommender."""


class InTheClear:
    """What the protocols must come to."""

    def __init__(self, samples: Samples, settings: Settings) -> None:
        self.settings, self.codes = settings, codes(samples, settings)

    def over_cohort(
        self, cohort: int, values: Mapping[int, RingArray], *,
        survivors: Sequence[int], public: Sequence[RealArray], centre: RealArray, iteration: int,
    ) -> RingArray | None:  # fmt: skip
        return self._of_survivors(self.codes.linear, values, survivors, where=("linear", iteration, cohort))

    def over_everyone(
        self, values: Mapping[int, RingArray], *, survivors: Sequence[int], public: Sequence[RealArray], iteration: int
    ) -> RingArray | None:
        return self._of_survivors(self.codes.interaction, values, survivors, where=("interaction", iteration))

    def over_neighbours(self, i: int, values: Mapping[int, RingArray], *, V: RealArray) -> RingArray:
        return added(list(values.values()))

    def over_batch(self, values: Sequence[tuple[int, RingArray]], *, V: RealArray) -> RingArray:
        return added([value for _, value in values])

    def _of_survivors(
        self, code: Code, values: Mapping[int, RingArray], survivors: Sequence[int], *, where: Where
    ) -> RingArray | None:
        if not opens(len(survivors), rostered=len(values), settings=self.settings):
            return None  # abandoned: nothing is opened
        total = added([values[i] for i in survivors])
        noise = simulated_noise(
            code.noise, len(total), rostered=len(values), survivors=len(survivors), settings=self.settings, where=where
        )
        return total + noise.astype(total.dtype)


def added(values: Sequence[RingArray]) -> RingArray:
    """At least one vector, summed in the ring."""
    total = values[0].copy()
    for value in values[1:]:
        total += value
    return total
