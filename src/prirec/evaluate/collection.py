"""What a simulated collection of popularity starts from, what it costs a person, and what comes of it."""

from dataclasses import dataclass, field, replace

import numpy as np

from prirec.data.dataset import Dataset
from prirec.data.recipe import Prepared
from prirec.engines.participation import left_in_collection
from prirec.features.averages import scale_of
from prirec.features.encoding import encode_columns
from prirec.features.planning import plan
from prirec.features.popularity import OwnCounts, Popularity
from prirec.geography import located
from prirec.keyed import person_keys
from prirec.privacy.post_processing import NEARBY, POPULARITY
from prirec.privacy.surroundings import nearby_means
from prirec.settings import Settings
from prirec.types import OffsetArray, RealArray


@dataclass(frozen=True, slots=True)
class Price:
    """What one person spends on popularity: here the whole budget, for nothing else is computed."""

    epsilon_per_user: float = 1.0
    delta: float = 1e-6


@dataclass(frozen=True, slots=True)
class Collection:
    """Who was where in the training records, once a place. Only a simulation sees it whole."""

    own: OwnCounts = field(repr=False)  # 1 for each place of each person
    people: int  # everyone takes part, also whoever was nowhere
    with_a_record: OffsetArray = field(repr=False)  # (J,) people with a visit to the place, or a negative of it
    location: RealArray | None = field(repr=False)  # (J, 2), public
    features: RealArray | None = field(repr=False)  # (J, p), public
    settings: Settings = field(repr=False)  # how many may be lost or collude, and the floor

    @property
    def places(self) -> int:
        return self.own.places

    def visitors(self) -> OffsetArray:
        """(J,): what plain counts would show."""
        return self.own.total().astype(np.int64)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is released, and what it would be without noise; both in the mechanism's own measure."""

    popularity: Popularity = field(repr=False)  # its first column is the popularity
    expected: RealArray = field(repr=False)  # (J,)

    def error(self, visitors: OffsetArray) -> float:
        """How far places lie from the noiseless figure (root mean square), in visitors: a whole city has as many."""
        noise = released(self.popularity) - self.expected
        scale = float(visitors.sum() / self.expected.sum()) if self.expected.sum() > 0 else 1.0
        return float(np.sqrt(np.mean(noise**2))) * scale


def gather(prepared: Prepared, settings: Settings | None = None) -> Collection:
    """The collection that a prepared city allows."""
    settings = settings or Settings()
    return Collection(
        own=visitors(prepared),
        people=len(prepared.dataset.people),
        with_a_record=with_a_record(prepared),
        location=prepared.dataset.places.location,
        features=public_features(prepared, settings),
        settings=settings,
    )


def visitors(prepared: Prepared) -> OwnCounts:
    """Who was where in the training records, once a place."""
    positive = prepared.train.take(prepared.train.label > 0)
    return OwnCounts.of(positive, places=len(prepared.dataset.places)).once()


def with_a_record(prepared: Prepared) -> OffsetArray:
    """(J,): how many people have a visit to the place, or a negative of it, in the training records."""
    return OwnCounts.of(prepared.train, places=len(prepared.dataset.places)).once().total().astype(np.int64)


def public_features(prepared: Prepared, settings: Settings) -> RealArray | None:
    """(J, p): what the catalogue says of places, encoded; None where it says nothing."""
    places = prepared.dataset.places
    blocks = plan(prepared.dataset, Popularity(), settings.features).place
    features = encode_columns(blocks, places.columns, len(places)).astype(np.float64)
    return features if features.shape[1] else None


def those_left(prepared: Prepared, settings: Settings) -> tuple[Prepared, int]:
    """The training records of the people whose devices are not lost in the collection, and how many people they are,
    with or without records."""
    there = left_in_collection(person_keys(prepared.dataset.people.ids), settings)
    if there.all():
        return prepared, len(there)
    return replace(prepared, train=prepared.train.take(there[prepared.train.person])), int(there.sum())


def columns(dataset: Dataset, settings: Settings) -> tuple[str, ...]:
    """The names of what these settings release about places, from public tables and declarations, no visit looked at.

    What is counted plainly has a column of visits only where somebody came twice; here it always has."""
    if not settings.features.dynamic:
        return ()
    for name in settings.features.averages:
        scale_of(dataset, name)  # refuses what could not be averaged
    averages = tuple(f"average {name}" for name in settings.features.averages)
    if settings.popularity.mechanism == "secure-sum":
        return (POPULARITY, *((NEARBY,) if _has_surroundings(dataset.places.location) else ()), *averages)
    if settings.popularity.mechanism == "randomized-response":
        return ("visitors", *averages)
    recent = ("recent visits",) if dataset.visits.time is not None else ()
    return ("visitors", "visits", *recent, *averages)


def _has_surroundings(location: RealArray | None) -> bool:
    """Whether there are enough places with coordinates; a thousand of them show it."""
    if location is None:
        return False
    some = location[located(location)][:1000]
    return bool(nearby_means(some, np.zeros(len(some))).shape[1])


def released(popularity: Popularity) -> RealArray:
    """(J,): the first column, which is how popular places are; others describe their surroundings."""
    return next(iter(popularity.released.values()))
