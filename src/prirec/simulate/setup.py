"""From a city to a trained and measured model: the steps that every command shares, in order."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from prirec.config import Data, Settings
from prirec.data.dataset import Dataset
from prirec.data.prepare import Prepared, Recipe, Stream, prepare, split
from prirec.engines.state import IterationReport
from prirec.engines.train import Keeping, Trained, train
from prirec.features.encoding import Encoding, plan
from prirec.features.popularity import Popularity
from prirec.features.samples import Samples, assemble
from prirec.graph.neighbourhoods import adapt_to_coordinates
from prirec.metrics import Quality, measure
from prirec.model.scoring import Models, scores
from prirec.privacy.plan import sized
from prirec.simulate.popularity import release_popularity
from prirec.util.keyed_random import generator, run_key


@dataclass(frozen=True, slots=True)
class Setup:
    """A city made ready under some settings."""

    settings: Settings  # with what was left to the plan, the cohorts' size, or hangs on the city: who is a neighbour
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


def set_up(
    dataset: Dataset,
    settings: Settings,
    *,
    encoding: Encoding | None = None,
    release: Callable[[Dataset], Popularity] | None = None,
) -> Setup:
    """Filter, split, count, encode. What a run has saved, its encoding and its release, is used as it is."""
    return made_ready(_prepared(dataset, settings), dataset, settings, encoding=encoding, release=release)


def _prepared(dataset: Dataset, settings: Settings) -> Prepared:
    how = recipe(settings.data, labelled=dataset.labelled)
    seed = settings.seed
    return prepare(dataset, how, partial(run_key, seed) if dataset.partitioned else generator(seed, "data"))


def validation(dataset: Dataset, settings: Settings, *, share: float = 0.1) -> Setup:
    """The same with a part of the training records in the place of the test records, which nobody looks at: for
    choosing settings. Split as the settings split, and popularity is counted without that part: a model that knows
    places by name would read a held-out label off a count that has it in."""
    how, prepared = recipe(settings.data, labelled=dataset.labelled), _prepared(dataset, settings)
    known = split(prepared.train, replace(how, train_share=1 - share), Stream(generator(settings.seed, "validation")))
    aside = replace(prepared, train=prepared.train.take(known), test=prepared.train.take(~known))
    return made_ready(aside, dataset, settings)


def made_ready(
    prepared: Prepared,
    dataset: Dataset,
    settings: Settings,
    *,
    encoding: Encoding | None = None,
    release: Callable[[Dataset], Popularity] | None = None,
) -> Setup:
    """Count and encode. The data set is the one before any filter."""
    counts = release_popularity(prepared, settings) if release is None else release(prepared.dataset)
    chosen = encoding if encoding is not None else plan(dataset, counts, settings.features)  # before any filter
    samples = assemble(
        prepared.dataset, train=prepared.train, test=prepared.test, encoding=chosen, popularity=counts,
        alike=settings.neighbours.alike,
    )  # fmt: skip
    usable = adapt_to_coordinates(settings, located=samples.home is not None)
    settled = sized(usable, people=len(samples.ids), features=samples.features)
    return Setup(settled, prepared, counts, chosen, samples)


def run(
    setup: Setup,
    *,
    engine: str = "local",
    threads: int = 2,
    keeping: Keeping | None = None,
    tell: Callable[[IterationReport], None] = lambda passed: None,
    by: Callable[..., Trained] | None = None,
) -> Outcome:
    """Train, here or wherever `by` does it, then measure on the test records."""
    trainer = by if by is not None else partial(train, engine=engine, threads=threads)
    trained = trainer(setup.samples, setup.settings, keeping=keeping, tell=tell)
    return Outcome(setup, trained, quality(setup.samples, trained.state.models))


def quality(samples: Samples, models: Models) -> Quality:
    """AUC, log loss, GAUC, and the AUC of the people with fewest records, on the test records."""
    test = samples.test
    return measure(
        test.label,
        scores(models, samples, test),
        person=test.person,
        training_records=samples.train.counts(),
    )
