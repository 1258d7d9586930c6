import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.errors import UsageError
from prirec.protocols import prediction
from prirec.protocols.prediction import Contrast, PlacePart, Reason, combine, recommend, score_places, top

ROWS = np.array([4, 9, 2, 7], dtype=np.int32)


def eq1(w: np.ndarray, V: np.ndarray, x: np.ndarray) -> float:
    """Eq. (1) as printed: every pair by itself."""
    pairs = sum(
        x[d] * x[e] * sum(V[d, k] * V[e, k] for k in range(V.shape[1]))
        for d, e in itertools.combinations(range(len(x)), 2)
    )
    return w[0] + sum(w[d + 1] * x[d] for d in range(len(x))) + pairs


def drawn(m: int, n: int, c: int, K: int, M: int, seed: int) -> dict:
    rng = np.random.default_rng(seed)
    V = rng.normal(size=(m + n + c, K))
    places = rng.normal(size=(M, n)).astype(np.float32)
    return {
        "linear": rng.normal(size=m + n + c + 1),
        "interaction": V,
        "person": rng.normal(size=m).astype(np.float32),
        "places": places,
        "context": rng.normal(size=(M, c)).astype(np.float32),
        "part": PlacePart.of(V, places, first=m),
    }


@given(
    st.integers(0, 4), st.integers(0, 4), st.integers(0, 3), st.integers(1, 4), st.integers(0, 5), st.integers(0, 99)
)
def test_scores_are_eq1_evaluated_pair_by_pair(m, n, c, K, M, seed):
    given_ = drawn(m, n, c, K, M, seed)
    samples = combine(given_["person"], given_["places"], given_["context"])
    expected = [eq1(given_["linear"], given_["interaction"], x) for x in samples]
    scores = score_places(**given_)
    assert scores.dtype == np.float64
    assert scores == pytest.approx(expected, abs=1e-9)


def test_a_toy_score_by_hand():
    # person (2), place (3), context (5); v = 1, 10, 100: pairs 2*3*10 + 2*5*100 + 3*5*1000
    V = np.array([[1.0], [10.0], [100.0]])
    place = np.array([[3.0]], dtype=np.float32)
    score = score_places(
        linear=np.array([0.5, 1.0, 1.0, 1.0]),
        interaction=V,
        person=np.array([2.0]),
        places=place,
        context=np.array([[5.0]]),
        part=PlacePart.of(V, place, first=1),
    )
    assert score == pytest.approx([0.5 + 10 + 60 + 1000 + 15000])


def test_a_sample_is_person_then_place_then_context():
    sample = combine(np.array([1.0, 2.0]), np.array([[3.0], [4.0]], dtype=np.float32), np.array([[5.0], [6.0]]))
    assert sample.tolist() == [[1, 2, 3, 5], [1, 2, 4, 6]]
    assert sample.dtype == np.float64


def test_the_part_of_a_catalogue_serves_any_matched_rows(monkeypatch):
    given_ = drawn(3, 4, 2, 5, 40, seed=1)
    monkeypatch.setattr(prediction, "BLOCK", 7)  # several blocks, the last one short
    part = PlacePart.of(given_["interaction"], given_["places"], first=3)
    matched = dict(given_, places=given_["places"][ROWS], context=given_["context"][ROWS], part=part.take(ROWS))
    assert score_places(**matched) == pytest.approx(score_places(**given_)[ROWS], abs=1e-12)


def test_nothing_is_changed_by_scoring():
    given_ = drawn(2, 3, 1, 2, 4, seed=2)
    before = {name: np.copy(array) for name, array in given_.items() if name != "part"}
    score_places(**given_)
    assert all(np.array_equal(before[name], given_[name]) for name in before)


def test_the_highest_scores_are_recommended_highest_first():
    chosen = recommend(matched=ROWS, scores=np.array([0.1, 3.0, -2.0, 1.0]), k=2)
    assert [r.place_row for r in chosen] == [9, 7]
    assert [r.score for r in chosen] == [3.0, 1.0]
    assert chosen[0].distance_km is None
    assert chosen[0].reasons == ()


def test_ties_go_to_the_smaller_row():
    assert [r.place_row for r in recommend(matched=ROWS, scores=np.ones(4), k=3)] == [2, 4, 7]


def test_visited_places_are_left_out():
    visited = np.array([9, 100], dtype=np.int32)
    chosen = recommend(matched=ROWS, scores=np.array([0.1, 3.0, -2.0, 1.0]), k=10, visited=visited)
    assert [r.place_row for r in chosen] == [7, 4, 2]


def test_nothing_matched_or_all_visited_is_an_empty_answer():
    assert recommend(matched=ROWS[:0], scores=np.zeros(0), k=3) == ()
    assert recommend(matched=ROWS, scores=np.zeros(4), k=3, visited=ROWS) == ()


