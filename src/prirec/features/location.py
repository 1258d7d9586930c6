"""Where a person is, as the device itself works it out and keeps to itself: home, area."""

import numpy as np

from prirec.data.dataset import Category, Dataset, Visits
from prirec.errors import DataError
from prirec.types import RealArray

# Home.


def homes(dataset: Dataset, train: Visits) -> RealArray | None:
    """(I, 2): the location in the person's own table, else the median of the places of the training visits.

    NaN where neither is known; None where the city has no coordinates at all.
    """
    if dataset.places.location is None and dataset.people.location is None:
        return None
    home = np.full((len(dataset.people), 2), np.nan)
    if dataset.places.location is not None:
        # the median, not the mean: one trip to another continent would move a mean into the ocean
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


# Area, for a city that has words for places and no coordinates: the town that most of a person's records are in.


def areas(dataset: Dataset, train: Visits, column: str) -> RealArray:
    """(I,): the word that most of a person's training records have in this column of places (the first in line among
    equals), as its rank in the line of words read from the back, so that "Nice, France" stands beside "Paris, France".

    NaN for people without a record whose place has a word.
    """
    words = dataset.places.columns.get(column)
    if not isinstance(words, Category):
        raise DataError(
            f"neighbours.alike names a column of places with one word each; {column!r} is none in this city"
        )
    there = words.codes[train.place] >= 0
    rank = _line(words.words)[words.codes[train.place[there]]]
    return _most_frequent(train.person[there], rank, people=len(dataset.people))


def _line(words: tuple[str, ...]) -> np.ndarray:
    """For each word its rank: by country, then by town."""
    backwards = [tuple(reversed([part.strip() for part in word.split(",")])) for word in words]
    rank = np.empty(len(words), dtype=np.int64)
    rank[sorted(range(len(words)), key=backwards.__getitem__)] = np.arange(len(words))
    return rank


def _most_frequent(person: np.ndarray, rank: np.ndarray, *, people: int) -> RealArray:
    pairs, counts = np.unique(np.stack([person, rank], axis=1), axis=0, return_counts=True)
    order = np.lexsort((-pairs[:, 1], counts))  # the last to be written stays: the most, then the first in line
    area = np.full(people, np.nan)
    area[pairs[order, 0]] = pairs[order, 1]
    return area
