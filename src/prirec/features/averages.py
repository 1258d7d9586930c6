"""What visits to a place are like on average: the paper's average spend, or any number that a visit has.

A device takes the mean u of its own visits to a place, on a public scale from -1 to 1, so that everyone counts once a
place. An average needs two sums: Σ x_ij of who was there and Σ x_ij u_ij, whatever weights x a mechanism has.
"""

from dataclasses import dataclass

import numpy as np

from prirec.data.dataset import Dataset, Numbers, Visits
from prirec.errors import DataError, UsageError
from prirec.features.popularity import OwnCounts, Popularity
from prirec.types import RealArray

_LARGEST = 1e100  # of a range: its ends can still be added


@dataclass(frozen=True, slots=True)
class Scale:
    """The public range of a number that visits have."""

    low: float
    high: float

    def inward(self, values: RealArray) -> RealArray:
        """To -1 to 1; what is outside is cut."""
        return np.clip((2 * values - self.low - self.high) / (self.high - self.low), -1.0, 1.0)

    def outward(self, values: RealArray) -> RealArray:
        """Back to the number's own units."""
        return (np.clip(values, -1.0, 1.0) * (self.high - self.low) + self.low + self.high) / 2


def scale_of(dataset: Dataset, column: str) -> Scale:
    """From what schema.toml declares; a range taken from the visits themselves would tell of them."""
    if not isinstance(dataset.visits.context.get(column), Numbers):
        raise UsageError(f"features.averages names '{column}', and visits have no such column of numbers")
    declared = dataset.declared.get(f"visits.{column}")
    if declared is None or declared.low is None or declared.high is None or not declared.low < declared.high:
        raise DataError(
            f"an average of visits.{column} needs a public range; declare low and high for it in schema.toml"
        )
    if max(abs(declared.low), abs(declared.high)) > _LARGEST:
        raise DataError(f"the range of visits.{column} in schema.toml is beyond all numbers that could be averaged")
    return Scale(declared.low, declared.high)


def own_means(visits: Visits, column: str, scale: Scale, *, places: int) -> OwnCounts:
    """u_ij for each person and place with a known value, from positive visits."""
    values = visits.context[column]
    if not isinstance(values, Numbers):
        raise UsageError(f"visits.{column} is no column of numbers")
    told = visits.take((visits.label > 0) & ~np.isnan(values.values))
    scaled = scale.inward(np.asarray(_numbers(told, column)))
    pairs = told.person.astype(np.int64) * places + told.place
    unique, where, times = np.unique(pairs, return_inverse=True, return_counts=True)
    return OwnCounts(places, unique, np.bincount(where, scaled, len(unique)) / times)


def plain_average(own: OwnCounts, scale: Scale, *, name: str) -> Popularity:
    """The mean over visitors, and over all where nobody was; a device leaves its own value out."""
    visitors, total = own.once().total(), own.total()
    city = float(own.counts.mean()) if len(own.counts) else 0.0
    average = np.where(visitors > 0, total / np.maximum(visitors, 1), city)
    places = own.pairs % own.places
    fewer = visitors[places] - 1
    others = np.where(fewer > 0, (total[places] - own.counts) / np.maximum(fewer, 1), city)
    part = OwnCounts(own.places, own.pairs, scale.outward(average)[places] - scale.outward(others))
    return Popularity({name: scale.outward(average)}, {name: part})


def _numbers(visits: Visits, column: str) -> RealArray:
    values = visits.context[column]
    return values.values if isinstance(values, Numbers) else np.empty(0)
