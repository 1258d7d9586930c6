"""What one sample's gradient of V tells whoever opens it: the paper's secure aggregation of a batch of one.

Eq. (4) without its penalty is g_d = r x_d (s - v_d x_d) with s = Σ x_e v_e. It is 0 where a feature is 0. The encoding
is public, so it is known which features are 0 or 1; for two of them that are there, g_d - g_e = r (v_e - v_d), which
gives r, whose sign is the label. With it s = g_d / r + v_d, and every other feature follows from K equations.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import least_squares

from prirec.features.blocks import Hashed, Words
from prirec.features.encoding import Encoding
from prirec.types import BoolArray, RealArray

_NOTHING = (
    1e-6  # of the largest entry: below it a feature is not in the sample, and what is there is the ring's rounding
)


@dataclass(frozen=True, slots=True)
class Read:
    """A sample as it came back; where no two features of 0 and 1 are in it, up to a factor."""

    x: RealArray = field(repr=False)  # (D,)
    label: int


def switches(encoding: Encoding) -> BoolArray:
    """(D,): which features are 0 or 1."""
    blocks = encoding.blocks()
    return np.repeat([isinstance(block, Words | Hashed) for block in blocks], [block.width for block in blocks])


def read(gradient: RealArray, V: RealArray, *, lambda_v: float, switched: BoolArray) -> Read | None:
    """From ∇V of one sample and V, both (D, K) and known to the recommender; None where the sample is empty."""
    told = gradient - 2 * lambda_v * V
    sizes = np.abs(told).max(axis=1)
    active = np.flatnonzero(sizes > _NOTHING * sizes.max(initial=0.0))
    if not len(active):
        return None
    ones, x = active[switched[active]], np.zeros(len(V))
    if len(ones) < 2:
        x[active], r = _searched(told[active], V[active])
        return Read(x, -1 if r > 0 else 1)
    r, pull = _solved(told[ones], V[ones])
    x[ones] = 1.0
    for d in np.setdiff1d(active, ones):
        x[d] = _value(told[d], V[d], r, pull)
    return Read(x, -1 if r > 0 else 1)


def _solved(g: RealArray, v: RealArray) -> tuple[float, RealArray]:
    """r and s from features that are 1: least squares over their differences from the first, and a mean."""
    apart, moved = v[0] - v[1:], g[1:] - g[0]
    r = float((moved * apart).sum() / (apart**2).sum())
    return r, np.asarray((g / r + v).mean(axis=0)) if r else v.sum(axis=0)


def _value(g: RealArray, v: RealArray, r: float, pull: RealArray) -> float:
    """x of one feature: g = r x s - r x² v, by least squares in x and x²."""
    columns = r * np.stack([pull, -v], axis=1)
    return float(np.linalg.lstsq(columns, g, rcond=None)[0][0])


def _searched(g: RealArray, v: RealArray) -> tuple[RealArray, float]:
    """All of it at once, where nothing settles the factor: it does not change the sign of r."""
    scale = float(np.abs(g).max())

    def missed(unknown: RealArray) -> RealArray:
        r, x = unknown[0], unknown[1:, None]
        return np.asarray((r * x * ((x * v).sum(axis=0) - v * x) - g / scale).ravel())

    starts: list[RealArray] = [np.concatenate([[sign], np.ones(len(v))]) for sign in (1.0, -1.0)]
    found = min((least_squares(missed, one, max_nfev=100) for one in starts), key=lambda one: float(one.cost))
    return found.x[1:], float(found.x[0])


def likeness(part: RealArray, known: RealArray) -> RealArray:
    """(n,): how like each of these rows (n, d) the part is, whatever its factor; 0 where either is empty."""
    lengths = np.linalg.norm(known, axis=1) * np.linalg.norm(part)
    cosine = np.divide(known @ part, lengths, out=np.zeros(len(known)), where=lengths > 0)
    return np.asarray(cosine**2)
