"""Several models on one city, prepared alike, trained on the same records and measured on the same test records.

A model is PriRec or the paper's FM under some settings, FM with settings chosen for the city (`fm-tuned`), popularity
alone, or a model of anybody's own: one class with a method `fit`, handed over as it is or registered by an entry point
of the group `prirec.models` (docs/how-to/own-model.md).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from time import monotonic
from typing import Any, ClassVar, Protocol, cast, get_args

import numpy as np

from prirec.config import PresetName, Settings, load
from prirec.data.dataset import Dataset
from prirec.engines.state import IterationReport
from prirec.engines.train import Trained
from prirec.errors import UsageError
from prirec.features.samples import Records
from prirec.metrics import Quality, RankFigures, measure
from prirec.simulate.recommend import Advisor, candidate_records, no_models, ranked
from prirec.simulate.setup import Outcome, Setup, run, set_up
from prirec.simulate.tuned_fm import MOST_PASSES, Chosen, tune
from prirec.types import IndexArray, RealArray
from prirec.util.sentences import suggest

TUNED = "fm-tuned"  # the opponent at its best: what the demo and the README compare with (decisions/0018)
POPULARITY, NOISY_POPULARITY = "popularity", "popularity-private"
RANKED = 2000  # people whose lists are looked at
GROUP = "prirec.models"  # entry points of other packages, each a class that follows `Model`
PRESETS = get_args(PresetName)


class TrainedModel(Protocol):
    """What `Model.fit` returns. Only a simulation has one: it answers for everyone."""

    def scores(self, records: Records) -> RealArray:
        """(R,): a score for each record; the higher, the likelier a visit. A chance p is the score ln(p / (1 - p))."""
        ...


class Model(Protocol):
    """A model of one's own. It may also have `name`, `collects` (what it learns about people, in a few words),
    `settings` (changes to the preset `rounds`, such as {"features.dynamic": False}, by which the city is prepared) and
    `probabilities` (False: its scores are no log-odds, and have no log loss)."""

    def fit(self, setup: Setup) -> TrainedModel:
        """Learns from setup.samples.train. Whoever looks at setup.samples.test has nothing to compare."""
        ...


@dataclass(frozen=True, slots=True)
class Contender:
    """A model to be compared: its name, what it needs to know about people, and its settings."""

    name: str
    collects: str
    settings: Settings
    model: Model | None = None  # None: PriRec or FM, as the settings say
    tuned: bool = False  # FM: K, learning rate, regularisation and passes are chosen first, simulate/tuned_fm.py


@dataclass(frozen=True, slots=True)
class ModelOutcome:
    """A trained model of somebody's own, and how good it is on the records that it never saw."""

    setup: Setup
    test_scores: RealArray = field(repr=False)  # (R,)
    quality: Quality
    trained: TrainedModel = field(repr=False)


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the comparison; its settings are as the set-up settled them."""

    contender: Contender
    outcome: Outcome | ModelOutcome = field(repr=False)
    seconds: float  # preparing, training and testing; nan if that was not timed
    ranked: RankFigures = field(repr=False)  # lists of some people, among the places near home
    chosen: Chosen | None = None  # of a tuned contender

    @property
    def trained(self) -> Trained | None:
        """State and history of PriRec or FM; None for a model of somebody's own."""
        return self.outcome.trained if isinstance(self.outcome, Outcome) else None

    @property
    def history(self) -> tuple[IterationReport, ...]:
        return () if self.trained is None else self.trained.history


def entry_of(outcome: Outcome) -> Entry:
    """The row of a training that was not part of a comparison: named by its preset, and not timed."""
    settings = outcome.setup.settings
    contender = Contender(settings.preset, collects(settings), settings)
    return Entry(contender, outcome, math.nan, rank_outcome(contender, outcome))


