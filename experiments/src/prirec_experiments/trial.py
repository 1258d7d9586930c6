"""One cell, measured: the city under the cell's settings, a model trained on it, and every figure on the test records.

Before anything is trained, the set-up is looked at by the leak checker: what would make a figure worthless is refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from time import monotonic
from tomllib import loads
from typing import Any

import msgspec

from prirec import config
from prirec.config import Settings, load
from prirec.data.dataset import Dataset
from prirec.data.synthetic import CityPlan, make_city
from prirec.evaluate.leaks import check, refuse
from prirec.metrics import measure
from prirec.simulate.privacy_plan import Counts, drowned_by_noise
from prirec.simulate.recommend import Advisor, no_models, ranked
from prirec.simulate.setup import run, set_up
from prirec.simulate.tuned_fm import tune
from prirec.util.keyed_random import generator
from prirec_experiments.cities import CITIES, City
from prirec_experiments.experiment import Workspace
from prirec_experiments.models import MODELS, ComparedModel, Job
from prirec_experiments.results_store import Cell, CellScores, ResultsStore, Scalar
from prirec_experiments.rivals.descent import Descent, Tell, quiet

CODE = 3  # to be raised when the same settings, or a default that was changed, give other figures
ASKED = 300  # people whose lists of 10 among the places within 5 km are looked at
OWN = "rival."
TRIED = 5  # times as long as one training takes the search for settings and the training


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """All settings of a cell: those of the run, and a rival's own."""

    settings: Settings
    own: Descent | None

    def digest(self, *, model: str, data: str) -> str:
        """The same where the same is measured on the same data; new settings at their defaults change nothing."""
        own = "" if self.own is None else repr(self.own)
        text = "\0".join((str(CODE), model, data, repr(config.changed(self.settings)), own))
        return blake2b(text.encode(), digest_size=12).hexdigest()


def resolve(cell: Cell, city: City, model: ComparedModel, found: Mapping[str, Scalar]) -> ResolvedSettings:
    """The model's settings, changed by what its kind of city asks for, what a search has found, and the cell's own."""
    by_city = {**city.settings, **(city.paper if model.algorithm_2 else {})}
    given = {**by_city, **model.settings, **found, **dict(cell.changes)}
    settings = config.load(changes={name: value for name, value in given.items() if not name.startswith(OWN)})
    if model.own is None:
        return ResolvedSettings(settings, None)
    own = {name.removeprefix(OWN): value for name, value in given.items() if name.startswith(OWN)}
    carried = {"dimension": settings.model.dimension, "seed": settings.seed}
    return ResolvedSettings(settings, msgspec.structs.replace(model.own, **{**carried, **own}))


def train_and_test(
    how: ResolvedSettings, model: ComparedModel, dataset: Dataset, *, threads: int, tell: Tell, asked: int = ASKED
) -> tuple[dict[str, Any], CellScores]:
    """Trains, and measures everything: the figures, and the scores of the test records that they come from."""
    began = monotonic()
    chosen = tune(dataset, how.settings, threads=threads) if model.tuned else None
    setup = set_up(dataset, how.settings if chosen is None else chosen.settings)
    findings = check(setup)
    refuse(findings)
    fitted = model.fit(Job(setup, how.own, threads, tell))
    seconds = monotonic() - began
    scores, test = fitted.scorer.test(), setup.samples.test
    lists = ranked(Advisor.of(setup, no_models(setup)), fitted.scorer.of, people=asked)
    values = {
        **measure(scores, train=setup.samples.train, test=test, probabilities=model.probabilities).to_dict(),
        **lists.mean().to_dict(),
        **({} if chosen is None else {"chosen": chosen.to_dict()}),
        "seconds": seconds,
        "losses": list(fitted.losses),
        "flagged": [one.to_dict() for one in findings],
        "noise_note": drowned_by_noise(setup.prepared, setup.settings, Counts.of(setup.samples)),
    }
    return values, CellScores.of(setup.samples, scores, lists)


