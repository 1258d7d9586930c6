"""What everything is measured against: Algorithm 2, sample after sample, in plain NumPy."""

import numpy as np

from prirec.graph.neighbours import neighbourhoods_of
from prirec.simulate.setup import Setup
from prirec.types import RealArray


def _score(w: RealArray, V: RealArray, x: RealArray, pull: RealArray) -> float:
    return float(w[0] + w[1:] @ x + 0.5 * (pull @ pull - (x**2) @ (V**2).sum(axis=1)))


class NumpyPass:
    """Lines 7 to 16. Neighbours, models and V are made before any clock starts, as the engines make theirs."""

    def __init__(self, setup: Setup, *, ring: bool):
        self.samples, self.settings, self.ring = setup.samples, setup.settings, ring
        everyone = np.ones(len(self.samples.ids), dtype=bool)
        self.around = neighbourhoods_of(self.samples, self.settings, iteration=0, online=everyone)
        shape = (self.samples.features, self.settings.model.dimension)
        self.W = np.zeros((len(self.samples.ids), self.samples.features + 1))
        self.V = np.random.Generator(np.random.PCG64(0)).normal(0.0, self.settings.model.spread, shape)

    def run(self, rows: np.ndarray) -> None:
        """These samples, one after the other; with `ring` the neighbours' sum is taken in Z_2^64, as engines do."""
        samples, s, W, V, train = self.samples, self.settings, self.W, self.V, self.samples.train
        for row in rows:
            i, y = train.person[row], float(train.label[row])
            x = np.concatenate([samples.people[i], samples.places[train.place[row]], train.context[row]]).astype(float)
            pull = x @ V
            r = -y / (1.0 + np.exp(y * _score(W[i], V, x, pull)))
            gradient = 2 * s.model.lambda_w * W[i]
            gradient[0] += r
            gradient[1:] += r * x
            W[i] = self.mean(i) - s.linear.alpha * gradient
            r = -y / (1.0 + np.exp(y * _score(W[i], V, x, pull)))
            V -= s.interaction.alpha * (r * (np.outer(x, pull) - V * (x**2)[:, None]) + 2 * s.model.lambda_v * V)

    def mean(self, i: int) -> RealArray:
        """The neighbours' mean model."""
        models = self.W[self.around.people[self.around.offsets[i] : self.around.offsets[i + 1]]]
        if not self.ring:
            mean: RealArray = models.mean(axis=0)
            return mean
        scale = 2.0**self.settings.ring.fraction_bits
        total = np.rint(models * scale).astype(np.int64).view(np.uint64).sum(axis=0)
        summed: RealArray = total.view(np.int64) / (scale * len(models))
        return summed
