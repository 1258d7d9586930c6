"""The slow twins: Eqs. (1) to (4) and (7) to (9) exactly as the paper prints them, loop for sum.

Nothing here is fast, and nothing calls it but tests: the kernels are held to these. Regularisation stands once in
Eq. (2) and once a sample in Eqs. (3) and (4), as printed; what the presets do about that is decisions/0004.
"""

from collections.abc import Sequence
from math import exp, log

from prirec.types import RealArray


def sigma(x: float) -> float:
    return 1 / (1 + exp(-x))


def predict(w: RealArray, V: RealArray, x: RealArray) -> float:
    """Eq. (1): the score of one sample; w is (D + 1,), V is (D, K), x is (D,)."""
    D, K = V.shape
    linear = w[0] + sum(w[d + 1] * x[d] for d in range(D))
    pairs = sum(x[d] * x[e] * sum(V[d, k] * V[e, k] for k in range(K)) for d in range(D) for e in range(d + 1, D))
    return float(linear + pairs)


def objective(
    samples: Sequence[tuple[RealArray, RealArray, int]], W: RealArray, V: RealArray, lambda_w: float, lambda_v: float
) -> float:
    """Eq. (2): loss over all (w of the sample's user, x, y), with the norms of all linear models W and of V."""
    losses = sum(-log(sigma(y * predict(w, V, x))) for w, x, y in samples)
    return float(losses + lambda_w * (W**2).sum() + lambda_v * (V**2).sum())


def linear_gradient(w: RealArray, V: RealArray, x: RealArray, y: int, lambda_w: float) -> list[float]:
    """Eq. (3): gradient of one sample's loss in w, D + 1 entries."""
    r = y * (sigma(y * predict(w, V, x)) - 1)
    bias = r + 2 * lambda_w * w[0]
    return [bias, *(r * x[d] + 2 * lambda_w * w[d + 1] for d in range(len(x)))]


def interaction_gradient(w: RealArray, V: RealArray, x: RealArray, y: int, lambda_v: float) -> list[list[float]]:
    """Eq. (4): gradient of one sample's loss in V, D rows of K entries."""
    D, K = V.shape
    r = y * (sigma(y * predict(w, V, x)) - 1)
    return [
        [r * x[d] * sum(V[e, k] * x[e] for e in range(D) if e != d) + 2 * lambda_v * V[d, k] for k in range(K)]
        for d in range(D)
    ]


def centralised_step(w: Sequence[float], gradient: Sequence[float], alpha: float) -> list[float]:
    """Eq. (7): gradient descent where one party holds everything."""
    return [w_d - alpha * g_d for w_d, g_d in zip(w, gradient, strict=True)]


def decentralised_step(
    neighbours: Sequence[RealArray], weights: Sequence[float], gradient: Sequence[float], alpha: float
) -> list[float]:
    """Eq. (8): the weighted sum of the neighbours' models, less the own gradient. The own model is not in the sum."""
    return [
        sum(s * w_f[d] for s, w_f in zip(weights, neighbours, strict=True)) - alpha * gradient[d]
        for d in range(len(gradient))
    ]


def interaction_step(V: RealArray, gradient: RealArray, alpha: float) -> list[list[float]]:
    """Eq. (9): the recommender moves V against the aggregated gradient."""
    D, K = V.shape
    return [[V[d, k] - alpha * gradient[d, k] for k in range(K)] for d in range(D)]
