"""Algorithm 3 for one person of a simulated city, by the code that a device runs."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from prirec.errors import UsageError
from prirec.metrics import PlaceLists, positives
from prirec.model.scoring import Models
from prirec.protocols.prediction import Asker, Guide, Moment, Recommendation
from prirec.simulate.setup import Setup
from prirec.types import FeatureArray, IndexArray, RealArray

__all__ = ["Advisor", "Moment"]


@dataclass(frozen=True, slots=True)
class Advisor:
    """A trained model, ready to recommend: the public half is computed once and serves everyone."""

    setup: Setup
    models: Models
    guide: Guide
    known: PlaceLists = field(repr=False)  # where each person has been, as the device knows it

    @classmethod
    def of(cls, setup: Setup, models: Models) -> Self:
        """For a test: a device that knows the training records alone."""
        return cls._knowing(setup, models, positives(setup.samples.train))

    @classmethod
    def in_earnest(cls, setup: Setup, models: Models) -> Self:
        """For a person: the device knows every visit, whatever part of the split it is in."""
        return cls._knowing(setup, models, positives(setup.samples.train, setup.samples.test))

    @classmethod
    def _knowing(cls, setup: Setup, models: Models, known: PlaceLists) -> Self:
        guide = Guide.of(
            setup.encoding,
            interaction=models.interaction,
            factors=models.factors,
            places=setup.samples.catalogue,
            location=setup.prepared.dataset.places.location,
        )
        return cls(setup, models, guide, known)

    def row(self, person_id: str) -> int:
        """Who that is; the id is not repeated in the error."""
        try:
            return self.setup.samples.ids.index(person_id)
        except ValueError:
            raise UsageError(
                "nobody with that id is in this run; `prirec data describe DATA --people 5` shows some ids"
            ) from None

    def recommend(
        self, person: int, *, moment: Moment | None = None, k: int = 10, radius_km: float = 5.0
    ) -> tuple[Recommendation, ...]:
        """Algorithm 3: match, score, choose, with reasons. Places that the person knows are left out."""
        return self.guide.recommend(self.asker(person), moment=moment, k=k, radius_km=radius_km)

    def asker(self, person: int) -> Asker:
        """What the person's device holds."""
        w, u = self.models.of(person)
        return Asker(self.setup.samples.people[person], w, u, self.home(person), self.visited(person))

    def scores(self, person: int, places: IndexArray, context: FeatureArray) -> RealArray:
        """Lines 3 to 9: Eq. (1) for one person at these places."""
        return self.guide.scores(self.asker(person), places, context)

    def matched(self, person: int, moment: Moment, *, k: int, radius_km: float) -> IndexArray:
        """Line 1: the places near; all of them in a city without coordinates, or for a person without a home."""
        return self.guide.matched(self.asker(person), moment, k=k, radius_km=radius_km)

    def context(self, person: int, matched: IndexArray, moment: Moment) -> tuple[FeatureArray, RealArray]:
        """The context of each matched place, and how far it is from home."""
        return self.guide.context(self.asker(person), matched, moment)

    def home(self, person: int) -> tuple[float, float] | None:
        home = self.setup.samples.home
        if home is None or np.isnan(home[person]).any():
            return None
        return float(home[person, 0]), float(home[person, 1])

    def visited(self, person: int) -> IndexArray:
        """Where the person has been, as the device knows it."""
        return np.unique(self.known[person])
