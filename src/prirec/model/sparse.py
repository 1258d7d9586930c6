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
    offsets, feature, value = places
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
def pairs_of(T: RealArray, x: RealArray, present: IndexArray, pull: RealArray) -> float:
    """kernels.pairs."""
    square = 0.0
    for k in range(T.shape[0]):
        total, own = 0.0, 0.0
        for d in present:
            term = T[k, d] * x[d]
            total += term
            own += term * term
        pull[k] = total
        square += own
    return pair_score(pull, square)
