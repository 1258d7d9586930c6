"""Where a person lives, as the device itself works it out; the location never leaves it."""

import numpy as np

from prirec.data.dataset import Dataset, Visits
from prirec.types import RealArray


def homes(dataset: Dataset, train: Visits) -> RealArray | None:
    """(I, 2): the location in the person's own table, else the median of the places of the training visits.

    NaN where neither is known; None where the city has no coordinates at all.
    """
    if dataset.places.location is None and dataset.people.location is None:
        return None
    home = np.full((len(dataset.people), 2), np.nan)
    if dataset.places.location is not None:
        positive = train.take(train.label > 0)
        home = _medians(positive.person, dataset.places.location[positive.place], len(dataset.people))
    if dataset.people.location is not None:
        unknown = np.isnan(dataset.people.location).any(axis=1, keepdims=True)  # half a location is none
        home = np.where(unknown, home, dataset.people.location)
    return home


def _medians(person: np.ndarray, location: RealArray, people: int) -> RealArray:
    """Median latitude and longitude of each person's rows; longitudes are unrolled around the person's first one."""
    known = ~np.isnan(location).any(axis=1)
    person, location = person[known], location[known]
    first = np.full(people, 0.0)
    first[person[::-1]] = location[::-1, 1]
    around = (location[:, 1] - first[person] + 180.0) % 360.0 - 180.0
    medians = np.stack([_median(person, location[:, 0], people), _median(person, around, people)], axis=1)
    medians[:, 1] = (medians[:, 1] + first + 180.0) % 360.0 - 180.0
    return medians


def _median(group: np.ndarray, values: RealArray, groups: int) -> RealArray:
    order = np.lexsort((values, group))
    counts = np.bincount(group, minlength=groups)
    ends = np.cumsum(counts)
    starts, some = ends - counts, counts > 0
    lower, upper = (starts + (counts - 1) // 2)[some], (starts + counts // 2)[some]
    medians = np.full(groups, np.nan)
    medians[some] = (values[order][lower] + values[order][upper]) / 2
    return medians
