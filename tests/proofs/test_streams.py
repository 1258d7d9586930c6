"""Streams of bytes and of field elements, against single blocks of AES."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from prirec.proofs import pine
from prirec.proofs.parameters import MODULUS
from prirec.proofs.pine import SEED, Usage, key_stream, stream
from vectors import reference
from vectors import reference_proofs as plain

SEEDS = st.binary(min_size=SEED, max_size=SEED)
# Found by trying: the first seed for which one of 4,096 words is beyond the field, number 41. One word in 2^32 is.
REJECTING = (1_677_128).to_bytes(SEED, "little")


@given(seed=SEEDS, usage=st.sampled_from(Usage), binder=st.binary(max_size=40), size=st.integers(0, 200))
def test_a_stream_equals_that_of_the_twin(seed, usage, binder, size):
    assert stream(seed, usage, binder, size) == plain.stream(seed, usage, binder, size)


@given(key=st.binary(min_size=16, max_size=16), upper=st.integers(0, 2**64 - 1), blocks=st.integers(1, 9))
def test_the_counter_has_64_bits_and_begins_again_after_them(key, upper, blocks):
    near_the_end = (upper << 64 | 2**64 - 3).to_bytes(16, "big")
    first = reference.key_stream(key, counter=upper << 64 | 2**64 - 3, size=48)
    then = reference.key_stream(key, counter=upper << 64, size=16 * 9)
    assert key_stream(key, near_the_end, 16 * blocks) == (first + then)[: 16 * blocks]


@given(seed=SEEDS, usage=st.sampled_from(Usage), count=st.integers(1, 50))
def test_elements_equal_those_of_the_twin(seed, usage, count):
    assert pine.expand(seed, usage, b"binder", count).tolist() == plain.expand(seed, usage, b"binder", count)


def test_a_word_beyond_the_field_is_left_out_of_the_elements():
    binder = bytes([pine.HELPER])
    words = np.frombuffer(stream(REJECTING, Usage.ENCODED_SHARE, binder, 8 * 60), "<u8").tolist()
    assert words[41] >= MODULUS
    for count in (41, 42, 50):
        found = pine.expand(REJECTING, Usage.ENCODED_SHARE, binder, count).tolist()
        assert found == [*words[:41], *words[42:]][:count]
        assert found == plain.expand(REJECTING, Usage.ENCODED_SHARE, binder, count)
