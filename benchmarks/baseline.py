"""What everything is measured against: Algorithm 2, sample after sample, in plain NumPy."""

import numpy as np

from prirec.engines.circles import circle
from prirec.evaluate.experiment import Setup
from prirec.types import RealArray


def _score(w: RealArray, V: RealArray, x: RealArray, pull: RealArray) -> float:
    return float(w[0] + w[1:] @ x + 0.5 * (pull @ pull - (x**2) @ (V**2).sum(axis=1)))


def numpy_pass(setup: Setup, rows: np.ndarray, *, ring: bool) -> None:
    """Lines 7 to 16 for these rows; with `ring` the neighbours' sum is taken in Z_2^64, as the protocol does."""
    samples, s = setup.samples, setup.settings
    around = circle(samples, s, iteration=0, online=np.ones(len(samples.ids), dtype=bool))
    W = np.zeros((len(samples.ids), samples.features + 1))
    V = np.random.Generator(np.random.PCG64(0)).normal(0.0, s.model.spread, (samples.features, s.model.dimension))
    train, scale = samples.train, 2.0**s.ring.fraction_bits
    for row in rows:
        i, y = train.person[row], float(train.label[row])
        x = np.concatenate([samples.people[i], samples.places[train.place[row]], train.context[row]]).astype(float)
        pull, neighbours = x @ V, around.people[around.offsets[i] : around.offsets[i + 1]]
        r = -y / (1.0 + np.exp(y * _score(W[i], V, x, pull)))
        gradient = 2 * s.model.lambda_w * W[i]
        gradient[0] += r
        gradient[1:] += r * x
        if ring:
            total = np.rint(W[neighbours] * scale).astype(np.int64).view(np.uint64).sum(axis=0)
            mean = total.view(np.int64) / (scale * len(neighbours))
        else:
            mean = W[neighbours].mean(axis=0)
        W[i] = mean - s.linear.alpha * gradient
        r = -y / (1.0 + np.exp(y * _score(W[i], V, x, pull)))
        own = np.outer(x, pull) - V * (x**2)[:, None]
        V -= s.interaction.alpha * (r * own + 2 * s.model.lambda_v * V)
