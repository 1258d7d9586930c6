"""The recommender's steps: to the optimum without noise, shrunk where noise is known, nowhere where noise is all."""

import numpy as np
import pytest

from prirec.features.columns import USUAL_POSITIVE, USUAL_ROOT_RECORDS, Moments
from prirec.model.estimate import GUESS, PACE, PLAUSIBLE, Estimate, noise_in_scores
from prirec.model.shared_model import FINE_B
from support.shared_data import made_up

ONE_BLOCK = np.zeros((1, 8), dtype=np.int32)


def nothing(groups: np.ndarray = ONE_BLOCK, *, curvature: float = 1.0) -> Estimate:
    zeros = np.zeros(groups.shape)
    return Estimate(groups, curvature, zeros, zeros, zeros)


def after_rounds(estimate: Estimate, gradient, rounds: int, noise: float = 0.0, seed: int = 0) -> Estimate:
    rng = np.random.default_rng(seed)
    for _ in range(rounds):
        mean = gradient(estimate.B)[estimate.groups >= 0]
        estimate = estimate.after(mean + rng.normal(0.0, noise, size=mean.shape), noise)
    return estimate


def bowl(best: np.ndarray, curvature: np.ndarray | float):
    """The gradient of ½ Σ c (B - best)²."""
    return lambda B: curvature * (B - best)


# Without noise


@pytest.mark.parametrize("guess", [0.5, 1.0, 3.0])
def test_in_an_even_bowl_the_third_measurement_is_the_optimum(guess):
    """The second round measures the curvature, whatever the guess was; a step by it ends at the optimum."""
    best = np.random.default_rng(1).normal(size=(1, 8))
    found = after_rounds(nothing(curvature=guess), bowl(best, 1.0), 2)
    assert found.curvature == pytest.approx(1.0)
    np.testing.assert_allclose(after_rounds(nothing(curvature=guess), bowl(best, 1.0), 40).B, best, atol=1e-4)


def test_in_an_uneven_bowl_it_comes_to_the_optimum_too():
    rng = np.random.default_rng(2)
    best, curvature = rng.normal(size=(1, 8)), rng.uniform(0.5, 1.5, size=(1, 8))
    found = after_rounds(nothing(), bowl(best, curvature), 200)
    np.testing.assert_allclose(found.B, best, atol=0.02)


def test_in_a_logistic_regression_it_comes_to_the_optimum():
    rng = np.random.default_rng(3)
    X, best = rng.normal(size=(4000, 8)), rng.normal(0.0, 0.5, size=8)
    y = (rng.random(4000) < 1 / (1 + np.exp(-X @ best))).astype(float)

    def gradient(B: np.ndarray) -> np.ndarray:
        return ((1 / (1 + np.exp(-X @ B[0])) - y) @ X / 4000)[None]

    found = after_rounds(nothing(curvature=0.25), gradient, 60)
    assert np.abs(gradient(found.B)).max() < 1e-3 * np.abs(gradient(np.zeros((1, 8)))).max()


def test_entries_that_B_has_not_stay_0():
    groups = np.array([[0, 0, 0], [1, -1, 1]], dtype=np.int32)
    best = np.arange(6.0).reshape(2, 3)
    found = after_rounds(nothing(groups), bowl(best, 1.0), 60)
    np.testing.assert_allclose(found.B, np.where(groups >= 0, best, 0.0), atol=1e-3)
    assert found.B[1, 1] == found.average[1, 1] == 0.0


def test_what_is_published_is_a_multiple_that_a_float32_holds():
    found = after_rounds(nothing(), bowl(np.random.default_rng(1).normal(size=(1, 8)), 1.0), 7)
    assert (np.rint(found.B * FINE_B) == found.B * FINE_B).all()
    assert (found.B.astype(np.float32) == found.B).all()


# Averages and shrinking, by hand


def test_the_average_remembers_as_many_rounds_as_the_pace():
    """Measurements of noise alone, of which the last counts PACE / (t + PACE)."""
    first = nothing().after(np.full(8, -1.0), 0.0)
    assert (first.average == 1.0).all()
    second = first.after(np.full(8, -1.0), 0.0)  # the gradient has not changed: the curvature falls as far as it may
    assert second.curvature == pytest.approx(0.3)
    weight = PACE / (1 + PACE)
    np.testing.assert_allclose(second.average, (1 - weight) * 1.0 + weight * (1.0 + 1 / 0.3))
    assert second.rounds == 2


def test_the_variance_is_that_of_the_noise_in_the_average():
    first = nothing(curvature=2.0).after(np.full(8, -1.0), 0.5)
    assert first.variance == pytest.approx((0.5 / 2.0) ** 2)
    second = first.after(np.full(8, -1.0), 0.25)
    weight = PACE / (1 + PACE)
    noise = weight * 0.25 / second.curvature
    assert second.variance == pytest.approx((1 - weight) ** 2 * first.variance + noise**2)


def shrunk(values: list[float], variance: float, groups: list[int] | None = None) -> np.ndarray:
    of = np.array([groups or [0] * len(values)], dtype=np.int32)
    return nothing(of).after(-np.array(values), np.sqrt(variance)).B[0]


def test_blocks_are_shrunk_by_james_and_stein():
    """1 - (n - 2) σ² / Σ x²: of 0.03, 0.04, 0.12 the squares sum to 0.0169; with σ² = 0.005 119 / 169 of it stays."""
    np.testing.assert_allclose(shrunk([0.03, 0.04, 0.12], 0.005), np.array([0.03, 0.04, 0.12]) * 119 / 169, atol=1e-6)
    assert not shrunk([0.03, 0.04, 0.12], 0.017).any()  # all of it may be noise


