"""Eq. (1) over the features that are not 0 equals Eq. (1) over all of them, to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.model import equations, sparse_samples
from prirec.model.sparse_samples import place_rows
from support.hypothesis_settings import PATIENT

FEATURES = st.lists(st.sampled_from([0.0, -0.0, 1.0, -1.5, 0.1, 1e-30]), min_size=1, max_size=40)


def loaded(person: list[float], place: list[float], context: list[float]) -> tuple[np.ndarray, np.ndarray]:
    """X^ij over whatever stood there before, and the features that are present."""
    parts = [np.array(part, dtype=np.float32) for part in (person, place, context)]
    rows = place_rows(np.stack([np.ones_like(parts[1]), parts[1]]))
    x, present = np.full(sum(map(len, parts)), 7.0), np.empty(sum(map(len, parts)) + 1, dtype=np.int32)
    count = sparse_samples.load_present(parts[0], rows, 1, parts[2], x, present)
    return x, present[:count]


def features_there(x: np.ndarray) -> np.ndarray:
    return loaded([], x.tolist(), [])[1]


@PATIENT
@given(features=FEATURES, dimension=st.integers(1, 9), seed=st.integers(0, 2**32))
def test_scores_over_present_features_equal_scores_over_all(features, dimension, seed):
    rng = np.random.default_rng(seed)
    first, second = sorted(rng.integers(len(features) + 1, size=2))
    x, there = loaded(features[:first], features[first:second], features[second:])
    w, T = rng.normal(size=len(x) + 1), rng.normal(size=(dimension, len(x)))
    pull, pull_of_present = np.empty(dimension), np.empty(dimension)
    assert (x == np.array(features, dtype=np.float32)).all()
    assert there.tolist() == np.flatnonzero(x).tolist()
    assert sparse_samples.linear_score_of(w, x, there) == equations.linear_score(w, x)
    assert sparse_samples.pairs_of(T, x, there, pull_of_present) == equations.pairs(T, x, pull)
    assert (pull == pull_of_present).all()


@pytest.mark.parametrize("x", [[0.0, 2.0, 0.0, -1.0], [0.0], [-0.0, 0.0], [1.0, 1.0], []])
def test_present_features_are_those_that_are_not_0_in_order(x):
    values = np.array(x, dtype=np.float64)
    assert features_there(values).tolist() == np.flatnonzero(values).tolist()


def test_a_feature_that_is_not_a_number_is_present():
    assert features_there(np.array([0.0, np.nan])).tolist() == [1]
