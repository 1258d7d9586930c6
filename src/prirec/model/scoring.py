"""Everything that scores: what training learns, evaluation measures and a run folder keeps."""

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from prirec.features.columns import Moments, columns_of_places, moment_rows, person_rows
from prirec.features.samples import Records, Samples
from prirec.model.equations import load, loss, score
from prirec.model.own_model import PRECISIONS, learn_own, score_own
from prirec.model.shared_model import OwnRecords, SharedModel
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
    """The model of rounds. All of it is public: what each person's device learns alone is learnt when it is needed."""

    shared: SharedModel = field(repr=False)
    moments: Moments = field(repr=False)


Models: TypeAlias = FactorizationModels | SharedModels


def own_records(samples: Samples, records: Records, moments: Moments) -> OwnRecords:
    """Everyone's records, scaled by these moments."""
    return OwnRecords(
        person_rows(samples.people, moments), records.offsets, records.place,
        moment_rows(records.context, samples.columns, moments), records.label,
    )  # fmt: skip


def own_model(models: Models, samples: Samples, person: int) -> RealArray:
    """What one device recommends with: W_i (D + 1,), or the coefficients of the shared model, Bᵀ a_i + w_i (width,),
    learnt from its own training records."""
    if isinstance(models, FactorizationModels):
        return models.of(person)
    train = samples.train
    mine = slice(train.offsets[person], train.offsets[person + 1])
    used, place = np.unique(train.place[mine], return_inverse=True)
    records = OwnRecords(
        person_rows(samples.people[person : person + 1], models.moments), np.array([0, len(place)]),
        place.astype(np.int32), moment_rows(train.context[mine], samples.columns, models.moments), train.label[mine],
    )  # fmt: skip
    own = np.empty(models.shared.layout.width)
    learn_own(0, records, columns_of_places(samples.places[used], samples.columns), models.shared, PRECISIONS, own)
    return own


def scores(
    models: Models, samples: Samples, records: Records, *, people: tuple[int, int] | None = None
) -> RealArray:  # fmt: skip
    """A score for each record, for evaluation in simulation: of everyone, or of the people from the first to before the
    second."""
    out, block = np.empty(len(records)), people or (0, len(samples.ids))
    theirs = slice(records.offsets[block[0]], records.offsets[block[1]])
    if isinstance(models, SharedModels):
        train, asked = (own_records(samples, some, models.moments) for some in (samples.train, records))
        rows, shared = columns_of_places(samples.places, samples.columns), models.shared
        score_own(block, train, asked, rows, shared, PRECISIONS, out)
    else:
        _score_records(
            models.linear, np.ascontiguousarray(models.interaction.T), samples.people, samples.places,
            records.person[theirs], records.place[theirs], records.context[theirs], out[theirs],
        )  # fmt: skip
    return out[theirs]


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
