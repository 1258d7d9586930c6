"""Random integers from a seed: exact, unlimited, and the same however they are asked for."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import chi2

from prirec.errors import UsageError
from prirec.privacy.noise import Stream
from support.exact_figures import fresh
from support.hypothesis_settings import FEW, PATIENT

SEEDS = st.binary(min_size=32, max_size=32)


def below_twin(words: list[int], bounds: list[int]) -> list[int]:
    """Rejection in whole numbers that cannot overflow."""
    source, answers = iter(words), []
    for bound in bounds:
        word = next(source)
        while word >= 2**64 // bound * bound:
            word = next(source)
        answers.append(word % bound)
    return answers


@PATIENT
@given(seed=SEEDS, parts=st.lists(st.integers(0, 1500), max_size=5))
def test_words_are_the_same_however_many_are_asked_for_at_once(seed, parts):
    stream = Stream(seed)
    pieces = [stream.words(n) for n in parts]
    assert (np.concatenate([*pieces, []]) == Stream(seed).words(sum(parts))).all()


def test_no_two_pieces_of_a_stream_are_alike_and_no_two_seeds_give_one_stream():
    words = Stream(bytes(32)).words(2**13)
    assert len(np.unique(words)) == 2**13
    assert not (words == Stream(bytes(31) + b"\1").words(2**13)).any()


@FEW
@given(seed=SEEDS, bounds=st.lists(st.integers(1, 2**63 - 1), min_size=1, max_size=40))
def test_below_equals_rejection_in_whole_numbers(seed, bounds):
    words = Stream(seed).words(2000).tolist()
    assert Stream(seed).below(np.array(bounds)).tolist() == below_twin(words, bounds)


def test_below_rejects_nearly_half_of_all_words_where_it_must_and_then_still_uses_each_word_once():
    bound, count = 2**62 + 2**61 + 1, 3000  # 2^64 holds it twice, with a quarter left over
    words = Stream(bytes(32)).words(3 * count).tolist()
    assert Stream(bytes(32)).below(bound, count).tolist() == below_twin(words, [bound] * count)


@pytest.mark.statistical  # false alarm 1e-9; must notice values that are likelier by a fifth
def test_below_is_uniform():
    counts = np.bincount(fresh().below(7, 70_000), minlength=7)

    def p_value(wanted):
        return chi2.sf(((counts - wanted) ** 2 / wanted).sum(), 6)

    assert p_value(np.full(7, 10_000)) > 1e-9
    assert p_value(70_000 * np.array([1.2, 1, 1, 1, 1, 1, 1]) / 7.2) < 1e-9


def test_one_number_is_drawn_where_no_count_is_given():
    assert Stream(bytes(32)).below(1).tolist() == [0]
    assert Stream(bytes(32)).below(10).shape == (1,)


@FEW
@given(seed=SEEDS, numerator=st.integers(0, 2**64))
@example(seed=bytes(32), numerator=0)
@example(seed=bytes(32), numerator=2**64)
def test_a_coin_compares_one_word_with_its_numerator(seed, numerator):
    words = Stream(seed).words(50).tolist()
    assert Stream(seed).bernoulli(numerator, 50).tolist() == [word < numerator for word in words]


def test_bad_requests_are_refused_and_a_stream_does_not_print_its_seed():
    stream = Stream(b"seed" * 8)
    assert "seed" not in repr(stream)
    for refused in (
        lambda: Stream(b"short"),
        lambda: Stream(bytearray(32)),
        lambda: stream.words(-1),
        lambda: stream.bernoulli(-1, 1),
        lambda: stream.bernoulli(2**64 + 1, 1),
        lambda: stream.below(0, 3),
    ):
        with pytest.raises(UsageError):
            refused()