def test_probabilities_are_sigma_of_the_score_without_overflow():
    chosen = recommend(matched=ROWS, scores=np.array([1e4, 0.0, -1e4, math.log(3)]), k=4)
    assert [r.probability for r in chosen] == pytest.approx([1.0, 0.75, 0.5, 0.0])


def test_distances_and_reasons_follow_their_place():
    contrast = Contrast(np.array([[1.0], [2.0], [3.0], [4.0]]), ("popularity",))
    km = np.array([0.4, math.nan, 0.2, 0.7])
    chosen = recommend(matched=ROWS, scores=np.array([1.0, 2.0, 0.0, 0.5]), k=2, distance_km=km, contrast=contrast)
    assert [(r.place_row, r.distance_km) for r in chosen] == [(9, None), (4, 0.4)]
    assert [r.reasons for r in chosen] == [(Reason("popularity", 2.0),), (Reason("popularity", 1.0),)]


@given(st.lists(st.integers(-2, 2), max_size=25), st.integers(1, 30), st.randoms(use_true_random=False))
def test_top_is_the_head_of_a_full_sort(levels, k, shuffler):
    scores = np.array(levels, dtype=np.float64)
    ties = np.array(shuffler.sample(range(len(levels)), len(levels)), dtype=np.int32)
    by_hand = sorted(range(len(levels)), key=lambda at: (-scores[at], ties[at]))[:k]
    assert top(scores, ties=ties, k=k).tolist() == by_hand


def test_a_recommendation_does_not_print():
    chosen = recommend(matched=ROWS, scores=np.array([0.125, 3.0, -2.0, 1.0]), k=1)
    assert not any(secret in repr(chosen) for secret in ("place_row", "3.0", "score"))


WRONG_SHAPES = [
    {"linear": np.zeros(6)},
    {"interaction": np.zeros((7, 2))},
    {"interaction": np.zeros(6)},
    {"person": np.zeros(3)},
    {"person": np.zeros((2, 1))},
    {"places": np.zeros((5, 3))},
    {"places": np.zeros(3)},
    {"context": np.zeros((3, 1))},
    {"context": np.zeros((4, 2))},
    {"part": PlacePart(np.zeros((5, 2)), np.zeros(5))},
    {"part": PlacePart(np.zeros((4, 3)), np.zeros(4))},
    {"part": PlacePart(np.zeros((4, 2)), np.zeros(3))},
]


@pytest.mark.parametrize("wrong", WRONG_SHAPES)
def test_wrong_shapes_are_refused(wrong):
    with pytest.raises(UsageError):
        score_places(**{**drawn(2, 3, 1, 2, 4, seed=3), **wrong})


@pytest.mark.parametrize("name", ["linear", "interaction", "person", "places", "context", "pull", "square"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_non_finite_input_is_refused_without_echoing_a_value(name, value):
    given_ = drawn(2, 3, 1, 2, 4, seed=4)
    if name in ("pull", "square"):
        array = np.copy(getattr(given_["part"], name))
        given_["part"] = replace(given_["part"], **{name: array})
    else:
        array = given_[name] = np.copy(given_[name])
    array.flat[-1] = value
    with pytest.raises(UsageError) as refusal:
        score_places(**given_)
    assert not any(letter.isdigit() for letter in str(refusal.value))


@pytest.mark.parametrize(
    "bad",
    [
        lambda: recommend(matched=ROWS, scores=np.zeros(4), k=0),
        lambda: recommend(matched=ROWS, scores=np.zeros(3), k=1),
        lambda: recommend(matched=ROWS, scores=np.zeros((4, 1)), k=1),
        lambda: recommend(matched=ROWS, scores=np.array([0, 1, 2, math.nan]), k=1),
        lambda: recommend(matched=ROWS, scores=np.zeros(4), k=1, distance_km=np.zeros(3)),
        lambda: recommend(matched=ROWS, scores=np.zeros(4), k=1, contrast=Contrast(np.zeros((3, 1)), ("a",))),
        lambda: recommend(matched=ROWS[[0, 0]], scores=np.zeros(2), k=2),
        lambda: PlacePart.of(np.zeros((3, 2)), np.zeros((4, 3)), first=1),
        lambda: PlacePart.of(np.zeros((3, 2)), np.zeros((4, 1)), first=-1),
        lambda: PlacePart.of(np.zeros((3, 2)), np.full((4, 1), math.nan), first=0),
        lambda: combine(np.zeros(2), np.zeros((3, 1)), np.zeros((2, 1))),
    ],
)
def test_bad_input_is_a_usage_error(bad):
    with pytest.raises(UsageError):
        bad()
