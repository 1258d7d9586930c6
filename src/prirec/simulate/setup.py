"""From a city to a trained and measured model: filter, split, release popularity, encode, train, measure.

`set_up` and `run` are the two halves; `prirec.fit` calls them one after the other."""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Self

import msgspec
import numpy as np

from prirec.config import DIVERGES, Data, Settings
from prirec.data.dataset import Dataset
from prirec.data.describe import Description, describe
from prirec.data.prepare import Prepared, Recipe, SequentialDraws, filtered, prepare, split
from prirec.engines.state import IterationReport
from prirec.engines.train import Checkpointing, Trained, train
from prirec.features.columns import Columns
from prirec.features.encoding import Encoding, plan_encoding
from prirec.features.history import only_earlier
from prirec.features.popularity import Popularity
from prirec.features.samples import Samples, assemble
from prirec.metrics import Quality, measure
from prirec.model.scoring import Models, scores
from prirec.privacy.plan import with_parts
from prirec.simulate.popularity import columns, mechanism_of, release_popularity
from prirec.types import RealArray
from prirec.util.keyed_random import generator, run_key
from prirec.util.shown import Shown, Table, counted


@dataclass(frozen=True, slots=True)
class Setup:
    """A city prepared for training under some settings."""

    settings: Settings  # complete: with the parts of the budget, and neighbours that the city allows
    prepared: Prepared
    popularity: Popularity = field(repr=False)
    encoding: Encoding = field(repr=False)
    samples: Samples = field(repr=False)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A trained model, and how good it is on the test records. They are scored once: everyone's own model has to be
    learnt for that, which takes longer than the training."""

    setup: Setup
    trained: Trained
    test_scores: RealArray = field(repr=False)  # (R,)
    quality: Quality

    @classmethod
    def of(cls, setup: Setup, trained: Trained, *, threads: int = 2) -> Self:
        """Measured on the test records of the set-up; any number of threads gives the same."""
        samples = setup.samples
        blocks = pairwise(np.linspace(0, len(samples.ids), threads + 1, dtype=np.int64).tolist())
        with ThreadPoolExecutor(threads) as pool:
            parts = pool.map(lambda people: scores(trained.models, samples, samples.test, people=people), blocks)
            found = np.concatenate(list(parts))
        return cls(setup, trained, found, measure(found, train=samples.train, test=samples.test))


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
) -> Setup:
    """Filter, split, release popularity, encode."""
    return set_up_prepared(prepare_for(dataset, settings), dataset, settings, encoding=encoding)


def prepare_for(dataset: Dataset, settings: Settings) -> Prepared:
    """Filter and split; the same seed splits in the same way."""
    how = recipe(settings.data, labelled=dataset.labelled)
    seed = settings.seed
    return prepare(dataset, how, partial(run_key, seed) if dataset.partitioned else generator(seed, "data"))


def set_up_validation(dataset: Dataset, settings: Settings, *, share: float = 0.1) -> Setup:
    """A set-up for choosing settings: a part of the training records takes the place of the test records.

    The test records stay unseen. The part is split off as the settings split, and popularity is counted without it: a
    model that knows places by name would read a held-out label off a count that includes it."""
    how, prepared = recipe(settings.data, labelled=dataset.labelled), prepare_for(dataset, settings)
    known = split(
        prepared.train, replace(how, train_share=1 - share), SequentialDraws(generator(settings.seed, "validation"))
    )
    aside = replace(prepared, train=prepared.train.take(known), test=prepared.train.take(~known))
    return set_up_prepared(aside, dataset, settings)


def set_up_prepared(
    prepared: Prepared,
    dataset: Dataset,
    settings: Settings,
    *,
    encoding: Encoding | None = None,
    release: Callable[[Prepared], Popularity] | None = None,
) -> Setup:
    """Release popularity and encode. `dataset` is the data set before any filter: its columns decide the features, so
    that a filter, which looks at records, does not. A saved run hands over its encoding and its release."""
    size = columns_of(dataset, settings).size  # before any filter
    settled = with_parts(settings, people=len(prepared.dataset.people), places=len(prepared.dataset.places), size=size)
    counts = release_popularity(prepared, settled) if release is None else release(prepared)
    chosen = encoding if encoding is not None else plan_encoding(dataset, counts, settings.features)
    samples = assemble(
        prepared.dataset, train=prepared.train, test=prepared.test, encoding=chosen, popularity=counts,
        alike=settings.neighbours.alike, earlier=only_earlier(settings.data),
    )  # fmt: skip
    usable = adapt_to_coordinates(settled, located=samples.home is not None)
    return Setup(usable, prepared, counts, chosen, samples)


def adapt_to_coordinates(settings: Settings, *, located: bool) -> Settings:
    """Settings that fit a city with or without coordinates: without, neighbours are drawn anew for each interaction
    instead of from nearby, as the paper does for Foursquare (decisions/0008)."""
    n = settings.neighbours
    if located or settings.schedule != "samples" or n.kind != "nearest" or n.weights != "uniform":
        return settings
    return msgspec.structs.replace(settings, neighbours=msgspec.structs.replace(n, kind="random", among=None))


def encoding_before(dataset: Dataset, settings: Settings) -> Encoding:
    """The encoding before anything is collected. Of people and visits only the names, kinds and declarations of columns
    count, so it is public. Where noise leaves all places with one popularity, training has one feature less."""
    some = np.arange(len(dataset.places), dtype=np.float64)  # in place of what nobody has released yet
    return plan_encoding(dataset, Popularity(dict.fromkeys(columns(dataset, settings), some)), settings.features)


def features_of(dataset: Dataset, settings: Settings) -> int:
    """D, the number of features, before anything is collected."""
    return len(encoding_before(dataset, settings).names())


def columns_of(dataset: Dataset, settings: Settings) -> Columns:
    """The columns of the shared model, before anything is collected."""
    return Columns.of(encoding_before(dataset, settings))


@dataclass(frozen=True, slots=True, repr=False)
class CityDescription(Shown):
    """The paper's Table 2 for one city, after a filter."""

    description: Description
    features: int  # D, as a training under the same settings has it
    filter: str
    people: tuple[str, ...]  # ids of those whom the filter kept: private
    notes: tuple[str, ...]

    def panels(self) -> Iterator[str | Table]:
        of = self.description
        kept = "" if self.filter == "none" else ", after the filter"
        sizes = (counted(of.people, "person"), counted(of.places, "place"), counted(of.records, "record"))
        yield f"{', '.join(sizes)}, {counted(self.features, 'feature')}{kept}."
        rows = self.description.rows()
        rows.insert(3, ("#feature", f"{self.features:,}"))
        yield Table((self.description.name, ""), rows)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON, without ids of people."""
        return {
            **self.description.to_dict(), "features": self.features, "filter": self.filter, "notes": self.notes
        }  # fmt: skip


def describe_city(dataset: Dataset, settings: Settings, *, notes: Sequence[str] = ()) -> CityDescription:
    """Counts after the filter data.keep. Features are those of a training, whose columns follow from the data before
    any filter."""
    kept, left_out = filtered(dataset, recipe(settings.data, labelled=dataset.labelled))
    if not len(kept.visits):
        left_out = [*left_out, "nothing is left to describe; with data.keep = 'all' nothing is left out"]
    keep = settings.data.keep
    return CityDescription(
        describe(kept),
        features_of(dataset, settings),
        "none" if keep == "all" else keep,
        kept.people.ids,
        (*notes, *left_out),
    )


def run(
    setup: Setup,
    *,
    engine: str = "local",
    threads: int = 2,
    checkpointing: Checkpointing | None = None,
    progress: Callable[[IterationReport], None] = lambda passed: None,
    trainer: Callable[..., Trained] | None = None,
) -> Outcome:
    """Train with an engine, or by the function `trainer` (on a cluster, say), then measure on the test records."""
    by = trainer if trainer is not None else partial(train, engine=engine, threads=threads)
    trained = by(setup.samples, setup.settings, checkpointing=checkpointing, progress=progress)
    return Outcome.of(setup, trained, threads=threads)


def quality(samples: Samples, models: Models) -> Quality:
    """All figures on the test records."""
    return measure(scores(models, samples, samples.test), train=samples.train, test=samples.test)


# What a reader of settings, of a history or of quality figures would not expect, in sentences.


KNOWING_NOTHING = math.log(2)  # the log loss of whoever answers one half to everything


def settings_notes(settings: Settings, *, before: Settings) -> Iterator[str]:
    """Effects of settings that their reader would not expect; `before` are the settings before the set-up."""
    yield from reporting_notes(settings)
    if settings.neighbours.kind != before.neighbours.kind:
        yield "this city has no coordinates: neighbours are drawn anew for each interaction, as in the paper's Tokyo"
    if settings.schedule == "samples" and settings.neighbours.weights == "ones-diverges":
        yield f"{DIVERGES}; no learning rate helps"


def reporting_notes(settings: Settings) -> Iterator[str]:
    """What the chosen mechanism for popularity reveals beyond what it is asked for."""
    if settings.features.dynamic:
        yield from mechanism_of(settings).warnings(settings)


def history_notes(history: Sequence[IterationReport], *, settings: Settings) -> Iterator[str]:
    """Iterations in which people learnt alone, or in which a sum was not opened; bytes that the protocols sent."""
    if alone := max((passed.alone for passed in history), default=0):
        yield f"up to {counted(alone, 'person')} had no neighbours online and learnt alone"
    if octets := sum(passed.octets or 0 for passed in history):
        each = octets / max(sum(passed.took_part for passed in history), 1)
        yield f"{octets / 1e6:,.1f} MB crossed between the parties, {each / 1e3:,.1f} kB a person and iteration"
    if settings.schedule != "rounds":
        return
    masks = settings.sums.operators == 1
    come = f", or than {1 - settings.sums.lost:.0%} of those who had come," if masks else ""
    few = f"fewer than {settings.floor} people{come} were left"
    if still := sum(not passed.opened for passed in history):
        yield f"in {still} of {len(history)} rounds {few} in the sum over everyone, and the shared model did not move"


def quality_notes(quality: Quality, setup: Setup) -> list[str]:
    """A warning about a model that is worse than none, and why, where the split by record is known to cause it
    (decisions/0009)."""
    if not quality.log_loss > KNOWING_NOTHING:
        return []
    notes = [f"a log loss above {KNOWING_NOTHING:.4f} is worse than knowing nothing, on these test records"]
    dataset = setup.prepared.dataset
    if not dataset.labelled and setup.settings.data.split == "record":
        timed = dataset.visits.time is not None
        later = "; the setting data.split = 'time' tests on later visits instead" if timed else ""
        notes.append(
            "for visits without labels the random split by record does that to features of people (decisions/0009)"
            + later
        )
    return notes
