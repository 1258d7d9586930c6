"""Eqs. (1), (3) and (4), fast: float64, each sum in one fixed order, so that every engine gets the same bits.

Symbols: w (D + 1,) with the bias first; T = V transposed, (K, D), so that the inner loops run along memory;
x (D,) one sample X^ij; pull_k = sum_d v_dk x_d; the reformulated pair sum is 1/2 (|pull|^2 - sum_d x_d^2 |v_d|^2).
"""

from math import exp, inf, log1p, nan, sqrt

from prirec.types import FeatureArray, RealArray
from prirec.util.jit import inlined


@inlined
def load(person: FeatureArray, place: FeatureArray, context: FeatureArray, x: RealArray) -> None:
    """X^ij = X^i (+) X^j (+) context, into x."""
    m, n = person.size, place.size
    for d in range(m):
        x[d] = person[d]
    for d in range(n):
        x[m + d] = place[d]
    for d in range(context.size):
        x[m + n + d] = context[d]


@inlined
def linear_score(w: RealArray, x: RealArray) -> float:
    """Eq. (1), linear model."""
    total = float(w[0])
    for d in range(x.size):
        total += w[d + 1] * x[d]
    return total


@inlined
def pair_score(pull: RealArray, square: float) -> float:
    """Eq. (1), feature interaction model, in the reformulation that is linear in D."""
    total = 0.0
    for k in range(pull.size):
        total += pull[k] * pull[k]
    return 0.5 * (total - square)


@inlined
def pairs(T: RealArray, x: RealArray, pull: RealArray) -> float:
    """Eq. (1), feature interaction model; fills pull."""
    square = 0.0
    for k in range(T.shape[0]):
        total, own = 0.0, 0.0
        for d in range(x.size):
            term = T[k, d] * x[d]
            total += term
            own += term * term
        pull[k] = total
        square += own
    return pair_score(pull, square)


@inlined
def score(w: RealArray, T: RealArray, x: RealArray, pull: RealArray) -> float:
    """Eq. (1): the score of one sample; fills pull."""
    return linear_score(w, x) + pairs(T, x, pull)


@inlined
def residual(y: float, score: float) -> float:
    """y (sigma(y s) - 1), the factor that Eqs. (3) and (4) share."""
    return -y / (1.0 + exp(y * score))


@inlined
def loss(y: float, score: float) -> float:
    """Eq. (2), one summand: -ln sigma(y s), safe for any score."""
    # The exponent is never positive, so that exp cannot overflow, and log1p keeps what exp leaves beside 1.
    margin = y * score
    return max(0.0, -margin) + log1p(exp(-abs(margin)))


@inlined
def linear_gradient(w: RealArray, x: RealArray, r: float, lambda_w: float, out: RealArray) -> None:
    """Eq. (3), given the residual r."""
    out[0] = r + 2.0 * lambda_w * w[0]
    for d in range(x.size):
        out[d + 1] = r * x[d] + 2.0 * lambda_w * w[d + 1]


@inlined
def linear_step(w: RealArray, x: RealArray, r: float, lambda_w: float, alpha: float) -> None:
    """Eq. (3) and a step against it in one walk: w <- w - alpha * linear_gradient, entry for entry."""
    w[0] -= alpha * (r + 2.0 * lambda_w * w[0])
    for d in range(x.size):
        w[d + 1] -= alpha * (r * x[d] + 2.0 * lambda_w * w[d + 1])


@inlined
def interaction_gradient_of(v: float, x: float, pull: float, r: float, lambda_v: float) -> float:
    """Eq. (4), one entry: the sum over d' != d of v_d'k x_d' is the pull less the feature's own part."""
    return r * x * (pull - v * x) + 2.0 * lambda_v * v


@inlined
def interaction_gradient(
    T: RealArray, x: RealArray, pull: RealArray, r: float, lambda_v: float, out: RealArray
) -> None:
    """Eq. (4), given the residual r and the pull of x: out (K, D)."""
    for k in range(T.shape[0]):
        for d in range(x.size):
            out[k, d] = interaction_gradient_of(T[k, d], x[d], pull[k], r, lambda_v)


@inlined
def shrink(values: RealArray, clip: float, out: RealArray) -> None:
    """values scaled down to norm `clip` if they are longer, into out; NaN if they are too long to have a norm."""
    square = 0.0
    for d in range(values.size):
        square += values[d] * values[d]
    length, factor = sqrt(square), 1.0
    if length > clip:
        # An infinite vector scaled by 0 would be taken for an honest one; NaN is refused where it is encoded.
        factor = clip / length if length < inf else nan
    for d in range(values.size):
        out[d] = values[d] * factor
