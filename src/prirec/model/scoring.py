"""Eq. (1) over many records at once, for evaluation in simulation."""

import numpy as np

from prirec.compiled import kernel
from prirec.features.samples import Records, Samples
from prirec.model.kernels import load, loss, score
from prirec.types import FeatureArray, IndexArray, LabelArray, RealArray


@kernel
def _score_records(
    W: RealArray, T: RealArray, people: FeatureArray, places: FeatureArray, person: IndexArray, place: IndexArray,
    context: FeatureArray, out: RealArray,
) -> None:  # fmt: skip
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


def scores(linear: RealArray, interaction: RealArray, samples: Samples, records: Records) -> RealArray:
    """A score for each record. `linear` is (I, D + 1), or (1, D + 1) where everyone shares one model."""
    out = np.empty(len(records))
    T = np.ascontiguousarray(interaction.T)
    _score_records(
        linear, T, samples.people, samples.places, records.person, records.place, records.context, out
    )  # fmt: skip
    return out


def mean_loss(records: Records, scores: RealArray) -> float:
    """The first term of Eq. (2), divided by the number of records."""
    return _mean_loss(records.label, scores)
