import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import ndcg_score

from prirec.errors import UsageError
from prirec.metrics import PlaceLists, RankQuality, hits, rank_figures

CATALOGUE = np.arange(6, dtype=np.int32)


def lists(*of_people: list[int]) -> PlaceLists:
    person = np.repeat(np.arange(len(of_people), dtype=np.int32), [len(places) for places in of_people])
    place = np.array([p for places in of_people for p in places], dtype=np.int32)
    return PlaceLists.of(person=person, place=place, people=len(of_people))


def by_row(person: int, places: np.ndarray) -> np.ndarray:
    """Place 5 is everyone's best, place 0 the worst."""
    return places.astype(np.float64)


def whole(person: int) -> np.ndarray:
    return CATALOGUE


def ask(tests: PlaceLists, exclude: PlaceLists | None = None, **changes) -> RankQuality:
    exclude = exclude or lists(*[[] for _ in range(len(tests))])
    return rank_figures(
        changes.pop("scores", by_row),
        tests=tests,
        exclude=exclude,
        candidates=changes.pop("candidates", whole),
        **changes,
    ).mean()


def test_the_best_place_first_is_perfect():
    assert ask(lists([5]), k=1) == RankQuality(hit_rate=1.0, ndcg=1.0, recall=1.0, people=1)


def test_a_place_just_below_k_is_a_miss():
    assert ask(lists([3]), k=2) == RankQuality(hit_rate=0.0, ndcg=0.0, recall=0.0, people=1)
    assert ask(lists([3]), k=3).hit_rate == 1.0


def test_ndcg_discounts_by_the_logarithm_of_the_rank():
    assert ask(lists([4]), k=3).ndcg == pytest.approx(1 / math.log2(3))
    assert ask(lists([3]), k=3).ndcg == pytest.approx(1 / 2)


def test_the_ideal_is_over_k_when_more_places_are_expected_than_fit():
    quality = ask(lists([5, 4, 3]), k=2)
    assert quality.ndcg == pytest.approx(1.0)
    assert quality.recall == pytest.approx(2 / 3)


def test_known_places_make_room_for_new_ones():
    assert ask(lists([3]), lists([5, 4]), k=1).hit_rate == 1.0


def test_a_test_place_that_is_already_known_is_no_question():
    assert ask(lists([5, 0]), lists([5]), k=1) == RankQuality(hit_rate=0.0, ndcg=0.0, recall=0.0, people=1)
    assert ask(lists([5, 4]), lists([5]), k=1) == RankQuality(hit_rate=1.0, ndcg=1.0, recall=1.0, people=1)
    assert ask(lists([5]), lists([5]), k=1).people == 0


def test_a_place_that_matching_left_out_is_a_miss():
    some = np.array([4, 2], dtype=np.int32)
    quality = ask(lists([5, 4]), candidates=lambda person: some, k=2)
    assert quality.recall == 0.5
    assert quality.ndcg == pytest.approx(1 / (1 + 1 / math.log2(3)))


def test_ties_count_against_us():
    level = lambda person, places: np.zeros(len(places))  # noqa: E731
    assert ask(lists([0]), scores=level, k=5).hit_rate == 0.0
    last = ask(lists([0]), scores=level, k=6)
    assert last.hit_rate == 1.0
    assert last.ndcg == pytest.approx(1 / math.log2(7))


def test_no_candidates_are_all_misses():
    assert ask(lists([1]), candidates=lambda person: CATALOGUE[:0], k=3).recall == 0.0
    assert ask(lists([1]), lists([0, 2]), candidates=lambda person: CATALOGUE[[0, 2]], k=3).recall == 0.0


def test_people_are_averaged_and_those_without_tests_left_out():
    quality = ask(lists([5], [], [0]), k=1)
    assert (quality.hit_rate, quality.people) == (0.5, 2)


