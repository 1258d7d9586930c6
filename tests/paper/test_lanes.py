"""Sums side by side are the sums one by one, to the last bit; and what runs for every record counts no references."""

import numpy as np
import pytest
from numba import jit
from numba.core.errors import TypingError

from prirec.compiled import kernel
from prirec.model import lanes
from prirec.model.kernels import add_loss, add_pull, add_pull_of, dot, loss, odds
from prirec.model.round_steps import Encoder, contribute_models, step_people
from prirec.model.sample_pass import sample_pass


def random(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@kernel
def one_by_one(T, first, x, pull):
    return add_pull(T, first, x, pull)


@kernel
def side_by_side(V, first, x, pull):
    return add_pull_of(V, first, x, pull)


@kernel
def four(w, first, x):
    return lanes.four_sums(w, first, x)


@kernel
def product(w, first, x):
    return dot(w, first, x)


@kernel
def lost(margins):
    losses, product = 0.0, 1.0
    for margin in margins:
        losses, product = add_loss(losses, product, margin, odds(1.0, margin))
    return losses + np.log(product)


@kernel
def lost_one_by_one(margins):
    losses = 0.0
    for margin in margins:
        losses += loss(1.0, margin)
    return losses


def pulled(seed: int, dimension: int, many: int, first: int, kind: type) -> tuple[tuple, tuple]:
    """A pull of features first, first + 1, ... to which something was added before: one by one, and side by side."""
    rng = random(seed)
    V, x = rng.normal(size=(first + many + 2, dimension)), rng.normal(size=many).astype(kind)
    before = rng.normal(size=dimension)
    plain, wide = before.copy(), np.zeros(lanes.whole_lanes(dimension))
    wide[:dimension] = before
    square = one_by_one(np.ascontiguousarray(V.T), first, x, plain)
    fast = side_by_side(lanes.in_lanes(V), first, x, wide)
    assert not wide[dimension:].any()
    return (square, plain.tolist()), (fast, wide[:dimension].tolist())


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("many", [0, 1, 4, 9, 22])
@pytest.mark.parametrize("dimension", [1, 5, 8, 11, 16, 19])
def test_a_pull_in_lanes_is_the_pull_to_the_last_bit(dimension, many, kind):
    plain, fast = pulled(dimension + many, dimension, many, 3, kind)
    assert plain == fast


def test_without_a_compiler_lanes_say_the_same():
    rng = random(5)
    V, x, w = rng.normal(size=(7, lanes.LANES)), rng.normal(size=4), rng.normal(size=23)
    plain, fast = np.ones(lanes.LANES), np.ones(lanes.LANES)
    assert lanes.add_pull_lanes(V, 2, x, plain, 0, 0.0) == side_by_side(V, 2, x, fast)
    assert plain.tolist() == fast.tolist()
    assert lanes.four_sums(w, 3, w[2:21]) == four(w, 3, w[2:21])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("many", [0, 1, 3, 4, 7, 22, 445])
def test_a_product_is_four_interleaved_sums(many, kind):
    w, x, sums = random(many).normal(size=many + 2), random(many + 1).normal(size=many).astype(kind), [0.0] * 4
    for d, (own, value) in enumerate(zip(w[2:].tolist(), x.tolist(), strict=True)):
        sums[d % 4 if d < many // 4 * 4 else 0] += own * value
    assert product(w, 2, x) == (sums[0] + sums[1]) + (sums[2] + sums[3])


@pytest.mark.parametrize("spread", [0.1, 3.0, 40.0, 1000.0])
def test_one_logarithm_for_many_losses_is_the_sum_of_theirs(spread):
    margins = random(7).normal(scale=spread, size=5000)
    assert lost(margins) == pytest.approx(lost_one_by_one(margins), rel=1e-12)


@pytest.mark.parametrize("margin", [-1e300, -800.0, -35.0, -34.9, -1.0, 0.0, 1.0, 36.0, 800.0, np.inf])
def test_a_loss_is_right_for_any_score(margin):
    margins = np.array([margin])
    assert lost(margins) == pytest.approx(lost_one_by_one(margins), rel=1e-12, abs=1e-15)
    assert np.isnan(lost(np.array([margin, np.nan])))


SCATTERED, WHOLE, LOCKED = np.ones(16)[::2], np.ones(8, dtype=np.int64), np.ones(8)
LOCKED.flags.writeable = False


@pytest.mark.parametrize(
    ("x", "pull", "reason"),
    [
        (SCATTERED, np.ones(8), "contiguous"),
        (WHOLE, np.ones(8), "contiguous"),
        (np.ones(3), SCATTERED, "contiguous"),
        (np.ones(3), LOCKED, "written to"),
        (np.ones(3), np.ones(8, dtype=np.float32), "written to"),
    ],
)
def test_lanes_refuse_what_cannot_be_read_or_written_straight_from_memory(x, pull, reason):
    with pytest.raises(TypingError, match=reason):
        side_by_side(np.ones((9, 8)), 0, x, pull)
    assert (pull == 1).all()


@pytest.mark.parametrize(
    ("shape", "first", "many"), [((4, 5), 0, 5), ((4, 16), 0, 8), ((4, 8), 0, 5), ((2, 8), 0, 8), ((4, 8), 2, 8)]
)
def test_lanes_refuse_shapes_that_would_reach_beyond_an_array(shape, first, many):
    pull = np.ones(many)
    with pytest.raises(ValueError, match="whole lanes"):
        side_by_side(np.ones(shape), first, np.ones(3), pull)
    assert (pull == 1).all()


def test_products_refuse_numbers_that_do_not_stand_next_to_each_other():
    with pytest.raises(TypingError, match="contiguous"):
        four(np.ones(8), 0, SCATTERED)


def test_what_runs_for_every_record_counts_no_references():
    """Numba's counts are locked instructions on lines that all threads share."""
    assert all(one.targetoptions["_nrt"] is False for one in (contribute_models, step_people, sample_pass))
    anew = jit(**contribute_models.targetoptions)(contribute_models.py_func)
    W, cohort = np.ones((3, 4)), np.zeros(3, dtype=np.int32)
    sums, members = np.zeros((1, 4), dtype=np.uint64), np.zeros(1, dtype=np.int64)
    there, code = np.ones(3, dtype=np.bool_), Encoder(2.0**24, 2.0)
    assert anew(W, (0, 3), there, cohort, np.zeros((1, 4)), 1.0, code, np.empty(4), sums, members)
    assert members.tolist() == [3]
    assert (sums == 3 * 2**23).all()
    (assembly,) = anew.inspect_asm().values()
    assert "NRT_incref" not in assembly
