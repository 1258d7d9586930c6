"""The local step, which every engine calls, against a literal loop over Eqs. (3) and (4) as printed."""

import numpy as np
import pytest

from prirec.model import as_printed
from prirec.model.local_step import Own, Rates, local_step, work
from prirec.model.public_half import place_rows, public

ALPHA, LAMBDA_W = 0.3, 0.02
PEOPLE, PLACES, CONTEXT, K = 2, 3, 2, 4
D = PEOPLE + PLACES + CONTEXT


def device(records: int, seed: int) -> tuple[Own, np.ndarray, np.ndarray, np.ndarray]:
    """What a device holds, the catalogue's features (6, 3), V and the device's model."""
    rng = np.random.default_rng(seed)
    own = Own(
        person=rng.normal(size=PEOPLE).astype(np.float32),
        place=rng.integers(6, size=records).astype(np.int32),
        context=rng.normal(size=(records, CONTEXT)).astype(np.float32),
        label=rng.choice(np.array([-1, 1], dtype=np.int8), size=records),
    )
    return own, rng.normal(size=(6, PLACES)).astype(np.float32), rng.normal(size=(D, K)) / 2, rng.normal(size=D + 1)


def literal(
    w: np.ndarray, V: np.ndarray, own: Own, places: np.ndarray, order: np.ndarray, clip: float
) -> tuple[np.ndarray, np.ndarray, float]:
    gradients, losses = [np.zeros((D, K))], 0.0
    for row in order:
        x = np.concatenate([own.person, places[own.place[row]], own.context[row]]).astype(float)
        y = int(own.label[row])
        losses += -np.log(as_printed.sigma(y * as_printed.predict(w, V, x)))
        gradients.append(np.array(as_printed.interaction_gradient(w, V, x, y, 0.0)))
        w = np.array(as_printed.centralised_step(w, as_printed.linear_gradient(w, V, x, y, LAMBDA_W), ALPHA))
    mean = np.sum(gradients, axis=0) / max(len(order), 1)
    length = np.sqrt((mean**2).sum())
    return w, mean * (clip / length if length > clip else 1.0), float(losses)


@pytest.mark.parametrize("clip", [0.05, 1e6], ids=["clipped", "not clipped"])
@pytest.mark.parametrize("records", [0, 1, 2, 17])
def test_local_step_equals_a_literal_loop(records, clip):
    for seed in range(5):
        own, places, V, w = device(records, seed)
        order = np.random.default_rng(seed).permutation(records).astype(np.int32)
        expected_w, expected_contribution, expected_loss = literal(w, V, own, places, order, clip)
        contribution = np.full(K * D, np.nan)
        lost = local_step(
            w,
            public(V, place_rows(places), first=PEOPLE),
            own,
            order,
            Rates(ALPHA, LAMBDA_W, clip),
            work(K, D),
            contribution,
        )
        np.testing.assert_allclose(w, expected_w, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(contribution.reshape(K, D).T, expected_contribution, rtol=1e-10, atol=1e-12)
        assert lost == pytest.approx(expected_loss, rel=1e-10)


def test_without_records_nothing_moves_and_nothing_is_contributed():
    own, places, V, w = device(0, 1)
    before, contribution = w.copy(), np.full(K * D, np.nan)
    empty = np.empty(0, dtype=np.int32)
    lost = local_step(
        w, public(V, place_rows(places), first=PEOPLE), own, empty, Rates(0.3, 0.1, 1.0), work(K, D), contribution
    )
    assert lost == 0.0
    assert w.tolist() == before.tolist()
    assert contribution.tolist() == [0.0] * (K * D)


def test_the_order_of_records_matters():
    own, places, V, w = device(9, 2)
    forwards, backwards = w.copy(), w.copy()
    for moved, order in ((forwards, np.arange(9)), (backwards, np.arange(9)[::-1])):
        rows = np.ascontiguousarray(order).astype(np.int32)
        shared = public(V, place_rows(places), first=PEOPLE)
        local_step(moved, shared, own, rows, Rates(0.3, 0.1, 1.0), work(K, D), np.empty(K * D))
    assert not np.allclose(forwards, backwards)


def test_room_that_was_used_before_leaves_no_trace():
    room, answers = work(K, D), []
    for _ in range(2):
        own, places, V, w = device(5, 3)
        contribution = np.empty(K * D)
        shared = public(V, place_rows(places), first=PEOPLE)
        local_step(w, shared, own, np.arange(5, dtype=np.int32), Rates(0.3, 0.1, 1.0), room, contribution)
        answers.append((w.tobytes(), contribution.tobytes()))
    assert answers[0] == answers[1]


def test_a_clipped_contribution_is_as_long_as_the_clip():
    own, places, V, w = device(5, 4)
    contribution = np.empty(K * D)
    shared = public(V, place_rows(places), first=PEOPLE)
    local_step(w, shared, own, np.arange(5, dtype=np.int32), Rates(0.3, 0.1, 0.01), work(K, D), contribution)
    assert np.linalg.norm(contribution) == pytest.approx(0.01, rel=1e-12)
