"""The figures of the real Foursquare Tokyo data, where they are at hand."""

import os
from pathlib import Path

import numpy as np
import pytest

from prirec.data.dataset import Dataset, People, Places, Visits
from prirec.data.describe import describe
from prirec.data.prepare import Recipe, places_with_visitors, prepare

FOLDER = os.environ.get("PRIREC_DATA")

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not FOLDER, reason="PRIREC_DATA does not name a folder with the real data"),
]


@pytest.fixture(scope="module")
def tokyo() -> Dataset:
    table = np.loadtxt(Path(FOLDER or "") / "foursquare_tokyo" / "visits.csv", delimiter=",", skiprows=1, dtype=int)
    users, person = np.unique(table[:, 0], return_inverse=True)
    pois, place = np.unique(table[:, 1], return_inverse=True)
    visits = Visits(person.astype(np.int32), place.astype(np.int32), np.ones(len(table), dtype=np.int8))
    return Dataset(
        "tokyo", People(tuple(map(str, users)), None), Places(tuple(map(str, pois)), None), visits, labelled=False
    )


def test_places_with_ten_visitors_are_those_of_the_measurements(tokyo: Dataset) -> None:
    told = describe(places_with_visitors(tokyo, 10))
    assert (told.people, told.places, told.records) == (7164, 5280, 220_267)
    assert told.visitors_a_place.least == 10


def test_the_papers_split_makes_a_persons_rate_point_the_wrong_way(tokyo: Dataset) -> None:
    done = prepare(tokyo, Recipe(filter="visitors", at_least=10), np.random.default_rng(0))
    people = len(done.dataset.people)
    rate = np.bincount(done.train.person, done.train.label > 0, minlength=people) / np.maximum(
        np.bincount(done.train.person, minlength=people), 1
    )
    popularity = np.bincount(done.train.place[done.train.label > 0], minlength=len(done.dataset.places))
    assert auc(rate[done.test.person], done.test.label) < 0.42
    assert 0.77 < auc(popularity[done.test.place], done.test.label) < 0.79  # the measurements say 0.780


def auc(score: np.ndarray, label: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(label, score))
