"""The statistics of a town that can be counted by hand, and of one where nothing is known."""

import json

import numpy as np
import pytest

from prirec.data.dataset import Dataset, People, Places, Visits
from prirec.data.describe import Spread, describe


def town() -> Dataset:
    """Two people, three places; the first person clicked place 0 twice and ignored place 1, the second clicked 0."""
    visits = Visits(
        np.array([0, 0, 0, 1], dtype=np.int32),
        np.array([0, 0, 1, 0], dtype=np.int32),
        np.array([1, 1, -1, 1], dtype=np.int8),
        np.array([0, 43_200, 86_400, 129_600], dtype=np.int64),
    )
    location = np.array([[1.0, 2.0], [np.nan, np.nan], [3.0, 4.0]])
    return Dataset("town", People(("a", "b"), None), Places(("x", "y", "z"), location), visits, labelled=True)


def test_a_town_is_counted_right() -> None:
    told = describe(town())
    assert (told.people, told.places, told.records) == (2, 3, 4)
    assert told.positive_share == 0.75
    assert told.density == 0.5  # three pairs of six
    assert told.records_a_person == Spread(1, 2.0, 2.0, 3)
    assert told.visitors_a_place == Spread(0, 0.0, pytest.approx(2 / 3), 2)
    assert (told.first_time, told.last_time, told.days) == ("1970-01-01T00:00:00", "1970-01-02T12:00:00", 1.5)
    assert told.located_people == 0.0
    assert told.located_places == pytest.approx(2 / 3)


def test_the_table_begins_as_table_2_does_and_json_takes_the_rest() -> None:
    told = describe(town())
    assert told.rows()[:3] == [("#user", "2"), ("#item", "3"), ("#interaction", "4")]
    assert ("positive share", "75 %") in told.rows()
    back = json.loads(json.dumps(told.to_dict()))
    assert back["records_a_person"] == {"least": 1, "median": 2.0, "mean": 2.0, "most": 3}


def test_nothing_is_described_without_a_warning_or_an_invented_number() -> None:
    none = np.array([], dtype=np.int32)
    empty = Dataset(
        "empty", People((), None), Places((), None), Visits(none, none, none.astype(np.int8)), labelled=False
    )
    told = describe(empty)
    assert told.positive_share is told.density is told.days is told.located_places is None
    assert told.records_a_person == Spread(0, 0.0, 0.0, 0)
    assert all(isinstance(text, str) for _, text in told.rows())
