"""Where a person's records are, in a city that has words for it and no coordinates: the town most often searched."""

import numpy as np

from prirec.data.dataset import Category, Dataset, Visits
from prirec.errors import DataError
from prirec.types import RealArray


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
