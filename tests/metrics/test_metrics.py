import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as peer

from prirec.errors import UsageError
from prirec.features.samples import Records
from prirec.metrics import (
    Quality,
    auc,
    auc_of_few,
    auc_within_people,
    gauc,
    log_loss,
    measure,
    seen_pairs,
    with_fewest_records,
)


def labels(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int8)


def reals(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def rows(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def of_people(person: np.ndarray, *, label: np.ndarray | None = None, place: np.ndarray | None = None) -> Records:
    """Records without features, whose people stand in any order: no figure needs more."""
    label = np.ones(len(person), dtype=np.int8) if label is None else label
    place = np.arange(len(person), dtype=np.int32) if place is None else place
    counts = np.bincount(person, minlength=6)
    return Records(
        np.concatenate([[0], np.cumsum(counts)]), person, place, label, np.zeros((len(person), 0), np.float32)
    )


few_levels = st.integers(-3, 3).map(float)  # heavy ties
any_level = st.floats(-1e6, 1e6, allow_nan=False)
records = st.lists(
    st.tuples(st.sampled_from([1, -1]), st.one_of(few_levels, any_level), st.integers(0, 5)), min_size=1, max_size=60
)


def unzip(drawn: list) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y, s, person = zip(*drawn, strict=True)
    return labels(*y), reals(*s), rows(*person)


def test_auc_of_a_perfect_an_inverted_and_a_constant_ranking():
    y = labels(-1, -1, 1, 1)
    assert auc(y, reals(1, 2, 3, 4)) == 1.0
    assert auc(y, reals(4, 3, 2, 1)) == 0.0
    assert auc(y, reals(7, 7, 7, 7)) == 0.5


def test_auc_counts_a_tie_half():
    assert auc(labels(1, -1, -1), reals(2, 2, 1)) == 0.75  # one tie, one win, whichever class is the rare one
    assert auc(labels(-1, 1, 1), reals(2, 2, 1)) == 0.25


def test_auc_ranks_infinities():
    assert auc(labels(1, -1, -1), reals(math.inf, 0, -math.inf)) == 1.0
    assert auc(labels(1, -1), reals(math.inf, math.inf)) == 0.5


@given(records)
def test_auc_equals_scikit_learn_even_with_heavy_ties(drawn):
    y, s, _ = unzip(drawn)
    if len(set(y.tolist())) == 2:
        assert auc(y, s) == pytest.approx(peer.roc_auc_score(y, s), abs=1e-12)
    else:
        assert math.isnan(auc(y, s))


@given(records)
def test_auc_does_not_see_a_monotone_change_of_scores(drawn):
    y, s, _ = unzip(drawn)
    s = np.rint(s)
    assert auc(y, s) == pytest.approx(auc(y, 2 * s + 1), abs=0, nan_ok=True)


@given(st.lists(st.tuples(st.sampled_from([1, -1]), st.floats(-15, 15)), min_size=1, max_size=40))
def test_log_loss_equals_scikit_learn_on_probabilities(drawn):
    y, s = labels(*[r[0] for r in drawn]), reals(*[r[1] for r in drawn])
    expected = peer.log_loss(y, 1 / (1 + np.exp(-s)), labels=[-1, 1])
    assert log_loss(y, s) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_log_loss_of_huge_scores_is_exact():
    assert log_loss(labels(1, -1), reals(1e300, -1e300)) == 0.0
    assert log_loss(labels(-1, 1), reals(1e6, -1e6)) == 1e6
    assert log_loss(labels(1), reals(-math.inf)) == math.inf
    assert log_loss(labels(1), reals(0.0)) == pytest.approx(math.log(2))


def test_gauc_ignores_differences_between_people():
    # person 0 scores everything high, person 1 low: each ranks its own perfectly
    y, s = labels(1, -1, 1, -1), reals(10, 9, 2, 1)
    assert gauc(y, s, person=rows(0, 0, 1, 1)) == 1.0
    assert auc(y, s) == 0.75


def test_gauc_weights_people_by_their_records_and_skips_those_with_one_class():
    y = labels(1, -1, 1, -1, -1, -1, 1)
    s = reals(1, 0, 0, 1, 2, 3, 5)
    person = rows(0, 0, 7, 7, 7, 7, 9)  # person 0: 1.0 from two records, 7: 0.0 from four, 9: only a positive
    assert gauc(y, s, person=person) == pytest.approx(2 / 6)


@given(records)
def test_gauc_equals_a_loop_over_people(drawn):
    y, s, person = unzip(drawn)
    total, weight = 0.0, 0
    for i in np.unique(person):
        own = person == i
        if len(np.unique(y[own])) == 2:
            total, weight = total + own.sum() * peer.roc_auc_score(y[own], s[own]), weight + own.sum()
    expected = total / weight if weight else math.nan
    assert gauc(y, s, person=person) == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_the_auc_within_people_exists_for_those_with_both_classes_and_does_not_print():
    within = auc_within_people(labels(1, -1, 1, -1, 1), reals(1, 0, 0, 1, 5), person=rows(7, 7, 2, 2, 4))
    assert (within.person.tolist(), within.auc.tolist(), within.records.tolist()) == ([2, 7], [0.0, 1.0], [2, 2])
    assert "array" not in repr(within)


@given(records)
def test_gauc_of_a_single_person_is_the_auc(drawn):
    y, s, person = unzip(drawn)
    assert gauc(y, s, person=np.zeros_like(person)) == pytest.approx(auc(y, s), abs=1e-15, nan_ok=True)


@given(records, st.randoms(use_true_random=False))
@settings(max_examples=50)
def test_no_figure_depends_on_the_order_of_records(drawn, shuffler):
    y, s, person = unzip(drawn)
    train = of_people(np.repeat(rows(0, 1, 2, 3, 4), [5, 1, 1, 9, 2]), place=np.arange(18, dtype=np.int32) % 7)
    place = (np.arange(len(y)) % 11).astype(np.int32)
    order = np.array(shuffler.sample(range(len(y)), len(y)))
    one = measure(s, train=train, test=of_people(person, label=y, place=place))
    other = measure(s[order], train=train, test=of_people(person[order], label=y[order], place=place[order]))
    assert one.to_dict() == pytest.approx(other.to_dict(), nan_ok=True)


def test_auc_of_few_looks_at_the_quarter_with_fewest_training_records():
    y = labels(1, -1, 1, -1, 1, -1, 1, -1)
    s = reals(0, 1, 1, 0, 1, 0, 1, 0)  # wrong for person 0 only
    person = rows(0, 0, 1, 1, 2, 2, 3, 3)
    assert auc_of_few(y, s, person=person, training_records=rows(1, 10, 20, 30)) == 0.0
    assert auc_of_few(y, s, person=person, training_records=rows(30, 1, 10, 20)) == 1.0


def test_auc_of_few_takes_everyone_tied_at_the_quantile():
    y, s, person = labels(1, -1, 1, -1, 1, -1, 1, -1), reals(0, 1, 1, 0, 1, 0, 9, 8), rows(0, 0, 1, 1, 2, 2, 3, 3)
    few = person != 3
    assert auc_of_few(y, s, person=person, training_records=rows(2, 2, 2, 3)) == auc(y[few], s[few])


def test_auc_of_few_takes_its_share_of_people_who_have_test_records():
    y, s, person = labels(1, -1, 1, -1), reals(1, 0, 0, 1), rows(4, 4, 5, 5)
    counts = rows(0, 0, 0, 0, 7, 9)  # people 0 to 3 have nothing to be tested on
    assert auc_of_few(y, s, person=person, training_records=counts, share=0.5) == 1.0


def test_any_figure_can_be_shown_for_the_people_with_fewest_records():
    y, s, person = labels(1, -1, 1, -1, 1, -1), reals(0, 1, 1, 0, 9, 8), rows(0, 0, 1, 1, 2, 2)
    few = with_fewest_records(person, training_records=rows(5, 1, 9), share=0.4)
    assert few.tolist() == [True, True, True, True, False, False]  # two people are the fewest that are 40 % of three
    assert auc(y[few], s[few]) == auc_of_few(y, s, person=person, training_records=rows(5, 1, 9), share=0.4)
    assert with_fewest_records(rows(), training_records=rows(1)).tolist() == []


def test_the_whole_share_is_the_plain_auc():
    y, s, person = labels(1, -1, 1, -1), reals(1, 0, 0, 1), rows(0, 0, 1, 1)
    assert auc_of_few(y, s, person=person, training_records=rows(1, 2), share=1.0) == auc(y, s)


def test_figures_without_records_or_without_both_classes_are_nan():
    none, nobody = np.zeros(0, dtype=np.int8), rows()
    empty = measure(reals(), train=of_people(rows(0, 1, 1)), test=of_people(nobody, label=none))
    assert all(math.isnan(value) for name, value in empty.to_dict().items() if name not in ("records", "seen"))
    assert (empty.records, empty.seen) == (0, 0.0)
    assert math.isnan(gauc(labels(1, 1), reals(1, 2), person=rows(0, 0)))


def test_measure_gathers_the_single_figures():
    y, s, person = labels(1, -1, 1, -1), reals(1, 0, 0, 1), rows(0, 0, 1, 1)
    train = of_people(rows(0, 1, 1), place=rows(9, 8, 7))
    assert measure(s, train=train, test=of_people(person, label=y)) == Quality(
        auc=0.5, log_loss=log_loss(y, s), gauc=0.5, auc_few=1.0, records=4, seen=0.0, auc_new=0.5
    )
    assert math.isnan(measure(s, train=train, test=of_people(person, label=y), probabilities=False).log_loss)


def test_pairs_that_training_has_are_measured_apart():
    """Person 0 and place 3 are in training, person 1 and place 3 are not: what is remembered is not what is learnt."""
    train = of_people(rows(0, 1), place=rows(3, 4), label=labels(-1, 1))  # whatever the label was
    test = of_people(rows(0, 0, 1, 1), place=rows(3, 5, 3, 6), label=labels(1, -1, 1, -1))
    assert seen_pairs(train, test).tolist() == [True, False, False, False]
    found = measure(reals(9, 1, 0, 2), train=train, test=test)
    assert (found.seen, found.auc, found.auc_new) == (0.25, 0.5, 0.0)
    assert "seen pairs" in repr(found)
    assert "seen pairs" not in repr(measure(reals(9, 1, 0, 2), train=of_people(rows(2)), test=test))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: auc(labels(1, -1), reals(1, math.nan)),
        lambda: auc(labels(1, -1), reals(1)),
        lambda: auc(labels(1, 0), reals(1, 2)),
        lambda: log_loss(labels(1), reals(math.nan)),
        lambda: log_loss(labels(1), reals(1, 2)),
        lambda: gauc(labels(1, -1), reals(1, 2), person=rows(0)),
        lambda: gauc(labels(1, -1), reals(1, math.nan), person=rows(0, 0)),
        lambda: auc(labels(1, -1).reshape(1, 2), reals(1, 2).reshape(1, 2)),
        lambda: auc_of_few(labels(1, -1), reals(1, 2), person=rows(0, 3), training_records=rows(1, 2)),
        lambda: auc_of_few(labels(1, -1), reals(1, 2), person=rows(0, -1), training_records=rows(1, 2)),
        lambda: auc_of_few(labels(1, -1), reals(1, 2), person=rows(0, 1), training_records=rows(1, 2), share=0.0),
        lambda: auc_of_few(labels(1, -1), reals(1, 2), person=rows(0, 1), training_records=rows(1, 2), share=math.nan),
    ],
)
def test_bad_input_is_a_usage_error(bad):
    with pytest.raises(UsageError):
        bad()
