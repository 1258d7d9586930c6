"""t of n: any t shares give the secret, fewer fit every secret, and what fits none is refused."""

import os
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import Fault, PeerError, UsageError
from prirec.sharing import secret_sharing
from prirec.sharing.keys import stretch
from prirec.sharing.secret_sharing import LIMBS, PRIME, shamir_combine, shamir_split
from support.hypothesis_settings import FEW, PATIENT
from vectors import reference
from vectors.cases_shamir import PASSES_OVER_P

SECRETS = st.binary(min_size=32, max_size=32)
SECRET, SEED = bytes(range(32)), bytes(range(50, 82))
POINTS = st.lists(st.integers(1, PRIME - 1), min_size=1, max_size=9, unique=True)


@PATIENT
@given(secret=SECRETS, seed=SECRETS, points=POINTS, data=st.data())
def test_any_threshold_of_shares_in_any_order_give_the_secret(secret, seed, points, data):
    threshold = data.draw(st.integers(1, len(points)))
    x = np.array(points)
    shares = shamir_split(secret, threshold=threshold, points=x, seed=seed)
    assert shares.shape == (len(points), LIMBS)
    assert shares.dtype == np.uint32
    assert shares.flags.c_contiguous
    chosen = data.draw(st.permutations(range(len(points))))[:threshold]
    assert shamir_combine(x[chosen], shares[chosen]) == secret


@FEW
@given(secret=SECRETS, seed=SECRETS, points=POINTS, data=st.data())
def test_shares_and_secrets_equal_the_reference(secret, seed, points, data):
    threshold = data.draw(st.integers(1, len(points)))
    shares = shamir_split(secret, threshold=threshold, points=np.array(points), seed=seed)
    assert shares.tolist() == reference.shamir_split(secret, threshold=threshold, points=points, seed=seed)
    assert reference.shamir_combine(points[:threshold], shares[:threshold].tolist()) == secret


def test_every_subset_of_three_of_six_gives_the_secret():
    points = np.array([1, 2, 3, PRIME - 1, PRIME - 2, 2**30], dtype=np.uint32)
    shares = shamir_split(SECRET, threshold=3, points=points, seed=SEED)
    for chosen in map(list, combinations(range(6), 3)):
        assert shamir_combine(points[chosen], shares[chosen]) == SECRET


def test_a_large_threshold_works_as_a_small_one_does():
    points = np.arange(1, 165)
    shares = shamir_split(SECRET, threshold=109, points=points, seed=SEED)
    assert shamir_combine(points[::-1][:109], shares[::-1][:109]) == SECRET


@PATIENT
@given(secret=SECRETS, other=SECRETS, seed=SECRETS)
def test_one_share_fewer_fits_every_other_secret_in_exactly_one_way(secret, other, seed):
    """For t = 3 and two shares seen: solves for the polynomials of another secret, and they give the same shares."""
    x1, x2 = 17, PRIME - 5
    points = np.array([x1, x2, 99])
    seen = shamir_split(secret, threshold=3, points=points, seed=seed)[:2].astype(object)
    limbs = np.array(secret_sharing._limbs(other), dtype=object)
    # (f(x) - f(0)) / x = c_1 + c_2 x
    slopes = [(seen[i] - limbs) * pow(x, -1, PRIME) % PRIME for i, x in enumerate((x1, x2))]
    c2 = (slopes[1] - slopes[0]) * pow(x2 - x1, -1, PRIME) % PRIME
    c1 = (slopes[0] - c2 * x1) % PRIME
    polynomials = np.array([limbs, c1, c2]).astype(np.uint64)
    values = secret_sharing._evaluate(polynomials, np.array([x1, x2], dtype=np.uint64))
    assert values.T.tolist() == seen.tolist()


def test_the_kernels_do_what_their_source_says():
    x = np.array([1, 5, PRIME - 1, 2**30], dtype=np.uint64)
    polynomials = (stretch(SEED, 5 * LIMBS) % np.uint64(PRIME)).reshape(5, LIMBS)
    for compiled, arguments in (
        (secret_sharing._evaluate, (polynomials, x)),
        (secret_sharing._weights, (x,)),
        (secret_sharing._inverse, (x[1],)),
    ):
        plain = getattr(compiled, "py_func", compiled)
        assert np.array_equal(compiled(*arguments), plain(*arguments))


@PATIENT
@given(st.integers(1, PRIME - 1))
def test_an_inverse_is_one(value):
    assert int(secret_sharing._inverse(np.uint64(value))) * value % PRIME == 1


def test_another_seed_gives_other_shares_of_the_same_secret():
    points = np.arange(1, 4)
    one, two = (shamir_split(SECRET, threshold=2, points=points, seed=seed) for seed in (SEED, SEED[::-1]))
    assert (one != two).all()
    assert shamir_combine(points[:2], one[:2]) == shamir_combine(points[1:], two[1:]) == SECRET


def planned(words: list[int]):
    """A stream that holds these words, then zeros."""

    def stream(seed: bytes, count: int, dtype: type) -> np.ndarray:
        return np.array([*words, *[0] * count][:count], dtype=dtype)

    return stream


