"""Settings are searched on held-out training records, and on nothing else."""

from collections import Counter
from pathlib import Path
from tomllib import loads

import numpy as np
import pytest

from prirec.config import load
from prirec.data.dataset import Visits
from prirec.errors import UsageError
from prirec.simulate.setup import set_up, set_up_validation
from prirec_experiments import tuning
from prirec_experiments import tuning as by_optuna
from prirec_experiments.cities import CITIES
from prirec_experiments.experiment import Workspace
from prirec_experiments.results_store import ResultsStore
from support import messages
from support.shell import call, flat

SMALL = {"floor": 50}


def rows(visits: Visits) -> Counter[tuple[int, int, int]]:
    return Counter(zip(visits.person.tolist(), visits.place.tolist(), visits.label.tolist(), strict=True))


@pytest.mark.parametrize("city", ["small", "small visits"])
@pytest.mark.parametrize("split", ["record", "moment", "time"])
def test_validation_is_a_tenth_of_training_and_has_nothing_of_the_test(city: str, split: str) -> None:
    dataset = CITIES[city].open(None)
    settings = load(changes={"preset": "rounds", "data.split": split, **SMALL})
    whole, aside = set_up(dataset, settings).prepared, set_up_validation(dataset, settings).prepared
    assert rows(aside.train) + rows(aside.test) == rows(whole.train)
    assert len(aside.test) == pytest.approx(0.1 * len(whole.train), rel=0.35)


def test_popularity_is_counted_without_what_is_held_out() -> None:
    dataset, settings = CITIES["small"].open(None), load(changes={"preset": "rounds", **SMALL})
    aside = set_up_validation(dataset, settings)
    visited = aside.prepared.train.take(aside.prepared.train.label > 0)
    pairs = np.unique(np.stack([visited.person, visited.place]), axis=1)
    expected = np.bincount(pairs[1], minlength=len(aside.prepared.dataset.places))
    assert (aside.popularity.released["visitors"] == expected).all()


def test_the_grid_is_the_papers() -> None:
    for model in ("FM", "MF"):
        cells = tuning.grid("small", model)
        assert len({cell.key for cell in cells}) == 125
        for name in tuning.space(tuning.MODELS[model]):
            assert sorted({cell.get(name) for cell in cells}) == pytest.approx([1e-4, 1e-3, 1e-2, 1e-1, 1.0])


def test_a_search_finds_what_is_best_and_is_not_done_twice(tmp_path: Path, monkeypatch) -> None:
    workspace, mild = Workspace(), {"rival.lambda_w": 1e-2, "rival.lambda_v": 1e-2}
    few = [tuning.with_changes("small", "MF", {"rival.alpha": alpha, **mild}) for alpha in (1e-4, 2e-2, 1.0)]
    best = tuning.search("small", "MF", workspace, ResultsStore(tmp_path, "t"), cells=few)
    losses = {cell.get("rival.alpha"): tuning.validated(cell, workspace)["log_loss"] for cell in few}
    assert best.cell.get("rival.alpha") == min(losses, key=losses.get)
    assert best.loss == losses[best.cell.get("rival.alpha")]
    assert best.loss < tuning.validated(tuning.with_changes("small", "MF", {}), workspace)["log_loss"]

    def never(*rest: object, **more: object) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(tuning, "validated", never)
    assert tuning.search("small", "MF", workspace, ResultsStore(tmp_path, "t"), cells=few) == best


def test_a_model_that_does_best_as_it_is_stays_so(tmp_path: Path) -> None:
    poor = [tuning.with_changes("small", "MF", {"rival.alpha": alpha}) for alpha in (1e-4, 1e9)]
    best = tuning.search("small", "MF", Workspace(), ResultsStore(tmp_path, "t"), cells=poor)
    assert tuning.searched_settings(best) == {}
    assert loads(tuning.merged(tmp_path / "found.toml", best)) == {"small": {"MF": {}}}


def test_a_city_made_ready_once_gives_what_each_setting_would_by_itself() -> None:
    workspace = Workspace()
    for alpha in (0.01, 0.1):
        cell = tuning.with_changes("small", "PriRec, rounds", {"linear.alpha": alpha})
        assert tuning.validated(cell, workspace) == tuning.validated(cell, Workspace())


def test_settings_that_diverge_are_worse_than_all_others(tmp_path: Path) -> None:
    wild = tuning.with_changes("small", "MF", {"rival.alpha": 1e9, "rival.lambda_w": 1.0, "rival.lambda_v": 1.0})
    assert tuning.validate_cell(wild, Workspace(), ResultsStore(tmp_path, "t"), done=lambda tried: None).loss == float(
        "inf"
    )


def test_optuna_searches_between_the_settings_of_the_grid(tmp_path: Path) -> None:
    tried = []
    best = by_optuna.search_by_optuna(
        "small", "MF", Workspace(), ResultsStore(tmp_path, "t"), trials=6, done=lambda one: tried.append(one)
    )  # fmt: skip
    assert len(tried) == 1 + 6  # and the model as it is
    assert best.loss == min(one.loss for one in tried)
    assert all(1e-4 <= value <= 1 for one in tried for value in tuning.searched_settings(one).values())


def test_the_command_writes_what_it_found_beside_what_stood_there(tmp_path: Path) -> None:
    (tmp_path / "found.toml").write_text('["yelp"."FM"]\n"linear.alpha" = 0.25\n')
    done = call("tune", "small", "--model", "MF", "--by", "optuna", "--trials", 3, "--out", tmp_path, "--threads", 1)
    assert (done.exit_code, done.stderr) == (0, "")
    held = loads((tmp_path / "found.toml").read_text())
    assert held["yelp"]["FM"] == {"linear.alpha": 0.25}
    assert held["small"].keys() == {"MF"}
    assert ("rival.alpha" in held["small"]["MF"]) == ("defaults" not in done.stdout)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere"], "there is no city 'nowhere'"),
        (["small", "--model", "popularity alone"], "can be tuned"),
        (["yelp", "--data", "none"], "name their folder with --data"),
    ],
)
def test_invalid_searches_are_refused_with_the_reason(words: list[str], told: str, monkeypatch) -> None:
    monkeypatch.delenv("PRIREC_DATA", raising=False)
    said = call("tune", *words)
    assert said.exit_code == 2
    assert told in flat(said.stderr)


def test_a_file_of_settings_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "found.toml").write_text("no [toml")
    said = call("tune", "small", "--model", "MF", "--by", "optuna", "--trials", 1, "--out", tmp_path, "--threads", 1)
    assert said.exit_code == 2
    assert "move it away" in flat(said.stderr)
    assert (tmp_path / "found.toml").read_text() == "no [toml"


@pytest.mark.parametrize("model", ["PriRec, rounds", "PriRec, private"])
def test_the_shared_model_has_nothing_to_be_searched_for(model: str) -> None:
    with pytest.raises(UsageError, match=messages.NOTHING_TO_SEARCH):
        tuning.space(tuning.MODELS[model])
