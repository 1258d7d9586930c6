"""How far a place is from the nearest other place that the person has visited: known to the person's device alone.

People go where they have been near before. What is looked at are training visits, and never the place itself: whether
somebody has been to it would give a training visit away, and in a test it would give the drawing of negatives away.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from prirec.compiled import kernel
from prirec.data.dataset import Visits
from prirec.geography import EARTH_RADIUS_KM, unit_vectors
from prirec.types import IndexArray, OffsetArray, RealArray


@dataclass(frozen=True, slots=True)
class OwnVisits:
    """Where people were: person i at places[offsets[i]:offsets[i + 1]]. Private; on a device there is one person."""

    points: RealArray = field(repr=False)  # (J, 3): places on the unit sphere, NaN where unknown
    offsets: OffsetArray = field(repr=False)  # (I + 1,)
    places: IndexArray = field(repr=False)

    @classmethod
    def of(cls, location: RealArray | None, visits: Visits, *, people: int) -> Self | None:
        """From the visits that may be looked at; None where places have no coordinates."""
        if location is None:
            return None
        visited = visits.take(visits.label > 0)
        order = np.argsort(visited.person, kind="stable")
        counts = np.bincount(visited.person, minlength=people)
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(unit_vectors(location), offsets, visited.place[order])

    @classmethod
    def of_one(cls, points: RealArray, places: IndexArray) -> Self:
        """Of one person, who was at these places; the points are those of all places."""
        return cls(points, np.array([0, len(places)], dtype=np.int64), places.astype(np.int32))

    def nearest_km(self, person: IndexArray, place: IndexArray) -> RealArray:
        """(R,): NaN for who was nowhere else, or for a place without coordinates."""
        chord = np.empty(len(place))
        _nearest(self.points, self.offsets, self.places, person, place, chord)
        km: RealArray = 2 * EARTH_RADIUS_KM * np.arcsin(np.minimum(np.sqrt(chord) / 2, 1.0))
        return km


def nearest_km(own: OwnVisits | None, person: IndexArray, place: IndexArray) -> RealArray:
    """NaN where there are no coordinates at all."""
    return np.full(len(place), np.nan) if own is None else own.nearest_km(person, place)


@kernel
def _nearest(
    points: RealArray, offsets: OffsetArray, places: IndexArray, person: IndexArray, place: IndexArray, out: RealArray
) -> None:
    """Squares of the shortest chords to another place; NaN where there is none."""
    for row in range(place.size):
        here, best = place[row], np.inf
        for at in range(offsets[person[row]], offsets[person[row] + 1]):
            there = places[at]
            if there != here:
                square = 0.0
                for axis in range(3):
                    apart = points[here, axis] - points[there, axis]
                    square += apart * apart
                if square < best:  # false for NaN
                    best = square
        out[row] = best if best < np.inf else np.nan
