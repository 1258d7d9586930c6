"""Every block by examples that can be worked out by hand; what is not known becomes 0."""

from calendar import timegm
from datetime import UTC, datetime
from math import cos, e, log, log1p, pi, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.data.dataset import Category, Numbers, Tags
from prirec.errors import DataError
from prirec.features.encoding import Clock, Distance, Hashed, Log, Range, Words
from support import messages
from support.hypothesis_settings import PATIENT


def numbers(*values: float) -> Numbers:
    return Numbers(np.array(values, dtype=np.float64))


def category(*codes: int, words: tuple[str, ...] = ("a", "b", "c")) -> Category:
    return Category(np.array(codes, dtype=np.int32), words)


def tags(rows: list[list[int]], words: tuple[str, ...] = ("a", "b", "c")) -> Tags:
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    return Tags(offsets, np.array([code for row in rows for code in row], dtype=np.int32), words)


def seconds(*date: int) -> int:
    return timegm(datetime(*date, tzinfo=UTC).timetuple())


def test_log_keeps_the_sign_and_maps_unknown_to_0():
    block = Log(column="x", shift=1.0, scale=2.0)
    encoded = block.encode(numbers(e - 1, 0.0, 1 - e, np.nan))
    np.testing.assert_allclose(encoded, [[0.0], [-0.5], [-1.0], [0.0]], atol=1e-7)
    assert encoded.dtype == np.float32


def test_range_goes_from_minus_1_to_1_and_is_held_there():
    block = Range(column="age", low=20.0, high=60.0)
    encoded = block.encode(numbers(20, 40, 60, 50, -1000, 1000, np.nan))
    assert encoded.ravel().tolist() == [-1, 0, 1, 0.5, -1, 1, 0]


def test_words_have_one_feature_each_in_their_own_order():
    block = Words(column="kind", words=("c", "a"))
    assert block.encode(category(0, 1, 2, -1)).tolist() == [[0, 1], [0, 0], [1, 0], [0, 0]]
    assert block.encode(tags([[0, 2], [], [1], [2]])).tolist() == [[1, 1], [0, 0], [0, 0], [1, 0]]
    assert block.names() == ("kind: c", "kind: a")


def test_words_do_not_depend_on_the_codes_of_a_data_set():
    block = Words(column="kind", words=("a", "b"))
    assert block.encode(category(0, 1, words=("b", "a"))).tolist() == [[0, 1], [1, 0]]


def test_a_tag_given_twice_counts_once():
    assert Words(column="kind", words=("a",)).encode(tags([[0, 0]])).tolist() == [[1]]


def test_hashed_words_fall_into_the_bucket_that_the_public_hash_names():
    block = Hashed(column="job", buckets=4)
    encoded = block.encode(category(0, 1, 2, -1))
    for row, word in enumerate("abc"):
        assert np.flatnonzero(encoded[row]).tolist() == [block.bucket(word)]
    assert encoded[3].tolist() == [0] * 4
    assert block.names() == tuple(f"job: bucket {b}" for b in range(4))


def test_buckets_are_the_same_for_ever_and_differ_between_columns():
    words = [f"word {n}" for n in range(50)]
    one, other = Hashed(column="job", buckets=8), Hashed(column="hobby", buckets=8)
    assert [one.bucket(word) for word in words] != [other.bucket(word) for word in words]
    assert set(map(one.bucket, words)) == set(range(8))
    assert [Hashed(column="job", buckets=8).bucket(word) for word in ("nurse", "pilot", "漁師")] == [1, 4, 1]


def test_distance_is_a_logarithm_and_unknown_is_0():
    block = Distance(column="d", shift=log1p(5.0), scale=2.0)
    encoded = block.encode_km(np.array([5.0, 0.0, 6 * e**2 - 1, np.nan]))
    np.testing.assert_allclose(encoded.ravel(), [0.0, -log(6) / 2, 1.0, 0.0], atol=1e-6)


@pytest.mark.parametrize(
    ("date", "weekday"),
    [
        ((1970, 1, 1), 3), ((2000, 1, 1), 5), ((2024, 2, 29), 3), ((2024, 3, 4), 0), ((2023, 12, 31), 6),
        ((1969, 7, 20), 6),
    ],
)  # fmt: skip
def test_the_clock_knows_the_day_of_the_week(date, weekday):
    encoded = Clock(column="time").encode_time(np.array([seconds(*date, 12, 0, 0), seconds(*date, 23, 59, 59)]))
    angle = 2 * pi * weekday / 7
    np.testing.assert_allclose(encoded[:, 2:4], [[sin(angle), cos(angle)]] * 2, atol=1e-6)
    assert encoded[:, 4].tolist() == [float(weekday >= 5)] * 2


def test_the_clock_knows_the_hour():
    times = np.array([seconds(2024, 3, 4, hour) for hour in (0, 6, 12, 18)])
    encoded = Clock(column="time").encode_time(times)
    np.testing.assert_allclose(encoded[:, :2], [[0, 1], [1, 0], [0, -1], [-1, 0]], atol=1e-6)


@PATIENT
@given(st.integers(-(2**40), 2**40))
def test_the_clock_agrees_with_the_calendar(moment):
    encoded = Clock(column="time").encode_time(np.array([moment]))[0]
    day = datetime.fromtimestamp(0, UTC).toordinal() + moment // 86_400
    weekday = (day + 6) % 7  # ordinal 1 was a Monday
    np.testing.assert_allclose(encoded[2:4], [sin(2 * pi * weekday / 7), cos(2 * pi * weekday / 7)], atol=1e-6)
    assert encoded[4] == float(weekday >= 5)


BLOCKS = [
    (Log(column="x"), numbers(1, 2)),
    (Range(column="x", low=0, high=1), numbers(1, 2)),
    (Words(column="x", words=("a", "b")), category(0, 1)),
    (Words(column="x", words=("a", "b")), tags([[0], [1]])),
    (Hashed(column="x", buckets=5), category(0, 1)),
    (Hashed(column="x", buckets=5), tags([[0], [1]])),
]


@pytest.mark.parametrize(("block", "column"), BLOCKS)
def test_a_block_has_as_many_names_as_features_and_they_differ(block, column):
    encoded = block.encode(column)
    assert encoded.shape == (2, len(block.names()))
    assert encoded.dtype == np.float32
    assert len(set(block.names())) == len(block.names())


@pytest.mark.parametrize(("block", "column"), BLOCKS)
def test_a_column_of_another_kind_is_a_data_error(block, column):
    other = category(0, 1) if isinstance(column, Numbers) else numbers(1, 2)
    with pytest.raises(DataError, match=messages.in_column("x", messages.COLUMN_OF_ANOTHER_KIND)):
        block.encode(other)


@pytest.mark.parametrize(("block", "column"), BLOCKS)
def test_no_rows_give_no_features(block, column):
    none = {Numbers: numbers(), Category: category(), Tags: tags([])}[type(column)]
    assert block.encode(none).shape == (0, len(block.names()))
