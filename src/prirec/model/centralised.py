"""The baseline: a factorization machine of everyone's raw data in one place, learnt by Eqs. (7) and (9)."""

import numpy as np

from prirec.compiled import kernel
from prirec.keyed import Word, mix, shuffle
from prirec.model.kernels import interaction_gradient_of, linear_step, loss, residual
from prirec.model.public_half import PlaceRows
from prirec.model.round_steps import Everyone
from prirec.model.sparse import linear_score_of, load_present, pairs_of
from prirec.settings import Settings
from prirec.types import IndexArray, OffsetArray, RealArray


@kernel
def _centralised_pass(
    w: RealArray, T: RealArray, everyone: Everyone, person: IndexArray, places: PlaceRows, order: OffsetArray,
    alpha_w: float, alpha_v: float, lambda_w: float, lambda_v: float,
) -> float:  # fmt: skip
    """Eqs. (7) and (9): sample after sample, one linear model for everyone; the summed loss."""
    K, D = T.shape
    x, pull, losses = np.empty(D), np.empty(K), 0.0
    present = np.empty(D + 1, dtype=np.int32)
    for row in order:
        y = float(everyone.label[row])
        i, j = person[row], everyone.place[row]
        there = present[: load_present(everyone.people[i], places, j, everyone.context[row], x, present)]
        guess = linear_score_of(w, x, there) + pairs_of(T, x, there, pull)
        r = residual(y, guess)
        losses += loss(y, guess)
        linear_step(w, x, r, lambda_w, alpha_w)  # Eq. (7)
        for k in range(K):
            v = T[k]
            for d in range(D):
                v[d] -= alpha_v * interaction_gradient_of(v[d], x[d], pull[k], r, lambda_v)  # Eq. (9)
    return losses


def centralised_pass(
    w: RealArray,
    V: RealArray,
    everyone: Everyone,
    person: IndexArray,
    places: PlaceRows,
    *,
    key: Word,
    settings: Settings,
) -> tuple[RealArray, float]:
    """One pass over all records in a keyed order; moves w, answers with the new V and the mean loss."""
    T, order = np.ascontiguousarray(V.T), np.empty(len(everyone.place), dtype=np.int64)
    shuffle(mix(key, 0), order)
    losses = _centralised_pass(
        w, T, everyone, person, places, order, settings.linear.alpha, settings.interaction.alpha,
        settings.model.lambda_w, settings.model.lambda_v,
    )  # fmt: skip
    return np.ascontiguousarray(T.T), losses / max(len(order), 1)
