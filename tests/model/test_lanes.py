"""Sums side by side are the sums one by one, to the last bit; and what runs for every record counts no references."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import jit, njit
from numba.core.errors import TypingError

from prirec.engines import local
from prirec.engines import local as local_samples
from prirec.engines.train import make_engine, start
from prirec.model import lanes, local_step, public_half, simd
from prirec.model.equations import add_loss, add_pull, loss, odds
from prirec.model.lanes import dot
from prirec.util.jit import Kernel, kernel, vector_instructions
from support import messages
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


def real(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape)


def touched(rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(D).astype(np.int32)


def noted(rng: np.random.Generator) -> np.ndarray:
    return (rng.random(D) < 0.3).astype(np.int32)


def some_entries(rng: np.random.Generator, many: int) -> tuple:
    """Features that stand from row 3 on, of which the second and `many` - 1 more count."""
    return 3, rng.permutation(8).astype(np.int32), real(rng, 8).astype(np.float32), 1, 1 + many


def half_absent(rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(9) < 0.5, 0.0, real(rng, 9)).astype(np.float32)


def words(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(2**64, size=shape, dtype=np.uint64)


# Primitives: vector instructions and plain loops


def try_reading(read, read_flat, write, write_flat, table, flat, out):
    write(out, 2, 8, read(table, 1, 0))
    write(out, 1, 8, read_flat(flat, 3))
    write_flat(flat, 9, read(table, 3, 8))


def try_arithmetic(read, write, plus, minus, times, table, out):
    a, b = read(table, 0, 8), read(table, 2, 0)
    write(out, 0, 0, plus(a, b))
    write(out, 1, 0, minus(a, b))
    write(out, 2, 0, times(a, b))


def try_sums(read, times, spread, sum_of, table, value):
    return sum_of(times(read(table, 1, 8), spread(value)))


def try_vectors(dot, add_times, out, first, x, much):
    before = dot(out, first, x)
    add_times(out, first, x, much)
    return before


def try_prefetch(prefetch, prefetch_row, table):
    prefetch(table, 8)
    prefetch_row(table, 1)


TRIED: dict[Callable, Callable[[np.random.Generator, int], tuple]] = {
    try_reading: lambda rng, n: [
        (real(rng, 4, L), real(rng, 30), real(rng, 4, L)),
        (words(rng, 4, L), words(rng, 30), words(rng, 4, L)),
    ][n % 2],
    try_arithmetic: lambda rng, n: [(real(rng, 4, L), real(rng, 4, L)), (words(rng, 4, L), words(rng, 4, L))][n % 2],
    try_sums: lambda rng, _: (real(rng, 2, L), 0.7),
    try_vectors: lambda rng, n: (real(rng, 23), 3, real(rng, 10 + n // 2).astype([np.float32, np.float64][n % 2]), 0.7),
    try_prefetch: lambda rng, _: (real(rng, 2, L),),
}


def primitives_of(task: Callable) -> list[str]:
    return [name for name in signature(task).parameters if hasattr(lanes, name)]


@pytest.mark.parametrize("task", list(TRIED), ids=lambda task: task.__name__)
def test_vector_instructions_give_what_plain_loops_give_to_the_last_bit(task):
    names = primitives_of(task)
    fast = [getattr(simd, name, getattr(lanes, name)).dispatcher for name in names]
    plain = [njit(getattr(lanes, name).__wrapped__) for name in names]
    compiled = njit(task)
    for seed in range(18):
        given = TRIED[task](random(seed), seed % 6)
        assert outcome(compiled, (*fast, *given)) == outcome(compiled, (*plain, *given))


def test_every_primitive_has_vector_instructions_and_is_tried():
    """Those of this Numba work: no kernel has fallen back to plain loops unnoticed."""
    primitives = {name for name, one in vars(lanes).items() if isinstance(one, Kernel) and one._instructions}
    assert vector_instructions("prirec.model.simd") is simd
    assert primitives <= {name for task in TRIED for name in primitives_of(task)}
    assert all(getattr(lanes, name).dispatcher is getattr(simd, name).dispatcher for name in primitives)


ENGINE = """
from hashlib import sha256
from prirec.engines.train import make_engine, start
from support.cities import SMALL_ROUNDS, samples_of, small_city
samples = samples_of(small_city(), SMALL_ROUNDS)
state, engine = start(samples, SMALL_ROUNDS), make_engine("local", samples, SMALL_ROUNDS, threads=1)
for _ in range(2):  # models are mixed from the second on
    engine.advance(state)
