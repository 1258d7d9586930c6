"""From a city to a trained and measured model: the steps that every command shares, in order."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from prirec.data.dataset import Dataset
from prirec.data.recipe import Prepared, Recipe, prepare
from prirec.engines.randomness import generator
from prirec.engines.run_folder import Run, rows_of
from prirec.engines.state import Passed, fits
from prirec.engines.training import Keeping, Trained, train
from prirec.errors import DataError, StateError
from prirec.evaluate.metrics import Quality, measure
from prirec.features.encoding import Encoding
from prirec.features.planning import plan
from prirec.features.popularity import Popularity, nothing_left_out, plain_counts
from prirec.features.samples import Samples, assemble
from prirec.model.scoring import scores
from prirec.settings import Data, Features, Settings
from prirec.types import RealArray


@dataclass(frozen=True, slots=True)
class Setup:
    """A city made ready under some settings."""

    settings: Settings
    prepared: Prepared
    popularity: Popularity = field(repr=False)
    encoding: Encoding = field(repr=False)
    samples: Samples = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A model, and how good it is on the records that it never saw."""

    setup: Setup
    trained: Trained
    quality: Quality


def recipe(data: Data, *, labelled: bool) -> Recipe:
    """The paper filters places by visitors where only visits are known, people and places by records with labels."""
    keep = data.keep if data.keep != "paper" else ("records" if labelled else "visitors")
    usual = 5 if keep == "records" else 10
    return Recipe(
        filter="none" if keep == "all" else keep,
        at_least=data.at_least if data.at_least is not None else usual,
        split=data.split,
        train_share=data.train_share,
        negatives=data.negatives,
        ratio=data.ratio,
        thin=data.thin,
    )


def count(prepared: Prepared, features: Features) -> Popularity:
    """How popular places are, from the training visits."""
    if not features.dynamic:
        return Popularity()
    places = len(prepared.dataset.places)
    counts = plain_counts(prepared.train, places=places, recent_days=features.recent_days)
    return counts if features.own_left_out else nothing_left_out(counts)


def set_up(dataset: Dataset, settings: Settings, *, encoding: Encoding | None = None) -> Setup:
    """Filter, split, count, encode. A saved encoding is used as it is, so that a saved model fits."""
    how = recipe(settings.data, labelled=dataset.labelled)
    prepared = prepare(dataset, how, generator(settings.seed, "data"))
    counts = count(prepared, settings.features)
    chosen = encoding if encoding is not None else plan(dataset, counts, settings.features)  # before any filter
    samples = assemble(
        prepared.dataset, train=prepared.train, test=prepared.test, encoding=chosen, popularity=counts
    )  # fmt: skip
    return Setup(settings, prepared, counts, chosen, samples)


def run(
    setup: Setup,
    *,
    engine: str = "local",
    threads: int = 2,
    keeping: Keeping | None = None,
    tell: Callable[[Passed], None] = lambda passed: None,
) -> Outcome:
    """Train, then measure on the test records."""
    trained = train(setup.samples, setup.settings, engine=engine, threads=threads, keeping=keeping, tell=tell)
    state = trained.state
    return Outcome(setup, trained, quality(setup.samples, state.linear, state.interaction))


def quality(samples: Samples, linear: RealArray, interaction: RealArray) -> Quality:
    """AUC, log loss, GAUC, and the AUC of the people with fewest records, on the test records."""
    test = samples.test
    return measure(
        test.label,
        scores(linear, interaction, samples, test),
        person=test.person,
        training_records=samples.train.counts(),
    )


def to_run(outcome: Outcome, source: str) -> Run:
    """What is saved of it."""
    state = outcome.trained.state
    return Run(
        settings=outcome.setup.settings,
        encoding=outcome.setup.encoding,
        interaction=state.interaction,
        linear=state.linear,
        people=outcome.setup.samples.keys,
        history=outcome.trained.history,
        source=source,
        rows=rows_of(outcome.setup.samples),
    )


def set_up_again(dataset: Dataset, saved: Run) -> Setup:
    """The set-up of a saved run on the same data, to test it: with other records it may have learnt from the test."""
    setup = _with_encoding_of(saved, dataset)
    if rows_of(setup.samples) != saved.rows:
        raise StateError(
            "this run was trained on other records than these, so it cannot be tested on them; train again"
        )
    if not fits(saved.linear, saved.interaction, setup.samples, saved.settings):
        raise StateError("the models of this run have not the size or kind that its settings and data call for")
    return setup


def set_up_later(dataset: Dataset, saved: Run) -> tuple[Setup, RealArray]:
    """A saved run on data that have grown since, to recommend from: everyone's own model, found by key.

    Whoever is new starts from the mean of all models; a centralised model serves everyone as it is.
    """
    setup = _with_encoding_of(saved, dataset)
    samples, shared = setup.samples, len(saved.linear) == 1
    if not shared and len(saved.people) != len(saved.linear):
        raise StateError("the models of this run are not as many as its people")
    order = np.argsort(saved.people)
    place = np.minimum(np.searchsorted(saved.people, samples.keys, sorter=order), len(order) - 1)
    known = saved.people[order[place]] == samples.keys
    if not known.any():
        raise StateError("nobody of this run is in these data; it was trained on other people")
    models = (
        np.where(known[:, None], saved.linear[order[place]], saved.linear.mean(axis=0)) if not shared else saved.linear
    )
    aligned = np.ascontiguousarray(models)
    if not fits(aligned, saved.interaction, samples, saved.settings):
        raise StateError("the models of this run have not the size or kind that its settings and data call for")
    return setup, aligned


def _with_encoding_of(saved: Run, dataset: Dataset) -> Setup:
    try:
        return set_up(dataset, saved.settings, encoding=saved.encoding)
    except DataError as error:
        raise StateError(f"this run does not fit these data: {error}") from None