def test_figures_of_each_person_come_in_the_order_asked_and_average_to_the_quality():
    tests, nothing = lists([5], [], [0, 5], [1]), lists([], [], [], [])
    asked = np.array([3, 2, 1, 0], dtype=np.int32)
    each = rank_figures(by_row, tests=tests, candidates=whole, exclude=nothing, k=2, people=asked)
    assert each.person.tolist() == [3, 2, 0]
    assert each.hit_rate.tolist() == [0.0, 1.0, 1.0]
    assert each.recall.tolist() == [0.0, 0.5, 1.0]
    quality = ask(tests, nothing, k=2, people=asked)
    assert (quality.ndcg, quality.people) == (pytest.approx(each.ndcg.mean()), 3)
    assert "array" not in repr(each)


def test_a_new_place_is_compared_with_the_others_around_it():
    """Place 3 beats 1 and 2 of those around it and loses to 4; places 5 and 0, where the person was, do not count."""
    around = {3: [1, 2, 4, 5, 0], 0: [5]}
    found = ask(lists([3, 0]), lists([5]), k=1, around=lambda place: np.array(around[place], dtype=np.int32))
    assert found.auc_nearby == pytest.approx(2 / 3)  # nothing is left around place 0
    tied = ask(
        lists([3]), k=1, around=lambda place: np.array([1], dtype=np.int32), scores=lambda i, p: np.zeros(len(p))
    )
    assert tied.auc_nearby == 0.5
    assert math.isnan(ask(lists([3]), k=1).auc_nearby)


def test_only_the_people_asked_for_are_asked():
    assert ask(lists([5], [0]), k=1, people=np.array([0], dtype=np.int32)).hit_rate == 1.0
    assert math.isnan(ask(lists([5], [0]), k=1, people=np.zeros(0, dtype=np.int32)).ndcg)


def test_visiting_a_test_place_twice_expects_it_once():
    assert ask(lists([5, 5]), k=1).recall == 1.0


@given(st.permutations(range(30)), st.sets(st.integers(0, 29), min_size=1), st.integers(1, 40))
def test_ndcg_equals_scikit_learn_without_ties(order, expected, k):
    scores = np.array(order, dtype=np.float64)
    catalogue = np.arange(30, dtype=np.int32)
    relevant = np.isin(catalogue, list(expected)).astype(int)
    quality = ask(
        lists(sorted(expected)), scores=lambda person, places: scores[places], candidates=lambda person: catalogue, k=k
    )
    assert quality.ndcg == pytest.approx(ndcg_score([relevant], [scores], k=k))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.data())
def test_hits_are_those_of_a_full_sort(levels, data):
    scores, offered = np.array(levels, dtype=np.float64), np.arange(len(levels), dtype=np.int32)
    expected = np.array(sorted(data.draw(st.sets(st.sampled_from(range(len(levels)))))), dtype=np.int32)
    k = data.draw(st.integers(1, 25))
    by_hand = sorted((-scores[p], p in expected) for p in range(len(levels)))[:k]
    assert hits(offered, scores, expected=expected, k=k).tolist() == [wanted for _, wanted in by_hand]


def test_lists_come_back_by_person_in_any_order_of_rows():
    person, place = np.array([2, 0, 2], dtype=np.int32), np.array([7, 8, 9], dtype=np.int32)
    of = PlaceLists.of(person=person, place=place, people=4)
    assert [of[i].tolist() for i in range(len(of))] == [[8], [], [7, 9], []]
    assert "8" not in repr(of)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: ask(lists([5]), k=0),
        lambda: ask(lists([]), k=0),
        lambda: ask(lists([5]), lists([5], [4])),
        lambda: ask(lists([5]), scores=lambda person, places: np.full(len(places), np.nan)),
        lambda: ask(lists([5]), scores=lambda person, places: np.zeros(len(places) + 1)),
        lambda: ask(lists([5]), candidates=lambda person: CATALOGUE[[5, 5, 1]]),
        lambda: ask(lists([5]), people=np.array([1], dtype=np.int32)),
        lambda: ask(lists([5]), people=np.array([-1], dtype=np.int32)),
        lambda: PlaceLists.of(person=CATALOGUE, place=CATALOGUE, people=3),
        lambda: PlaceLists.of(person=CATALOGUE, place=CATALOGUE[:2], people=6),
    ],
)
def test_bad_input_is_a_usage_error(bad):
    with pytest.raises(UsageError):
        bad()
