import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.protocols.prediction import Contrast, PlacePart, Reason, Suggestion, combine, contributions, score_places

NAMES = ("age", "category", "popularity")


def groups(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int32)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 6), st.integers(0, 99))
def test_bias_and_contributions_add_up_to_the_score(m, n, c, M, seed):
    rng = np.random.default_rng(seed)
    w, V = rng.normal(size=m + n + c + 1), rng.normal(size=(m + n + c, 3))
    person, places, context = rng.normal(size=m), rng.normal(size=(M, n)), rng.normal(size=(M, c))
    scores = score_places(
        linear=w, interaction=V, person=person, places=places, context=context, part=PlacePart.of(V, places, first=m)
    )
    parts = contributions(w, V, combine(person, places, context))
    assert w[0] + parts.sum(axis=1) == pytest.approx(scores, abs=1e-10)


def test_a_pair_is_split_in_halves_between_its_features():
    w, V = np.array([9.0, 1.0, 2.0]), np.array([[3.0], [4.0]])
    assert contributions(w, V, np.array([[1.0, 1.0]])).tolist() == [[1.0 + 6.0, 2.0 + 6.0]]


def test_a_feature_that_is_absent_contributes_nothing():
    w, V = np.array([9.0, 1.0, 2.0]), np.array([[3.0], [4.0]])
    assert contributions(w, V, np.array([[0.0, 1.0]])).tolist() == [[0.0, 2.0]]


def test_one_hot_columns_of_a_category_are_one_reason():
    # columns: age, category = bar, category = park, popularity; no pairs
    samples = np.array([[1.0, 1, 0, 0.5], [1.0, 0, 1, 0.5]])
    parts = contributions(np.array([0.0, 5.0, 2.0, -2.0, 1.0]), np.zeros((4, 1)), samples)
    contrast = Contrast.of(parts, groups=groups(0, 1, 1, 2), group_names=NAMES)
    assert contrast.reasons(0) == (Reason("category", 2.0),)
    assert contrast.reasons(1) == (Reason("category", -2.0),)


def test_the_person_shows_through_pairs_only():
    samples = np.array([[1.0, 1, 0], [1.0, 0, 1]])  # age, bar, park
    linear_only = contributions(np.array([0.0, 50.0, 0, 0]), np.zeros((3, 1)), samples)
    assert Contrast.of(linear_only, groups=groups(0, 1, 1), group_names=NAMES).reasons(0) == ()
    paired = contributions(np.array([0.0, 50.0, 0, 0]), np.array([[1.0], [2.0], [0.0]]), samples)
    assert Contrast.of(paired, groups=groups(0, 1, 1), group_names=NAMES).reasons(0) == (
        Reason("age", 0.5),
        Reason("category", 0.5),
    )


def test_the_three_strongest_are_kept_and_upward_ones_come_first():
    contrast = Contrast(np.array([[0.3, -0.9, 0.1, 0.5, -0.2]]), ("a", "b", "c", "d", "e"))
    assert contrast.reasons(0) == (Reason("d", 0.5), Reason("a", 0.3), Reason("b", -0.9))
    assert contrast.reasons(0, most=1) == (Reason("b", -0.9),)


def test_what_would_read_as_nothing_is_no_reason():
    assert Contrast(np.array([[0.004, -0.004, 0.006]]), NAMES).reasons(0) == (Reason("popularity", 0.006),)


def test_a_single_matched_place_has_nothing_to_be_compared_with():
    assert Contrast.of(np.array([[1.0, 2.0]]), groups=groups(0, 1), group_names=NAMES).reasons(0) == ()


def test_pulls_over_the_matched_places_cancel():
    parts = np.random.default_rng(5).normal(size=(8, 4))
    contrast = Contrast.of(parts, groups=groups(0, 1, 1, 2), group_names=NAMES)
    assert contrast.pulls.sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)


def test_no_matched_places_give_an_empty_contrast():
    assert Contrast.of(np.zeros((0, 2)), groups=groups(0, 1), group_names=NAMES).pulls.shape == (0, 3)


def test_a_reason_in_words_has_its_name_and_sign():
    assert Reason("popularity", 0.824).words == "popularity +0.82"
    assert Reason("distance", -1.5).words == "distance -1.50"


def test_reasons_do_not_print():
    assert "popularity" not in repr(Reason("popularity", 0.824))
    assert "0.824" not in repr(Contrast(np.array([[0.824]]), ("popularity",)))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: contributions(np.zeros(3), np.zeros((3, 2)), np.zeros((4, 3))),
        lambda: contributions(np.zeros(4), np.zeros((3, 2)), np.zeros((4, 2))),
        lambda: contributions(np.zeros(4), np.zeros((3, 2)), np.full((4, 3), np.nan)),
        lambda: Contrast.of(np.zeros((4, 3)), groups=groups(0, 1), group_names=NAMES),
        lambda: Contrast.of(np.zeros((4, 3)), groups=groups(0, 1, 3), group_names=NAMES),
        lambda: Contrast.of(np.zeros((4, 3)), groups=groups(0, 1, -1), group_names=NAMES),
    ],
)
def test_bad_input_is_a_usage_error(bad):
    with pytest.raises(UsageError):
        bad()


def test_a_suggestion_goes_to_json_whole_and_prints_nothing():
    one = Suggestion("p07", "ramen, Harbour", 1.5, 0.75, (Reason("popularity", 0.5),))
    reasons = [{"name": "popularity", "pull": 0.5}]
    whole = {"place": "p07", "about": "ramen, Harbour", "distance_km": 1.5, "probability": 0.75, "reasons": reasons}
    assert one.to_dict() == whole
    assert "p07" not in repr(one)
