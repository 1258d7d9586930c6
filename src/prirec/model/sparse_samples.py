"""Samples as the fast engines of the paper's schedule and of the baseline walk over them: what is absent is left out.

Most words are absent from most places, and adding 0 changes no sum, so these give the same bits as their twins in
model/equations.py in a fraction of the time.
"""

from typing import NamedTuple

import numpy as np

from prirec.model.equations import pair_score
from prirec.types import FeatureArray, IndexArray, KeyArray, LabelArray, OffsetArray, RealArray
from prirec.util.jit import inlined


class Everyone(NamedTuple):
    """All devices' own data, as only a simulation has them."""

    people: FeatureArray  # (I, m)
    offsets: OffsetArray  # (I + 1,)
    place: IndexArray  # (R,)
    context: FeatureArray  # (R, c)
    label: LabelArray  # (R,)
    keys: KeyArray  # (I,)


class PlaceRows(NamedTuple):
    """The features of places that are not 0: place j has entries offsets[j] to offsets[j + 1]."""

    offsets: OffsetArray  # (J + 1,)
    feature: IndexArray  # which of the n static features
    value: FeatureArray
    features: int  # n


def place_rows(places: FeatureArray) -> PlaceRows:
    """A catalogue's features (J, n) without those that are 0; computed once."""
    row, feature = np.nonzero(places)  # row after row, features ascending: the order in which sums are taken
    counts = np.bincount(row, minlength=len(places))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return PlaceRows(offsets, feature.astype(np.int32), places[row, feature], places.shape[1])


@inlined
def load_present(
    person: FeatureArray, places: PlaceRows, j: int, context: FeatureArray, x: RealArray, present: IndexArray
) -> int:
    """equations.load from sparse places; fills `present` with the features that are not 0, in order; how many."""
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
    """equations.linear_score over the features that are not 0."""
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
    """equations.pairs, with four components at a time: each sum waits for itself, but not for the others."""
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
