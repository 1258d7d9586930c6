"""Logistic matrix factorisation of who went where: no feature of a person, a place or a moment is looked at.

s_ij = b + b_i + c_j + u_i . v_j after Mnih and Salakhutdinov (Probabilistic Matrix Factorization, 2007), from whom come
the factors of people and places with Gaussian priors, here lambda_v, and their product inside a logistic function. What
differs: labels are +1 and -1, so the likelihood is Bernoulli and the loss is that of Eq. (2), where they have squared
errors of scaled ratings; biases are added, as popularity is most of what visits tell; and it learns record after record
in a shuffled order, without momentum. Whoever trains it sees every record of everyone.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from prirec.features.samples import Samples
from prirec.model.equations import loss, residual
from prirec.simulate.setup import Setup
from prirec.types import IndexArray, LabelArray, OffsetArray, RealArray
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
from prirec_experiments.scorer import PairScorer, Scorer


class MfSettings(Descent, frozen=True):
    """Found on a held-out tenth of the training records of Yelp and Tokyo (seed 7)."""

    alpha: float = 0.1
    lambda_w: float = 0.03
    lambda_v: float = 0.03
    passes: int = 30
    spread: float = 0.1


class Factors(NamedTuple):
    bias: RealArray  # (1,)
    of_person: RealArray  # (I,)
    of_place: RealArray  # (J,)
    person: RealArray  # (I, K)
    place: RealArray  # (J, K)


@dataclass(frozen=True, slots=True)
class Mf:
    """A trained model. A person or place without a training record has biases only, and those are 0."""

    factors: Factors = field(repr=False)

    def at(self, person: IndexArray, place: IndexArray) -> RealArray:
        """Scores of these pairs."""
        out = np.empty(len(person))
        _scores(self.factors, person, place, out)
        return out


def fit(samples: Samples, settings: MfSettings, *, tell: Tell = quiet) -> Mf:
    """Trains on the training records alone."""
    settings.check()
    model, train, s = start(samples, settings), samples.train, settings

    def one_pass(order: OffsetArray) -> float:
        return mf_pass(model, train.person, train.place, train.label, order, s.alpha, s.lambda_w, s.lambda_v)

    descend(one_pass, settings, records=len(train), tell=tell)
    refuse_infinite(*model)
    return Mf(model)


def scorer(setup: Setup, settings: MfSettings, *, tell: Tell = quiet) -> Scorer:
    """The model trained on a prepared city, as tables compare it."""
    return PairScorer(fit(setup.samples, settings, tell=tell), setup.samples.test)


def start(samples: Samples, settings: MfSettings) -> Factors:
    """Biases 0, factors small and random, so that their gradients are not 0."""
    who, where = people_and_places(samples.train, places=len(samples.places))
    people, places = initial_factors(settings, "mf people", who), initial_factors(settings, "mf places", where)
    return Factors(np.zeros(1), np.zeros(len(who)), np.zeros(len(where)), people, places)


# Kernels


@kernel
def mf_pass(
    model: Factors, person: IndexArray, place: IndexArray, label: LabelArray, order: OffsetArray,
    alpha: float, lambda_w: float, lambda_v: float,
) -> float:  # fmt: skip
    """Eq. (2) by gradient descent, record after record; the model is moved in place. The summed loss."""
    bias, of_person, of_place, _, _ = model
    losses = 0.0
    for row in order:
        i, j, y = person[row], place[row], float(label[row])
        guess = pair_score(model, i, j)
        losses += loss(y, guess)
        r = residual(y, guess)
        bias[0] -= alpha * r
        of_person[i] -= alpha * (r + 2.0 * lambda_w * of_person[i])
        of_place[j] -= alpha * (r + 2.0 * lambda_w * of_place[j])
        u, v = model.person[i], model.place[j]
        for k in range(u.size):
            before = u[k]
            u[k] -= alpha * (r * v[k] + 2.0 * lambda_v * before)
            v[k] -= alpha * (r * before + 2.0 * lambda_v * v[k])
    return losses


@kernel
def _scores(model: Factors, person: IndexArray, place: IndexArray, out: RealArray) -> None:
    for row in range(person.size):
        out[row] = pair_score(model, person[row], place[row])


@inlined
def pair_score(model: Factors, i: int, j: int) -> float:
    """s_ij, the log-odds of a visit."""
    bias, of_person, of_place, person, place = model
    return float(bias[0] + of_person[i] + of_place[j]) + dot(person[i], place[j])


@inlined
def dot(u: RealArray, v: RealArray) -> float:
    total = 0.0
    for k in range(u.size):
        total += u[k] * v[k]
    return total
