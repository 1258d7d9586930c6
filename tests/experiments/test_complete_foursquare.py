"""Whoever has the paper's own Foursquare set finds it in Tables 2 and 4, without further ado."""

from pathlib import Path

import numpy as np
import pytest

from prirec_experiments.experiment import Workspace
from prirec_experiments.reproduce import EXPERIMENTS
from prirec_experiments.results_store import Cell, ResultsStore
from support.shell import call, flat

PEOPLE, PLACES, VISITS = 240, 40, 12


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made up, in exactly the published formats: TIST 2015 check-ins and POIs, UbiComp 2016 profiles."""
    folder = tmp_path_factory.mktemp("published") / "tist2015_tokyo"
    folder.mkdir()
    rng = np.random.default_rng(0)
    visits = [
        f"{person}\tv{place}\tTue Apr 03 18:{minute:02}:06 +0000 2012\t540"
        for person in range(PEOPLE)
        for minute, place in enumerate(rng.choice(PLACES, VISITS, replace=False))
    ]
    places = [f"v{at}\t{35.6 + at / 400:.4f}\t{139.7 + at / 400:.4f}\tBar\tJP" for at in range(PLACES)]
    people = [f"{at}\t{'male' if at % 2 else 'female'}\t{at % 50}\t{at % 30}" for at in range(PEOPLE)]
    for name, lines in (
        ("dataset_TIST2015_Checkins.txt", visits),
        ("dataset_TIST2015_POIs.txt", places),
        ("dataset_UbiComp2016_UserProfile_TKY.txt", people),
    ):
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder.parent


def test_table_2_counts_it(data: Path, tmp_path: Path) -> None:
    done = call("reproduce", "table2", "--data", data, "--out", tmp_path, "--threads", 1)
    assert done.exit_code == 0
    held = ResultsStore(tmp_path / "results", "table2").values(Cell.of("tokyo, complete", "data"))
    assert held is not None
    assert (held["people"], held["places"], held["records"]) == (PEOPLE, PLACES, 2 * PEOPLE * VISITS)
    assert "Yelp (CAPRI) is left out" in flat(done.stderr)


@pytest.mark.parametrize("model", ["FM", "PriRec", "PriRec, rounds"])
def test_table_4_trains_on_it(data: Path, tmp_path: Path, model: str) -> None:
    cell = Cell.of("tokyo, complete", model, {"seed": 0, "iterations": 1, "floor": 50, "neighbours.count": 5})
    store = ResultsStore(tmp_path, "table4")
    EXPERIMENTS["table4"].measure.run(cell, Workspace(data), store)
    held = store.values(cell)
    assert held is not None
    assert 0 < held["auc"] < 1
