"""Negatives are places that the person is not known to have visited, drawn evenly from where they should be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.data.dataset import Places, Visits
from prirec.data.prepare import NOWHERE, SequentialDraws, blind_anchor, draw_negatives, nearby, uniform
from prirec.errors import UsageError
from support import messages


def row_of_places(count: int, *, unknown: tuple[int, ...] = ()) -> Places:
    """Places along a meridian, a hundredth of a degree apart."""
    location = np.column_stack([np.arange(count) / 100, np.zeros(count)])
    location[list(unknown)] = np.nan
    return Places(tuple(f"p{n}" for n in range(count)), location)


def visited(pairs: list[tuple[int, int]]) -> Visits:
    person, place = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    return Visits(person, place, np.ones(len(person), dtype=np.int8))


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 7)), min_size=1, max_size=60), st.integers(0, 99))
def test_no_negative_is_known_to_be_visited(pairs: list[tuple[int, int]], seed: int) -> None:
    known = visited(pairs)
    for draw in (uniform(row_of_places(8)), nearby(row_of_places(8), pool=3)):
        rng = np.random.default_rng(seed)
        place = draw_negatives(
            known.person, known.place, known=known, places=8, candidates=draw, draws=SequentialDraws(rng)
        )
        found = place != NOWHERE
        assert not set(zip(known.person[found], place[found], strict=True)) & set(pairs)
        assert np.all(place[found] < 8)


def test_someone_who_visited_everything_gets_none_and_others_are_not_held_up() -> None:
    known = visited([(0, 0), (0, 1), (0, 2), (1, 0)])
    rng = np.random.default_rng(0)
    place = draw_negatives(
        ints(0, 1), ints(0, 0), known=known, places=3, candidates=uniform(row_of_places(3)), draws=SequentialDraws(rng)
    )
    assert place[0] == NOWHERE
    assert place[1] in (1, 2)


def test_uniform_negatives_are_even_over_the_unvisited() -> None:
    person = np.zeros(30_000, dtype=np.int32)
    draw, rng = uniform(row_of_places(4)), np.random.default_rng(0)
    place = draw_negatives(
        person, person, known=visited([(0, 2)]), places=4, candidates=draw, draws=SequentialDraws(rng)
    )
    count = np.bincount(place, minlength=4)
    assert count[2] == 0
    assert np.all(np.abs(count[[0, 1, 3]] - 10_000) < 500)  # six standard deviations


def test_nearby_negatives_are_even_over_the_nearest_and_never_farther() -> None:
    person, anchor = np.zeros(40_000, dtype=np.int32), np.full(40_000, 10, dtype=np.int32)
    draw, rng = nearby(row_of_places(50), pool=4), np.random.default_rng(0)
    place = draw_negatives(
        person, anchor, known=visited([(0, 10)]), places=50, candidates=draw, draws=SequentialDraws(rng)
    )
    count = np.bincount(place, minlength=50)
    assert set(np.flatnonzero(count)) == {8, 9, 11, 12}
    assert np.all(np.abs(count[[8, 9, 11, 12]] - 10_000) < 530)


def test_nearby_looks_over_the_date_line() -> None:
    places = Places(("a", "b", "c"), np.array([[0.0, 179.99], [0.0, -179.99], [0.0, 170.0]]))
    assert set(nearby(places, pool=1)(ints(*[0] * 50), np.random.default_rng(0))) == {0, 1}


def test_a_pool_larger_than_the_catalogue_is_the_catalogue() -> None:
    assert set(nearby(row_of_places(3), pool=200)(ints(*[0] * 100), np.random.default_rng(0))) == {0, 1, 2}


def test_without_an_anchor_or_its_coordinates_any_place_may_come() -> None:
    draw = nearby(row_of_places(6, unknown=(5,)), pool=1)
    for anchor in (NOWHERE, 5):
        assert set(draw(ints(*[anchor] * 300), np.random.default_rng(0))) == set(range(6))
    assert set(draw(ints(*[0] * 300), np.random.default_rng(0))) == {0, 1}


def test_nearby_negatives_need_coordinates() -> None:
    for places in (Places(("a",), None), row_of_places(2, unknown=(0, 1))):
        with pytest.raises(UsageError, match=messages.NEARBY_NEGATIVES_WITHOUT_COORDINATES):
            nearby(places)
    with pytest.raises(UsageError, match=messages.POOL_OF_NOTHING):
        nearby(row_of_places(2), pool=0)


def test_a_blind_anchor_never_looks_at_an_unknown_positive() -> None:
    positives = visited([(0, 1), (0, 2), (0, 3), (1, 4), (2, 5)])
    known = np.array([True, True, False, False, True])
    of = np.repeat(np.arange(5), 200)
    drawn = blind_anchor(positives, of, known=known, draws=SequentialDraws(np.random.default_rng(0)))
    anchor = drawn.reshape(5, 200)
    assert [set(row) for row in anchor] == [{0}, {1}, {0, 1}, {-1}, {4}]


def test_a_person_without_a_known_visit_gets_another_persons_anchor() -> None:
    known, draws = np.array([True, False, False, True]), SequentialDraws(np.random.default_rng(0))
    anchor = draws.fill_missing(np.repeat(np.array([0, -1, 3]), 200), known=known).reshape(3, 200)
    assert [set(row) for row in anchor] == [{0}, {0, 3}, {3}]
    assert set(draws.fill_missing(np.array([-1]), known=np.zeros(4, dtype=np.bool_))) == {-1}


def test_the_same_seed_gives_the_same_negatives() -> None:
    known = visited([(p, p % 7) for p in range(50)])
    one, same = (
        draw_negatives(
            known.person, known.place, known=known, places=20, candidates=uniform(row_of_places(20)),
            draws=SequentialDraws(np.random.default_rng(4)),
        )
        for _ in range(2)
    )  # fmt: skip
    assert np.array_equal(one, same)
