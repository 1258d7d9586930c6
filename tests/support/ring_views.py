"""Views over Z_4 in all their cases: the subgroup 2^62 Z_4 of the ring. Each column of an array is one case, all of
them equally likely, so that two views have the total variation 0 exactly where their columns are the same multiset."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from itertools import combinations, product
from typing import Any

import numpy as np

UNIT = np.uint64(2**62)
INPUTS = list(product(range(4), repeat=3))  # of three parties


def in_ring(small: Any) -> np.ndarray:
    return np.asarray(small, dtype=np.uint64) * UNIT


def all_choices(many: int) -> np.ndarray:
    """Every choice of so many elements, (many, 4^many)."""
    return in_ring(np.array(list(product(range(4), repeat=many))).T)


def distribution(seen: Iterable[np.ndarray]) -> np.ndarray:
    """What is seen in each case, as one number for each, sorted."""
    total = np.uint64(0)
    for row in seen:
        if (row % UNIT).any():
            raise AssertionError("outside of the subgroup")
        total = total * np.uint64(4) + row // UNIT
    return np.sort(total)


def tell_apart(views: Mapping[Any, np.ndarray], known: Callable[[Any], Hashable]) -> tuple[bool, bool]:
    """Whether inputs that agree in what may be known are ever seen to differ, and whether all others always are."""
    possible = {values: frozenset(view.tolist()) for values, view in views.items()}
    pairs = list(combinations(views, 2))
    differ = any(not np.array_equal(views[a], views[b]) for a, b in pairs if known(a) == known(b))
    return differ, all(not possible[a] & possible[b] for a, b in pairs if known(a) != known(b))
