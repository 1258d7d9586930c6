"""Some parts of a partitioned city, from raw rows to a shard: the steps of evaluate/experiment.py. Between them whoever
conducts adds up counts over all parts. What a step is told is public or a count; what it makes stays here.

Every step follows from the parts and from what was told, so that a shard that was lost is made again by the same calls.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from prirec.data.dataset import Places
from prirec.data.each import Made, each
from prirec.data.filters import distinct_visitors, drop_unused_people, with_places
from prirec.data.partitioned import read_parts
from prirec.data.recipe import Prepared
from prirec.engines.circles import cells_of
from prirec.engines.randomness import run_key
from prirec.engines.shard import Shard, Share, Whole
from prirec.engines.starts import Inhabitants, inhabitants
from prirec.errors import UsageError
from prirec.evaluate.collection import those_left
from prirec.evaluate.counting import contributions
from prirec.evaluate.experiment import recipe
from prirec.features.encoding import Encoding
from prirec.features.planning import plan
from prirec.features.popularity import Among, OwnCounts, Popularity, nothing_left_out, plain_counts
from prirec.features.samples import Samples, assemble
from prirec.graph.cohorts_apart import Cells, Counts, Groups, Keys, Roster
from prirec.privacy.norm import Norm
from prirec.privacy.post_processing import POPULARITY, Shrunk, own_part
from prirec.privacy.weighted_popularity import NoisySums, written
from prirec.settings import Settings
from prirec.types import BoolArray, FeatureArray, IndexArray, KeyArray, OffsetArray, RealArray


class Amounts(NamedTuple):
    """What there is of everything."""

    people: int
    records: int
    train: int = 0
    test: int = 0
    negatives: int = 0
    left_out: int = 0

    def plus(self, other: "Amounts") -> "Amounts":
        return Amounts(*(a + b for a, b in zip(self, other, strict=True)))


class Columns(NamedTuple):
    """Sums for each place, by name."""

    sums: Mapping[str, RealArray]

    def plus(self, other: "Columns") -> "Columns":
        return Columns({name: values + other.sums[name] for name, values in self.sums.items()})


def refuse_unfit_apart(settings: Settings) -> None:
    """What needs all records at once."""
    if settings.features.averages:
        raise UsageError("features.averages are not carried over parts: their sums are not exact in any order")
    if settings.features.dynamic and settings.popularity.mechanism == "randomized-response":
        raise UsageError("popularity.mechanism 'randomized-response' is not carried over parts; use 'secure-sum'")


class Apart:
    """People of some parts."""

    def __init__(self, folder: Path, which: Sequence[int], settings: Settings):
        read = read_parts(folder, which)
        self.dataset, self.rows, self.settings = read.loaded.dataset, read.rows, settings
        self.catalogue: Places = self.dataset.places  # before any filter
        self.recipe = recipe(settings.data, labelled=self.dataset.labelled)
        self.shard: Shard

    def amounts(self) -> Amounts:
        return Amounts(len(self.dataset.people), len(self.dataset.visits))

    # Filter

    def visitors(self) -> Counts:
        return Counts(distinct_visitors(self.dataset))

    def records_of_places(self) -> Counts:
        return Counts(np.bincount(self.dataset.visits.place, minlength=len(self.dataset.places)))

    def drop(self, places: BoolArray, at_least: int) -> Counts:
        """Without records of other places, or of people with fewer; how many that were."""
        visits = self.dataset.visits
        busy = np.bincount(visits.person, minlength=len(self.dataset.people)) >= at_least
        keep = busy[visits.person] & places[visits.place]
        self.dataset = self.dataset.with_visits(visits.take(keep))
        return Counts(np.array([np.count_nonzero(~keep)]))

    def settle(self, places: BoolArray) -> None:
        """Without people who have no record left, and with these places only."""
        kept, stay = drop_unused_people(self.dataset)
        self.dataset, self.rows = with_places(kept, places), self.rows[stay]

    # Prepare and count

    def prepare(self) -> Amounts:
        self.made: Made = each(self.dataset, self.recipe, partial(run_key, self.settings.seed))
        made = self.made
        people, records = len(self.dataset.people), len(self.dataset.visits)
        return Amounts(people, records, len(made.train), len(made.test), made.negatives, made.left_out)

    def among(self) -> Among:
        return Among.of(self.made.train)

    def counts(self, among: Among) -> Columns:
        """Popularity in the clear; what each person added stays here."""
        days = self.settings.features.recent_days
        mine = plain_counts(self.made.train, places=len(self.dataset.places), recent_days=days, among=among)
        self.own = dict(mine.own)
        return Columns(dict(mine.released))

    def survivors(self) -> Counts:
        return Counts(np.array([those_left(self._prepared(), self.settings)[1]]))

    def vectors(self, norm: Norm) -> Columns:
        """Visit vectors of norm 1, in whole numbers."""
        left, _ = those_left(self._prepared(), self.settings)
        self.whole: OwnCounts = written(contributions(left, self.settings), norm)
        return Columns({POPULARITY: self.whole.total()})

    def release(self, released: Mapping[str, RealArray]) -> None:
        """What plain counts came to over everyone."""
        self._see(Popularity(released, {name: own for name, own in self.own.items() if name in released}))

    def release_noisy(self, shrunk: Shrunk, sums: RealArray, sigma: float, unit: float) -> None:
        """What the noisy sum came to; everyone leaves the own part out by the same map."""
        own = OwnCounts(self.whole.places, self.whole.pairs, self.whole.counts * unit)
        part = own_part(NoisySums(sums, sigma, own), shrunk.prior, shrunk.columns[POPULARITY], shrunk.weight)
        self._see(Popularity(shrunk.columns, {POPULARITY: part}))

    def release_nothing(self) -> None:
        self._see(Popularity())

    def _see(self, found: Popularity) -> None:
        self.popularity = found if self.settings.features.own_left_out else nothing_left_out(found)

    def _prepared(self) -> Prepared:
        return Prepared(self.dataset, self.made.train, self.made.test)

    # Encode

    def plan(self) -> Encoding:
        """The same whoever is asked: private tables are looked at for names and kinds of columns only."""
        return plan(replace(self.dataset, places=self.catalogue), self.popularity, self.settings.features)

    def assemble(self, encoding: Encoding, places: FeatureArray) -> Counts:
        """How many features there are."""
        self.samples: Samples = assemble(
            self.dataset, train=self.made.train, test=self.made.test, encoding=encoding, popularity=self.popularity,
            places=places,
        )  # fmt: skip
        standing = {name: at for at, name in enumerate(self.dataset.people.ids)}
        self.rows = self.rows[[standing[name] for name in self.samples.ids]]
        return Counts(np.array([self.samples.features]))

    # Cohorts

    def cells(self) -> Cells:
        self.named = cells_of(self.samples.home, len(self.samples.ids), self.settings)
        return Cells.of(self.named)

    def meet(self, groups: Groups) -> Keys:
        beacon = int(run_key(self.settings.seed, "beacon"))
        self.roster = Roster(self.named, self.samples.keys, groups, beacon=beacon)
        return self.roster.strays()

    def below(self, group: OffsetArray, pivots: KeyArray) -> Counts:
        return self.roster.below(group, pivots)

    def gather(self, cuts: KeyArray, strays: KeyArray) -> OffsetArray:
        """The cohorts that these people are in."""
        self.cohort: IndexArray = self.roster.cohorts(cuts, strays)
        return np.unique(self.cohort).astype(np.int64)

    def inhabitants(self) -> Inhabitants:
        return inhabitants(self.named, self.shard.rounds.cohort, self.shard.state.means)

    def open(self, settings: Settings, split: OffsetArray, whole: Whole) -> None:
        """The shard, with settings in which the plan has chosen what was left to it."""
        mine = np.intersect1d(split, self.cohort)
        self.shard = Shard(Share(self.samples, self.cohort, mine, whole), settings)
        del self.made, self.roster
