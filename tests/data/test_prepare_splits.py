"""Splits are exact, and a split by time never lets a person's test come before that person's training."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.data.dataset import Visits
from prirec.data.prepare import by_record, by_time
from prirec.errors import UsageError
from support import messages


def records(person: list[int], time: list[int] | None) -> Visits:
    n = len(person)
    return Visits(
        np.array(person, dtype=np.int32),
        np.zeros(n, dtype=np.int32),
        np.ones(n, dtype=np.int8),
        None if time is None else np.array(time, dtype=np.int64),
    )


@given(st.integers(0, 500), st.sampled_from([0.5, 0.8, 0.9]), st.integers(0, 9))
def test_a_split_by_record_is_exact(count: int, share: float, seed: int) -> None:
    train = by_record(count, train_share=share, rng=np.random.default_rng(seed))
    assert len(train) == count
    assert abs(int(train.sum()) - share * count) <= 0.5 + 1e-9


def test_a_split_by_record_is_random_and_repeatable() -> None:
    one, same, other = (by_record(100, train_share=0.8, rng=np.random.default_rng(s)) for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_the_last_records_by_time_are_the_test() -> None:
    train = by_time(records([1, 0, 1, 1, 1, 1], [50, 7, 40, 10, 30, 20]), train_share=0.8)
    assert train.tolist() == [False, True, True, True, True, True]


def test_equal_times_keep_file_order() -> None:
    assert by_time(records([0] * 4, [5] * 4), train_share=0.5).tolist() == [True, True, False, False]


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), max_size=60), st.sampled_from([0.05, 0.5, 0.8]))
def test_no_training_record_is_later_than_a_test_record(rows: list[tuple[int, int]], share: float) -> None:
    person, time = [r[0] for r in rows], [r[1] for r in rows]
    train = by_time(records(person, time), train_share=share)
    for p in set(person):
        own = np.array(person) == p
        early, late = np.array(time)[own & train], np.array(time)[own & ~train]
        assert len(early) >= 1
        assert len(early) == max(1, int(share * own.sum() + 0.5))
        assert not len(late) or early.max() <= late.min()


def test_a_split_by_time_needs_times() -> None:
    with pytest.raises(UsageError, match=messages.SPLIT_BY_TIME_WITHOUT_TIMES):
        by_time(records([0, 0], None), train_share=0.8)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, float("nan")])
def test_a_share_must_leave_something_on_both_sides(share: float) -> None:
    with pytest.raises(UsageError):
        by_record(10, train_share=share, rng=np.random.default_rng(0))
    with pytest.raises(UsageError):
        by_time(records([0], [0]), train_share=share)
