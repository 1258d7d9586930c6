"""`private`, all of it within one budget: against centralised FM, against epsilon, with drop-outs.

Every seed is a split of its own; FM and `private` of one seed have the same one, so that their difference is paired.
"""

import json
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import t

from cities import real_data
from prirec import config
from prirec.data.dataset import Dataset
from prirec.simulate.setup import run, set_up
from prirec_experiments.cities import CITIES as KNOWN
from prirec_experiments.cities import City

CITIES = ("yelp", "tokyo", "trivago")  # by their names in the experiments, with what their data ask of every model
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
SEEDS = range(3)


def auc_of(city: City, dataset: Dataset, seed: int, **changes: object) -> float:
    given = {name.replace("__", "."): value for name, value in changes.items()}
    return run(set_up(dataset, config.load(changes={**city.settings, **given, "seed": seed}))).quality.auc


def paired(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """The mean difference and its 95 % interval by Student's t; splits of one city overlap, so it is a guide."""
    difference = np.subtract(ours, theirs)
    half = t.ppf(0.975, len(difference) - 1) * difference.std(ddof=1) / np.sqrt(len(difference))
    return {"mean": float(difference.mean()), "low": float(difference.mean() - half),
            "high": float(difference.mean() + half)}  # fmt: skip


def one_city(city: City, dataset: Dataset) -> dict[str, Any]:
    auc = partial(auc_of, city, dataset)
    fm = [auc(seed, preset="fm") for seed in SEEDS]
    private = [auc(seed, preset="private") for seed in SEEDS]
    lossy = [auc(seed, preset="private", participation__dropout=0.1) for seed in SEEDS]
    return {
        "centralised FM, everyone's raw data": fm,
        "private, ε = 1": private,
        "private, ε = 1, 10 % lost": lossy,
        "rounds, no noise": [auc(seed, preset="rounds") for seed in SEEDS],
        "against epsilon": {
            f"{epsilon:g}": [auc(seed, preset="private", privacy__epsilon_per_user=epsilon) for seed in SEEDS]
            for epsilon in EPSILONS
        },
        "private: difference from FM": paired(private, fm),
        "private, 10 % lost: difference from FM": paired(lossy, fm),
    }


def measure() -> dict[str, Any]:
    folder = real_data()
    if folder is None:
        return {}
    return {name: one_city(KNOWN[name], KNOWN[name].open(folder)) for name in CITIES}


def lines(found: dict[str, Any]) -> list[str]:
    if not found:
        return ["## One budget for everything", "", "Not measured: PRIREC_DATA names no folder."]
    made = ["## One budget for everything: `private`, default settings, δ = 1e-6"]
    for city, rows in found.items():
        made += ["", f"**{city}**", "", "| | seeds | mean AUC | lowest | highest |", "|---|---|---|---|---|"]
        measured = {name: row for name, row in rows.items() if isinstance(row, list)}
        others = {f"private, ε = {epsilon}": row for epsilon, row in rows["against epsilon"].items()}
        made += [
            f"| {name} | {len(row)} | {np.mean(row):.4f} | {min(row):.4f} | {max(row):.4f} |"
            for name, row in {**others, **measured}.items()
        ]
        made.append("")
        for name in ("private: difference from FM", "private, 10 % lost: difference from FM"):
            row = rows[name]
            made.append(f"{name}, paired: {row['mean']:+.4f}, 95 % interval {row['low']:+.4f} to {row['high']:+.4f}.  ")
    return made


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
