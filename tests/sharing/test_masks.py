"""A seed stretched to a stream: the same for both ends of a pair, and to anyone else like uniform words."""

import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from prirec.errors import UsageError
from prirec.sharing.keys import SEED, stretch
from prirec.sharing.secret_sharing import additive_split
from support import messages
from support.hypothesis_settings import FEW, PATIENT
from vectors import reference

SEEDS = st.binary(min_size=SEED, max_size=SEED)
RINGS = [(np.uint64, 64), (np.uint32, 32)]
ODDS = 1e-9


@pytest.mark.parametrize(("dtype", "bits"), RINGS)
@FEW
@given(seed=SEEDS, count=st.integers(0, 50))
def test_words_equal_the_reference(dtype, bits, seed, count):
    words = stretch(seed, count, dtype)
    assert words.dtype == dtype
    assert words.tolist() == reference.stretch(seed, count=count, ring_bits=bits)


def test_a_stream_of_several_pieces_equals_the_reference():
    seed, count = bytes(range(32)), 2**16 // 4 + 5
    assert stretch(seed, count, np.uint32).tolist() == reference.stretch(seed, count=count, ring_bits=32)


@PATIENT
@given(seed=SEEDS, count=st.integers(1, 100), less=st.integers(0, 100))
def test_a_longer_stream_begins_with_the_shorter(seed, count, less):
    assert (stretch(seed, count)[:less] == stretch(seed, min(less, count))).all()


@PATIENT
@given(seed=SEEDS, bit=st.integers(0, 8 * SEED - 1))
def test_every_bit_of_the_seed_changes_the_stream(seed, bit):
    flipped = (int.from_bytes(seed, "little") ^ 1 << bit).to_bytes(SEED, "little")
    assert (stretch(seed, 4) != stretch(flipped, 4)).all()


def test_one_adds_what_the_other_subtracts():
    seed = os.urandom(SEED)
    vector = np.arange(445, dtype=np.uint64)
    masked = vector + stretch(seed, 445)
    assert (masked != vector).all()
    assert (masked - stretch(seed, 445) == vector).all()


def test_each_stream_may_be_written_to_and_is_its_owners_alone():
    seed = bytes(SEED)
    first = stretch(seed, 10)
    first += np.uint64(1)
    assert (stretch(seed, 10) == first - np.uint64(1)).all()


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33), bytearray(32), "0" * 32])
def test_a_seed_is_thirty_two_bytes(seed):
    with pytest.raises(UsageError, match=messages.seed_length(32)):
        stretch(seed, 1)


@pytest.mark.parametrize("dtype", [np.int64, np.uint16, np.float64, ">u8"])
def test_words_are_of_a_ring(dtype):
    with pytest.raises(UsageError, match=messages.WORDS_OUTSIDE_A_RING):
        stretch(bytes(SEED), 1, dtype)


def test_fewer_than_no_words_are_refused():
    with pytest.raises(UsageError):
        stretch(bytes(SEED), -1)


def mask_bytes(count: int) -> np.ndarray:
    return stretch(os.urandom(SEED), count // 8).view(np.uint8)


def share_bytes(count: int) -> np.ndarray:
    """The row that the owner keeps, of a secret that is as far from uniform as can be."""
    pads = stretch(os.urandom(SEED), 2 * (count // 8)).reshape(2, -1)
    return additive_split(np.zeros(count // 8, dtype=np.uint64), pads=pads, own=1)[1].view(np.uint8)


def biased(stream: np.ndarray, *, value: int, by: float) -> np.ndarray:
    """The stream with one byte value likelier than 1 / 256 by this part of it."""
    chosen = np.random.default_rng(1).random(stream.size) < by / 255
    return np.where(chosen, np.uint8(value), stream)


def surprise(stream: np.ndarray) -> float:
    """Chi-square over the 256 byte values: how seldom uniform bytes are so uneven, or so even, as these."""
    counts = np.bincount(stream, minlength=256)
    expected = stream.size / 256
    statistic = float(((counts - expected) ** 2).sum() / expected)
    return 2 * min(chi2.sf(statistic, 255), chi2.cdf(statistic, 255))


@pytest.mark.statistical  # false alarm 1e-9; must notice one byte value likelier by a third, and a stream too even
@pytest.mark.parametrize("source", [mask_bytes, share_bytes])
def test_bytes_of_masks_and_shares_are_uniform(source):
    stream = source(10**6)
    assert surprise(stream) > ODDS
    assert surprise(biased(stream, value=0x5A, by=1 / 3)) < ODDS
    assert surprise(np.arange(10**6).astype(np.uint8)) < ODDS


@pytest.mark.soak
@pytest.mark.statistical  # false alarm 1e-9; must notice one byte value likelier by a tenth
@pytest.mark.parametrize("source", [mask_bytes, share_bytes])
def test_ten_million_bytes_of_masks_and_shares_are_uniform(source):
    stream = source(10**7)
    assert surprise(stream) > ODDS
    assert surprise(biased(stream, value=0x5A, by=0.1)) < ODDS


@pytest.mark.statistical  # false alarm 2 exp(-30) < 1e-12; must notice a stream without its top bit
@pytest.mark.parametrize(("dtype", "bits"), RINGS)
def test_words_come_from_both_ends_of_the_ring(dtype, bits):
    words = stretch(os.urandom(SEED), 300_000, dtype)
    end = 2**bits // 10_000
    assert reaches_both_ends(words, end=end)
    assert not reaches_both_ends(words >> dtype(1), end=end)


def reaches_both_ends(words: np.ndarray, *, end: int) -> bool:
    top = int(np.iinfo(words.dtype).max)
    return int(words.min()) < end and int(words.max()) > top - end
