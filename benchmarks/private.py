"""`private`, all of it within one budget: against centralised FM, against epsilon, with drop-outs.

Every seed is a split of its own; FM and `private` of one seed have the same one, so that their difference is paired.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from cities import real_data
from prirec import config
from prirec.data.dataset import Dataset
from prirec.data.published import import_published
from prirec.simulate.setup import run, set_up

CITIES = ("yelp", "foursquare-tokyo", "trivago")
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
TEN, THREE = range(10), range(3)


def auc(dataset: Dataset, seed: int, **changes: object) -> float:
    given = {name.replace("__", "."): value for name, value in changes.items()}
    return run(set_up(dataset, config.load(changes={**given, "seed": seed}))).quality.auc


def paired(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """The mean difference and its 95 % interval by Student's t; splits of one city overlap, so it is a guide."""
    difference = np.subtract(ours, theirs)
    half = t.ppf(0.975, len(difference) - 1) * difference.std(ddof=1) / np.sqrt(len(difference))
    return {"mean": float(difference.mean()), "low": float(difference.mean() - half),
            "high": float(difference.mean() + half)}  # fmt: skip


def one_city(dataset: Dataset, *, many: bool) -> dict[str, Any]:
    seeds = TEN if many else THREE
    fm = [auc(dataset, seed, preset="fm") for seed in seeds]
    private = [auc(dataset, seed, preset="private") for seed in seeds]
    lossy = [auc(dataset, seed, preset="private", participation__dropout=0.1) for seed in seeds]
    return {
        "centralised FM, everyone's raw data": fm,
        "private, ε = 1": private,
        "private, ε = 1, 10 % lost": lossy,
        "rounds, no noise": [auc(dataset, seed, preset="rounds") for seed in THREE],
        "against epsilon": {
            f"{epsilon:g}": [auc(dataset, seed, preset="private", privacy__epsilon_per_user=epsilon) for seed in THREE]
            for epsilon in EPSILONS
        },
        "private: difference from FM": paired(private, fm),
        "private, 10 % lost: difference from FM": paired(lossy, fm),
    }


def measure() -> dict[str, Any]:
    folder, found = real_data(), {}
    for name in CITIES if folder is not None else ():
        with tempfile.TemporaryDirectory() as target:
            dataset = import_published(name, Path(str(folder)) / name.replace("-", "_"), Path(target) / "d").dataset
        found[name] = one_city(dataset, many=name == "yelp")
    return found


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