def compare(
    dataset: Dataset,
    contenders: Sequence[Contender],
    *,
    threads: int = 2,
    progress: Callable[[Contender, IterationReport | None], None] = lambda contender, passed: None,
) -> tuple[Entry, ...]:
    """Each contender in turn. Settings of the same seed and data split the city alike. `progress` is called with None
    when a contender's turn comes, then with the report of each iteration."""

    def one(contender: Contender) -> Entry:
        began = monotonic()
        progress(contender, None)
        chosen = tune(dataset, contender.settings, threads=threads) if contender.tuned else None
        setup = set_up(dataset, contender.settings if chosen is None else chosen.settings)
        outcome = (
            run(setup, threads=threads, progress=lambda passed: progress(contender, passed))
            if contender.model is None
            else _measured(contender.name, contender.model, setup)
        )
        used = replace(contender, settings=setup.settings)
        return Entry(used, outcome, monotonic() - began, rank_outcome(contender, outcome), chosen)

    return tuple(one(contender) for contender in contenders)


def rank_outcome(contender: Contender, outcome: Outcome | ModelOutcome) -> RankFigures:
    """Lists among the places near home, and the AUC against places nearby, person by person."""
    if isinstance(outcome, ModelOutcome):
        return rank_model(outcome.trained, outcome.setup, name=contender.name, people=RANKED)
    return ranked(Advisor.of(outcome.setup, outcome.trained.models), people=RANKED)


def rank_model(model: TrainedModel, setup: Setup, *, name: str, **asked: Any) -> RankFigures:
    """The lists of a model of somebody's own; `asked` are the arguments of `ranked`."""
    advisor = Advisor.of(setup, no_models(setup))

    def score(person: int, places: IndexArray) -> RealArray:
        return checked_scores(model, candidate_records(advisor, person, places), name=name)

    return ranked(advisor, score, **asked)


# Contenders from the names of presets, from settings, and from models of anybody's own.


def contender(model: object, *, name: str | None = None, changes: Mapping[str, Any] | None = None) -> Contender:
    """A contender from a preset's name, `fm-tuned`, `popularity`, the name of a registered model, settings, or a model:
    a class or an object."""
    changes = dict(changes or {})
    if isinstance(model, Settings):
        if changes:
            raise UsageError("changes are for presets and models of your own; these settings are whole already")
        return Contender(name or model.preset, collects(model), model)
    if model == TUNED:
        settings = load(changes={"preset": "fm", "iterations": MOST_PASSES, **changes})
        return Contender(name or TUNED, collects(settings), settings, tuned=True)
    if isinstance(model, str) and model in PRESETS:
        settings = load(changes={"preset": model, **changes})
        return Contender(name or model, collects(settings), settings)
    own = registered_model(model) if isinstance(model, str) else checked_model(model)
    called = name or (model if isinstance(model, str) else str(getattr(own, "name", type(own).__name__)))
    return Contender(called, str(getattr(own, "collects", "")), model_settings(own, called, changes), own)


def collects(settings: Settings) -> str:
    """What a design learns about people, in a few words for a table. A simulation itself sees everything."""
    counts = ", counts of visits" if settings.features.dynamic else ""
    if settings.schedule == "centralised":
        return "every profile, every record"
    if settings.privacy.epsilon_per_user is not None:
        return f"noisy sums, at ε = {settings.privacy.epsilon_per_user:g} for each person"
    if settings.schedule == "samples":
        return f"gradients of V{counts}"
    return f"sums over {settings.floor:,} people or more{counts}"


class PopularityAlone:
    """The control that knows no person: a place scores by how many people have visited it, counted exactly."""

    name, collects, probabilities = POPULARITY, "exact counts of visitors", False

    def fit(self, setup: Setup) -> "PopularityAlone":
        train, places = setup.samples.train, len(setup.samples.places)
        visited = train.label > 0
        pairs = np.unique(train.person[visited].astype(np.int64) * places + train.place[visited])
        self.visitors = np.bincount(pairs % places, minlength=places).astype(np.float64)
        return self

    def scores(self, records: Records) -> RealArray:
        found: RealArray = self.visitors[records.place]
        return found


