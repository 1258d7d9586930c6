"""A device that holds some of the places has, with the published shape, the prior that all of them give."""

import numpy as np
import pytest

from prirec.privacy.popularity_estimate import Prior

RNG = np.random.default_rng(3)
PREDICTED, SUMS = RNG.uniform(0.1, 9.0, 20_000), RNG.normal(3.0, 4.0, 20_000)
SOME = np.flatnonzero(RNG.random(20_000) < 0.01)
LESS = RNG.uniform(0.0, 0.5, 20_000)


@pytest.mark.parametrize("excess", [25.0, 1e-3, 1e6, 0.0, -4.0])
@pytest.mark.parametrize("sigma", [5.0, 0.3, 0.0])
def test_some_places_have_the_posterior_that_they_have_among_all(excess, sigma):
    whole = Prior.fitted(PREDICTED, sigma, excess)
    some = Prior(PREDICTED[SOME], sigma, whole.shape)
    here = some.mean(SUMS[SOME], np.arange(len(SOME)), LESS[SOME])
    there = whole.mean(SUMS, np.arange(len(SUMS)), LESS)
    assert here.tobytes() == there[SOME].tobytes()


def test_one_place_has_the_posterior_that_it_has_among_all():
    whole = Prior.fitted(PREDICTED, 5.0, 25.0)
    there = whole.mean(SUMS, np.arange(len(SUMS)), LESS)
    for at in SOME[:50]:
        alone = Prior(PREDICTED[at : at + 1], 5.0, whole.shape)
        assert alone.mean(SUMS[at : at + 1], np.array([0]), LESS[at : at + 1]).tobytes() == there[at].tobytes()


def test_the_shape_fitted_to_some_places_is_another():
    """Else there would be no need to publish it."""
    assert Prior.fitted(PREDICTED[:10], 5.0, 25.0).shape != Prior.fitted(PREDICTED, 5.0, 25.0).shape


def test_without_excess_the_prediction_is_all_that_is_known():
    assert Prior.fitted(PREDICTED, 5.0, -1.0).shape == np.inf
    same = Prior(PREDICTED, 5.0, np.inf).mean(SUMS, np.arange(len(SUMS)))
    assert same.tolist() == PREDICTED.tolist()


def test_a_shape_of_0_says_that_nothing_rose_out_of_the_noise():
    prior = Prior(PREDICTED, 5.0, 0.0)
    assert not prior.mean(SUMS, np.arange(len(SUMS))).any()


def test_a_very_wide_prior_keeps_a_least_shape():
    assert Prior.fitted(np.full(3, 0.01), 5.0, 1e6).shape == 0.02
