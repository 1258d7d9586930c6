"""The local step, which every engine calls, against a literal loop over what is printed of it."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.model import as_printed
from prirec.model.local_step import LatentRates, Rates, local_step
from support import messages
from support.reference_step import CATALOGUE, Device, Shape, Stepped, device, literal, room_for, stepped

LATENT = LatentRates(alpha=0.2, lambda_u=0.05, lambda_p=0.03, weight=0.5)
RATES = Rates(0.3, 0.02, 1e6, LATENT)
CLIPPED = RATES._replace(clip=0.05)
SHAPES = [
    *(Shape(K=K, latent=K % 3) for K in (1, 8, 9, 20)), Shape(people=0), Shape(places=0), Shape(context=0),
    Shape(people=22, places=58, context=9, K=5), Shape(people=0, places=1, context=0, K=17),
]  # fmt: skip
WITH_AND_WITHOUT = pytest.mark.parametrize("latent", [0, 3], ids=["no latent part", "K' = 3"])


def in_order(of: Device) -> np.ndarray:
    return np.arange(len(of.own.place), dtype=np.int32)


def bits(found: Stepped) -> tuple[bytes, ...]:
    return tuple(part.tobytes() for part in (found.w, found.u, found.gradient, found.factors))


def assert_as_printed(here: Device, rates: Rates, seed: int = 0) -> Stepped:
    """The kernel does to a device what the literal loop says, in some order."""
    order = np.random.default_rng(seed).permutation(len(here.own.place))
    wanted, found = literal(here, order, rates), stepped(here, order, rates)
    for name in ("w", "u", "gradient", "factors"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-10, atol=1e-12)
    assert found.loss == pytest.approx(wanted.loss, rel=1e-10)
    return found


@WITH_AND_WITHOUT
@pytest.mark.parametrize("rates", [CLIPPED, RATES], ids=["clipped", "not clipped"])
@pytest.mark.parametrize("records", [0, 1, 2, 17])
def test_local_step_equals_a_literal_loop(records, rates, latent):
    for seed in range(5):
        assert_as_printed(device(records, seed, Shape(latent=latent)), rates, seed)


@pytest.mark.parametrize("lambda_w", [0.0, 1.0, 1 / 0.6, 2.0], ids=["none", "0.4", "all", "beyond 0"])
def test_a_penalty_that_takes_nearly_everything_is_right_over_hundreds_of_records(lambda_w):
    """0.4 is kept of W_i in each of 400 records, 1e-159 of it in all; or nothing; or -0.2."""
    assert_as_printed(device(400, 1), RATES._replace(lambda_w=lambda_w))


@pytest.mark.parametrize("present", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_local_step_of_any_shape_equals_a_literal_loop(shape, present):
    for records in (0, 7):
        assert_as_printed(device(records, 3, shape, present=present), RATES)


def test_features_that_are_0_touch_nothing():
    here = device(9, 2)
    for features in (here.own.person[1:], here.places[::2], here.places[:, 1], here.own.context[:, 0]):
        features[...] = 0.0
    found = assert_as_printed(here, RATES)
    assert np.flatnonzero(found.gradient.any(axis=1)).tolist() == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("wrong", "other"),
    [
        ("room", Shape(context=1)), ("room", Shape(K=12)), ("contribution", Shape(context=3)),
        ("contribution", Shape(K=12)), ("own", Shape(people=1)), ("own", Shape(people=3, places=2)),
        ("own", Shape(context=3)), ("w", Shape(places=2)),
    ],
    ids=str,
)  # fmt: skip
def test_arrays_of_another_shape_are_refused(wrong, other):
    """Compiled code would write beyond the end of an array."""
    here, there = device(3, 1), device(3, 1, other)
    (room, made), (other_room, other_made) = room_for(here.shape, 3), room_for(other, 3)
    given = {"w": here.w, "own": here.own, "room": room, "contribution": made}
    given[wrong] = {"w": there.w, "own": there.own, "room": other_room, "contribution": other_made}[wrong]
    with pytest.raises(
        ValueError,
        match=messages.any_of(
            messages.LANES_NOT_WHOLE, messages.ROWS_AND_FEATURES_UNEVEN, messages.ROOM_OF_ANOTHER_SIZE
        ),
    ):
        local_step(
            given["w"], here.u, here.shared(), given["own"], in_order(here), RATES, given["room"],
            given["contribution"],
        )  # fmt: skip


def test_the_latent_gradients_as_printed_are_those_of_the_objective():
    rng, tiny = np.random.default_rng(0), 1e-6
    for y in (-1, 1):
        u, p, flat, lambdas = rng.normal(size=4), rng.normal(size=4), float(rng.normal()), (0.3, 0.7)
        of_u, of_p = as_printed.latent_gradients(flat, y, u, p, *lambdas)
        for k in range(4):
            step = tiny * np.eye(4)[k]
            rise_u = [as_printed.latent_objective(flat, y, u + s * step, p, *lambdas) for s in (-1, 1)]
            rise_p = [as_printed.latent_objective(flat, y, u, p + s * step, *lambdas) for s in (-1, 1)]
            assert of_u[k] == pytest.approx((rise_u[1] - rise_u[0]) / (2 * tiny), rel=1e-6, abs=1e-8)
            assert of_p[k] == pytest.approx((rise_p[1] - rise_p[0]) / (2 * tiny), rel=1e-6, abs=1e-8)


def test_what_a_person_adds_about_places_is_the_gradient_of_the_summed_objective():
    """With u held still, by finite differences: a place with three records has three times the penalty."""
    here, tiny = device(9, 7, Shape(latent=3)), 1e-6
    still = RATES._replace(alpha=0.0, latent=LATENT._replace(alpha=0.0, weight=1.0))
    found = stepped(here, in_order(here), still).factors

    def objective(P: np.ndarray) -> float:
        total = 0.0
        for row, j in enumerate(here.own.place):
            x = np.concatenate([here.own.person, here.places[j], here.own.context[row]]).astype(float)
            flat = as_printed.predict(here.w, here.V, x)
            total += as_printed.latent_objective(flat, int(here.own.label[row]), here.u, P[j], 0.0, LATENT.lambda_p)
        return total

    assert len(np.unique(here.own.place)) < len(here.own.place)
    for j in range(CATALOGUE):
        for k in range(3):
            moved = [here.P.copy(), here.P.copy()]
            moved[0][j, k] -= tiny
            moved[1][j, k] += tiny
            slope = (objective(moved[1]) - objective(moved[0])) / (2 * tiny)
            assert found[j, k] == pytest.approx(slope, rel=1e-6, abs=1e-7)


@WITH_AND_WITHOUT
def test_without_records_nothing_moves_and_nothing_is_contributed(latent):
    here = device(0, 1, Shape(latent=latent))
    before = here.w.tobytes(), here.u.tobytes()
    found = stepped(here, in_order(here), CLIPPED)
    assert found.loss == 0.0
    assert (found.w.tobytes(), found.u.tobytes()) == before
    assert not found.gradient.any()
    assert not found.factors.any()


@WITH_AND_WITHOUT
def test_the_order_of_records_matters(latent):
    forwards, backwards = (device(9, 2, Shape(latent=latent)) for _ in range(2))
    stepped(forwards, in_order(forwards), RATES)
    stepped(backwards, in_order(backwards)[::-1], RATES)
    assert not np.allclose(forwards.w, backwards.w)
    assert latent == 0 or not np.allclose(forwards.u, backwards.u)


@pytest.mark.parametrize("shape", [Shape(latent=3), Shape(people=9, places=30, K=11)], ids=str)
def test_room_that_was_used_before_leaves_no_trace(shape):
    """By somebody with more records, at other places, with other features."""
    answers = []
    for earlier in (None, device(17, 8, shape, present=0.4)):
        room, made = room_for(shape, 17)
        for here in (earlier, device(5, 3, shape, present=0.2)):
            if here is not None:
                local_step(here.w, here.u, here.shared(), here.own, in_order(here), CLIPPED, room, made)
                assert not room.gradient.any()
                assert not room.noted.any()
        answers.append((here.w.tobytes(), here.u.tobytes(), made.whole().tobytes()))
    assert answers[0] == answers[1]


@WITH_AND_WITHOUT
def test_a_clipped_contribution_is_as_long_as_the_clip_all_in_all(latent):
    here = device(5, 4, Shape(latent=latent))
    found = stepped(here, in_order(here), CLIPPED)
    assert np.sqrt((found.gradient**2).sum() + (found.factors**2).sum()) == pytest.approx(0.05, rel=1e-12)
    assert found.factors.any() == (latent > 0)


def test_renumbering_places_changes_nothing():
    here, other = device(17, 5, Shape(latent=3)), device(17, 5, Shape(latent=3))
    number = np.random.default_rng(0).permutation(CATALOGUE).astype(np.int32)  # of each place in the other catalogue
    back = np.argsort(number)
    moved = replace(
        other, own=other.own._replace(place=number[other.own.place]), places=other.places[back], P=other.P[back]
    )
    found, again = stepped(here, in_order(here), CLIPPED), stepped(moved, in_order(moved), CLIPPED)
    assert bits(replace(again, factors=again.factors[number])) == bits(found)


def test_whoever_has_no_record_of_a_place_adds_nothing_about_it():
    here = device(4, 6, Shape(latent=3))
    found = stepped(here, in_order(here), RATES)
    assert np.flatnonzero(found.factors.any(axis=1)).tolist() == np.unique(here.own.place).tolist()