class NoisyPopularity:
    """Popularity alone at the price of the preset `private`: nearly the whole budget for one noisy sum of visits."""

    name, collects, probabilities = NOISY_POPULARITY, "a noisy sum of visits, at the same ε", False
    settings: ClassVar[Mapping[str, Any]] = {
        "preset": "private", "privacy.popularity": 998, "privacy.moments": 1, "privacy.interaction": 1
    }  # fmt: skip

    def fit(self, setup: Setup) -> "NoisyPopularity":
        self.popularity = setup.popularity
        return self

    def scores(self, records: Records) -> RealArray:
        """As devices see it, with their own part left out."""
        return next(iter(self.popularity.seen_by(records).values()))


CONTROLS: Mapping[str, type[Model]] = {POPULARITY: PopularityAlone, NOISY_POPULARITY: NoisyPopularity}


def registered_model(name: str) -> Model:
    """The model that an installed package registers under this name, or popularity alone; UsageError, with known names,
    if there is none."""
    if name in CONTROLS:
        return CONTROLS[name]()
    found = {point.name: point for point in entry_points(group=GROUP)}
    if name not in found:
        known = (*PRESETS, TUNED, *CONTROLS, *found)
        raise UsageError(f"no preset and no registered model is called '{name}'; {suggest(name, known)}")
    try:
        made = found[name].load()
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"the model '{name}' is registered as {found[name].value}, and cannot be loaded: {error}"
        ) from None
    return checked_model(made, called=f"the model '{name}'")


def checked_model(given: object, *, called: str = "") -> Model:
    """A model, made from its class where a class is given; UsageError if it is none."""
    words = called or f"'{getattr(given, '__name__', type(given).__name__)}'"
    if not callable(getattr(given, "fit", None)):
        raise UsageError(f"{words} is no model: it has no method fit(setup)")
    if isinstance(given, type):
        try:
            given = given()
        except TypeError as error:
            raise UsageError(f"{words} cannot be made without arguments: {error}; give an object instead") from None
    return cast("Model", given)


def model_settings(model: Model, name: str, changes: Mapping[str, Any]) -> Settings:
    """By which the city is prepared for a model: the preset `rounds`, changed by the model, then by `changes`."""
    own = getattr(model, "settings", {})
    if not isinstance(own, Mapping):
        raise UsageError(f"settings of the model '{name}' are a mapping, such as {{'features.dynamic': False}}")
    return load(changes={"preset": "rounds", **own, **changes})


def fit_model(model: Model, setup: Setup, *, name: str) -> TrainedModel:
    """The trained model; UsageError where `fit` returns nothing that scores."""
    trained = model.fit(setup)
    if not callable(getattr(trained, "scores", None)):
        raise UsageError(
            f"fit of the model '{name}' returned {type(trained).__name__}, which has no method scores(records); "
            "return an object that has one"
        )
    return trained


def checked_scores(trained: TrainedModel, records: Records, *, name: str) -> RealArray:
    """(R,): the model's scores of these records; UsageError unless there is one number for each record."""
    found = np.asarray(trained.scores(records))
    if found.dtype.kind not in "fiub" or found.shape != (len(records),):
        raise UsageError(
            f"scores of the model '{name}' have the shape {found.shape} and entries of {found.dtype}; one number for "
            f"each of {len(records):,} records is needed: the shape ({len(records)},)"
        )
    if np.isnan(found).any():
        raise UsageError(f"scores of the model '{name}' hold NaN; every record needs a number")
    return found.astype(np.float64)


def _measured(name: str, model: Model, setup: Setup) -> ModelOutcome:
    samples, trained = setup.samples, fit_model(model, setup, name=name)
    found = checked_scores(trained, samples.test, name=name)
    probabilities = bool(getattr(model, "probabilities", True))
    quality = measure(found, train=samples.train, test=samples.test, probabilities=probabilities)
    return ModelOutcome(setup, found, quality, trained)