print(sha256(state.models.interaction.tobytes() + state.models.linear.tobytes()).hexdigest())
"""


@pytest.mark.long  # every kernel is compiled a second time; each primitive by itself is in the short suite
def test_a_run_in_plain_loops_gives_the_same_bits():
    tests = Path(__file__).parents[1]
    answers = [
        subprocess.run(
            [sys.executable, "-c", ENGINE], env={**os.environ, "PRIREC_SIMD": simd, "PYTHONPATH": str(tests)},
            check=True, capture_output=True, text=True,
        ).stdout
        for simd in ("0", "1")
    ]  # fmt: skip
    assert answers[0] == answers[1]


@pytest.mark.parametrize("broken", ["raises", "wrong"])
def test_plain_loops_take_over_where_vector_instructions_do_not_work(broken, monkeypatch):
    def works():
        if broken == "raises":
            raise AttributeError("no such attribute in this Numba")
        return False

    monkeypatch.setattr(simd, "works", works)
    why = "they raise AttributeError" if broken == "raises" else "other bits than the plain loops"
    with pytest.warns(RuntimeWarning, match=why):
        assert vector_instructions.__wrapped__("prirec.model.simd") is None
    monkeypatch.setenv("PRIREC_SIMD", "0")
    assert vector_instructions.__wrapped__("prirec.model.simd") is None  # chosen, so there is nothing to warn of


# Kernels written in primitives, and what they mean in NumPy


def pull_of_entries(V, first, feature, value, start, stop, out, row, at):
    numbers = first + feature[start:stop].astype(np.int64)
    total, squares = np.zeros(8), np.zeros(8)
    for d, x in zip(numbers.tolist(), value[start:stop].tolist(), strict=True):
        term = V[d, at : at + 8] * x
        total += term
        squares += term * term
    out[row, at : at + 8] = total
    return added_up(squares)


def square_of_rows(G, touched, many, at):
    sums = np.zeros((2, 8))
    for place, d in enumerate(touched[:many].tolist()):
        row = G[d, at : at + 8]
        sums[place % 2 if place < many // 2 * 2 else 0] += row * row
    return added_up(sums[0] + sums[1])


def added_up(numbers):
    while len(numbers) > 1:
        numbers = numbers[: len(numbers) // 2] + numbers[len(numbers) // 2 :]
    return float(numbers[0])


def entries_score(w, first, feature, value, start, stop):
    total = 0.0
    for e in range(start, stop):
        total += float(w[first + feature[e]]) * float(value[e])
    return total


def add_entries(w, first, feature, value, start, stop, much):
    for e in range(start, stop):
        w[first + feature[e]] += much * float(value[e])


def note_entries(feature, start, stop, first, noted, touched, many):
    for e in range(start, stop):
        d = first + feature[e]
        touched[many] = d
        many += 1 - int(noted[d])
        noted[d] = 1
    return many


def note_present(x, feature, value):
    many = 0
    for d in range(x.size):
        feature[many], value[many] = d, x[d]
        many += int(x[d] != 0.0)
    return many


GIVEN: dict[str, tuple[Callable, Callable, Callable[[np.random.Generator, int], tuple]]] = {
    "pull": (
        public_half.pull_of_entries, pull_of_entries,
        lambda rng, n: (real(rng, D, L), *some_entries(rng, n), real(rng, 4, L), 2, 8),
    ),
    "square": (
        local_step._square_of_rows, square_of_rows, lambda rng, n: (real(rng, D, L), touched(rng), n, 8)
    ),
    "score": (local_step.entries_score, entries_score, lambda rng, n: (real(rng, 23), *some_entries(rng, n))),
    "add": (local_step.add_entries, add_entries, lambda rng, n: (real(rng, 23), *some_entries(rng, n), 0.7)),
    "note": (
        local_step.note_entries, note_entries,
        lambda rng, n: (some_entries(rng, n)[1], 1, 1 + n, 3, noted(rng), touched(rng), 3),
    ),
    "present": (
        local_step.note_present, note_present,
        lambda rng, _: (half_absent(rng), np.zeros(10, dtype=np.int32), np.zeros(10)),
    ),
}  # fmt: skip


def outcome(of: Callable, given: tuple) -> tuple:
    """What it returns, and what its arrays hold then."""
    copies = [one.copy() if isinstance(one, np.ndarray) else one for one in given]
    answer = of(*copies)
    return answer, [one.tolist() for one in copies if isinstance(one, np.ndarray)]


@pytest.mark.parametrize("name", list(GIVEN))
def test_kernels_in_lanes_are_what_numpy_says_of_them_to_the_last_bit(name):
    fast, meaning, give = GIVEN[name]
    for seed in range(18):
        given = give(random(seed), seed % 6)
        assert outcome(fast, given) == outcome(meaning, given)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("many", [0, 1, 4, 9, 22])
@pytest.mark.parametrize("dimension", [1, 5, 8, 11, 16, 19])
def test_a_pull_in_lanes_is_the_pull_to_the_last_bit(dimension, many, kind):
    """Of features that are all there; those that are 0 pull nowhere."""
    rng, width = random(dimension + many), lanes.whole_lanes(dimension)
    V, x, plain = rng.normal(size=(many + 5, dimension)), rng.normal(size=many).astype(kind), np.zeros(dimension)
    own = one_by_one(np.ascontiguousarray(V.T), 3, x, plain)
    wide, squares = np.full((2, width), np.nan), 0.0
    for at in range(0, width, lanes.LANES):
        all_of_them = np.arange(many, dtype=np.int32)
        squares += public_half.pull_of_entries(lanes.in_lanes(V), 3, all_of_them, x, 0, many, wide, 1, at)
    assert wide[1, :dimension].tolist() == plain.tolist()
    assert not wide[1, dimension:].any()
    assert squares == pytest.approx(own, rel=1e-14)


def test_rows_filled_up_to_lanes_are_emptied_again():
    V = random(3).normal(size=(4, 11))
    assert lanes.out_of_lanes(lanes.in_lanes(V), 11).tolist() == V.T.ravel().tolist()


@pytest.mark.parametrize("shape", [(1, 8), (7, 16), (3,), (0, 8)])
@pytest.mark.parametrize("dtype", [np.float64, np.uint64])
def test_rows_begin_on_cache_lines(shape, dtype):
    made = lanes.in_lines(*shape, dtype=dtype)
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
        (SCATTERED, np.ones(8), messages.ARRAY_NOT_CONTIGUOUS),
        (WHOLE, np.ones(8), messages.ARRAY_NOT_CONTIGUOUS),
        (np.ones(3), SCATTERED, messages.ARRAY_NOT_CONTIGUOUS),
        (np.ones(3), LOCKED, messages.ARRAY_NOT_WRITABLE),
        (np.ones(3), np.ones(8, dtype=np.float32), messages.ARRAY_NOT_WRITABLE),
    ],
)
def test_lanes_refuse_what_cannot_be_read_or_written_straight_from_memory(x, out, reason):
    with pytest.raises(TypingError, match=reason):
        simd.add_times(out, 0, x, 1.0)
    assert (out == 1).all()


def test_ring_words_are_not_taken_for_real_numbers():
    with pytest.raises(TypingError, match=messages.VECTORS_OF_DIFFERENT_KINDS):
        add_rows(np.ones((4, 8)), np.ones((4, 8), dtype=np.uint64))


@kernel
def add_rows(total, rows):
    lanes.write(total, 0, 0, lanes.plus(lanes.read(total, 0, 0), lanes.read(rows, 0, 0)))


KERNELS = {
    "rounds": [(local, "contribute_models"), (local, "step_people"), (public_half, "_place_parts")],
    "paper": [(local_samples, "sample_pass")],
}


@pytest.mark.parametrize("preset", KERNELS)
def test_kernels_that_run_for_every_record_count_no_references(preset, monkeypatch):
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
