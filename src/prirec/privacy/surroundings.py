"""What the noisy sums of the places nearby say about a place: public, and computed from what is already released."""

import numpy as np
from scipy.spatial import cKDTree

from prirec.geography import located, unit_vectors
from prirec.types import RealArray

NEIGHBOURHOODS = (10, 50, 200)
_BLOCK = 1 << 13  # places whose neighbours are looked up at a time
_SHARE = 4


def nearby_means(
    location: RealArray | None, values: RealArray, *, neighbourhoods: tuple[int, ...] = NEIGHBOURHOODS
) -> RealArray:
    """(J, n): the mean of the k places nearest to each, itself left out, for each k; the mean of all where unlocated.

    A k above a quarter of the located places has no column: the mean of nearly all others is the total less the place's
    own sum, and would give back the very noise that it should average out.
    """
    known = np.flatnonzero(located(location)) if location is not None else np.empty(0, dtype=np.int64)
    sizes = [k for k in sorted(neighbourhoods) if k * _SHARE <= len(known)]
    means = np.full((len(values), len(sizes)), values.mean() if len(values) else 0.0)
    if location is None or not sizes:
        return means
    tree, own = cKDTree(unit_vectors(location[known])), values[known]
    for start in range(0, len(known), _BLOCK):
        rows = tree.indices[start : start + _BLOCK]  # neighbours together: what one looks up, the next one finds
        sums = np.cumsum(own[_others(tree, rows, sizes[-1])], axis=1)
        means[known[rows]] = sums[:, [k - 1 for k in sizes]] / sizes
    return means


def _others(tree: cKDTree, rows: np.ndarray, count: int) -> np.ndarray:
    """(r, count): the nearest to each row but itself; with many places in one spot it may not be among its nearest."""
    found = np.asarray(tree.query(tree.data[rows], k=count + 1)[1])
    itself = found == rows[:, None]
    itself[~itself.any(axis=1), -1] = True
    others: np.ndarray = found[~itself].reshape(len(rows), count)
    return others
