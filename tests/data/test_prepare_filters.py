"""Filters keep what they say, renumber rows, and change nothing when run again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prirec.data.dataset import Category, Dataset, Numbers, People, Places, Tags, Visits
from prirec.data.prepare import (
    SequentialDraws,
    distinct_visitors,
    drop_unused,
    people_and_places_with_records,
    places_with_visitors,
    thin_ignored,
)
from prirec.errors import UsageError


def town(pairs: list[tuple[int, int]], label: list[int] | None = None, time: list[int] | None = None) -> Dataset:
    """Five people and six places; each row's own number is written in its columns."""
    person, place = np.array(pairs, dtype=np.int32).reshape(-1, 2).T
    tags = Tags(np.arange(7, dtype=np.int64), np.arange(6, dtype=np.int32), tuple("abcdef"))
    visits = Visits(
        person,
        place,
        np.ones(len(person), dtype=np.int8) if label is None else np.array(label, dtype=np.int8),
        None if time is None else np.array(time, dtype=np.int64),
        {"row": Numbers(np.arange(len(person), dtype=np.float64))},
    )
    return Dataset(
        "town",
        People(tuple("ABCDE"), None, {"kind": Category(np.arange(5, dtype=np.int32), tuple("vwxyz"))}),
        Places(tuple("012345"), np.arange(12.0).reshape(6, 2), {"tags": tags}),
        visits,
        labelled=label is not None,
    )


PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=40)


def named(dataset: Dataset) -> list[tuple[str, str, float]]:
    """Records by the names of their person and place."""
    visits = dataset.visits
    row = visits.context["row"].values
    return [
        (dataset.people.ids[i], dataset.places.ids[j], r)
        for i, j, r in zip(visits.person, visits.place, row, strict=True)
    ]


def test_unused_rows_go_and_the_rest_keeps_its_columns() -> None:
    left = drop_unused(town([(1, 2), (3, 5), (1, 5)]))
    assert left.people.ids == ("B", "D")
    assert left.places.ids == ("2", "5")
    assert named(left) == [("B", "2", 0.0), ("D", "5", 1.0), ("B", "5", 2.0)]
    assert [left.people.columns["kind"].words[c] for c in left.people.columns["kind"].codes] == ["w", "y"]
    assert list(left.places.columns["tags"].codes) == [2, 5]
    assert left.places.location.tolist() == [[4.0, 5.0], [10.0, 11.0]]
    assert left.visits.person.dtype == np.int32


def test_visitors_are_different_people_who_came() -> None:
    dataset = town([(0, 0), (0, 0), (1, 0), (2, 1), (3, 1)], label=[1, 1, 1, 1, -1])
    assert distinct_visitors(dataset).tolist() == [2, 1, 0, 0, 0, 0]
    assert places_with_visitors(dataset, 2).places.ids == ("0",)


def test_a_place_keeps_its_ignored_impressions_when_it_stays() -> None:
    dataset = town([(0, 0), (1, 0), (2, 0), (2, 1)], label=[1, 1, -1, 1])
    assert len(places_with_visitors(dataset, 2).visits) == 3


def test_records_filter_runs_until_stable() -> None:
    # dropping place 5 leaves person 2 with one record, and dropping person 2 leaves place 1 with one
    dataset = town([(0, 0), (0, 0), (0, 2), (1, 0), (1, 2), (0, 1), (2, 1), (2, 5)])
    left = people_and_places_with_records(dataset, 2)
    assert left.people.ids == ("A", "B")
    assert left.places.ids == ("0", "2")
    assert len(left.visits) == 5


def test_a_filter_that_nothing_passes_leaves_nothing() -> None:
    for kept in (places_with_visitors(town([(0, 0)]), 2), people_and_places_with_records(town([(0, 0)]), 2)):
        assert (len(kept.people), len(kept.places), len(kept.visits)) == (0, 0, 0)


@given(PAIRS, st.integers(1, 4))
def test_filters_are_idempotent_and_keep_their_promise(pairs: list[tuple[int, int]], at_least: int) -> None:
    dataset = town(pairs)
    once = people_and_places_with_records(dataset, at_least)
    assert named(people_and_places_with_records(once, at_least)) == named(once)
    assert np.all(np.bincount(once.visits.person, minlength=len(once.people)) >= at_least)
    assert np.all(np.bincount(once.visits.place, minlength=len(once.places)) >= at_least)
    once = places_with_visitors(dataset, at_least)
    assert named(places_with_visitors(once, at_least)) == named(once)
    assert np.all(distinct_visitors(once) >= at_least)
    assert set(named(once)) <= set(named(dataset))


@given(PAIRS)
def test_dropping_unused_rows_loses_no_record(pairs: list[tuple[int, int]]) -> None:
    assert named(drop_unused(town(pairs))) == named(town(pairs))


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True])
def test_a_filter_needs_a_whole_number(wrong: object) -> None:
    for keep in (places_with_visitors, people_and_places_with_records):
        with pytest.raises(UsageError):
            keep(town([(0, 0)]), wrong)


def test_thinning_keeps_all_clicks_and_so_many_ignored_of_the_same_moment() -> None:
    # moment (0, 10): one click, four ignored; (0, 20): nothing clicked; (1, 10): two clicks, three ignored
    label = [1, -1, -1, -1, -1, -1, -1, 1, 1, -1, -1, -1]
    dataset = town([(0, 0)] * 7 + [(1, 0)] * 5, label=label, time=[10] * 5 + [20] * 2 + [10] * 5)
    keep = thin_ignored(dataset.visits, per_click=2, draws=SequentialDraws(np.random.default_rng(0)))
    clicked = np.array(label) > 0
    assert keep[clicked].all()
    assert np.count_nonzero(keep[:5] & ~clicked[:5]) == 2
    assert not keep[5:7].any()
    assert keep[7:].all()


def test_thinning_chooses_evenly_among_the_ignored() -> None:
    visits = town([(0, 0)] * 5, label=[-1, -1, 1, -1, -1], time=[0] * 5).visits
    draws = SequentialDraws(np.random.default_rng(0))
    kept = np.sum([thin_ignored(visits, per_click=1, draws=draws) for _ in range(4000)], axis=0)
    assert kept[2] == 4000
    assert np.all(np.abs(kept[[0, 1, 3, 4]] - 1000) < 165)  # six standard deviations


def test_without_times_thinning_goes_by_person() -> None:
    visits = town([(0, 0), (1, 0), (0, 1), (1, 1)], label=[1, -1, -1, -1]).visits
    assert thin_ignored(visits, per_click=3, draws=SequentialDraws(np.random.default_rng(0))).tolist() == [
        True,
        False,
        True,
        False,
    ]
