"""Which constants the shared model has: one choice for all cities, on held-out training records.

    python -m prirec_experiments.choose --data FOLDER > choice.md
    python -m prirec_experiments.choose --data FOLDER --lists > lists.md

Each constant is changed by itself, on every city that is at hand, and the AUC on a tenth of the training records is
compared with that of the usual choice. Test records are never looked at. A constant is worth changing where most cities
agree; differences of a thousandth are noise.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from prirec.config import Settings, apply, load
from prirec.data.dataset import Dataset
from prirec.data.folder import read_folder
from prirec.data.synthetic import CityPlan, make_city
from prirec.features.columns import WordScales
from prirec.model.scoring import SharedModels
from prirec.model.shared_model import SharedModel
from prirec.simulate.recommend import Advisor, ranked
from prirec.simulate.setup import quality, run, set_up_validation
from prirec.util.keyed_random import generator
from prirec_experiments.cities import CITIES

# Where each constant is read: a kernel gets it as an argument from there.
PACE, GUESS, PLAUSIBLE = (f"prirec.model.estimate.{name}" for name in ("PACE", "GUESS", "PLAUSIBLE"))
TYPICAL, PRECISIONS = "prirec.rounds.definition.TYPICAL", "prirec.model.scoring.PRECISIONS"
MOMENTS_PART, EQUAL_AT, CLEAR_AT = (f"prirec.privacy.plan.{name}" for name in ("MOMENTS_PART", "EQUAL_AT", "CLEAR_AT"))
VARIANTS: dict[str, Mapping[str, Any]] = {
    "usual": {},
    "moments 0.015": {MOMENTS_PART: 0.015},
    "moments 0.06": {MOMENTS_PART: 0.06},
    "equal at 500": {EQUAL_AT: 500},
    "equal at 2000": {EQUAL_AT: 2000},
    "clear at 1.5": {CLEAR_AT: 1.5},
    "clear at 6": {CLEAR_AT: 6.0},
    "pace 3": {PACE: 3.0},
    "pace 8": {PACE: 8.0},
    "typical 0.2": {TYPICAL: 0.2},
    "typical 0.45": {TYPICAL: 0.45},
    "guess 1.5": {GUESS: 1.5},
    "guess 4": {GUESS: 4.0},
    "plausible 0.1": {PLAUSIBLE: 0.1},
    "plausible 1": {PLAUSIBLE: 1.0},
    "precisions from 3": {PRECISIONS: np.array([3.0, 10.0, 100.0, 1000.0])},
    "precisions from 100": {PRECISIONS: np.array([100.0, 1000.0])},
    "one precision, 100": {PRECISIONS: np.array([100.0])},
}


POPULAR = "prirec.features.columns.POPULAR"
LISTS: dict[str, Mapping[str, Any]] = {"usual": {}, **{f"popularity cut at {z:g}": {POPULAR: z} for z in (2.0, 3.0)}}
NEARER = "prirec.model.shared_model.NEARER"
ALONE: dict[str, Mapping[str, Any]] = {"usual": {}, **{f"nearer {much:g}": {NEARER: much} for much in (0, 0.25, 1, 2)}}


ASKED = 1000  # people whose lists are looked at


@contextmanager
def patched(constants: Mapping[str, Any]) -> Iterator[None]:
    """These constants, by the modules that read them, instead of the usual ones."""
    before = []
    try:
        for where, value in constants.items():
            module, _, name = where.rpartition(".")
            before.append((import_module(module), name, getattr(import_module(module), name)))
            setattr(*before[-1][:2], value)
        yield
    finally:
        for one in before:
            setattr(*one)


def cities(data: Path | None) -> Iterator[tuple[str, Dataset, dict[str, object]]]:
    """Made-up cities of several shapes, and the real ones that are at hand."""
    for seed in (11, 12):  # not the demo's own
        plan = CityPlan(people=10_000, places=4_000, records=400_000, districts=8 + 4 * seed % 7, categories=20)
        yield f"made-up {seed}", make_city(plan, generator(seed, "choose")), {}
    few = CityPlan(people=30_000, places=20_000, records=150_000, districts=12, categories=30)
    yield "made-up, few records", make_city(few, generator(13, "choose")), {"data.keep": "all"}
    small = CityPlan(people=500, places=150, records=6_000, districts=4, categories=8)
    yield "made-up, few people", make_city(small, generator(14, "choose")), {"data.keep": "all"}
    for name in ("yelp", "tokyo", "trivago"):
        if CITIES[name].available(data):
            yield name, CITIES[name].open(data), dict(CITIES[name].settings)
    if data is not None and (data / "foursquare_nyc").is_dir():
        yield "new york", read_folder(data / "foursquare_nyc").dataset, {}


def figure(dataset: Dataset, settings: Settings, constants: Mapping[str, Any]) -> float:
    """The AUC on held-out training records. The set-up is part of it: popularity is collected for a part of the
    budget."""
    with patched(constants):
        return run(set_up_validation(dataset, settings)).quality.auc


def figure_of_lists(dataset: Dataset, settings: Settings, constants: Mapping[str, Any]) -> float:
    """NDCG@10 of lists of new places, on held-out training records."""
    with patched(constants):
        outcome = run(set_up_validation(dataset, settings))
        return ranked(Advisor.of(outcome.setup, outcome.trained.models), people=ASKED).mean().ndcg


def figure_alone(dataset: Dataset, settings: Settings, constants: Mapping[str, Any]) -> float:
    """The same where nobody has learnt anything together: each device has the catalogue and its own records."""
    setup = set_up_validation(dataset, apply(settings, {"features": {"dynamic": False}}))
    samples, moments = setup.samples, setup.samples.columns.moments.usual()
    with patched(constants):
        words = WordScales.of(samples.places, samples.columns)
        shared = SharedModel.unlearnt(setup.encoding, samples.columns, words, moments)
    return quality(samples, SharedModels(shared, moments)).auc


def rows(
    data: Path | None, *, seeds: int, variants: Mapping[str, Mapping[str, Any]],
    judged: Callable[[Dataset, Settings, Mapping[str, Any]], float] = figure, preset: str = "private",
) -> Iterator[str]:  # fmt: skip
    """A table in Markdown, a column a city; the usual choice in full, then differences from it in thousandths."""
    found: dict[str, dict[str, float]] = {name: {} for name in variants}
    for city, dataset, changes in cities(data):
        settings = [load(changes={"preset": preset, "seed": seed, **changes}) for seed in range(seeds)]
        for name, constants in variants.items():
            found[name][city] = float(np.mean([judged(dataset, one, constants) for one in settings]))
    names = list(found["usual"])
    yield "| | " + " | ".join(names) + " | mean |"
    yield "|---" * (len(names) + 2) + "|"
    yield f"| usual | {' | '.join(f'{value:.4f}' for value in found['usual'].values())} | |"
    for name in list(variants)[1:]:
        apart = [1000 * (found[name][city] - found["usual"][city]) for city in names]
        yield f"| {name} | {' | '.join(f'{one:+.1f}' for one in apart)} | {np.mean(apart):+.1f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare constants of the shared model on held-out training records.")
    parser.add_argument("--data", type=Path, help="folder with the published data")
    parser.add_argument("--seeds", type=int, default=2, help="splits of each city")
    parser.add_argument("--only", nargs="*", help="names of variants")
    parser.add_argument("--preset", choices=("private", "rounds"), default="private")
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--alone", action="store_true", help="of devices before any model is published")
    asked.add_argument("--lists", action="store_true", help="by NDCG@10 of lists of new places, not by AUC")
    given = parser.parse_args()
    known = ALONE if given.alone else LISTS if given.lists else VARIANTS
    judged = figure_alone if given.alone else figure_of_lists if given.lists else figure
    chosen = {name: one for name, one in known.items() if not given.only or name in ("usual", *given.only)}
    for line in rows(given.data, seeds=given.seeds, variants=chosen, judged=judged, preset=given.preset):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
