"""The keyed generator against whole-number arithmetic that cannot overflow."""

import math
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from prirec.util.jit import in_numpy
from prirec.util.keyed_random import below, mix, mix_each, person_keys, shuffle, splitmix64, uniform, word

ALL = (1 << 64) - 1
words = st.integers(0, ALL)


def reference_splitmix64(x: int) -> int:
    z = (x + 0x9E3779B97F4A7C15) & ALL
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & ALL
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & ALL
    return z ^ (z >> 31)


def test_splitmix64_gives_the_published_first_words_for_seed_1234567():
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [word(np.uint64(1234567), np.uint64(k)) for k in range(4)] == published


@given(words, words, st.integers(1, 2**32 - 1))
def test_words_equal_whole_number_arithmetic(a, b, bound):
    assert splitmix64(np.uint64(a)) == reference_splitmix64(a)
    assert mix(np.uint64(a), np.uint64(b)) == reference_splitmix64(reference_splitmix64(a) ^ b)
    assert word(np.uint64(a), np.uint64(b)) == reference_splitmix64((a + b * 0x9E3779B97F4A7C15) & ALL)
    assert below(np.uint64(a), np.uint64(bound)) == a * bound >> 64


@pytest.mark.parametrize("x", [0, 1, 2**53 + 1, 2**63 - 1, 2**63, ALL])
def test_plain_ints_are_taken_for_words(x):
    assert splitmix64(x) == reference_splitmix64(x) == splitmix64(np.uint64(x))
    assert mix(x, x) == mix(np.uint64(x), np.uint64(x))


def test_mix_is_not_symmetric():
    assert mix(1, 2) != mix(2, 1)


def test_mix_each_is_mix_for_each():
    keys = np.array([0, 1, ALL], dtype=np.uint64)
    each = [mix(9, 0), mix(9, 1), mix(9, ALL)]
    assert mix_each(np.uint64(9), keys).tolist() == each
    with in_numpy():
        assert mix_each(np.uint64(9), keys).tolist() == each


@given(words)
def test_uniform_is_53_bits_in_the_half_open_unit_interval(key):
    x = uniform(np.uint64(key))
    assert 0 <= x < 1
    assert x * 2**53 == reference_splitmix64(key) >> 11


@given(words, st.integers(0, 60), st.sampled_from([np.int32, np.int64]))
def test_shuffle_fills_with_a_permutation_that_the_key_decides(key, size, dtype):
    first, second = np.full(size, -1, dtype=dtype), np.full(size, 7, dtype=dtype)
    shuffle(np.uint64(key), first)
    shuffle(np.uint64(key), second)
    assert sorted(first.tolist()) == list(range(size))
    assert (first == second).all()


@pytest.mark.statistical  # false alarm 1e-9; must notice one order in 24 being a tenth likelier
def test_shuffle_gives_every_order_alike():
    counts: dict[tuple[int, ...], int] = {}
    out = np.empty(4, dtype=np.int32)
    runs = 120_000
    for key in range(runs):
        shuffle(np.uint64(key), out)
        counts[tuple(out.tolist())] = counts.get(tuple(out.tolist()), 0) + 1
    seen = np.array(list(counts.values()), dtype=float)
    assert len(seen) == math.factorial(4)
    assert chi_square_p(seen, runs / 24) > 1e-9
    seen[0] += 0.1 * runs / 24
    seen[1:] -= 0.1 * runs / 24 / 23
    assert chi_square_p(seen, runs / 24) < 1e-6


def chi_square_p(seen: np.ndarray, expected: float) -> float:
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1))


def test_a_persons_key_follows_from_the_id_alone():
    keys = person_keys(["ann", "bob", "zoë"])
    assert keys.dtype == np.uint64
    assert person_keys(["zoë", "ann"]).tolist() == [keys[2], keys[0]]
    assert len(set(keys.tolist())) == 3
    assert person_keys([]).shape == (0,)


def test_a_persons_key_is_the_personalised_hash_in_little_endian_order():
    assert person_keys(["ann"])[0] == int.from_bytes(_blake("ann"), "little")


def _blake(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8, person=b"prirec person").digest()


def test_an_id_that_is_not_valid_text_still_has_a_key():
    assert len(set(person_keys(["\ud800", "\ud801"]).tolist())) == 2