# About how long a cell takes, before it is begun: records times passes times what one of them costs.
#
# The rates were measured with one thread on Yelp at K = 5 and N = 30; `slowness` says how this machine compares. How
# they grow with K and N is a guess: a forecast is to tell minutes from hours.


MICROSECONDS = {"samples": 1.6, "rounds": 0.4, "centralised": 0.8}  # a record and pass, K = 5
RIVALS = {"MF": 0.13, "DMF": 2.0, "FM + ids": 0.7}
PREPARING = 5.0  # microseconds a record: filter, split, encode, look for leaks, lists
REFERENCE = 0.09  # seconds that the trial below took where the rates come from


def expected_seconds(how: ResolvedSettings, *, model: str, dataset: Dataset) -> float:
    """About how long a cell takes on the machine that the rates were measured on."""
    settings = how.settings
    ratio = 1 if dataset.labelled else 1 + settings.data.ratio
    records = len(dataset.visits) * ratio * settings.data.train_share
    passes = settings.iterations if how.own is None else how.own.passes
    rate = MICROSECONDS[settings.schedule] if how.own is None else RIVALS[model]
    wide = 0.5 + settings.model.dimension / 10 if settings.schedule != "rounds" else 1.0
    near = 0.3 + 0.7 * settings.neighbours.count / 30 if settings.schedule == "samples" else 1.0
    if model == "popularity alone":
        passes = 0
    if MODELS[model].tuned:
        passes *= TRIED
    return 1e-6 * records * (PREPARING + rate * passes * wide * near)


@cache
def slowness(clock: Callable[[], float] = monotonic) -> float:
    """How many times as long a small training takes here as where the rates come from; compiled before it is timed."""
    plan = CityPlan(people=400, places=160, records=9_600, districts=3, categories=8)
    city = make_city(plan, generator(0, "speed"))
    settings = load(changes={"preset": "rounds", "floor": 50, "iterations": 40})
    setup = set_up(city, settings)
    run(setup, threads=1)
    began = clock()
    run(setup, threads=1)
    return max((clock() - began) / REFERENCE, 0.1)


# Cells that are models on cities: how most tables and figures measure theirs.


def found_settings(city: str, model: str) -> Mapping[str, Scalar]:
    """What the search on validation records has found for this model and city (settings/found.toml); else nothing."""
    table = loads(files("prirec_experiments").joinpath("settings/found.toml").read_text(encoding="utf-8"))
    return {str(name): value for name, value in table.get(city, {}).get(model, {}).items()}


@dataclass(frozen=True, slots=True)
class TrainAndTest:
    """Trains a model and measures it on the test records, and on the lists of some people."""

    asked: int = ASKED

    def lists(self, cell: Cell) -> int:
        """How many people's."""
        return min(self.asked, CITIES[cell.city].most_lists)

    def settings_of(self, cell: Cell, workspace: Workspace) -> ResolvedSettings:
        city, _, _ = workspace.city(cell.city)
        return resolve(cell, city, MODELS[cell.model], found_settings(cell.city, cell.model))

    def digest(self, cell: Cell, workspace: Workspace) -> str:
        _, _, data = workspace.city(cell.city)
        found = self.settings_of(cell, workspace).digest(model=cell.model, data=data)
        return found if self.lists(cell) == ASKED else f"{self.lists(cell)}-{found}"

    def run(self, cell: Cell, workspace: Workspace, store: ResultsStore, tell: Tell = quiet) -> None:
        _, dataset, _ = workspace.city(cell.city)
        how = self.settings_of(cell, workspace)
        values, scores = train_and_test(
            how, MODELS[cell.model], dataset, threads=workspace.threads, tell=tell, asked=self.lists(cell)
        )
        store.put(cell, self.digest(cell, workspace), values, scores)

    def expected(self, cell: Cell, workspace: Workspace) -> float:
        _, dataset, _ = workspace.city(cell.city)
        return expected_seconds(self.settings_of(cell, workspace), model=cell.model, dataset=dataset)
