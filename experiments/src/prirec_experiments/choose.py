"""Which constants the shared model has: one choice for all cities, on held-out training records.

    python -m prirec_experiments.choose --data FOLDER > choice.md

Each constant is changed by itself, on every city that is at hand, and the AUC on a tenth of the training records is
compared with that of the usual choice. Test records are never looked at. A constant is worth changing where most cities
agree; differences of a thousandth are noise.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from prirec.config import Settings, load
from prirec.data.dataset import Dataset
from prirec.data.folder import read_folder
from prirec.data.synthetic import CityPlan, make_city
from prirec.metrics import auc
from prirec.simulate.setup import Setup, set_up_validation
from prirec.util.keyed_random import generator
from prirec_experiments.cities import CITIES
from prirec_experiments.shared_model import FEATURES, USUAL, Recipe, learn, settle

VARIANTS: dict[str, Recipe] = {
    "usual": USUAL,
    "moments 0.015": replace(USUAL, moments=0.015),
    "moments 0.06": replace(USUAL, moments=0.06),
    "wide 500": replace(USUAL, wide=500.0),
    "wide 2000": replace(USUAL, wide=2000.0),
    "crowded 1.5": replace(USUAL, crowded=1.5),
    "crowded 6": replace(USUAL, crowded=6.0),
    "pace 3": replace(USUAL, pace=3.0),
    "pace 8": replace(USUAL, pace=8.0),
    "typical 0.2": replace(USUAL, typical=0.2),
    "typical 0.45": replace(USUAL, typical=0.45),
    "guess 1.5": replace(USUAL, guess=1.5),
    "guess 4": replace(USUAL, guess=4.0),
    "precisions from 3": replace(USUAL, precisions=(3.0, *USUAL.precisions)),
    "precisions from 30": replace(USUAL, precisions=USUAL.precisions[1:]),
    "one precision, 100": replace(USUAL, precisions=(100.0,)),
}


def cities(data: Path | None) -> Iterator[tuple[str, Dataset, dict[str, object]]]:
    """Made-up cities of several shapes, and the real ones that are at hand."""
    for seed in (11, 12):  # not the demo's own
        plan = CityPlan(people=10_000, places=4_000, records=400_000, districts=8 + 4 * seed % 7, categories=20)
        yield f"made-up {seed}", make_city(plan, generator(seed, "choose")), {}
    few = CityPlan(people=30_000, places=20_000, records=150_000, districts=12, categories=30)
    yield "made-up, few records", make_city(few, generator(13, "choose")), {"data.keep": "all"}
    for name in ("yelp", "tokyo", "trivago"):
        if CITIES[name].available(data):
            yield name, CITIES[name].open(data), dict(CITIES[name].settings)
    if data is not None and (data / "foursquare_nyc").is_dir():
        yield "new york", read_folder(data / "foursquare_nyc").dataset, {}


def figure(setup: Setup, recipe: Recipe) -> float:
    """The AUC on held-out training records."""
    settled = settle(setup, recipe)
    test = settled.samples.test
    return auc(test.label, learn(settled, recipe=recipe).scores(test))


def rows(data: Path | None, *, seeds: int, variants: dict[str, Recipe]) -> Iterator[str]:
    """A table in Markdown, a column a city; the usual choice in full, then differences from it in thousandths."""
    found: dict[str, dict[str, float]] = {name: {} for name in variants}
    for city, dataset, changes in cities(data):
        setups = [set_up_validation(dataset, _settings(seed, changes)) for seed in range(seeds)]
        for name, recipe in variants.items():
            found[name][city] = float(np.mean([figure(setup, recipe) for setup in setups]))
    names = list(found["usual"])
    yield "| | " + " | ".join(names) + " | mean |"
    yield "|---" * (len(names) + 2) + "|"
    yield f"| usual | {' | '.join(f'{value:.4f}' for value in found['usual'].values())} | |"
    for name in list(variants)[1:]:
        apart = [1000 * (found[name][city] - found["usual"][city]) for city in names]
        yield f"| {name} | {' | '.join(f'{one:+.1f}' for one in apart)} | {np.mean(apart):+.1f} |"


def _settings(seed: int, changes: dict[str, object]) -> Settings:
    return load(changes={"preset": "private", "seed": seed, **FEATURES, **changes})


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare constants of the shared model on held-out training records.")
    parser.add_argument("--data", type=Path, help="folder with the published data")
    parser.add_argument("--seeds", type=int, default=2, help="splits of each city")
    parser.add_argument("--only", nargs="*", help="names of variants")
    given = parser.parse_args()
    chosen = {name: one for name, one in VARIANTS.items() if not given.only or name in ("usual", *given.only)}
    for line in rows(given.data, seeds=given.seeds, variants=chosen):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
