"""Everything that scores: what training moves, evaluation measures and a run folder keeps."""

from dataclasses import dataclass, field

import numpy as np

from prirec.features.samples import Records, Samples
from prirec.model.equations import load, loss, score
from prirec.model.local_step import Latent, affinity, no_latent
from prirec.types import FeatureArray, IndexArray, LabelArray, RealArray
from prirec.util.jit import kernel


@dataclass(frozen=True, slots=True)
class Models:
    """Everyone's private models, gathered as only a simulation has them, and the public ones."""

    linear: RealArray = field(repr=False)  # W (I, D + 1); (1, D + 1) where everyone shares one model
    interaction: RealArray = field(repr=False)  # V (D, K)
    latent: Latent | None = field(default=None, repr=False)

    @property
    def factors(self) -> RealArray | None:
        """P (J, K'); none without a latent part."""
        return None if self.latent is None else self.latent.factors

    @property
    def public(self) -> tuple[RealArray, ...]:
        """What the recommender publishes, and everyone must have the same of."""
        return (self.interaction,) if self.latent is None else (self.interaction, self.latent.factors)

    def of(self, person: int) -> tuple[RealArray, RealArray]:
        """W_i and u_i of one device, views that a step moves; u_i has no entries without a latent part."""
        w: RealArray = self.linear[person if len(self.linear) > 1 else 0]
        return w, np.empty(0) if self.latent is None else self.latent.vectors[person]


# Eq. (1), and the latent part where there is one, over many records at once, for evaluation in simulation.


@kernel
def _score_records(
    W: RealArray, T: RealArray, latent: Latent, people: FeatureArray, places: FeatureArray, person: IndexArray,
    place: IndexArray, context: FeatureArray, out: RealArray,
) -> None:  # fmt: skip
    x, pull, shared = np.empty(T.shape[1]), np.empty(T.shape[0]), W.shape[0] == 1
    for row in range(place.size):
        i = person[row]
        load(people[i], places[place[row]], context[row], x)
        out[row] = score(W[0 if shared else i], T, x, pull)
        out[row] += affinity(latent.vectors[i], latent.factors, place[row])


@kernel
def _mean_loss(label: LabelArray, scores: RealArray) -> float:
    total = 0.0
    for row in range(scores.size):
        total += loss(float(label[row]), scores[row])
    return total / max(scores.size, 1)


def scores(models: Models, samples: Samples, records: Records) -> RealArray:
    """A score for each record."""
    out = np.empty(len(records))
    # kernels take arrays, never None: without a latent part its arrays have no entries
    T = np.ascontiguousarray(models.interaction.T)
    latent = models.latent or no_latent(len(samples.ids), len(samples.places))
    _score_records(
        models.linear, T, latent, samples.people, samples.places, records.person, records.place, records.context, out
    )  # fmt: skip
    return out


def mean_loss(records: Records, scores: RealArray) -> float:
    """The first term of Eq. (2), divided by the number of records."""
    return _mean_loss(records.label, scores)
