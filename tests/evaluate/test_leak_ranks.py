"""Ranks by hand are those of the library that would be slow to load."""

import numpy as np
from scipy.stats import rankdata

from prirec.evaluate.leaks import _ranks


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    values = np.random.default_rng(0).integers(12, size=50).astype(np.float64)
    assert len(np.unique(values)) < len(values)
    assert _ranks(values).tolist() == rankdata(values).tolist()
