"""Where reals and the ring meet: rounding, exact sums, refusals, and the inequality that keeps a sum from wrapping."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.sharing.fixed_point import FixedPoint, add_encoded, encode_into, shorten
from support import messages
from support.hypothesis_settings import PATIENT

RINGS = [(64, 24), (64, 1), (64, 40), (32, 8), (32, 16)]
AS_SIGNED = {32: np.int32, 64: np.int64}


def code_of(bits: int, fraction_bits: int, *, summands: int = 20, bound: float = 50.0) -> FixedPoint:
    return FixedPoint(summands=summands, bound=bound, fraction_bits=fraction_bits, ring_bits=bits)


def safe(bits: int, fraction_bits: int) -> FixedPoint:
    return code_of(bits, fraction_bits, bound=50.0 if (bits, fraction_bits) != (32, 16) else 1000.0)


# whole numbers up to 2^51, which kernels encode swiftly, and beyond
CODES = [*(safe(*ring) for ring in RINGS), *(code_of(64, 40, bound=2.0**k) for k in (11, 11.01, 17))]


@st.composite
def code_and_values(draw):
    code = draw(st.sampled_from(CODES))
    whole = st.integers(-int(code.bound * 2 * code.scale), int(code.bound * 2 * code.scale))
    halves = whole.map(lambda half: half / (2 * code.scale))  # whole numbers in the ring, and ties between two of them
    return code, np.array(draw(st.lists(st.floats(-code.bound, code.bound) | halves, min_size=1, max_size=20)))


@PATIENT
@given(code_and_values())
def test_a_round_trip_errs_by_at_most_half_a_step(drawn):
    code, values = drawn
    assert np.abs(code.decode(code.encode(values)) - values).max() <= 2.0 ** -(code.fraction_bits + 1)


@PATIENT
@given(code_and_values())
def test_three_ways_to_encode_give_the_same_bits(drawn):
    code, values = drawn
    into, added = code.zeros(len(values)), code.zeros(len(values))
    assert encode_into(values, code.scale, code.bound, into)
    assert add_encoded(values, code.scale, code.bound, added)
    encoded = code.encode(values)
    assert encoded.dtype == into.dtype == added.dtype == code.dtype
    assert encoded.tobytes() == into.tobytes() == added.tobytes()


@PATIENT
@given(code_and_values(), st.randoms())
def test_sums_equal_python_integers_in_any_order(drawn, shuffler):
    code, values = drawn
    as_integers = [round(Fraction(float(value)) * 2**code.fraction_bits) for value in values]  # round: half to even
    expected = sum(as_integers) % 2**code.ring_bits
    shuffled = list(values)
    shuffler.shuffle(shuffled)
    for order in (values, shuffled):
        by_encode, by_kernel = code.zeros(1), code.zeros(1)
        for value in order:
            by_encode += code.encode(np.array([value]))
            assert add_encoded(np.array([value]), code.scale, code.bound, by_kernel)
        assert int(by_encode[0]) == int(by_kernel[0]) == expected
    assert code.decode(by_encode)[0] == sum(as_integers) / 2**code.fraction_bits


@pytest.mark.parametrize("bits", [32, 64])
def test_halves_round_to_the_even_neighbour(bits):
    code = code_of(bits, 1)
    values = np.array([0.25, 0.75, 1.25, -0.25, -0.75, -1.25])
    assert code.signed(code.encode(values)).tolist() == [0, 2, 2, 0, -2, -2]


@pytest.mark.parametrize("bits", [32, 64])
def test_negative_numbers_stand_in_the_upper_half_of_the_ring(bits):
    code = code_of(bits, 8)
    ring = code.encode(np.array([-1.0, -1 / 256]))
    assert ring.tolist() == [2**bits - 256, 2**bits - 1]
    assert code.decode(ring).tolist() == [-1.0, -1 / 256]


@pytest.mark.parametrize("bits", [32, 64])
def test_signed_is_the_same_memory(bits):
    code = code_of(bits, 8)
    ring = code.zeros(2)
    code.signed(ring)[0] = -3
    assert code.signed(ring).dtype == AS_SIGNED[bits]
    assert ring.tolist() == [2**bits - 3, 0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 50.0000001, -51.0, 1e300])
@pytest.mark.parametrize("bits", [32, 64])
def test_what_a_sum_was_not_sized_for_is_refused_before_the_cast(bits, value):
    code, values = code_of(bits, 8), np.array([1.0, value, 2.0])
    with pytest.raises(UsageError, match=messages.beyond_the_bound(50)):
        code.encode(values)
    assert not encode_into(values, code.scale, code.bound, code.zeros(3))
    assert not add_encoded(values, code.scale, code.bound, code.zeros(3))


def test_the_refusal_does_not_echo_the_value():
    with pytest.raises(UsageError) as refusal:
        code_of(64, 24).encode(np.array([987.654321]))
    assert "987" not in str(refusal.value)


def test_a_bound_that_is_a_whole_number_comes_back_as_it_was():
    code = code_of(64, 24)
    assert code.decode(code.encode(np.array([50.0, -50.0]))).tolist() == [50.0, -50.0]


@pytest.mark.parametrize("code", CODES, ids=str)
def test_the_bound_itself_is_allowed(code):
    values, into = np.array([code.bound, -code.bound, np.nextafter(code.bound, 0)]), code.zeros(3)
    assert code.decode(code.encode(values)) == pytest.approx(values, abs=0.5 / code.scale)
    assert encode_into(values, code.scale, code.bound, into)
    assert into.tolist() == code.encode(values).tolist()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3000.0])
def test_large_numbers_that_a_sum_was_not_sized_for_are_refused_before_the_cast(value):
    code, values = code_of(64, 40, bound=2500.0), np.array([1.0, value, 2.0])
    assert not encode_into(values, code.scale, code.bound, code.zeros(3))
    assert not add_encoded(values, code.scale, code.bound, code.zeros(3))


def fits(summands: int, bound: float, fraction_bits: int, ring_bits: int) -> bool:
    """n (B 2^f + 1/2) <= 2^(l-1) - 1, in exact fractions."""
    return summands * (Fraction(bound) * 2**fraction_bits + Fraction(1, 2)) <= 2 ** (ring_bits - 1) - 1


def accepted(summands: int, bound: float, fraction_bits: int, ring_bits: int) -> bool:
    try:
        FixedPoint(summands=summands, bound=bound, fraction_bits=fraction_bits, ring_bits=ring_bits)
    except UsageError:
        return False
    return True


def around_the_edge(summands: int, fraction_bits: int, ring_bits: int) -> list[float]:
    edge = float((Fraction(2 ** (ring_bits - 1) - 1, summands) - Fraction(1, 2)) / 2**fraction_bits)
    below, above = np.nextafter(edge, 0), np.nextafter(edge, np.inf)
    return [float(np.nextafter(below, 0)), float(below), edge, float(above), float(np.nextafter(above, np.inf))]


@pytest.mark.parametrize("ring_bits", [32, 64])
def test_a_sum_that_could_wrap_is_refused_exactly_at_the_edge(ring_bits):
    for summands in (1, 2, 3, 30, 1000, 1_000_003):
        for fraction_bits in (1, 8, 24, 40):
            for bound in around_the_edge(summands, fraction_bits, ring_bits):
                expected = fits(summands, bound, fraction_bits, ring_bits)
                assert accepted(summands, bound, fraction_bits, ring_bits) == (expected and bound > 0)


def test_a_single_value_of_2_to_the_63_does_not_fit():
    assert not accepted(1, 2.0**39, 24, 64)


@pytest.mark.parametrize(("summands", "fraction_bits", "ring_bits"), [(3, 8, 32), (1000, 4, 32), (7, 24, 64)])
def test_the_largest_sum_that_is_accepted_does_not_wrap(summands, fraction_bits, ring_bits):
    bounds = [
        b
        for b in around_the_edge(summands, fraction_bits, ring_bits)
        if accepted(summands, b, fraction_bits, ring_bits)
    ]
    code = FixedPoint(summands=summands, bound=max(bounds), fraction_bits=fraction_bits, ring_bits=ring_bits)
    for sign in (1, -1):
        total = code.zeros(1)
        for _ in range(summands):
            total += code.encode(np.array([sign * code.bound]))
        assert code.decode(total)[0] == pytest.approx(sign * summands * code.bound, rel=1e-6)


def test_the_refusal_of_a_wrap_states_the_inequality():
    with pytest.raises(UsageError, match=messages.sum_could_wrap(9, bound="1e+12")):
        FixedPoint(summands=9, bound=1e12)


@pytest.mark.parametrize(
    "wrong",
    [
        {"ring_bits": 16}, {"ring_bits": 128}, {"fraction_bits": 0}, {"fraction_bits": 41}, {"summands": 0},
        {"summands": -1}, {"bound": 0.0}, {"bound": -1.0}, {"bound": np.inf}, {"bound": np.nan},
    ],
)  # fmt: skip
def test_codes_that_make_no_sense_are_refused(wrong):
    with pytest.raises(UsageError):
        FixedPoint(**({"summands": 10, "bound": 1.0} | wrong))


# Contributions that must not be longer than they claim


def shortened(whole: list[int], scale: float, most: int) -> list[int]:
    values = np.array(whole, dtype=np.float64) / scale
    shorten(values, scale, most)
    return np.rint(values * scale).astype(np.int64).tolist()


def twin(whole: list[int], most: int) -> list[int]:
    """In Python's integers."""
    while sum(q * q for q in whole) > most:
        whole = [q - (q > 0) + (q < 0) for q in whole]
    return whole


