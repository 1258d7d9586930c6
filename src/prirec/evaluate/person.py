"""Algorithm 3 for one person of a simulated city, put together from the parts that a device runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from prirec.data.dataset import Category, Column, Columns, Numbers, Places, Tags
from prirec.errors import UsageError
from prirec.evaluate.experiment import Setup
from prirec.features.encoding import encode_context
from prirec.geography import haversine_km
from prirec.graph.matching import RegionIndex
from prirec.protocols.prediction import PlacePart, Recommendation, combine, recommend, score_places
from prirec.protocols.reasons import Contrast, contributions
from prirec.types import FeatureArray, IndexArray, RealArray


@dataclass(frozen=True, slots=True)
class Moment:
    """Where the person is and when; home and no particular time where nothing is said."""

    here: tuple[float, float] | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Advisor:
    """A trained model, ready to recommend: the public half is computed once and serves everyone."""

    setup: Setup
    linear: RealArray = field(repr=False)
    interaction: RealArray = field(repr=False)
    places: FeatureArray = field(repr=False)  # X^j, static and dynamic
    part: PlacePart = field(repr=False)
    index: RegionIndex | None = field(repr=False)

    @classmethod
    def of(cls, setup: Setup, linear: RealArray, interaction: RealArray) -> Self:
        places, location = setup.samples.catalogue, setup.prepared.dataset.places.location
        part = PlacePart.of(interaction, places, first=setup.samples.people.shape[1])
        return cls(setup, linear, interaction, places, part, None if location is None else RegionIndex.build(location))

    def row(self, person_id: str) -> int:
        """Who that is; the id is not repeated in the error."""
        try:
            return self.setup.samples.ids.index(person_id)
        except ValueError:
            raise UsageError(
                "nobody with that id is in this run; `prirec data describe DATA --people 5` shows some ids"
            ) from None

    def recommend(
        self, person: int, *, moment: Moment | None = None, k: int = 10, radius_km: float = 5.0
    ) -> tuple[Recommendation, ...]:
        """Algorithm 3: match, score, choose, with reasons. Places that the person knows are left out."""
        when = moment if moment is not None else Moment()
        matched = self.matched(person, when, k=k, radius_km=radius_km)
        context, km = self.context(person, matched, when)
        samples = combine(self.setup.samples.people[person], self.places[matched], context)
        pulls = contributions(self.model(person), self.interaction, samples)
        groups, names = self.setup.encoding.groups()
        return recommend(
            matched=matched,
            scores=self.scores(person, matched, context),
            k=k,
            visited=self.visited(person),
            distance_km=km,
            contrast=Contrast.of(pulls, groups=groups, group_names=names),
        )

    def model(self, person: int) -> RealArray:
        """W_i, or the one model that everyone shares."""
        model: RealArray = self.linear[person if len(self.linear) > 1 else 0]
        return model

    def scores(self, person: int, places: IndexArray, context: FeatureArray) -> RealArray:
        """Lines 3 to 9: Eq. (1) for one person at these places."""
        return score_places(
            linear=self.model(person),
            interaction=self.interaction,
            person=self.setup.samples.people[person],
            places=self.places[places],
            context=context,
            part=self.part.take(places),
        )

    def matched(self, person: int, moment: Moment, *, k: int, radius_km: float) -> IndexArray:
        """Line 1: the places near; all of them in a city without coordinates, or for a person without a home."""
        here = moment.here if moment.here is not None else self.home(person)
        if self.index is None or here is None:
            return np.arange(len(self.setup.samples.places), dtype=np.int32)
        known = self.visited(person)
        within = self.index.near(here, radius_km)
        if len(np.setdiff1d(within, known)) >= k:
            return within
        return self.index.near(here, radius_km, at_least=k + len(known))

    def home(self, person: int) -> tuple[float, float] | None:
        home = self.setup.samples.home
        if home is None or np.isnan(home[person]).any():
            return None
        return float(home[person, 0]), float(home[person, 1])

    def context(self, person: int, matched: IndexArray, moment: Moment) -> tuple[FeatureArray, RealArray]:
        """The context of each matched place, and how far it is from home."""
        location, home = self.setup.prepared.dataset.places.location, self.home(person)
        km = np.full(len(matched), np.nan)
        if location is not None and home is not None:
            km = haversine_km(np.array(home), location[matched])
        time = None if moment.time is None else np.full(len(matched), moment.time, dtype=np.int64)
        unknown = {name: _unknown(column, len(matched)) for name, column in self.moments().items()}
        return encode_context(self.setup.encoding, unknown, km=km, time=time), km

    def moments(self) -> Columns:
        return self.setup.prepared.dataset.visits.context

    def visited(self, person: int) -> IndexArray:
        """Where the person has been, as the device knows it."""
        train = self.setup.samples.train
        mine = slice(train.offsets[person], train.offsets[person + 1])
        return np.unique(train.place[mine][train.label[mine] > 0])


def _unknown(column: Column, rows: int) -> Column:
    """A context column of which nothing is known at the moment of asking."""
    if isinstance(column, Numbers):
        return Numbers(np.full(rows, np.nan))
    if isinstance(column, Category):
        return Category(np.full(rows, -1, dtype=np.int32), column.words)
    return Tags(np.zeros(rows + 1, dtype=np.int64), np.empty(0, dtype=np.int32), column.words)


def describe_place(places: Places, row: int, columns: Sequence[str]) -> str:
    """A place in a few public words, such as its categories."""
    words: list[str] = []
    for name in columns:
        column = places.columns.get(name)
        if isinstance(column, Category) and column.codes[row] >= 0:
            words.append(column.words[column.codes[row]])
        elif isinstance(column, Tags):
            words += [column.words[code] for code in column.codes[column.offsets[row] : column.offsets[row + 1]]]
    return ", ".join(words)
