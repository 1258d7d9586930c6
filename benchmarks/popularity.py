"""Popularity by every mechanism at the same price for each user: AUC of popularity alone, and how long it takes.

Default settings, three splits; the whole epsilon goes to popularity. Times are for
Koubei's size: 85,466 people and 118,598 places, whose totals are simulated, and what one device does for itself.
"""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import popularity_page
from cities import real_data
from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.data.prepare import prepare
from prirec.data.published import import_published
from prirec.features.popularity import OwnCounts
from prirec.privacy.noise import Stream
from prirec.privacy.randomized_response import RandomizedResponse, perturb
from prirec.simulate.forecast import Collection, Price, gather, plain, planned_release, popularity_auc
from prirec.simulate.setup import recipe
from prirec.util.keyed_random import generator
from prirec_experiments.unary import COMPARED

CITIES = ("foursquare-tokyo", "yelp")
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
DELTA = 1e-6
SEEDS = (0, 1, 2)
PEOPLE, PLACES, VISITS = 85_466, 118_598, 497_838


def one_seed(dataset: Dataset, seed: int) -> dict[str, dict[str, float]]:
    """AUC of each mechanism at each price, over one split; all of them draw from the same numbers."""
    prepared = prepare(dataset, recipe(Settings().data, labelled=dataset.labelled), generator(seed, "data"))
    collection = gather(prepared)
    ceiling = popularity_auc(plain(collection), prepared)
    found = {"plain counts": {f"{epsilon:g}": ceiling for epsilon in EPSILONS}}
    for mechanism in COMPARED:
        found[mechanism.name] = {
            f"{epsilon:g}": popularity_auc(
                mechanism.simulate(collection, Price(epsilon, DELTA), generator(seed, "popularity")).popularity,
                prepared,
            )
            for epsilon in EPSILONS
        }
    return found


def accuracy() -> dict[str, dict[str, dict[str, list[float]]]]:
    """City, mechanism, epsilon: the AUC of each seed."""
    folder, answers = real_data(), {}
    for name in CITIES if folder is not None else ():
        with tempfile.TemporaryDirectory() as target:
            dataset = import_published(name, Path(str(folder)) / name.replace("-", "_"), Path(target) / "d").dataset
        seeds = [one_seed(dataset, seed) for seed in SEEDS]
        answers[name] = {
            row: {epsilon: [found[row][epsilon] for found in seeds] for epsilon in prices}
            for row, prices in seeds[0].items()
        }
    return answers


def of_koubeis_size() -> Collection:
    """Visits drawn with a heavy tail over places; no locations and no features."""
    rng = np.random.default_rng(0)
    weight = np.cumsum(rng.lognormal(sigma=1.5, size=PLACES))
    place = np.searchsorted(weight, rng.random(VISITS) * weight[-1])
    pairs = np.unique(rng.integers(PEOPLE, size=VISITS) * PLACES + place)
    own = OwnCounts(PLACES, pairs, np.ones(len(pairs)))
    return Collection(own, PEOPLE, own.total().astype(np.int64), None, None, Settings())


def seconds(task: Callable[[], object], goes: int = 5) -> float:
    """CPU seconds of the fastest go, after one to warm up."""
    times = []
    for _ in range(goes + 1):
        began = process_time()
        task()
        times.append(process_time() - began)
    return min(times[1:])


def speed() -> dict[str, Any]:
    collection, price = of_koubeis_size(), Price(1.0, DELTA)
    rng, visited = np.random.default_rng(1), np.zeros(PLACES, dtype=np.bool_)
    visited[::10_000] = True
    response, share = RandomizedResponse(1.0), planned_release(collection, price).noise()
    return {
        "totals": {one.name: seconds(lambda one=one: one.simulate(collection, price, rng)) for one in COMPARED},
        "device": {
            "randomised response": seconds(lambda: perturb(visited, response, Stream(rng.bytes(32)))),
            "noise share": seconds(lambda: share.draw(Stream(rng.bytes(32)), PLACES)),
        },
    }


def measure() -> dict[str, Any]:
    return {"auc": accuracy(), "speed": speed()}


def speed_lines(found: dict[str, Any]) -> list[str]:
    device = found["device"]
    lines = [
        f"One device's CPU for {PLACES:,} places: {1000 * device['randomised response']:.1f} ms for randomised",
        f"response, {device['noise share']:.2f} s for its exact share of noise. Totals of {PEOPLE:,} people, simulated",
        "(the posterior includes what every device computes for itself):",
        "",
        f"| {PLACES:,} places | s of CPU |",
        "|---|---|",
    ]
    return lines + [f"| {name} | {took:.2f} |" for name, took in found["totals"].items()]


def lines(found: dict[str, Any]) -> list[str]:
    head = ["## Popularity by every mechanism, at the same price for each user", ""]
    shown = popularity_page.tables(found["auc"]) if found["auc"] else ["Not measured: PRIREC_DATA names no folder."]
    return [*head, *shown, "", *speed_lines(found["speed"])]


if __name__ == "__main__":
    measured = measure()
    print(json.dumps(measured, indent=1), *lines(measured), sep="\n")
