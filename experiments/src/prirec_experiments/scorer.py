"""What a model gives to an experiment: scores of the test records, and of candidates for one person."""

from dataclasses import dataclass, field
from typing import Protocol, Self

import numpy as np

from prirec.features.samples import Records
from prirec.model.scoring import Models, scores
from prirec.protocols.prediction import Moment
from prirec.simulate.compare import Model, TrainedModel, checked_scores, fit_model
from prirec.simulate.recommend import Advisor, candidate_records, no_models
from prirec.simulate.setup import Setup
from prirec.types import FeatureArray, IndexArray, RealArray


class Scorer(Protocol):
    """A trained model on one city. Only a simulation has one: it answers for everyone."""

    def test(self) -> RealArray:
        """(R,): a score for each record of samples.test, in its order."""
        ...

    def of(self, person: int, places: IndexArray) -> RealArray:
        """(M,): scores of these places for one person, at no particular time."""
        ...


class PairModel(Protocol):
    """A model that looks at who and where, and at nothing else."""

    def at(self, person: IndexArray, place: IndexArray) -> RealArray: ...


@dataclass(frozen=True, slots=True)
class PopularityModel:
    """The control that knows no person: a place scores by its count, the same for everyone."""

    counts: RealArray = field(repr=False)  # (J,)

    def at(self, person: IndexArray, place: IndexArray) -> RealArray:
        counts: RealArray = self.counts[place]
        return counts


@dataclass(frozen=True, slots=True)
class PairScorer:
    """Scorer of a model that knows people and places by their rows alone."""

    model: PairModel
    tested: Records = field(repr=False)

    def test(self) -> RealArray:
        return self.model.at(self.tested.person, self.tested.place)

    def of(self, person: int, places: IndexArray) -> RealArray:
        return self.model.at(np.full(len(places), person, dtype=np.int32), places)


@dataclass(frozen=True, slots=True)
class ModelScorer:
    """Scorer of a model that somebody has registered (prirec.simulate.compare.Model)."""

    name: str
    model: TrainedModel
    advisor: Advisor  # for what a device knows of a candidate; it has a model of zeros, which is not asked

    @classmethod
    def trained(cls, name: str, model: Model, setup: Setup) -> Self:
        return cls(name, fit_model(model, setup, name=name), Advisor.of(setup, no_models(setup)))

    def test(self) -> RealArray:
        return checked_scores(self.model, self.advisor.setup.samples.test, name=self.name)

    def of(self, person: int, places: IndexArray) -> RealArray:
        return checked_scores(self.model, candidate_records(self.advisor, person, places), name=self.name)


@dataclass(frozen=True, slots=True)
class AdvisorScorer:
    """Scorer of PriRec's own models, as devices score with them: Eq. (1), with a linear model for each person or one
    for all, or the shared model with each person's own around it.

    A candidate is seen as a device sees it: released popularity, distance from home, no time. A test record also has
    its moment, and leaves the person's own part out of the popularity, so that `of` and `test` agree where a city has
    no times and no columns of visits, at places that the person has not been to.
    """

    advisor: Advisor
    tested: RealArray = field(repr=False)

    @classmethod
    def trained(cls, setup: Setup, models: Models) -> Self:
        return cls(Advisor.of(setup, models), scores(models, setup.samples, setup.samples.test))

    def test(self) -> RealArray:
        return self.tested

    def of(self, person: int, places: IndexArray) -> RealArray:
        return self.advisor.scores(person, places, self.context(person, places))

    def context(self, person: int, places: IndexArray) -> FeatureArray:
        """What a device knows of a visit that has not happened."""
        found, _ = self.advisor.context(person, places, Moment())
        return found
