"""FM of Eq. (1) on all features and, one-hot, on who and where: each person and each place has a linear weight and a
K-vector of its own. The strongest peer: every record of everyone is in one place, and there is no privacy at all.

Learnt by Adagrad (Duchi, Hazan and Singer 2011), record after record: most ids have few records and features have all,
and one learning rate then serves both. A record moves only what it touches, its penalties included.
"""

from dataclasses import dataclass, field
from math import inf, sqrt
from typing import NamedTuple, Self

import numpy as np

from prirec.errors import UsageError
from prirec.features.samples import Records, Samples
from prirec.model.equations import interaction_gradient_of, loss, residual
from prirec.model.scoring import FactorizationModels
from prirec.model.sparse_samples import PlaceRows, linear_score_of, load_present, pairs_of, place_rows
from prirec.protocols.prediction import combine
from prirec.simulate.setup import Setup
from prirec.types import FeatureArray, IndexArray, LabelArray, OffsetArray, RealArray
from prirec.util.jit import inlined, kernel
from prirec_experiments.rivals.descent import (
    Descent,
    Tell,
    descend,
    initial_factors,
    people_and_places,
    quiet,
    refuse_infinite,
)
from prirec_experiments.rivals.mf import dot
from prirec_experiments.scorer import AdvisorScorer, Scorer

_SMALL = 1e-8  # before the first gradient nothing may be divided by 0


class FmIdsSettings(Descent, frozen=True):
    """Found on a held-out tenth of the training records of Yelp and Tokyo (seed 7), popularity counted without it.

    It must be counted without it: the popularity of a record leaves the own part out, so that with an id for the place
    a model could read off the count which held-out records are visits. lambda_w and lambda_v are of features; ids,
    with few records each, need more.
    """

    alpha: float = 0.1
    lambda_w: float = 1e-5
    lambda_v: float = 0.01
    lambda_weights: float = 0.3  # of the ids' linear weights
    lambda_ids: float = 0.03  # of the ids' vectors
    passes: int = 16

    def check(self) -> None:
        super().check()
        if not (0 <= self.lambda_weights < inf and 0 <= self.lambda_ids < inf):
            raise UsageError("lambda_weights and lambda_ids must be 0 or more, and finite")


class Machine(NamedTuple):
    """A model; and, in the same shape, the sums of squared gradients that Adagrad divides by."""

    linear: RealArray  # (D + 1,)
    transposed: RealArray  # (K, D): V of the features
    of_person: RealArray  # (I,)
    of_place: RealArray  # (J,)
    person: RealArray  # (I, K)
    place: RealArray  # (J, K)


@dataclass(frozen=True, slots=True)
class FmIds:
    """A trained model. A person or place without a training record is scored by its features."""

    machine: Machine = field(repr=False)

    def scores(self, samples: Samples, records: Records) -> RealArray:
        """A score for each record."""
        out = np.empty(len(records))
        _score_records(self.machine, _table(samples, records), place_rows(samples.places), out)
        return out


@dataclass(frozen=True, slots=True)
class FmIdsScorer:
    """Eq. (1) over the features from the one home that it has; what the ids add to it is added here."""

    features: AdvisorScorer
    model: FmIds

    @classmethod
    def trained(cls, setup: Setup, model: FmIds) -> Self:
        machine = model.machine
        shared = np.ascontiguousarray(machine.linear[None])
        V = np.ascontiguousarray(machine.transposed.T)
        return cls(AdvisorScorer.trained(setup, FactorizationModels(shared, V)), model)

    def test(self) -> RealArray:
        samples = self.features.advisor.setup.samples
        return self.model.scores(samples, samples.test)

    def of(self, person: int, places: IndexArray) -> RealArray:
        m, advisor = self.model.machine, self.features.advisor
        context = self.features.context(person, places)
        x = combine(advisor.setup.samples.people[person], advisor.predictor.places[places], context)
        pull, u, v = x @ m.transposed.T, m.person[person], m.place[places]  # (M, K), (K,), (M, K)
        ids = m.of_person[person] + m.of_place[places] + pull @ u + ((pull + u) * v).sum(axis=1)
        scores: RealArray = advisor.scores(person, places, context) + ids
        return scores


def fit(samples: Samples, settings: FmIdsSettings, *, tell: Tell = quiet) -> FmIds:
    """Trains on the training records alone."""
    settings.check()
    s, machine = settings, start(samples, settings)
    squares = Machine(*(np.full_like(part, _SMALL) for part in machine))
    rates = Rates(s.alpha, s.lambda_w, s.lambda_v, s.lambda_weights, s.lambda_ids)
    records, places = _table(samples, samples.train), place_rows(samples.places)

    def one_pass(order: OffsetArray) -> float:
        return fm_ids_pass(machine, squares, records, places, order, rates)

    descend(one_pass, settings, records=len(samples.train), tell=tell)
    refuse_infinite(*machine)
    return FmIds(machine)


def scorer(setup: Setup, settings: FmIdsSettings, *, tell: Tell = quiet) -> Scorer:
    """The model trained on a prepared city, as tables compare it."""
    return FmIdsScorer.trained(setup, fit(setup.samples, settings, tell=tell))


