"""Eqs. (1) to (4): kernels against their slow twins, and both against the slope of Eq. (2).

Eq. (2) holds each regulariser once; Eqs. (3) and (4), as printed, hold it once a sample. For a single sample the two
readings are one and the same, which is where the slopes are compared; for n samples they differ by n - 1 regularisers.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.model import as_printed, equations
from support.hypothesis_settings import PATIENT

LAMBDA_W, LAMBDA_V = 0.03, 0.07


def drawn(seed: int, features: int = 7, dimension: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=features + 1), rng.normal(size=(features, dimension)), rng.normal(size=features)


def transposed(V: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(V.T)


def fast_score(w: np.ndarray, V: np.ndarray, x: np.ndarray) -> float:
    return equations.score(w, transposed(V), x, np.empty(V.shape[1]))


def fast_gradients(w: np.ndarray, V: np.ndarray, x: np.ndarray, y: int) -> tuple[np.ndarray, np.ndarray]:
    T, pull = transposed(V), np.empty(V.shape[1])
    r = equations.residual(float(y), equations.score(w, T, x, pull))
    linear, interaction = np.empty(len(w)), np.empty_like(T)
    equations.linear_gradient(w, x, r, LAMBDA_W, linear)
    equations.interaction_gradient(T, x, pull, r, LAMBDA_V, interaction)
    return linear, interaction.T


def slope(function, at: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences, entry by entry."""
    slopes = np.empty(at.shape)
    for entry in np.ndindex(*at.shape):
        up, down = at.copy(), at.copy()
        up[entry] += step
        down[entry] -= step
        slopes[entry] = (function(up) - function(down)) / (2 * step)
    return slopes


def test_eq1_by_hand():
    w, V, x = np.array([1.0, 2.0, 3.0]), np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([5.0, 6.0])
    expected = 1 + 2 * 5 + 3 * 6 + 5 * 6 * (1 * 3 + 2 * 4)
    assert as_printed.predict(w, V, x) == expected
    assert fast_score(w, V, x) == expected


@pytest.mark.parametrize(("features", "dimension"), [(1, 1), (2, 1), (7, 3), (31, 5), (12, 20)])
def test_eq1_kernel_equals_its_twin(features, dimension):
    for seed in range(20):
        w, V, x = drawn(seed, features, dimension)
        assert fast_score(w, V, x) == pytest.approx(as_printed.predict(w, V, x), rel=1e-12, abs=1e-12)


def test_a_sample_is_person_then_place_then_context():
    x = np.empty(6)
    person, place, context = (np.array(part, dtype=np.float32) for part in ([1], [2, 3], [4, 5, 6]))
    equations.load(person, place, context, x)
    assert x.tolist() == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("y", [1, -1])
@pytest.mark.parametrize("seed", range(10))
def test_eq3_and_eq4_kernels_equal_their_twins(seed, y):
    w, V, x = drawn(seed)
    linear, interaction = fast_gradients(w, V, x, y)
    np.testing.assert_allclose(linear, as_printed.linear_gradient(w, V, x, y, LAMBDA_W), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        interaction, as_printed.interaction_gradient(w, V, x, y, LAMBDA_V), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("y", [1, -1])
@pytest.mark.parametrize("gradients", [fast_gradients, None], ids=["kernels", "as printed"])
def test_eq3_and_eq4_are_the_slope_of_eq2_for_one_sample(gradients, y):
    w, V, x = drawn(11, features=5, dimension=2)
    x = x / 2
    if gradients is None:
        linear = as_printed.linear_gradient(w, V, x, y, LAMBDA_W)
        interaction = as_printed.interaction_gradient(w, V, x, y, LAMBDA_V)
    else:
        linear, interaction = gradients(w, V, x, y)
    of_w = slope(lambda moved: as_printed.objective([(moved, x, y)], moved, V, LAMBDA_W, LAMBDA_V), w)
    of_v = slope(lambda moved: as_printed.objective([(w, x, y)], w, moved, LAMBDA_W, LAMBDA_V), V)
    np.testing.assert_allclose(linear, of_w, atol=1e-7)
    np.testing.assert_allclose(interaction, of_v, atol=1e-7)


def test_over_n_samples_eq3_counts_the_regulariser_n_times_and_eq2_once():
    w, V, _ = drawn(12, features=4, dimension=2)
    xs, ys = np.random.default_rng(12).normal(size=(3, 4)) / 2, [1, -1, 1]
    summed = np.sum([as_printed.linear_gradient(w, V, x, y, LAMBDA_W) for x, y in zip(xs, ys, strict=True)], axis=0)
    summed_v = np.sum([as_printed.interaction_gradient(w, V, x, y, LAMBDA_V) for x, y in zip(xs, ys, strict=True)], 0)

    def eq2(w_moved: np.ndarray, V_moved: np.ndarray) -> float:
        samples = [(w_moved, x, y) for x, y in zip(xs, ys, strict=True)]
        return as_printed.objective(samples, w_moved, V_moved, LAMBDA_W, LAMBDA_V)

    np.testing.assert_allclose(summed - slope(lambda m: eq2(m, V), w), 2 * 2 * LAMBDA_W * w, atol=1e-7)
    np.testing.assert_allclose(summed_v - slope(lambda m: eq2(w, m), V), 2 * 2 * LAMBDA_V * V, atol=1e-7)


@PATIENT
@given(margin=st.floats(-30, 30), y=st.sampled_from([1.0, -1.0]))
def test_loss_and_residual_are_those_of_the_logistic_function(margin, y):
    assert equations.loss(y, margin) == pytest.approx(-np.log(as_printed.sigma(y * margin)), rel=1e-9, abs=1e-12)
    assert equations.residual(y, margin) == pytest.approx(y * (as_printed.sigma(y * margin) - 1), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("y", [1.0, -1.0])
@pytest.mark.parametrize("score", [1e4, -1e4, 1e308, -1e308])
def test_extreme_scores_give_finite_loss_and_residual(score, y):
    lost, r = equations.loss(y, score), equations.residual(y, score)
    assert lost == (0.0 if y * score > 0 else abs(score))
    assert r == (0.0 if y * score > 0 else -y)


@PATIENT
@given(values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20), clip=st.floats(1e-3, 1e3))
def test_shrink_keeps_direction_and_never_exceeds_the_clip(values, clip):
    given_values, out = np.array(values), np.empty(len(values))
    equations.shrink(given_values, clip, out)
    length = np.linalg.norm(given_values)
    if length <= clip * (1 - 1e-12):
        assert out.tolist() == values
    else:
        assert np.linalg.norm(out) <= clip * (1 + 1e-12)
        np.testing.assert_allclose(out * length, given_values * min(clip, length), rtol=1e-9, atol=1e-9)


def test_a_step_in_one_walk_is_eq3_times_alpha():
    w, _, x = drawn(9)
    r, alpha, lambda_w = -0.37, 0.21, 0.03
    gradient, moved = np.empty_like(w), w.copy()
    equations.linear_gradient(w, x, r, lambda_w, gradient)
    equations.linear_step(moved, x, r, lambda_w, alpha)
    np.testing.assert_allclose(moved, w - alpha * gradient, rtol=1e-13)
