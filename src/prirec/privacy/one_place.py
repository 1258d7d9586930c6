"""One visited POI speaks for a person's whole visit vector, so that one answer spends one user-level ε.

A person who was at v POIs puts them into max(v, ℓ) slots, draws one slot, and reports its POI, or nothing if the slot
is empty (pad and sample: Qin et al. 2016, Wang et al. 2018). The report goes through a local mechanism whose ratio is
bounded between any two POIs and nothing; a mixture over slots keeps that bound. So ε holds between ANY two visit
vectors of a person.
What is estimated, without bias: Σ over people of min(1, ℓ/v), the *weighted popularity* of a POI. It is the number of
visitors as far as nobody was at more than ℓ POIs; people with more count for ℓ in all. The noise grows with ℓ.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from prirec.errors import UsageError
from prirec.privacy.randomness import Stream
from prirec.types import IndexArray, OffsetArray, RealArray

NOTHING = -1


@dataclass(frozen=True, slots=True)
class Visits:
    """Who was where: person i at places[starts[i]:starts[i + 1]], each POI once. On a device, of one person."""

    starts: OffsetArray
    places: IndexArray
    slots: int  # ℓ, public

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise UsageError("a person has at least one slot for the POIs to draw from")

    def drawn(self, stream: Stream) -> OffsetArray:
        """One POI of each person (I,), or NOTHING; exact, for what leaves a device."""
        return self._at(stream.below(self._slots_of_each()))

    def simulated(self, rng: np.random.Generator) -> OffsetArray:
        """The same for a simulation, which protects nobody."""
        return self._at(rng.integers(self._slots_of_each()))

    def weighted_popularity(self, pois: int) -> RealArray:
        """Σ min(1, ℓ/v) over the visitors of each POI (J,): what the estimates are unbiased for."""
        return self.slots * self.chances(pois)

    def chances(self, pois: int, power: int = 1) -> RealArray:
        """Σ π^power over people, where π = 1 / max(v, ℓ) is the chance that a visited POI is drawn (J,)."""
        visits = np.diff(self.starts)
        chance = np.repeat(1.0 / np.maximum(visits, self.slots) ** power, visits)
        return np.bincount(self.places, weights=chance, minlength=pois).astype(np.float64, copy=False)

    def _slots_of_each(self) -> OffsetArray:
        return np.maximum(np.diff(self.starts), self.slots).astype(np.int64)

    def _at(self, slot: OffsetArray) -> OffsetArray:
        filled = slot < np.diff(self.starts)
        items = np.full(slot.size, NOTHING, dtype=np.int64)
        items[filled] = self.places[(self.starts[:-1] + slot)[filled]]
        return items


@dataclass(frozen=True, slots=True)
class Support:
    """How likely an answer supports the POI that was reported, and any other: all that an estimate needs to know."""

    own: Fraction
    other: Fraction

    def estimate(self, supports: OffsetArray, *, people: int, slots: int) -> RealArray:
        """The weighted popularity of each POI (J,) from the answers that support it; unbiased, may be negative."""
        counts = (supports - float(people * self.other)) / float(self.own - self.other)
        return np.asarray(slots * counts, dtype=np.float64)

    def variance(self, visits: Visits, pois: int) -> RealArray:
        """Of the estimates (J,), noise and the draw of a slot together."""
        p, q, people = float(self.own), float(self.other), len(visits.starts) - 1
        # each person supports a POI with probability m = q + (p-q) π; Σ m (1-m) over people
        spread: RealArray = people * q * (1 - q) + (p - q) * (1 - 2 * q) * visits.chances(pois)
        spread -= (p - q) ** 2 * visits.chances(pois, power=2)
        spread *= (visits.slots / (p - q)) ** 2
        return spread

    def simulate(self, items: OffsetArray, *, pois: int, rng: np.random.Generator) -> OffsetArray:
        """The answers that support each POI (J,), each from its exact law: Bin(n_j, own) + Bin(n - n_j, other)."""
        holders = np.bincount(items[items != NOTHING], minlength=pois)
        supports: OffsetArray = rng.binomial(holders, float(self.own))
        return supports + rng.binomial(items.size - holders, float(self.other))


def check_items(items: OffsetArray, pois: int) -> None:
    if np.any((items < NOTHING) | (items >= pois)):
        raise UsageError("what is reported is a POI of the catalogue, by its row, or NOTHING")
