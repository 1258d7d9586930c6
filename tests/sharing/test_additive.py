"""Section 2.4: shares add up to the secret, and all but one of them say nothing about it."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.sharing.secret_sharing import additive_combine, additive_split
from support import messages
from support.hypothesis_settings import PATIENT

QUARTER = 2**62  # {0, 1, 2, 3} · 2^62 is closed under addition in Z_2^64: it is Z_4
Z4 = tuple(np.uint64(k * QUARTER) for k in range(4))
EVERY_PAD = np.array(list(product(Z4, repeat=2)), dtype=np.uint64).T  # (2, 16): a column for each pair of pads
View = Callable[[np.ndarray], np.ndarray]


def distribution(rows: np.ndarray) -> dict[tuple[int, ...], Fraction]:
    """How likely each column is, when all columns are equally likely."""
    seen = Counter(map(tuple, rows.T.tolist()))
    return {view: Fraction(times, rows.shape[1]) for view, times in seen.items()}


def total_variation(one: dict[tuple[int, ...], Fraction], other: dict[tuple[int, ...], Fraction]) -> Fraction:
    return sum((abs(one.get(v, Fraction()) - other.get(v, Fraction())) for v in one | other), Fraction()) / 2


def distances(*, own: int, parties: tuple[int, ...], pads: np.ndarray = EVERY_PAD) -> set[Fraction]:
    """Between what these parties see of one secret in Z_4 and of another, over all pads, for all pairs of secrets."""
    views = []
    for secret in Z4:
        shares = additive_split(np.full(pads.shape[1], secret), pads=pads, own=own)
        views.append(distribution(shares[list(parties)]))
    return {total_variation(one, other) for one, other in combinations(views, 2)}


@pytest.mark.parametrize("own", range(3))
@pytest.mark.parametrize("parties", list(combinations(range(3), 2)))
def test_two_of_three_see_the_same_whatever_the_secret_is(own, parties):
    assert distances(own=own, parties=parties) == {Fraction(0)}


@pytest.mark.parametrize("own", range(3))
def test_all_three_together_know_the_secret(own):
    assert distances(own=own, parties=(0, 1, 2)) == {Fraction(1)}
    for secret in Z4:
        shares = additive_split(np.full(EVERY_PAD.shape[1], secret), pads=EVERY_PAD, own=own)
        assert (additive_combine(shares) == secret).all()


def test_pads_used_for_two_parties_at_once_are_noticed():
    reused = np.array([Z4, Z4])
    assert distances(own=0, parties=(0, 1), pads=reused) == {Fraction(1)}


def test_pads_used_for_two_secrets_at_once_are_noticed():
    """The owner's rows of two secrets under the same pads differ by the difference of the secrets."""
    views = []
    for secrets in ((Z4[0], Z4[0]), (Z4[0], Z4[1])):
        rests = [additive_split(np.full(16, secret), pads=EVERY_PAD, own=0)[0] for secret in secrets]
        views.append(distribution(np.array(rests)))
    assert total_variation(*views) == 1


def test_partial_sums_say_nothing_beyond_the_sum():
    """Algorithm 1 with three neighbours, each splitting for all three, over all 4^6 pads: user i's view."""
    every = np.array(list(product(Z4, repeat=6)), dtype=np.uint64).T  # (6, 4096)
    views: dict[int, list[dict[tuple[int, ...], Fraction]]] = {}
    for secrets in product(Z4, repeat=3):
        shares = [additive_split(np.full(4096, w), pads=every[2 * f : 2 * f + 2], own=f) for f, w in enumerate(secrets)]
        partial_sums = np.sum(shares, axis=0, dtype=np.uint64)
        views.setdefault(int(additive_combine(partial_sums)[0]), []).append(distribution(partial_sums))
    assert set(views) == {int(w) for w in Z4}
    assert all(seen == of_one_sum[0] for of_one_sum in views.values() for seen in of_one_sum)


@st.composite
def ring_rows(draw):
    """A secret and pads for up to five others, in either ring, with its ends as likely as its middle."""
    dtype = draw(st.sampled_from([np.uint64, np.uint32]))
    top = int(np.iinfo(dtype).max)
    word = st.one_of(st.sampled_from([0, 1, top, top // 2, top // 2 + 1]), st.integers(0, top))
    width, others = draw(st.integers(0, 4)), draw(st.integers(1, 5))
    rows = draw(st.lists(st.lists(word, min_size=width, max_size=width), min_size=others + 1, max_size=others + 1))
    return np.array(rows, dtype=dtype), draw(st.integers(0, others))


@PATIENT
@given(ring_rows())
def test_shares_add_up_to_the_secret_in_any_order(drawn):
    (secret, pads), own = (drawn[0][0], drawn[0][1:]), drawn[1]
    shares = additive_split(secret, pads=pads, own=own)
    assert shares.dtype == secret.dtype
    assert additive_combine(shares).tobytes() == additive_combine(shares[::-1]).tobytes() == secret.tobytes()
    assert additive_combine(shares).dtype == secret.dtype


@PATIENT
@given(ring_rows())
def test_the_others_get_their_pads_untouched_and_nothing_given_changes(drawn):
    rows, own = drawn
    before = rows.copy()
    shares = additive_split(rows[0], pads=rows[1:], own=own)
    assert (np.delete(shares, own, axis=0) == rows[1:]).all()
    shares += shares.dtype.type(1)
    assert (rows == before).all()


@pytest.mark.parametrize("dtype", [np.uint64, np.uint32])
def test_the_share_that_the_owner_keeps_reaches_both_ends_of_the_ring(dtype):
    top = np.iinfo(dtype).max
    secret, pads = np.array([5, 5], dtype=dtype), np.array([[5, 6]], dtype=dtype)
    assert additive_split(secret, pads=pads, own=0)[0].tolist() == [0, top]


WORDS = np.zeros(3, dtype=np.uint64)
PADS = np.zeros((2, 3), dtype=np.uint64)


@pytest.mark.parametrize(
    ("secret", "pads"),
    [
        (WORDS.astype(np.int64), PADS.astype(np.int64)),
        (WORDS.astype(np.float64), PADS.astype(np.float64)),
        (WORDS, PADS.astype(np.uint32)),
        (WORDS, PADS.astype(np.int64)),
        (WORDS, PADS[:, :2]),
        (WORDS, PADS[0]),
        (PADS, PADS),
        (WORDS, PADS[:0]),
    ],
)
def test_what_is_not_a_vector_and_its_pads_in_one_ring_is_refused(secret, pads):
    with pytest.raises(UsageError):
        additive_split(secret, pads=pads, own=0)


@pytest.mark.parametrize("own", [-1, 3])
def test_an_owner_who_is_not_a_party_is_refused(own):
    with pytest.raises(UsageError, match=messages.one_of_the_parties(3)):
        additive_split(WORDS, pads=PADS, own=own)


@pytest.mark.parametrize("shares", [WORDS, PADS[:0], PADS.astype(np.int64), PADS.astype(np.uint8)])
def test_what_is_not_rows_of_shares_is_refused(shares):
    with pytest.raises(UsageError):
        additive_combine(shares)
