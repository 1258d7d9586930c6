"""Matrix factorisation: the kernel is what the equations say, and what is unknown has biases only."""

from dataclasses import replace
from functools import cache

import msgspec
import numpy as np
import pytest

from prirec.features.samples import Samples
from prirec_experiments.rivals.mf import MfSettings, fit, start
from support.rivals import plain_mf, ready, without_records_of

SETTINGS = MfSettings(dimension=3, passes=4, alpha=0.2, lambda_w=0.05, lambda_v=0.02, spread=0.4)


@cache
def samples() -> Samples:
    return ready().samples


@pytest.mark.parametrize("changes", [{}, {"dimension": 9, "seed": 5}, {"lambda_w": 0.0, "lambda_v": 0.0}])
def test_the_kernel_is_the_plain_descent(changes: dict[str, float]) -> None:
    settings = msgspec.structs.replace(SETTINGS, **changes)
    found, wanted = fit(samples(), settings).factors, plain_mf(samples(), settings)
    for part, plain in zip(found, wanted, strict=True):
        np.testing.assert_allclose(part, plain, rtol=1e-10, atol=1e-13)
    assert np.abs(found.person - start(samples(), settings).person).max() > 0.01  # it did learn


@pytest.mark.parametrize("changes", [{"dimension": 0}, {"spread": 0.0}])
def test_without_factors_the_score_is_the_sum_of_biases(changes: dict[str, float]) -> None:
    model = fit(samples(), msgspec.structs.replace(SETTINGS, **changes))
    f, test = model.factors, samples().test
    biases = f.bias[0] + f.of_person[test.person] + f.of_place[test.place]
    np.testing.assert_allclose(model.at(test.person, test.place), biases, rtol=0, atol=1e-15)
    assert np.ptp(biases) > 0.1


def test_biases_learn_the_same_whether_factors_are_absent_or_zero() -> None:
    none, zero = (fit(samples(), msgspec.structs.replace(SETTINGS, **c)) for c in ({"dimension": 0}, {"spread": 0.0}))
    np.testing.assert_array_equal(none.factors.of_place, zero.factors.of_place)
    assert not zero.factors.person.any()


def test_a_person_and_a_place_without_a_record_are_scored_by_the_others_bias() -> None:
    model = fit(without_records_of(samples(), person=3, place=5), SETTINGS)
    f, everywhere = model.factors, np.arange(12, dtype=np.int32)
    known = model.at(np.full(12, 3, dtype=np.int32), everywhere)
    np.testing.assert_array_equal(known, f.bias[0] + f.of_place)
    people = np.arange(len(f.of_person), dtype=np.int32)
    np.testing.assert_array_equal(model.at(people, np.full(len(people), 5, dtype=np.int32)), f.bias[0] + f.of_person)
    assert f.of_person[3] == f.of_place[5] == 0.0


def test_factors_learn_tastes_that_biases_cannot_represent() -> None:
    """People of one half go to one half of the places: no person and no place is better than another."""
    s = samples()
    halves = np.where((s.train.person % 2) == (s.train.place % 2), 1, -1).astype(np.int8)
    divided = msgspec.structs.replace(SETTINGS, passes=60, lambda_v=0.001)
    model = fit(replace(s, train=replace(s.train, label=halves)), divided)
    right = np.sign(model.at(s.train.person, s.train.place)) == halves
    assert right.mean() > 0.95
