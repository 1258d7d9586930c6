"""Everything that scores: what training learns, evaluation measures and a run folder keeps."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from prirec.features.columns import Moments, columns_of_places, moment_rows, person_rows
from prirec.features.samples import Records, Samples
from prirec.model.equations import load, loss, score
from prirec.model.shared_model import OwnRecords, SharedModel, score_records
from prirec.types import FeatureArray, IndexArray, LabelArray, RealArray
from prirec.util.jit import kernel


@dataclass(frozen=True, slots=True)
class FactorizationModels:
    """The models of Eq. (1), of the paper's schedule and of the centralised baseline."""

    linear: RealArray = field(repr=False)  # W (I, D + 1); (1, D + 1) where everyone shares one model
    interaction: RealArray = field(repr=False)  # V (D, K)

    def of(self, person: int) -> RealArray:
        """W_i of one device, a view that a step moves."""
        w: RealArray = self.linear[person if len(self.linear) > 1 else 0]
        return w


@dataclass(frozen=True, slots=True)
class SharedModels:
    """The models of rounds: everyone's private coefficients, as only a simulation has them, and what is public."""

    shared: SharedModel = field(repr=False)
    moments: Moments = field(repr=False)
    coefficients: RealArray = field(repr=False)  # (I, width): Bᵀ a_i + w_i

    def of(self, person: int) -> RealArray:
        """The coefficients of one device."""
        own: RealArray = self.coefficients[person]
        return own


Models: TypeAlias = FactorizationModels | SharedModels


def own_records(samples: Samples, moments: Moments) -> OwnRecords:
    """Everyone's training records, scaled by these moments."""
    train = samples.train
    return OwnRecords(
        person_rows(samples.people, moments), train.offsets, train.place,
        moment_rows(train.context, samples.columns, moments), train.label,
    )  # fmt: skip


def scores(models: Models, samples: Samples, records: Records) -> RealArray:
    """A score for each record, for evaluation in simulation."""
    out = np.empty(len(records))
    if isinstance(models, SharedModels):
        context = moment_rows(records.context, samples.columns, models.moments)
        rows = columns_of_places(samples.places, samples.columns)
        score_records(records.place, context, records.person, rows, models.shared, models.coefficients, out)
    else:
        _score_records(
            models.linear, np.ascontiguousarray(models.interaction.T), samples.people, samples.places, records.person,
            records.place, records.context, out,
        )  # fmt: skip
    return out


@kernel
def _score_records(
    W: RealArray, T: RealArray, people: FeatureArray, places: FeatureArray, person: IndexArray, place: IndexArray,
    context: FeatureArray, out: RealArray,
) -> None:  # fmt: skip
    """Eq. (1) over many records."""
    x, pull, shared = np.empty(T.shape[1]), np.empty(T.shape[0]), W.shape[0] == 1
    for row in range(place.size):
        i = person[row]
        load(people[i], places[place[row]], context[row], x)
        out[row] = score(W[0 if shared else i], T, x, pull)


@kernel
def _mean_loss(label: LabelArray, scores: RealArray) -> float:
    total = 0.0
    for row in range(scores.size):
        total += loss(float(label[row]), scores[row])
    return total / max(scores.size, 1)


def mean_loss(records: Records, scores: RealArray) -> float:
    """The first term of Eq. (2), divided by the number of records."""
    return _mean_loss(records.label, scores)
