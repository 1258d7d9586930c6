"""A contribution in whole numbers is never longer than it claims to be, and hardly shorter."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from prirec.errors import UsageError
from prirec.privacy import norm as norms
from prirec.privacy.norm import Norm, clipped, fine_enough, scaled, within
from support import messages
from support.hypothesis_settings import PATIENT

VECTORS = arrays(
    np.float64, array_shapes(max_dims=2, max_side=40), elements=st.floats(allow_nan=False, allow_infinity=False)
)
NORMS = st.builds(Norm, st.floats(0.1, 100), st.integers(4, 24))


def squares(whole: np.ndarray) -> int:
    """The slow twin: Python's integers."""
    return sum(int(q) ** 2 for q in whole.ravel())


@PATIENT
@given(values=VECTORS, norm=NORMS)
def test_no_vector_is_longer_than_its_norm_after_rounding(values, norm):
    for whole in (scaled(values, norm), clipped(values, norm)):
        assert whole.shape == values.shape
        assert squares(whole) <= (Fraction(norm.sensitivity) * 2**norm.fraction_bits) ** 2


def test_rounding_alone_would_make_it_longer():
    """The planted mistake: 10,000 entries of 0.01 have norm 1 exactly, and 2.56 units each round up to 3."""
    values, norm = np.full(10_000, 0.01), Norm(1.0, 8)
    assert not within(np.rint(values * 256).astype(np.int64), norm)
    assert within(scaled(values, norm), norm)


@PATIENT
@given(whole=arrays(np.int64, st.integers(0, 9), elements=st.integers(-(2**62), 2**62)), norm=NORMS)
def test_the_check_is_exact_and_nothing_in_it_wraps(whole, norm):
    assert within(whole, norm) == (squares(whole) <= norm.units**2)


def test_the_check_tells_a_square_from_one_more():
    norm = Norm(5.0, 1)  # 10 units
    assert within(np.array([6, 8]), norm)
    assert not within(np.array([6, 8, 1]), norm)
    assert within(np.array([[2**31 - 1]]), Norm(float(2**31 - 1), 0))


def test_a_scaled_vector_loses_no_more_than_rounding_may_take():
    rng = np.random.default_rng(1)
    for entries in (1, 7, 100, 1000):
        norm = fine_enough(1.0, entries)
        length = math.sqrt(squares(scaled(rng.random(entries), norm))) / 2**norm.fraction_bits
        assert 1 - 2 / 512 < length <= 1


def test_a_short_vector_is_clipped_to_nothing_but_itself_and_scaled_to_the_norm():
    short, norm = np.array([0.25, 0.0, -0.5]), Norm(2.0, 10)
    assert clipped(short, norm).tolist() == [256, 0, -512]
    long = scaled(short, norm)
    assert long[2] == pytest.approx(-2 * long[0], abs=2)
    assert 2 * 1023 < math.sqrt(squares(long)) <= 2048
    assert clipped(short * 100, norm).tolist() == long.tolist()


def test_what_the_scaling_lets_through_is_moved_toward_zero(monkeypatch):
    """Were the room for rounding forgotten, the check would still hold the norm."""
    monkeypatch.setattr(norms, "_target", lambda direction, norm: norm.sensitivity)
    values = np.concatenate([np.full(5000, 0.01), np.full(5000, -0.01), [0.0]])
    whole = scaled(values, Norm(1.0, 8))
    assert within(whole, Norm(1.0, 8))
    assert whole.tolist() == [2] * 5000 + [-2] * 5000 + [0]


def test_zeros_cost_nothing_so_a_sparse_vector_may_be_passed_without_them():
    rng, norm = np.random.default_rng(2), Norm(1.0, 12)
    visits = np.zeros(118_598)
    places = rng.choice(visits.size, 60, replace=False)
    visits[places] = rng.integers(1, 9, 60)
    whole = scaled(visits, norm)
    assert whole[places].tolist() == scaled(visits[places], norm).tolist()
    assert np.count_nonzero(whole) == 60
    # had all 118,598 entries been counted, 4 % of the norm would be gone
    assert math.sqrt(squares(whole)) / 4096 > 0.997


@pytest.mark.parametrize("make", [scaled, clipped])
def test_a_zero_vector_stays_zero(make):
    assert make(np.zeros(5), Norm(1.0, 10)).tolist() == [0] * 5
    assert make(np.zeros(0), Norm(1.0, 10)).tolist() == []


def test_where_rounding_is_too_coarse_the_norm_still_holds():
    """A million entries at 8 bits: √d / 2^(f+1) is nearly twice the norm."""
    norm = Norm(1.0, 8)
    whole = scaled(np.ones(1_000_000), norm)
    assert squares(whole) == 0
    crowded = scaled(np.ones(70_000), Norm(1.0, 8))
    assert within(crowded, norm)
    mixed = scaled(np.concatenate([np.full(30_000, 1.5), np.full(40_000, 0.2)]), norm)
    assert within(mixed, norm)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("make", [scaled, clipped])
def test_nan_and_infinity_are_refused_before_the_cast(make, bad):
    with pytest.raises(UsageError, match=messages.CONTRIBUTION_NOT_FINITE):
        make(np.array([1.0, bad]), Norm(1.0, 10))


@pytest.mark.parametrize(
    "norm", [(0.0, 10), (math.nan, 10), (math.inf, 10), (1.0, -1), (1.0, 41), (1.0, 31), (1e-9, 8)]
)
def test_norms_that_cannot_be_checked_are_refused(norm):
    with pytest.raises(UsageError):
        Norm(*norm)


def test_fraction_bits_follow_from_the_norm_and_the_entries():
    assert fine_enough(1.0, 100).fraction_bits == 12  # a visit vector
    assert fine_enough(3.0, 90).fraction_bits == 10  # a linear model
    assert fine_enough(0.2, 445).fraction_bits == 15  # a gradient of V
    assert fine_enough(1000.0, 1).fraction_bits == 8
    assert fine_enough(2.0**-8, 4**8).fraction_bits == 24  # the finest: an entry more and rounding would take too much
    too_short = [(2.0**-8, 4**8 + 1), (0.001, 10**9), (5e-324, 1)]
    for sensitivity, entries in ((0.0, 1), (math.inf, 1), (math.nan, 1), (1.0, 0), *too_short):
        with pytest.raises(UsageError):
            fine_enough(sensitivity, entries)


def test_a_device_rounds_a_whole_catalogue_in_hardly_more_than_one_pass(monkeypatch):
    checks, real = [], norms.within
    monkeypatch.setattr(norms, "within", lambda whole, norm: checks.append(1) or real(whole, norm))
    scaled(np.random.default_rng(3).random(118_598), Norm(1.0, 16))
    assert len(checks) <= 3
