"""Sums side by side are the sums one by one, to the last bit; and what runs for every record counts no references."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numba import jit, njit
from numba.core.errors import TypingError

from prirec.engines import local
from prirec.engines import local as local_samples
from prirec.engines.state import start
from prirec.engines.train import make_engine
from prirec.model import public_half, simd
from prirec.model.equations import add_loss, add_pull, dot, loss, odds
from prirec.util.jit import kernel
from support.cities import SMALL_PAPER, SMALL_ROUNDS, samples_of, small_city

L, D = 16, 11  # lanes, and rows of V


def random(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@kernel
def one_by_one(T, first, x, pull):
    return add_pull(T, first, x, pull)


@kernel
def product(w, first, x):
    return dot(w, first, x)


@cache
def compiled(meaning: Callable) -> Callable:
    """What kernels get instead of it."""
    return njit(lambda *given: meaning(*given))


def real(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape)


def touched(rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(D).astype(np.int32)


def noted(rng: np.random.Generator) -> np.ndarray:
    return (rng.random(D) < 0.3).astype(np.int32)


def some_entries(rng: np.random.Generator, many: int) -> tuple:
    """Features that stand from row 3 on, of which the second and `many` - 1 more count."""
    return 3, rng.permutation(8).astype(np.int32), real(rng, 8).astype(np.float32), 1, 1 + many


def context(rng: np.random.Generator, many: int) -> tuple:
    return 4, real(rng, many).astype(np.float32)


def half_absent(rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(9) < 0.5, 0.0, real(rng, 9)).astype(np.float32)


def words(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(2**64, size=shape, dtype=np.uint64)


GIVEN: dict[Callable, Callable[[np.random.Generator, int], tuple]] = {
    simd.four_sums: lambda rng, n: (real(rng, 23), 3, real(rng, 15 + n)),
    simd.add_times: lambda rng, n: (real(rng, 23), 3, real(rng, 10 + n).astype(np.float32), 0.7),
    simd.pull_of_entries: lambda rng, n: (real(rng, D, L), *some_entries(rng, n), real(rng, 4, L), 2, 8),
    simd.pairs_lanes: lambda rng, n: (
        real(rng, D, L), *context(rng, n), real(rng, 1, L), real(rng, 3, L), 1, real(rng, 1, L), 8
    ),
    simd.collect_features: lambda rng, n: (
        real(rng, D, L), *context(rng, n), 0.7, real(rng, 1, L), real(rng, D, L), 8
    ),
    simd.collect_entries: lambda rng, n: (
        real(rng, D, L), *some_entries(rng, n), 0.7, real(rng, 1, L), 1.3, real(rng, D, L), 8
    ),
    simd.add_row: lambda rng, _: (real(rng, 1, L), real(rng, 1, L), 0.7, 8),
    simd.square_of_rows: lambda rng, n: (real(rng, D, L), touched(rng), n, 8),
    simd.take_rows: lambda rng, n: (real(rng, D, L), noted(rng), touched(rng), n, 0.7, real(rng, D * L), 8),
    simd.add_rows_at: lambda rng, n: (words(rng, D, L), touched(rng), n, words(rng, D * L), 8),
    simd.entries_score: lambda rng, n: (real(rng, 23), *some_entries(rng, n)),
    simd.add_entries: lambda rng, n: (real(rng, 23), *some_entries(rng, n), 0.7),
    simd.note_entries: lambda rng, n: (some_entries(rng, n)[1], 1, 1 + n, 3, noted(rng), touched(rng), 3),
    simd.note_present: lambda rng, _: (half_absent(rng), np.zeros(10, dtype=np.int32), np.zeros(10)),
}  # fmt: skip


def outcome(of: Callable, given: tuple) -> tuple:
    """What it returns, and what its arrays hold then."""
    copies = [one.copy() if isinstance(one, np.ndarray) else one for one in given]
    answer = of(*copies)
    return answer, [one.tolist() for one in copies if isinstance(one, np.ndarray)]


@pytest.mark.parametrize("meaning", list(GIVEN), ids=lambda meaning: meaning.__name__)
def test_compiled_lanes_are_what_python_says_of_them_to_the_last_bit(meaning):
    fast = compiled(meaning)
    for seed in range(18):
        given = GIVEN[meaning](random(seed), seed % 6)
        assert outcome(fast, given) == outcome(meaning, given)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("many", [0, 1, 4, 9, 22])
@pytest.mark.parametrize("dimension", [1, 5, 8, 11, 16, 19])
def test_a_pull_in_lanes_is_the_pull_to_the_last_bit(dimension, many, kind):
    """Of features that are all there; those that are 0 pull nowhere."""
    rng, width = random(dimension + many), simd.whole_lanes(dimension)
    V, x, plain = rng.normal(size=(many + 5, dimension)), rng.normal(size=many).astype(kind), np.zeros(dimension)
    own = one_by_one(np.ascontiguousarray(V.T), 3, x, plain)
    wide, squares = np.full((2, width), np.nan), 0.0
    for at in range(0, width, simd.LANES):
        all_of_them = np.arange(many, dtype=np.int32)
        squares += compiled(simd.pull_of_entries)(simd.in_lanes(V), 3, all_of_them, x, 0, many, wide, 1, at)
    assert wide[1, :dimension].tolist() == plain.tolist()
    assert not wide[1, dimension:].any()
    assert squares == pytest.approx(own, rel=1e-14)


def test_rows_filled_up_to_lanes_are_emptied_again():
    V = random(3).normal(size=(4, 11))
    assert simd.out_of_lanes(simd.in_lanes(V), 11).tolist() == V.T.ravel().tolist()


@pytest.mark.parametrize("shape", [(1, 8), (7, 16), (3,), (0, 8)])
@pytest.mark.parametrize("dtype", [np.float64, np.uint64])
def test_lines_begin_where_memory_hands_them_over(shape, dtype):
    made = simd.in_lines(*shape, dtype=dtype)
    assert (made.shape, made.dtype, made.any()) == (shape, dtype, False)
    assert made.flags.c_contiguous
    assert not made.size or made.ctypes.data % 64 == 0


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


SCATTERED, WHOLE, LOCKED = np.ones(16)[::2], np.ones(8, dtype=np.int64), np.ones(8)
LOCKED.flags.writeable = False


@pytest.mark.parametrize(
    ("x", "out", "reason"),
    [
        (SCATTERED, np.ones(8), "contiguous"),
        (WHOLE, np.ones(8), "contiguous"),
        (np.ones(3), SCATTERED, "contiguous"),
        (np.ones(3), LOCKED, "written to"),
        (np.ones(3), np.ones(8, dtype=np.float32), "written to"),
    ],
)
def test_lanes_refuse_what_cannot_be_read_or_written_straight_from_memory(x, out, reason):
    with pytest.raises(TypingError, match=reason):
        compiled(simd.add_times)(out, 0, x, 1.0)
    assert (out == 1).all()


def test_numbers_of_features_are_no_reals_and_words_of_the_ring_no_numbers():
    with pytest.raises(TypingError, match="int32"):
        compiled(simd.entries_score)(np.ones(8), 0, np.ones(3), np.ones(3), 0, 3)
    with pytest.raises(TypingError, match="uint64"):
        compiled(simd.add_rows_at)(np.ones((4, 8)), np.zeros(4, dtype=np.int32), 1, np.ones(8, dtype=np.uint64), 0)


KERNELS = {
    "rounds": [(local, "contribute_models"), (local, "step_people"), (public_half, "_place_parts")],
    "paper": [(local_samples, "sample_pass")],
}


@pytest.mark.parametrize("preset", KERNELS)
def test_what_runs_for_every_record_counts_no_references(preset, monkeypatch):
    """Numba's counts are locked instructions on lines that all threads share."""
    anew = {name: compiled_anew(getattr(room, name)) for room, name in KERNELS[preset]}
    for room, name in KERNELS[preset]:
        monkeypatch.setattr(room, name, anew[name])
    settings = {"rounds": SMALL_ROUNDS, "paper": SMALL_PAPER}[preset]
    samples = samples_of(small_city(), settings)
    state, engine = start(samples, settings), make_engine("local", samples, settings, threads=1)
    for _ in range(2):  # models are mixed from the second on
        engine.advance(state)
    for name, one in anew.items():
        (assembly,) = one.inspect_asm().values()
        mine = [
            function for function in re.split(r"\n(?=[^\s.#][^\n]*:\n)", assembly) if name in function.split(":")[0]
        ]
        assert mine  # draw_neighbours, which counts, is a function of its own
        assert not any("NRT_incref" in function for function in mine)


def compiled_anew(of: Any) -> Any:
    """The same kernel with its options, so that its machine code can be looked at: what comes from a cache has none."""
    assert of.targetoptions["_nrt"] is False
    return jit(**of.targetoptions)(of.py_func)
