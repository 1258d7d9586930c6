"""How sure an AUC is, and its figures by group of people."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.evaluate.intervals import (
    RecordGroups,
    Scored,
    auc_by_group,
    auc_difference_by_group,
    auc_with_error,
    clearly_different,
    group_by_records,
)
from prirec.features.columns import Columns
from prirec.features.encoding import Encoding
from prirec.features.samples import Records, Samples
from prirec.metrics import auc, auc_of_few

RECORD = st.tuples(st.integers(0, 3), st.sampled_from([-1, 1]), st.integers(-2, 2))


def records(person: list[int], label: list[int], *, people: int) -> Records:
    order = np.argsort(person, kind="stable")
    counts = np.bincount(person, minlength=people)
    return Records(
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        person=np.array(person, dtype=np.int32)[order],
        place=np.zeros(len(person), dtype=np.int32),
        label=np.array(label, dtype=np.int8)[order],
        context=np.zeros((len(person), 0), dtype=np.float32),
    )


def scored(label: list[int], scores: list[float], *, counts: list[int] | None = None) -> Scored:
    """One person a record, who has as many training records as told."""
    people = len(label)
    test = records(list(range(people)), label, people=people)
    return Scored(test, np.array(scores, dtype=np.float64), np.array(counts or [1] * people))


def samples(training: list[int], tested: list[int]) -> Samples:
    """People with so many training records each, and test records of these people."""
    people = len(training)
    owners = [person for person, count in enumerate(training) for _ in range(count)]
    empty = np.zeros((people, 0), dtype=np.float32)
    return Samples(
        ids=tuple(f"u{n}" for n in range(people)),
        keys=np.zeros(people, dtype=np.uint64),
        home=None,
        people=empty,
        places=np.zeros((1, 0), dtype=np.float32),
        popularity=np.zeros((1, 0), dtype=np.float32),
        train=records(owners, [1] * len(owners), people=people),
        test=records(tested, [1] * len(tested), people=people),
        columns=Columns.of(Encoding()),
    )


def test_the_error_of_four_records_is_that_worked_out_by_hand() -> None:
    # positives 3 and 1 beat 1 and 1/2 of the negatives 2 and 0: variance 1/8 over 2, and the same for the negatives
    assert auc_with_error(scored([1, 1, -1, -1], [3, 1, 2, 0])) == (0.75, pytest.approx(math.sqrt(0.125)))


@given(st.lists(RECORD, min_size=1, max_size=30))
def test_the_figure_is_the_auc(rows: list[tuple[int, int, int]]) -> None:
    one = scored([label for _, label, _ in rows], [float(score) for _, _, score in rows])
    found, _ = auc_with_error(one)
    assert found == pytest.approx(auc(one.test.label, one.scores), nan_ok=True)


@pytest.mark.statistical  # 500 draws: the ratio's own sd is 3 %; must notice an error off by the square root of 2
def test_the_error_is_the_spread_over_repeated_draws() -> None:
    rng = np.random.default_rng(5)
    label = [1] * 60 + [-1] * 90
    drawn = [auc_with_error(scored(label, list(rng.normal(size=150) + 0.4 * np.array(label)))) for _ in range(500)]
    values, errors = np.array(drawn).T
    assert 0.85 < errors.mean() / values.std() < 1.15


@pytest.mark.statistical  # as above, for differences, which are surer than the two models apart
def test_the_error_of_a_difference_counts_what_the_models_share() -> None:
    rng = np.random.default_rng(6)
    label, crowd = [1] * 60 + [-1] * 90, RecordGroups((1,), (1,), (150,))
    gains, errors = [], []
    for _ in range(400):
        shared = rng.normal(size=150) + 0.4 * np.array(label)
        ours, theirs = (scored(label, list(shared + 0.3 * rng.normal(size=150))) for _ in range(2))
        gain = auc_difference_by_group(crowd, ours, theirs)
        assert gain is not None
        gains.append(gain.auc[0])
        errors.append(gain.error[0])
    assert 0.85 < np.mean(errors) / np.std(gains) < 1.15


def test_a_model_does_not_differ_from_itself() -> None:
    one = scored([1, 1, -1, -1], [3, 1, 2, 0])
    gain = auc_difference_by_group(RecordGroups((1,), (1,), (4,)), one, one)
    assert gain is not None
    assert (gain.auc[0], gain.error[0]) == (0.0, 0.0)
    assert not clearly_different(one, one)


def test_a_clear_difference_is_sure() -> None:
    label = [1] * 50 + [-1] * 50
    good, bad = scored(label, [float(v) for v in label]), scored(label, [float(v % 7) for v in range(100)])
    assert clearly_different(good, bad)


def test_models_tested_on_other_records_are_not_subtracted() -> None:
    crowd = RecordGroups((1,), (1,), (4,))
    assert (
        auc_difference_by_group(crowd, scored([1, 1, -1, -1], [1, 2, 3, 4]), scored([1, -1, 1, -1], [1, 2, 3, 4]))
        is None
    )


def test_scores_that_are_no_numbers_give_no_line() -> None:
    bad, good = scored([1, -1], [math.nan, 0.0]), scored([1, -1], [1.0, 0.0])
    crowd = RecordGroups((1,), (1,), (2,))
    assert auc_by_group(crowd, bad) is None
    assert auc_difference_by_group(crowd, good, bad) is None
    assert all(math.isnan(value) for value in auc_with_error(bad))


def test_each_group_has_the_auc_of_its_own_people() -> None:
    one = scored([1, -1, 1, -1, 1], [2, 1, 1, 2, 0], counts=[1, 2, 8, 9, 50])
    line = auc_by_group(RecordGroups((2, 9, 50), (1, 8, 50), (2, 2, 1)), one)
    assert line is not None
    assert line.auc[:2].tolist() == [1.0, 0.0]
    assert math.isnan(line.auc[2])  # one class only


def test_groups_are_about_equal_and_never_part_equal_counts() -> None:
    crowd = group_by_records(samples([1, 1, 1, 2, 3, 4, 5, 6, 7, 8], list(range(10))), groups=5)
    assert crowd.names == ["1", "2", "3–4", "5–6", "7–8"]
    assert crowd.people == (3, 1, 2, 2, 2)
    assert crowd.of(np.array([1, 2, 4, 8, 99])).tolist() == [0, 1, 2, 4, 4]


def test_people_without_test_records_are_in_no_group() -> None:
    assert group_by_records(samples([1, 2, 3, 100], [0, 1, 2])).upper == (1, 2, 3)
    assert len(group_by_records(samples([1, 2], []))) == 0


@given(st.lists(st.integers(1, 6), min_size=2, max_size=12))
def test_the_first_of_four_groups_is_the_quarter_with_fewest_records(training: list[int]) -> None:
    rng = np.random.default_rng(0)
    label, scores = [1, -1] * len(training), list(rng.normal(size=2 * len(training)))
    person = [n for n in range(len(training)) for _ in range(2)]
    counts = np.array(training)
    one = Scored(records(person, label, people=len(training)), np.array(scores), counts)
    line = auc_by_group(group_by_records(samples(training, person), groups=4), one)
    few = auc_of_few(one.test.label, one.scores, person=one.test.person, training_records=counts)
    assert line is not None
    assert line.auc[0] == pytest.approx(few)