def test_coefficients_reach_both_ends_of_the_field_and_p_itself_is_passed_over(monkeypatch):
    words = [PRIME, 0, PRIME - 1, 2**32 - 1, 2**31, 2**32 - 2, PRIME, 7]
    monkeypatch.setattr(secret_sharing, "stretch", planned(words))
    assert secret_sharing._uniform(SEED, 5).tolist() == [0, PRIME - 1, 0, PRIME - 1, 7]


def test_a_real_stream_in_which_p_is_passed_over_still_shares_the_secret():
    words = stretch(PASSES_OVER_P, 59 * LIMBS, np.uint32) & np.uint32(PRIME)
    assert np.flatnonzero(words == PRIME).tolist() == [517]
    points = np.arange(1, 61)
    shares = shamir_split(SECRET, threshold=60, points=points, seed=PASSES_OVER_P)
    assert shamir_combine(points, shares) == SECRET


@pytest.mark.statistical  # false alarm 1e-9; must notice coefficients drawn below 2^30 only
def test_single_shares_of_a_fixed_secret_spread_over_the_field():
    """The mean of 90,000 values uniform below p is within 6.1 of its standard deviations."""
    shares = [shamir_split(bytes(32), threshold=2, points=np.array([1, 2]), seed=os.urandom(32)) for _ in range(10_000)]
    values = np.array(shares)[:, 0].ravel() / PRIME
    allowed = 6.11 / np.sqrt(12 * values.size)
    assert abs(values.mean() - 0.5) < allowed
    assert abs((values / 2).mean() - 0.5) > allowed


@pytest.mark.parametrize(
    "wrong",
    [
        {"secret": bytes(31)},
        {"secret": bytearray(32)},
        {"seed": bytes(31)},
        {"threshold": 0},
        {"threshold": 4},
        {"points": np.array([1, 2, 2])},
        {"points": np.array([0, 1, 2])},
        {"points": np.array([-1, 1, 2])},
        {"points": np.array([1, 2, PRIME])},
        {"points": np.array([[1, 2, 3]])},
        {"points": np.array([1.0, 2.0, 3.0])},
        {"points": np.array([], dtype=np.int64)},
    ],
)
def test_invalid_arguments_of_sharing_are_refused(wrong):
    good = {"secret": SECRET, "threshold": 2, "points": np.array([1, 2, 3]), "seed": SEED}
    shamir_split(**good)
    with pytest.raises(UsageError):
        shamir_split(**(good | wrong))


THREE = np.array([1, 2, 3])
SHARES = shamir_split(SECRET, threshold=3, points=THREE, seed=SEED)


@pytest.mark.parametrize(
    ("points", "shares"),
    [
        (np.array([1, 2, 1]), SHARES),
        (np.array([1, 2, 0]), SHARES),
        (THREE[:2], SHARES),
        (THREE[:0], SHARES[:0]),
        (THREE, SHARES[:, :8]),
        (THREE, SHARES[0]),
        (THREE, SHARES.astype(np.int64)),
    ],
)
def test_what_is_not_one_share_for_each_point_is_refused(points, shares):
    with pytest.raises(UsageError):
        shamir_combine(points, shares)


def altered(shares: np.ndarray, *, row: int, to: int) -> np.ndarray:
    changed = shares.copy()
    changed[row] = to
    return changed


@pytest.mark.parametrize(
    ("points", "shares"),
    [
        (THREE, altered(SHARES, row=1, to=5)),
        (THREE, altered(SHARES, row=2, to=PRIME)),
        (THREE, altered(SHARES, row=2, to=2**32 - 1)),
        (THREE[::-1], SHARES),
        (THREE[:2], SHARES[:2]),
    ],
)
def test_shares_that_fit_no_secret_are_a_peer_error_and_not_printed(points, shares):
    with pytest.raises(PeerError) as refusal:
        shamir_combine(points, shares)
    assert refusal.value.fault is Fault.ABORTED
    assert not any(str(value) in str(refusal.value) for value in shares.ravel().tolist() if value > 9)


@pytest.mark.parametrize("limbs", [[2**30, *[0] * 8], [*[0] * 7, PRIME - 1, 0], [*[0] * 8, 2**16]])
def test_a_limb_or_a_value_that_is_too_large_is_refused(limbs):
    shares = reference.shamir_shares(limbs, threshold=2, points=[1, 2], seed=SEED)
    with pytest.raises(PeerError):
        shamir_combine(np.array([1, 2]), np.array(shares, dtype=np.uint32))


def test_the_largest_secret_is_no_larger_than_it_may_be():
    points = np.array([3, 4])
    assert shamir_combine(points, shamir_split(b"\xff" * 32, threshold=2, points=points, seed=SEED)) == b"\xff" * 32


def test_a_share_has_one_spelling():
    """With p added to its values a share would still give the secret; two spellings would be two messages."""
    spelt_twice = SHARES.copy()
    spelt_twice[0] += np.uint32(PRIME)
    with pytest.raises(PeerError):
        shamir_combine(THREE, spelt_twice)
