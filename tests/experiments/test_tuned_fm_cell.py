"""The tuned FM as a model of the experiments: what was chosen is stored, and differences are taken from it."""

from pathlib import Path

import pytest

import prirec
from prirec_experiments.cities import CITIES
from prirec_experiments.experiment import Workspace
from prirec_experiments.figures import BEYOND, OPPONENT, questions_of
from prirec_experiments.results_store import Cell, ResultsStore
from prirec_experiments.trial import TrainAndTest

QUESTION = {"data.split": "time"}


@pytest.fixture(scope="module")
def settings() -> dict:
    question = {"city": "small", "asks": "later records", "settings": QUESTION}
    return {"models": [OPPONENT, "popularity alone", "PriRec, rounds"], "seeds": [0], "questions": [question]}


def test_what_was_chosen_is_stored_and_told_and_differences_are_from_it(tmp_path: Path, settings: dict) -> None:
    store, workspace = ResultsStore(tmp_path, "beyond"), Workspace()
    for cell in BEYOND.cells(settings):
        TrainAndTest().run(cell, workspace, store)
    BEYOND.conclude(settings, store)
    held = store.values(Cell.of("small", OPPONENT, {**QUESTION, "seed": 0}))
    assert held is not None
    assert held["chosen"]["dimension"] in (5, 15, 30)
    assert 0.5 < held["auc_nearby"] < 1
    assert 0 < held["seen"] < 1
    (table,) = BEYOND.show(settings, store).tables
    assert f"K = {held['chosen']['dimension']} at" in table.note
    names = [name.removeprefix(">") for name in table.columns]
    assert names[:5] == ["model", "NDCG@10", "recall@10", "AUC nearby", "GAUC"]
    assert names[-2:] == [f"NDCG@10, difference from {OPPONENT}", f"AUC, difference from {OPPONENT}"]
    assert {"AUC, new pairs", "seen pairs"} < set(names)
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows[OPPONENT][-2:] == ("–", "–")
    assert all(" to " in cell for cell in rows["PriRec, rounds"][-2:])


def test_a_city_that_is_a_data_folder_is_read_as_one(tmp_path: Path) -> None:
    city = prirec.make_city(people=60)
    city.save(tmp_path / "foursquare_nyc")
    assert CITIES["new york"].available(tmp_path)
    assert CITIES["new york"].open(tmp_path).people.ids == city.dataset.people.ids


def test_a_question_may_have_models_of_its_own(settings: dict) -> None:
    (shared,) = settings["questions"]
    asked = questions_of({**settings, "questions": [shared, {**shared, "asks": "again", "models": [OPPONENT]}]})
    assert [list(one.cells) for one in asked] == [settings["models"], [OPPONENT]]
    assert asked[0].cells[OPPONENT] == asked[1].cells[OPPONENT]


def test_fewer_lists_are_looked_at_where_they_are_of_a_large_catalogue() -> None:
    measure = BEYOND.measure
    assert isinstance(measure, TrainAndTest)
    assert [measure.lists(Cell.of(city, OPPONENT)) for city in ("yelp", "trivago")] == [1000, 300]
    assert TrainAndTest().lists(Cell.of("yelp", OPPONENT)) == 300
