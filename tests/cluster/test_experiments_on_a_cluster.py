"""Cells and trials as tasks of a real Ray cluster: the same files of results as without."""

import json

import pytest

from prirec_experiments import tuning
from prirec_experiments.experiment import Workspace, measure_cells, remaining
from prirec_experiments.on_cluster import measure_on_cluster, validate_ahead
from prirec_experiments.reproduce import EXPERIMENTS
from prirec_experiments.results_store import ResultsStore

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("nodes"), pytest.mark.xdist_group("ray")]
MODELS = ("popularity alone", "MF", "PriRec, rounds")


def without_times(store: ResultsStore) -> dict:
    cells = json.loads(store.file.read_text())["cells"]
    return {key: {name: value for name, value in held.items() if name != "seconds"} for key, held in cells.items()}


def test_cells_measured_elsewhere_are_what_they_are_here(tmp_path):
    table, workspace = EXPERIMENTS["table4"], Workspace(threads=1)
    some = [cell for cell in table.cells(table.settings(quick=True)) if cell.model in MODELS][:4]
    here, there = (ResultsStore(tmp_path / name, "table4") for name in ("here", "there"))
    measure_cells(table, remaining(table, some, workspace, here), workspace, here)
    told = []
    measure_on_cluster(table, remaining(table, some, workspace, there), workspace, there, done=told.append)
    assert len(told) == len(some) == 4
    assert without_times(there) == without_times(here)
    assert all(there.scores(cell).to_bytes() == here.scores(cell).to_bytes() for cell in some)
    assert not remaining(table, some, workspace, there).cells


def test_a_search_elsewhere_finds_what_a_search_here_finds(tmp_path):
    workspace = Workspace(threads=1)
    cells = [tuning.with_changes("small", "MF", {"rival.alpha": alpha}) for alpha in (0.001, 0.01, 0.1)]
    here, there = (ResultsStore(tmp_path / name, "tuning-grid") for name in ("here", "there"))
    asked = []

    def ahead(some):
        asked.append(len(some))
        validate_ahead(some, workspace, there)

    wanted = tuning.search("small", "MF", workspace, here, cells=cells)
    assert tuning.search("small", "MF", workspace, there, cells=cells, ahead=ahead) == wanted
    assert asked == [3, 1, 2]  # two early looks, then the best of them and the model as it is
    assert there.file.read_bytes() == here.file.read_bytes()
