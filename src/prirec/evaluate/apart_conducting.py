"""The driver's half of getting a partitioned city ready: it adds counts, opens sums, and holds what is public."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from prirec.data.dataset import Places
from prirec.data.each import left_out
from prirec.data.filters import only_places
from prirec.data.folder import read_public
from prirec.data.partition_file import read_partition
from prirec.data.recipe import Recipe, refuse_empty
from prirec.data.schema import Schema
from prirec.engines.conducting import Crew
from prirec.engines.cutting import split_cohorts
from prirec.engines.randomness import run_key
from prirec.engines.run_folder import Released
from prirec.engines.shard import Whole
from prirec.errors import DataError, PolicyError
from prirec.evaluate.apart import Amounts, Columns, refuse_unfit_apart
from prirec.evaluate.counting import noise_in_popularity
from prirec.evaluate.experiment import recipe
from prirec.features.encoding import Encoding, encode_columns
from prirec.features.planning import plan_declared
from prirec.features.popularity import Among, Counts, OwnCounts
from prirec.features.samples import place_features
from prirec.graph.cohorts_apart import HALVINGS, Cells, Groups, Keys, Search, groups, in_order
from prirec.privacy.budget import sized
from prirec.privacy.post_processing import POPULARITY, shrunk
from prirec.privacy.weighted_popularity import NoisySums
from prirec.settings import Settings
from prirec.types import BoolArray, KeyArray, OffsetArray, RealArray

Call = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class CityApart:
    """A city made ready, of which only what is public is here."""

    settings: Settings  # with the cohort size that the plan chose
    whole: Whole
    split: OffsetArray = field(repr=False)  # cohorts that are in more than one shard
    encoding: Encoding = field(repr=False)
    places: Places = field(repr=False)
    released: Released = field(repr=False)
    amounts: Amounts
    notes: tuple[str, ...] = ()


class Preparing:
    """`calls` is all that was told to shards, in order: whoever hears it again has what a lost one had."""

    def __init__(self, crew: Crew, folder: Path, settings: Settings):
        self.crew, self.settings, self.calls = crew, settings, list[Call]()
        public = read_public(folder)
        self.places, self.schema = public.places, public.schema
        self.recipe = recipe(settings.data, labelled=read_partition(folder).labelled)
        self.notes: list[str] = []

    def city(self) -> CityApart:
        """All steps, in the order of evaluate/experiment.py."""
        refuse_unfit_apart(self.settings)
        self._filter()
        amounts: Amounts = self._tell("prepare")
        refuse_empty(range(amounts.train), range(amounts.test))
        if amounts.left_out:
            self.notes.append(left_out(amounts.left_out, amounts.negatives))
        released = self._count(amounts.people)
        encoding: Encoding = self.crew.one(0, "plan")
        features = int(self._each("assemble", encoding, place_features(self.places, encoding))[0].values[0])
        settled = sized(self.settings, people=amounts.people, features=features)
        known, numbers = self._cohorts(settled, amounts.people)
        split = split_cohorts(numbers)
        whole = Whole(amounts.people, len(self.places), features, known.cohorts)
        self._each("open", settled, split, whole)
        columns = {name: values.tolist() for name, values in released.items()}
        told = Released(places=self.places.ids, columns=columns)
        return CityApart(settled, whole, split, encoding, self.places, told, amounts, tuple(self.notes))

    def _each(self, call: str, *args: Any) -> list[Any]:
        self.calls.append((call, args))
        return self.crew.each(call, *args)

    def _tell(self, call: str, *args: Any) -> Any:
        self.calls.append((call, args))
        return self.crew.summed(call, *args)

    def _filter(self) -> None:
        before: Amounts = self.crew.summed("amounts")
        if not before.records:
            raise DataError("the data set has no records")
        if self.recipe.filter == "none":
            return
        if self.recipe.filter == "visitors":
            kept = self.crew.summed("visitors").values >= self.recipe.at_least
            self._tell("drop", kept, 0)
        else:
            kept = self._often(self.recipe)
        self._each("settle", kept)
        many, self.places = len(self.places), only_places(self.places, kept)
        after: Amounts = self.crew.summed("amounts")
        if not after.records:
            raise DataError(
                f"no record is left after the filter '{self.recipe.filter}' with at_least = {self.recipe.at_least}; "
                "lower it"
            )
        self.notes.append(
            f"the filter kept {after.people:,} of {before.people:,} people, {len(self.places):,} of {many:,} places "
            f"and {after.records:,} of {before.records:,} records"
        )

    def _often(self, how: Recipe) -> BoolArray:
        """Places that are left when nobody and nothing has fewer records."""
        while True:
            enough = self.crew.summed("records_of_places").values >= how.at_least
            if not self._tell("drop", enough, how.at_least).values[0]:
                left: BoolArray = self.crew.summed("records_of_places").values > 0
                return left

    def _count(self, people: int) -> Counts:
        """Popularity as it is released; what each person added is where the person is."""
        if not self.settings.features.dynamic:
            self._each("release_nothing")
            return {}
        if self.settings.popularity.mechanism == "secure-sum":
            return self._count_noisily(people)
        among: Among = self.crew.summed("among")
        released = self._tell("counts", among).sums
        self._each("release", released)
        return dict(released)

    def _count_noisily(self, people: int) -> Counts:
        survivors = int(self.crew.summed("survivors").values[0])
        drawn = noise_in_popularity(self.settings, people=people, places=len(self.places), survivors=survivors)
        total: Columns = self._tell("vectors", drawn.norm)
        unit = 2.0**-drawn.norm.fraction_bits
        sums, sigma = (total.sums[POPULARITY] + drawn.noise) * unit, sqrt(drawn.variance) * unit
        nobody = OwnCounts(len(self.places), np.empty(0, dtype=np.int64), np.empty(0))
        public = shrunk(NoisySums(sums, sigma, nobody), location=self.places.location, features=self._said())
        self._each("release_noisy", public, sums, sigma, unit)
        return dict(public.columns)

    def _said(self) -> RealArray | None:
        """(J, p): what the catalogue says of places."""
        blocks = plan_declared(self.places, Schema(), self.settings.features).place
        features = encode_columns(blocks, self.places.columns, len(self.places)).astype(np.float64)
        return features if features.shape[1] else None

    def _cohorts(self, settled: Settings, people: int) -> tuple[Groups, list[OffsetArray]]:
        """Groups, and the cohorts that each shard has somebody of."""
        if people < settled.floor:
            raise PolicyError(f"{people} people are fewer than the floor of {settled.floor} for an opened sum")
        found: Cells = self._tell("cells")
        known = groups(found, size=settled.neighbours.size)
        strays: Keys = self._tell("meet", known)
        cuts = self._cut(known)
        beacon = int(run_key(settled.seed, "beacon"))
        return known, self._each("gather", cuts, in_order(strays.keys, beacon=beacon))

    def _cut(self, known: Groups) -> KeyArray:
        search = Search(known)
        if len(search.group):
            for _ in range(HALVINGS):
                search.told(self.crew.summed("below", search.group, search.pivots))
            return search.found(self.crew.summed("below", search.group, search.last))
        return search.last


def dealt(efforts: Sequence[int], *, shards: int) -> list[list[int]]:
    """Parts for each shard, neighbours together, about as much work in each; never more shards than parts."""
    each, many = np.array(efforts, dtype=np.int64), min(shards, len(efforts))
    middles = 2 * np.cumsum(each) - each
    at = middles * many // max(2 * int(each.sum()), 1)
    return [np.flatnonzero(at == shard).tolist() for shard in np.unique(at)]
