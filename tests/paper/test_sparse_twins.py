"""Eq. (1) over the features that are not 0 equals Eq. (1) over all of them, to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.model import kernels, sparse
from support.patience import PATIENT

FEATURES = st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.5, 0.1, 1e-30]), min_size=1, max_size=40)


def features_there(x: np.ndarray) -> np.ndarray:
    present = np.empty(len(x) + 1, dtype=np.int32)
    return present[: sparse.find_present(x, present)]


@PATIENT
@given(features=FEATURES, dimension=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_scores_over_present_features_equal_scores_over_all(features, dimension, seed):
    x, rng = np.array(features), np.random.default_rng(seed)
    w, T = rng.normal(size=len(x) + 1), rng.normal(size=(dimension, len(x)))
    there, pull, pull_of_present = features_there(x), np.empty(dimension), np.empty(dimension)
    assert sparse.linear_score_of(w, x, there) == kernels.linear_score(w, x)
    assert sparse.pairs_of(T, x, there, pull_of_present) == kernels.pairs(T, x, pull)
    assert (pull == pull_of_present).all()


@pytest.mark.parametrize("x", [[0.0, 2.0, 0.0, -1.0], [0.0], [-0.0, 0.0], [1.0, 1.0], []])
def test_present_features_are_those_that_are_not_0_in_order(x):
    values = np.array(x, dtype=np.float64)
    assert features_there(values).tolist() == np.flatnonzero(values).tolist()


def test_a_feature_that_is_not_a_number_is_present():
    assert features_there(np.array([0.0, np.nan])).tolist() == [1]