def test_each_block_is_shrunk_by_itself():
    found = shrunk([0.03, 0.01, 0.04, 0.01, 0.12, 0.01], 0.005, [1, 0, 1, 0, 1, 0])
    np.testing.assert_allclose(found[[0, 2, 4]], shrunk([0.03, 0.04, 0.12], 0.005))
    assert not found[[1, 3, 5]].any()


def test_a_block_of_one_or_two_entries_is_shrunk_by_half_a_variance():
    np.testing.assert_allclose(shrunk([0.1], 0.002), 0.1 * 0.9, atol=1e-6)
    np.testing.assert_allclose(shrunk([0.1, 0.0], 0.002), [0.1 * 0.9, 0.0], atol=1e-6)


def test_more_than_is_plausible_is_taken_for_noise():
    """Three entries of 10 in noise of 2: James and Stein would keep nearly all, but no block gives scores a variance of
    300."""
    np.testing.assert_allclose(shrunk([10.0] * 3, 2.0), 10 * PLAUSIBLE / (PLAUSIBLE + 6), atol=1e-5)
    np.testing.assert_allclose(shrunk([10.0] * 3, 0.0), 10.0)


@pytest.mark.parametrize("noise", [3.0, 1e3, 1e9])
def test_a_sum_that_drowns_leaves_b_near_0(noise):
    """20 rounds of noise alone on 500 entries: what gets through gives scores a variance of less than 0.01."""
    groups = np.zeros((1, 500), dtype=np.int32)
    for seed in range(5):
        found = after_rounds(nothing(groups), bowl(np.zeros((1, 500)), 1.0), 20, noise=noise, seed=seed)
        assert (found.B**2).sum() < 0.01


@pytest.mark.parametrize("noise", [0.05, 0.3])
def test_noise_that_is_known_is_averaged_out_and_shrunk(noise):
    """The error is below that of the mean of five measurements, and below that of knowing nothing."""
    groups = np.repeat(np.arange(2, dtype=np.int32), 100)[None]
    best = np.where(groups == 0, 0.1, 0.0) * np.random.default_rng(0).normal(size=(1, 200))
    errors = [
        ((after_rounds(nothing(groups), bowl(best, 1.0), 20, noise=noise, seed=s).B - best) ** 2).sum()
        for s in range(20)
    ]
    assert np.mean(errors) < 200 * noise**2 / 5
    assert np.mean(errors) < (best**2).sum()


# Curvature


def test_the_bias_that_noise_has_on_the_curvature_is_taken_off():
    """Means over seeds; without the correction it would be 1 + (σ / c)² n / |step|² times as large: 1.3."""
    groups = np.zeros((1, 50), dtype=np.int32)
    best, noise = np.random.default_rng(4).normal(0.0, 0.4, size=(1, 50)), 0.2
    found = [after_rounds(nothing(groups), bowl(best, 1.0), 2, noise=noise, seed=seed).curvature for seed in range(300)]
    assert np.mean(found) == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("noise", [30.0, 1e4])
def test_where_noise_drowns_the_measurement_the_guess_stays(noise):
    """It once grew with the noise, and B kept the noise of the first rounds: a variance of scores of up to 20."""
    groups = np.zeros((1, 500), dtype=np.int32)
    for seed in range(5):
        found = after_rounds(nothing(groups), bowl(np.zeros((1, 500)), 1.0), 2, noise=noise, seed=seed)
        assert found.curvature == pytest.approx(1.0, abs=0.1)


def test_a_first_step_of_nothing_measures_nothing():
    groups = np.zeros((1, 500), dtype=np.int32)
    found = after_rounds(nothing(groups, curvature=0.7), bowl(np.zeros((1, 500)), 1.0), 1)
    assert not found.B.any()
    assert found.after(np.ones(500), 0.1).curvature == 0.7


def test_the_curvature_is_measured_once():
    first, second, third = (after_rounds(nothing(curvature=3.0), bowl(np.ones((1, 8)), 1.0), t) for t in (1, 2, 3))
    assert (first.curvature, second.curvature) == (3.0, pytest.approx(1.0))
    assert third.curvature == second.curvature


def test_before_the_first_round_the_curvature_is_that_of_usual_records():
    columns = made_up().columns
    moments = Moments(*[np.zeros(1)] * 4, positive=0.2, root_records=5.0)
    found = Estimate.nothing(columns, moments)
    assert found.curvature == pytest.approx(GUESS * 5.0 * 0.4 / np.sqrt(columns.entries))
    assert not found.B.any()
    assert found.B.shape == columns.groups.shape


# Beforehand


@pytest.mark.parametrize("rounds", [1, 20])
def test_the_noise_that_is_expected_beforehand_is_that_of_the_estimate_for_usual_records(rounds):
    """Where nothing is learnt the guess of the curvature stays, and all that is left is the noise."""
    of = made_up().columns
    none, moment = np.zeros(of.person), np.zeros(of.context - of.popularity)
    usual = Moments(none, none + 1, moment, moment + 1, USUAL_POSITIVE, USUAL_ROOT_RECORDS)
    estimate = Estimate.nothing(of, usual)
    for _ in range(rounds):
        estimate = estimate.after(np.zeros(of.entries), 0.01)
    expected = noise_in_scores(0.01, entries=of.entries, rounds=rounds)
    assert expected == pytest.approx(np.sqrt(of.entries * estimate.variance))
