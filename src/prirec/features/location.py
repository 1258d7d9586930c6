"""Where a person is, as the device itself works it out and keeps to itself: home, area."""

import numpy as np

from prirec.data.dataset import Category, Dataset, Visits
from prirec.errors import DataError
from prirec.types import IndexArray, RealArray
from prirec.util.geography import located, unit_vectors

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


# Area, for a city with coordinates: the nearest of a few centres, which everyone finds in the public catalogue.


TURNS = 25  # at most; hardly a place changes its area after so many
_AT_ONCE = 1024  # locations whose distances from all centres are in memory


def area_centres(location: RealArray, areas: int) -> RealArray:
    """(k, 2): latitudes and longitudes of the centres of k-means over the places that have coordinates, the same in
    whatever order places are listed.

    k is less than `areas` where an area lost all of its places to others, and 0 where fewer places have coordinates."""
    known = location[located(location)]
    if not 0 < areas <= len(known):
        return np.empty((0, 2))
    known = known[np.lexsort((known[:, 1], known[:, 0]))]  # sums of floats, and the first among equals, know an order
    # on the sphere, where neither the date line nor a pole is an edge
    points = unit_vectors(known)
    centres = known[_far_apart(points, areas)]
    for _ in range(TURNS):
        nearest = _nearest_point(points, unit_vectors(centres))
        used = np.bincount(nearest, minlength=len(centres)) > 0
        sums = np.empty((len(centres), 3))
        for axis in range(3):
            sums[:, axis] = np.bincount(nearest, weights=points[:, axis], minlength=len(centres))
        before, centres = centres, _degrees(sums[used])
        if np.array_equal(before, centres):
            break
    return centres


def nearest_centre(location: RealArray, centres: RealArray) -> IndexArray:
    """(n,): which of the centres (k, 2) is nearest to each location, the first among equals; -1 if it is unknown."""
    nearest = _nearest_point(unit_vectors(location), unit_vectors(centres))
    return np.where(np.isnan(location).any(axis=1), -1, nearest).astype(np.int32)


def _nearest_point(points: RealArray, centres: RealArray) -> IndexArray:
    """By the squares of chords. No product of matrices, whose last bits depend on how many rows there are: a device
    has one home, a simulation all of them."""
    nearest = np.empty(len(points), dtype=np.int32)
    for start in range(0, len(points), _AT_ONCE):
        some = points[start : start + _AT_ONCE]
        square = np.zeros((len(some), len(centres)))
        for axis in range(3):
            square += (some[:, axis, None] - centres[:, axis]) ** 2
        nearest[start : start + _AT_ONCE] = square.argmin(axis=1)
    return nearest


def _far_apart(points: RealArray, many: int) -> list[int]:
    """The point nearest to the middle, then again and again the one that is farthest from all before (Gonzalez 1985):
    a start that draws nothing at random."""
    chosen = [int(_squares(points, np.median(points, axis=0)).argmin())]
    apart = np.full(len(points), np.inf)
    while len(chosen) < many:
        apart = np.minimum(apart, _squares(points, points[chosen[-1]]))
        chosen.append(int(apart.argmax()))
    return chosen


def _squares(points: RealArray, point: RealArray) -> RealArray:
    way = points - point
    squares: RealArray = np.einsum("na,na->n", way, way)
    return squares


def _degrees(vectors: RealArray) -> RealArray:
    """(n, 2): latitudes and longitudes of the directions of vectors (n, 3), however long these are."""
    x, y, z = vectors.T
    degrees: RealArray = np.degrees(np.stack([np.arctan2(z, np.hypot(x, y)), np.arctan2(y, x)], axis=1))
    return degrees


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
    """The rank of each word: by country, then by town."""
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
