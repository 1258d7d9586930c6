"""The fast engine sums in 32 bits while it can. Where it no longer can, it goes on in 64, with the oracle's bits."""

import numpy as np
import pytest

from prirec.engines import local
from prirec.engines.train import make_engine
from prirec.errors import UsageError
from prirec.model.sample_pass import narrow, table
from prirec.sharing.fixed_point import FixedPoint
from support import messages
from support.cities import SMALL_PAPER, change, same_state, samples_of, small_city

CITY = small_city()
STARTS = {"inside": 0.0, "near the edge": 21.0, "beyond it": 40.0, "far beyond it": 130.0}
VARIANTS = {
    "as preset": {},
    "batch 7": {"interaction": {"batch": 7}},
    "in windows": {"order": "windows"},
    "random, batch 7": {"neighbours": {"kind": "random"}, "interaction": {"batch": 7}},
    "40 fraction bits": {"ring": {"fraction_bits": 40, "bound": 1000.0}},
}


def fast_and_oracle(settings, begin, *, passes=3):
    """The narrow ring of the fast engine after each pass; the two end in the same state, pass by pass."""
    samples, left = samples_of(CITY, settings), []
    engine, plain = local.engine(samples, settings), make_engine("plain", samples, settings)
    fast, oracle = engine.start(), plain.start()
    fast.linear[:], oracle.linear[:] = begin, begin
    for _ in range(passes):
        assert engine.advance(fast) == plain.advance(oracle)
        assert same_state(fast, oracle)
        left.append(engine.narrow)
    return left


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
@pytest.mark.parametrize("begin", STARTS.values(), ids=STARTS)
def test_same_bits_on_both_sides_of_the_edge(begin, changes):
    fast_and_oracle(change(SMALL_PAPER, **changes), begin)


@pytest.mark.parametrize("batch", [1, 7])
def test_same_bits_when_a_model_leaves_in_the_middle_of_a_pass(batch):
    """Everyone starts at 0, inside the edge, and a few long steps later somebody is beyond it."""
    settings = change(SMALL_PAPER, linear={"alpha": 30.0}, interaction={"batch": batch})
    assert fast_and_oracle(settings, 0.0)[0] is None


def test_a_run_that_fits_stays_narrow():
    assert all(ring is not None for ring in fast_and_oracle(SMALL_PAPER, 0.0))


@pytest.mark.parametrize("bound", [20.0, 22.0], ids=["inside the edge", "beyond the edge"])
@pytest.mark.parametrize("engine", ["plain", "local"])
def test_a_model_that_leaves_the_wide_ring_is_refused(engine, bound):
    settings = change(SMALL_PAPER, ring={"bound": bound}, linear={"alpha": 30.0})
    samples = samples_of(CITY, settings)
    motor = make_engine(engine, samples, settings)
    with pytest.raises(UsageError, match=messages.beyond_the_bound(bound)):
        motor.advance(motor.start())


@pytest.mark.parametrize("fraction_bits", [1, 24, 40])
@pytest.mark.parametrize("summands", [1, 30, 100_000])
def test_the_largest_sum_of_a_narrow_ring_is_the_wide_one(summands, fraction_bits):
    wide = FixedPoint(summands=summands, bound=2.0**20 / summands, fraction_bits=fraction_bits)
    small = narrow(wide)
    for sign in (1.0, -1.0):
        largest = np.array([sign * small.bound])
        sums = [code.signed(code.encode(largest) * code.dtype.type(summands)) for code in (small, wide)]
        assert sums[0][0] == sums[1][0]
    assert narrow(small) is None


def test_rows_of_a_table_begin_on_cache_lines_and_are_padded_with_zeros():
    W = np.arange(30.0).reshape(3, 10)
    for bits in (32, 64):
        code = FixedPoint(summands=3, bound=100.0, fraction_bits=16, ring_bits=bits)
        made = table(W, code)
        assert (made.rows[:, :10] == code.encode(W)).all()
        assert not made.rows[:, 10:].any()
        assert made.rows.ctypes.data % 64 == made.rows.strides[0] % 64 == made.total.ctypes.data % 64 == 0
        assert table(W * 4, code) is None
