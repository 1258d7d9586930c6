"""Accuracy on the real data named by PRIREC_DATA, default settings: three seeds, each a split of its own."""

import json
import tempfile
from pathlib import Path

from cities import real_data
from prirec import config
from prirec.data.dataset import Dataset
from prirec.data.published import import_published
from prirec.metrics import auc
from prirec.simulate.compare import TUNED, contender
from prirec.simulate.setup import run, set_up
from prirec.simulate.tuned_fm import tune

SEEDS = (0, 1, 2)
RANDOM = {"neighbours.kind": "random"}
ROUNDS, PAPER = {"preset": "rounds"}, {"preset": "paper"}
ROWS: dict[str, dict[str, dict[str, object]]] = {
    "yelp": {
        "centralised FM": {"preset": "fm"},
        "PriRec, paper": {"preset": "paper"},
        "PriRec, rounds": ROUNDS,
        "PriRec, rounds, 30 rounds": {**ROUNDS, "iterations": 30},
        "PriRec, rounds, 10 % lost, 80 % online": {**ROUNDS, "participation.online": 0.8, "participation.dropout": 0.1},
        "local only (gamma = 0)": {**PAPER, "linear.gamma": 0.0},
    },
    "trivago": {
        "centralised FM": {"preset": "fm"},
        "PriRec, paper": {"preset": "paper", **RANDOM},
        "PriRec, rounds": ROUNDS,
        "local only (gamma = 0)": {**PAPER, "linear.gamma": 0.0},
    },
    "foursquare-tokyo": {
        "centralised FM": {"preset": "fm"},
        "PriRec-, paper": {"preset": "paper", "features.dynamic": False, **RANDOM},
        "PriRec, paper": {"preset": "paper", **RANDOM},
        "PriRec, rounds": ROUNDS,
    },
}


def popularity_alone(dataset: Dataset, seed: int) -> float:
    """The control row: places ranked by how many people visited them in training."""
    setup = set_up(dataset, config.load(changes={**ROUNDS, "seed": seed}))
    test = setup.samples.test
    return auc(test.label, setup.popularity.released["visitors"][test.place])


def tuned_fm(dataset: Dataset, seed: int) -> dict[str, float]:
    """FM at its best: settings chosen on held-out training records of this split."""
    chosen = tune(dataset, contender(TUNED, changes={"seed": seed}).settings)
    return run(set_up(dataset, chosen.settings)).quality.to_dict()


def measure() -> dict[str, object]:
    folder = real_data()
    if folder is None:
        return {}
    answers: dict[str, object] = {}
    for name, rows in ROWS.items():
        with tempfile.TemporaryDirectory() as target:
            dataset = import_published(name, folder / name.replace("-", "_"), Path(target) / "data").dataset
        found: dict[str, list[dict[str, float]]] = {
            label: [
                run(set_up(dataset, config.load(changes={**changes, "seed": seed}))).quality.to_dict() for seed in SEEDS
            ]
            for label, changes in rows.items()
        }
        found["centralised FM, tuned"] = [tuned_fm(dataset, seed) for seed in SEEDS]
        found["popularity alone"] = [{"auc": popularity_alone(dataset, seed)} for seed in SEEDS]
        answers[name] = found
    return answers


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
