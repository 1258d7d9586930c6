"""Eq. (1) over the features that are not 0. Most words are absent from most places, and adding 0 changes no sum, so
these give the same bits as their twins in model/kernels.py in a fraction of the time."""

from prirec.compiled import inlined
from prirec.model.kernels import pair_score
from prirec.model.public_half import PlaceRows
from prirec.types import FeatureArray, IndexArray, RealArray


@inlined
def load_present(
    person: FeatureArray, places: PlaceRows, j: int, context: FeatureArray, x: RealArray, present: IndexArray
) -> int:
    """kernels.load from sparse places; fills `present` with the features that are not 0, in order; how many."""
    offsets, feature, value, _ = places
    m, moment, count = person.size, x.size - context.size, 0
    for d in range(m):
        x[d] = person[d]
        present[count] = d
        count += x[d] != 0.0
    x[m:moment] = 0.0
    for e in range(offsets[j], offsets[j + 1]):
        x[m + feature[e]] = value[e]
        present[count] = m + feature[e]
        count += 1
    for d in range(context.size):
        x[moment + d] = context[d]
        present[count] = moment + d
        count += x[moment + d] != 0.0
    return count


@inlined
def linear_score_of(w: RealArray, x: RealArray, present: IndexArray) -> float:
    """kernels.linear_score."""
    total = float(w[0])
    for d in present:
        total += w[d + 1] * x[d]
    return total


@inlined
def pull_of(v: RealArray, x: RealArray, present: IndexArray) -> tuple[float, float]:
    """One component of a pull, with its squares."""
    total, own = 0.0, 0.0
    for d in present:
        term = v[d] * x[d]
        total += term
        own += term * term
    return total, own


@inlined
def pairs_of(T: RealArray, x: RealArray, present: IndexArray, pull: RealArray) -> float:
    """kernels.pairs, with four components at a time: each sum waits for itself, but not for the others."""
    K, square = T.shape[0], 0.0
    for k in range(0, K - 3, 4):
        t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
        s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
        for d in present:
            a, b, c, e = T[k, d] * x[d], T[k + 1, d] * x[d], T[k + 2, d] * x[d], T[k + 3, d] * x[d]
            t0, t1, t2, t3 = t0 + a, t1 + b, t2 + c, t3 + e
            s0, s1, s2, s3 = s0 + a * a, s1 + b * b, s2 + c * c, s3 + e * e
        pull[k], pull[k + 1], pull[k + 2], pull[k + 3] = t0, t1, t2, t3
        square = (((square + s0) + s1) + s2) + s3
    for k in range(K // 4 * 4, K):
        pull[k], own = pull_of(T[k], x, present)
        square += own
    return pair_score(pull, square)