@PATIENT
@given(st.lists(st.integers(-200, 200), max_size=12), st.integers(1, 50_000), st.sampled_from([1.0, 2.0**11, 2.0**24]))
def test_a_vector_that_is_too_long_moves_toward_zero_until_it_is_not(whole, most, scale):
    found = shortened(whole, scale, most)
    assert found == twin(whole, most)
    assert sum(q * q for q in found) <= most


@PATIENT
@given(st.lists(st.floats(-3, 3), min_size=1, max_size=12))
def test_a_vector_that_is_short_enough_keeps_every_bit(reals):
    values, scale = np.array(reals), 2.0**10
    before = values.tobytes()
    shorten(values, scale, sum(round(Fraction(v) * 1024) ** 2 for v in reals) + 1)
    assert values.tobytes() == before


def test_shortening_sees_what_rounding_did():
    """Six entries of 2.5 and a bit have a length of 6.13, but round to 3 each: 7.35."""
    assert shortened([3] * 6, 1.0, 37) == [2] * 6
    values = np.full(6, 2.501)
    shorten(values, 1.0, 38)
    assert values.tolist() == [2.0] * 6


def test_shortening_tells_a_square_from_one_more_and_nothing_in_it_wraps():
    longest = 2**31 - 1
    assert shortened([longest], 1.0, longest**2) == [longest]
    assert shortened([longest, -1], 1.0, longest**2) == [longest - 1, 0]
    assert shortened([longest + 3], 1.0, longest**2) == [longest]
    assert shortened([1] * 7 + [longest + 1], 1.0, longest**2) == [0] * 7 + [longest]