def start(samples: Samples, settings: FmIdsSettings) -> Machine:
    """Weights 0, vectors small and random."""
    who, where = people_and_places(samples.train, places=len(samples.places))
    D = samples.features
    V = initial_factors(settings, "fm ids features", np.ones(D, dtype=bool))
    people, places = initial_factors(settings, "fm ids people", who), initial_factors(settings, "fm ids places", where)
    T = np.ascontiguousarray(V.T)
    return Machine(np.zeros(D + 1), T, np.zeros(len(who)), np.zeros(len(where)), people, places)


# Kernels


class Table(NamedTuple):
    """The records, as kernels take them."""

    people: FeatureArray  # (I, m)
    person: IndexArray  # (R,)
    place: IndexArray  # (R,)
    context: FeatureArray  # (R, c)
    label: LabelArray  # (R,)


def _table(samples: Samples, records: Records) -> Table:
    return Table(samples.people, records.person, records.place, records.context, records.label)


class Rates(NamedTuple):
    alpha: float
    lambda_w: float
    lambda_v: float
    lambda_weights: float
    lambda_ids: float


@kernel
def fm_ids_pass(
    m: Machine, squares: Machine, records: Table, places: PlaceRows, order: OffsetArray, to: Rates
) -> float:  # fmt: skip
    """Record after record; the model is moved in place. The summed loss."""
    K, D = m.transposed.shape
    x, pull, present, losses = np.empty(D), np.empty(K), np.empty(D + 1, dtype=np.int32), 0.0
    for row in order:
        y = float(records.label[row])
        guess, many = _score(m, records, places, row, x, present, pull)
        r, there = residual(y, guess), present[:many]
        losses += loss(y, guess)
        _move_linear(m, squares, records.person[row], records.place[row], x, there, r, to)
        _move_pairs(m, squares, records.person[row], records.place[row], x, there, pull, r, to)
    return losses


@inlined
def _score(
    m: Machine, records: Table, places: PlaceRows, row: int, x: RealArray, present: IndexArray, pull: RealArray
) -> tuple[float, int]:
    """Eq. (1) with two features more, which are 1; fills x, present and the features' pull. How many are present."""
    i, j = records.person[row], records.place[row]
    many = load_present(records.people[i], places, j, records.context[row], x, present)
    there, u, v = present[:many], m.person[i], m.place[j]
    flat = linear_score_of(m.linear, x, there) + m.of_person[i] + m.of_place[j]
    return flat + pairs_of(m.transposed, x, there, pull) + dot(u, pull) + dot(v, pull) + dot(u, v), many


@inlined
def _move_linear(m: Machine, g: Machine, i: int, j: int, x: RealArray, there: IndexArray, r: float, to: Rates) -> None:
    """Eq. (3), for what is present. Steps stand here one by one: to call for each would cost more than a step."""
    w, squares, b, c, alpha = m.linear, g.linear, m.of_person, m.of_place, to.alpha
    squares[0] += r * r
    w[0] -= alpha * r / sqrt(squares[0])
    for d in there:
        slope = r * x[d] + 2.0 * to.lambda_w * w[d + 1]
        squares[d + 1] += slope * slope
        w[d + 1] -= alpha * slope / sqrt(squares[d + 1])
    slope = r + 2.0 * to.lambda_weights * b[i]
    g.of_person[i] += slope * slope
    b[i] -= alpha * slope / sqrt(g.of_person[i])
    slope = r + 2.0 * to.lambda_weights * c[j]
    g.of_place[j] += slope * slope
    c[j] -= alpha * slope / sqrt(g.of_place[j])


@inlined
def _move_pairs(
    m: Machine, g: Machine, i: int, j: int, x: RealArray, there: IndexArray, pull: RealArray, r: float, to: Rates
) -> None:
    """Eq. (4), for what is present."""
    T, squares, alpha = m.transposed, g.transposed, to.alpha
    u, v, of_u, of_v = m.person[i], m.place[j], g.person[i], g.place[j]
    for k in range(pull.size):
        whole = pull[k] + u[k] + v[k]
        for d in there:
            slope = interaction_gradient_of(T[k, d], x[d], whole, r, to.lambda_v)
            squares[k, d] += slope * slope
            T[k, d] -= alpha * slope / sqrt(squares[k, d])
        slope = interaction_gradient_of(u[k], 1.0, whole, r, to.lambda_ids)
        of_u[k] += slope * slope
        u[k] -= alpha * slope / sqrt(of_u[k])
        slope = interaction_gradient_of(v[k], 1.0, whole, r, to.lambda_ids)
        of_v[k] += slope * slope
        v[k] -= alpha * slope / sqrt(of_v[k])


@kernel
def _score_records(m: Machine, records: Table, places: PlaceRows, out: RealArray) -> None:
    K, D = m.transposed.shape
    x, pull, present = np.empty(D), np.empty(K), np.empty(D + 1, dtype=np.int32)
    for row in range(out.size):
        out[row] = _score(m, records, places, row, x, present, pull)[0]
