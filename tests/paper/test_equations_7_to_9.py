"""Eqs. (7), (8) and (9)."""

import numpy as np
import pytest

from prirec.config import FM
from prirec.engines.local import centralised_pass
from prirec.model import as_printed
from prirec.model.sample_pass import decentralised_step, move_interaction
from prirec.model.sparse_samples import Everyone, place_rows
from prirec.sharing.fixed_point import FixedPoint
from prirec.util.keyed_random import mix, shuffle
from support.cities import change


def tiny_world(records: int, seed: int = 0) -> tuple[Everyone, np.ndarray, np.ndarray]:
    """Three people with two features, four places with two, one context feature; who did what, at random."""
    rng = np.random.default_rng(seed)
    person = np.sort(rng.integers(3, size=records)).astype(np.int32)
    everyone = Everyone(
        people=rng.normal(size=(3, 2)).astype(np.float32),
        offsets=np.searchsorted(person, np.arange(4)).astype(np.int64),
        place=rng.integers(4, size=records).astype(np.int32),
        context=rng.normal(size=(records, 1)).astype(np.float32),
        label=rng.choice(np.array([-1, 1], dtype=np.int8), size=records),
        keys=np.arange(3, dtype=np.uint64),
    )
    return everyone, person, rng.normal(size=(4, 2)).astype(np.float32)


def quantised(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Numbers that 24 fraction bits hold exactly, so that the ring adds no error of its own."""
    return np.rint(rng.normal(size=shape) * 1024) / 1024


@pytest.mark.parametrize("records", [1, 9])
def test_eq7_and_eq9_where_one_party_holds_everything(records):
    everyone, person, places = tiny_world(records)
    settings = change(FM, linear={"alpha": 0.3}, interaction={"alpha": 0.2}, model={"lambda_w": 0.01, "lambda_v": 0.02})
    rng = np.random.default_rng(1)
    w, V = rng.normal(size=6), rng.normal(size=(5, 2))
    moved, expected_w, expected_V, losses = w.copy(), w.copy(), V.copy(), []
    order = np.empty(records, dtype=np.int64)
    shuffle(mix(7, 0), order)
    for row in order:
        x = np.concatenate([everyone.people[person[row]], places[everyone.place[row]], everyone.context[row]])
        x, y = x.astype(float), int(everyone.label[row])
        losses.append(-np.log(as_printed.sigma(y * as_printed.predict(expected_w, expected_V, x))))
        of_w = as_printed.linear_gradient(expected_w, expected_V, x, y, 0.01)
        of_v = np.array(as_printed.interaction_gradient(expected_w, expected_V, x, y, 0.02))
        expected_w = np.array(as_printed.centralised_step(expected_w, of_w, 0.3))
        expected_V = np.array(as_printed.interaction_step(expected_V, of_v, 0.2))
    T, s = np.ascontiguousarray(V.T), settings
    rates = s.linear.alpha, s.interaction.alpha, s.model.lambda_w, s.model.lambda_v
    loss = centralised_pass(moved, T, everyone, person, place_rows(places), order, *rates) / len(order)
    np.testing.assert_allclose(moved, expected_w, rtol=1e-10)
    np.testing.assert_allclose(T.T, expected_V, rtol=1e-10)
    assert loss == pytest.approx(np.mean(losses), rel=1e-10)


def test_eq8_with_gamma_1_forgets_the_own_model_as_printed():
    rng, code = np.random.default_rng(2), FixedPoint(summands=3, bound=100.0)
    neighbours, gradient, w = quantised(rng, 3, 5), rng.normal(size=5), rng.normal(size=5)
    total = code.encode(neighbours[0]) + code.encode(neighbours[1]) + code.encode(neighbours[2])
    expected = as_printed.decentralised_step(list(neighbours), [1 / 3] * 3, gradient, 0.1)
    decentralised_step(w, code.signed(total), gradient, 1 / (3 * code.scale), 0.0, 1.0, 0.1)
    np.testing.assert_allclose(w, expected, rtol=1e-12, atol=1e-12)


def test_eq8_with_weights_multiplied_in_the_clear_by_their_owners():
    rng, code = np.random.default_rng(3), FixedPoint(summands=2, bound=100.0)
    neighbours, gradient, w = quantised(rng, 2, 4), rng.normal(size=4), rng.normal(size=4)
    weights, own = [0.25, 0.5], 0.25
    total = code.encode(weights[0] * neighbours[0]) + code.encode(weights[1] * neighbours[1])
    expected = as_printed.decentralised_step([*neighbours, w.copy()], [*weights, own], gradient, 0.1)
    decentralised_step(w, code.signed(total), gradient, 1 / code.scale, own, 1.0, 0.1)
    np.testing.assert_allclose(w, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("gamma", [0.0, 0.3])
def test_eq8_with_a_smaller_gamma_keeps_the_rest_of_the_own_model(gamma):
    rng, code = np.random.default_rng(4), FixedPoint(summands=1, bound=100.0)
    neighbour, gradient, w = quantised(rng, 4), rng.normal(size=4), rng.normal(size=4)
    expected = (1 - gamma) * w + gamma * neighbour - 0.1 * gradient
    decentralised_step(w, code.signed(code.encode(neighbour)), gradient, 1 / code.scale, 0.0, gamma, 0.1)
    np.testing.assert_allclose(w, expected, rtol=1e-12)


def test_eq9_on_an_opened_sum_of_gradients():
    rng, code = np.random.default_rng(5), FixedPoint(summands=2, bound=100.0)
    V, gradients = rng.normal(size=(5, 3)), quantised(rng, 2, 5, 3)
    pending = code.encode(gradients[0].T.ravel()) + code.encode(gradients[1].T.ravel())
    T = np.ascontiguousarray(V.T)
    move_interaction(T, code.signed(pending), code.scale, 0.05)
    np.testing.assert_allclose(T.T, as_printed.interaction_step(V, gradients.sum(axis=0), 0.05), rtol=1e-12)
