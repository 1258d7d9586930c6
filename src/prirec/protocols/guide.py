"""Algorithm 3 from end to end, for whoever holds a catalogue and one person's own data: that person's device, or a
simulation of it. Nothing of it leaves the device."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from prirec.errors import UsageError
from prirec.features.encoding import Encoding, encode_context
from prirec.features.own_visits import OwnVisits, nearest_km
from prirec.features.told import columns_of
from prirec.geography import haversine_km, located, unit_vectors
from prirec.graph.matching import RegionIndex
from prirec.protocols.prediction import PlacePart, Recommendation, combine, recommend, score_places
from prirec.protocols.reasons import Contrast, contributions
from prirec.types import FeatureArray, IndexArray, RealArray

LATENT = "like places you chose"  # what the latent part is called among reasons


@dataclass(frozen=True, slots=True, repr=False)
class Moment:
    """Where the person is and when; home and no particular time where nothing is said."""

    here: tuple[float, float] | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Asker:
    """The private half: one person. Nothing of it prints."""

    features: FeatureArray  # (m,) X^i
    linear: RealArray  # (D + 1,) W_i
    latent: RealArray  # (K',) u_i; no entries where the guide has no factors
    home: tuple[float, float] | None
    visited: IndexArray  # rows of the places that the person knows


@dataclass(frozen=True, slots=True)
class Guide:
    """The public half: a catalogue under a published V. It is computed once and serves whoever asks."""

    encoding: Encoding = field(repr=False)
    interaction: RealArray = field(repr=False)  # (D, K)
    factors: RealArray = field(repr=False)  # (J, K') P; no columns where there is no latent part
    places: FeatureArray = field(repr=False)  # (J, n) X^j, static and dynamic
    part: PlacePart = field(repr=False)
    location: RealArray | None = field(repr=False)  # (J, 2)
    points: RealArray | None = field(repr=False)  # (J, 3): the same on the unit sphere
    index: RegionIndex | None = field(repr=False)  # None: no place has coordinates

    @classmethod
    def of(
        cls, encoding: Encoding, *, interaction: RealArray, places: FeatureArray, location: RealArray | None,
        part: PlacePart | None = None, factors: RealArray | None = None,
    ) -> Self:  # fmt: skip
        """With the places' part of Eq. (1) as it was published; else it is worked out here."""
        if factors is None:
            factors = np.empty((len(places), 0))
        if part is None:
            part = PlacePart.of(interaction, places, first=encoding.width(encoding.person))
        somewhere = location is not None and bool(located(location).any())
        index = RegionIndex.build(location) if location is not None and somewhere else None
        points = None if location is None else unit_vectors(location)
        return cls(encoding, interaction, factors, places, part, location, points, index)

    def recommend(
        self, asker: Asker, *, moment: Moment | None = None, k: int = 10, radius_km: float = 5.0
    ) -> tuple[Recommendation, ...]:  # fmt: skip
        """Algorithm 3: match, score, choose, with reasons. Places that the person knows are left out."""
        when = moment if moment is not None else Moment()
        matched = self.matched(asker, when, k=k, radius_km=radius_km)
        context, km = self.context(asker, matched, when)
        samples = combine(asker.features, self.places[matched], context)
        pulls = contributions(asker.linear, self.interaction, samples)
        groups, names = self.encoding.groups()
        if len(asker.latent):
            pulls = np.column_stack([pulls, self.affinity(asker, matched)])
            groups, names = np.append(groups, len(names)).astype(np.int32), (*names, LATENT)
        return recommend(
            matched=matched,
            scores=self.scores(asker, matched, context),
            k=k,
            visited=asker.visited,
            distance_km=km,
            contrast=Contrast.of(pulls, groups=groups, group_names=names),
        )

    def matched(self, asker: Asker, moment: Moment, *, k: int, radius_km: float) -> IndexArray:
        """Line 1: the places near; all of them in a city without coordinates, or for a person without a home."""
        here = moment.here if moment.here is not None else asker.home
        if self.index is None or here is None:
            return np.arange(len(self.places), dtype=np.int32)
        within = self.index.near(here, radius_km)
        if len(np.setdiff1d(within, asker.visited)) >= k:
            return within
        return self.index.near(here, radius_km, at_least=k + len(asker.visited))

    def context(self, asker: Asker, matched: IndexArray, moment: Moment) -> tuple[FeatureArray, RealArray]:
        """The context of each matched place, and how far it is from home. What visits are described by is not known of
        a visit that has not happened."""
        km = np.full(len(matched), np.nan)
        if self.location is not None and asker.home is not None:
            km = haversine_km(np.array(asker.home), self.location[matched])
        time = None if moment.time is None else np.full(len(matched), moment.time, dtype=np.int64)
        unknown = columns_of(self.encoding.context, [{}] * len(matched))
        own = None if self.points is None else OwnVisits.of_one(self.points, asker.visited)
        near = nearest_km(own, np.zeros(len(matched), dtype=np.int32), matched)
        return encode_context(self.encoding, unknown, km=km, nearest=near, time=time), km

    def scores(self, asker: Asker, places: IndexArray, context: FeatureArray) -> RealArray:
        """Lines 3 to 9: Eq. (1), and the latent part, for one person at these places."""
        features = score_places(
            linear=asker.linear,
            interaction=self.interaction,
            person=asker.features,
            places=self.places[places],
            context=context,
            part=self.part.take(places),
        )
        return features + self.affinity(asker, places)

    def affinity(self, asker: Asker, places: IndexArray) -> RealArray:
        """u_i . p_j at these places; 0 where there is no latent part."""
        if self.factors.shape[1:] != asker.latent.shape:
            raise UsageError("the latent vector and the factors of places must have the same length")
        found: RealArray = self.factors[places] @ asker.latent
        return found
