"""Permanent answers: repeating adds nothing, windows are paid for, and a memo that is drawn anew is caught."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import PolicyError, UsageError
from prirec.privacy.memo import (
    Question,
    distinct_answers,
    loss_per_event,
    loss_per_user,
    permanent_answers,
    permanent_words,
)
from prirec.privacy.one_bit_mean import OneBitMean
from prirec.privacy.randomized_response import RandomizedResponse, perturb
from prirec.privacy.units import Unit
from support.audit import epsilon_at_least
from support.exact import fresh
from support.patience import FEW

ONE, TWO = RandomizedResponse(epsilon_per_bit=1.0), RandomizedResponse(epsilon_per_bit=2.0)
JUNE, JULY = Question("visited", 100, 129), Question("visited", 130, 160)
SECRET = bytes(range(32))
PLACES = [f"place {j}" for j in range(300)]
VISITED = np.arange(300) % 7 == 0


def answers(secret=SECRET, question=JUNE, places=PLACES, visited=VISITED, today=1000, mechanism=ONE):
    return permanent_answers(visited, places=places, question=question, today=today, mechanism=mechanism, secret=secret)


def test_asked_again_a_device_says_the_same_again():
    assert (answers() == answers()).all()


@pytest.mark.parametrize(
    "other",
    [
        {"secret": bytes(32)},
        {"question": JULY},
        {"question": Question("spent", 100, 129)},
        {"question": Question("visited", 100, 130)},
        {"places": [f"other {j}" for j in range(300)]},
        {"mechanism": TWO},  # with the same words 0.15 of them would differ, and show the truth
    ],
)
def test_another_secret_feature_window_place_or_price_gives_an_independent_answer(other):
    assert 0.2 < (answers() != answers(**other)).mean() < 0.6


@FEW
@given(order=st.permutations(range(12)))
def test_the_answer_belongs_to_the_place_and_not_to_its_row(order):
    shuffled = permanent_words(SECRET, JUNE, [PLACES[j] for j in order], purpose="test")
    assert shuffled.tolist() == permanent_words(SECRET, JUNE, PLACES[:12], purpose="test")[order].tolist()


def test_an_answer_is_the_truth_flipped_where_the_word_says_so():
    words = permanent_words(SECRET, JUNE, PLACES, purpose=f"randomised response, {ONE.flip_words} words")
    assert ((answers() != VISITED) == (words < np.uint64(ONE.flip_words))).all()


@pytest.mark.statistical  # secrets are fixed: no false alarm; must notice a memo drawn anew at each of 21 collections
def test_a_majority_of_repeated_answers_shows_no_more_than_one_of_them():
    devices = [bytes([3]) + n.to_bytes(31, "big") for n in range(4000)]

    def majority(truth):
        one = [answers(secret=d, places=["x"], visited=np.array([truth]))[0] for d in devices]
        return np.tile(one, (21, 1)).sum(axis=0) > 10

    def redrawn(truth):
        return perturb(np.full((21, 4000), truth), ONE, fresh()).sum(axis=0) > 10

    assert 0.5 < epsilon_at_least(majority(True), majority(False)) <= 1.0
    assert epsilon_at_least(redrawn(True), redrawn(False)) > 1.0


def test_an_open_window_is_not_answered_about():
    assert answers(today=130).shape == (300,)
    with pytest.raises(PolicyError, match="days that are over"):
        answers(today=129)


def test_the_ledger_counts_a_repeated_question_once_and_every_window_apart():
    assert distinct_answers([JUNE, JUNE, Question("visited", 100, 129)]) == 1
    assert distinct_answers([JUNE, JULY, Question("spent", 100, 129)]) == 3
    user = loss_per_user([JUNE, JULY, JUNE], pois=50, mechanism=ONE)
    assert (user.epsilon, user.unit) == (100.0, Unit.USER)


def test_an_event_pays_for_each_window_that_holds_its_day():
    assert loss_per_event([], mechanism=ONE).epsilon == 0
    assert loss_per_event([JUNE, JULY, JUNE], mechanism=ONE).epsilon == 1
    overlapping = [Question("visited", day, day + 29) for day in range(0, 60, 10)]
    event = loss_per_event([*overlapping, Question("spent", 25, 25)], mechanism=ONE)
    assert (event.epsilon, event.unit) == (4.0, Unit.EVENT)


@FEW
@given(windows=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=8))
def test_the_worst_day_is_found(windows):
    questions = {Question("visited", first, first + length) for first, length in windows}
    by_day = [sum(q.first_day <= day <= q.last_day for q in questions) for day in range(45)]
    assert loss_per_event(questions, mechanism=ONE).epsilon == max(by_day)


MEAN = OneBitMean(0.0, 10.0, 1.0)


def bits(values, *, secret=SECRET, today=1000):
    return MEAN.permanent_bits(values, places=PLACES, question=JUNE, today=today, secret=secret)


def test_a_permanent_bit_is_the_same_again_and_mostly_stays_when_a_value_moves_a_little():
    values = np.linspace(0, 10, 300)
    assert (bits(values) == bits(values)).all()
    assert (bits(values) != bits(np.minimum(values + 0.01, 10))).mean() < 0.02
    assert (bits(values) != bits(values, secret=bytes(32))).mean() > 0.2


@pytest.mark.parametrize("other", [OneBitMean(0.0, 10.0, 1.25), OneBitMean(0.0, 10.5, 1.0)])
def test_another_price_or_other_bounds_give_an_independent_bit(other):
    """With shared words at most 0.05 of the bits would differ, and each of those would tell much."""
    values = np.where(VISITED, 10.0, 0.0)
    same = {"places": PLACES, "question": JUNE, "today": 1000, "secret": SECRET}
    assert (MEAN.permanent_bits(values, **same) != other.permanent_bits(values, **same)).mean() > 0.25


@pytest.mark.statistical  # secrets are fixed: no false alarm; must notice values off by a tenth of the range
def test_permanent_bits_of_many_devices_estimate_the_sum():
    values, devices = np.full(300, 7.0), 200
    ones = sum(bits(values, secret=bytes([5]) + n.to_bytes(31, "big")).astype(int) for n in range(devices))
    total, sd = MEAN.estimated_sum(ones, reports=devices), MEAN.standard_deviation(np.full(devices, 7.0))
    assert abs(total.mean() - 7 * devices) < 5 * sd / np.sqrt(300)
    assert abs(total.mean() - 8 * devices) > 5 * sd / np.sqrt(300)
    assert MEAN.estimated_mean(ones, reports=devices) == pytest.approx(total / devices)


def test_what_makes_no_sense_is_refused():
    for refused in (
        lambda: Question("", 1, 2),
        lambda: Question("visited", 3, 2),
        lambda: answers(visited=VISITED[1:]),
        lambda: answers(visited=VISITED.astype(int)),
        lambda: bits(np.zeros(3)),
    ):
        with pytest.raises(UsageError):
            refused()
    with pytest.raises(PolicyError):
        bits(np.zeros(300), today=120)
