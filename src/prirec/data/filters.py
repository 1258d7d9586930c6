"""Which people, places and records take part. A filter of people and places numbers their rows anew."""

from collections.abc import Callable
from dataclasses import replace
from itertools import compress

import numpy as np

from prirec.data.dataset import Columns, Dataset, People, Places, Visits, take
from prirec.data.splits import person_then_time
from prirec.errors import UsageError
from prirec.types import BoolArray, IndexArray, OffsetArray, RealArray


def places_with_visitors(dataset: Dataset, at_least: int = 10) -> Dataset:
    """The paper's Foursquare filter, applied once: places that so many different people visited or clicked."""
    _check(at_least)
    keep = distinct_visitors(dataset) >= at_least
    return drop_unused(dataset.with_visits(dataset.visits.take(keep[dataset.visits.place])))


def people_and_places_with_records(dataset: Dataset, at_least: int = 5) -> Dataset:
    """The paper's Koubei filter: drop whoever and whatever has fewer records, until nobody and nothing has."""
    _check(at_least)
    person, place = dataset.visits.person, dataset.visits.place
    rows = np.arange(len(person))
    while True:
        busy = np.bincount(person[rows], minlength=len(dataset.people)) >= at_least
        seen = np.bincount(place[rows], minlength=len(dataset.places)) >= at_least
        keep = busy[person[rows]] & seen[place[rows]]
        if keep.all():
            return drop_unused(dataset.with_visits(dataset.visits.take(rows)))
        rows = rows[keep]


def thin_ignored(visits: Visits, *, per_click: int, rng: np.random.Generator) -> BoolArray:
    """Mask of the rows that stay: all clicks, and at most so many ignored for each click of the same moment.

    A moment is what one person saw at one time; without times it is all that one person saw.
    """
    return thinned(visits, per_click=per_click, draws=lambda ignored: rng.random(len(ignored)))


def thinned(visits: Visits, *, per_click: int, draws: Callable[[OffsetArray], RealArray]) -> BoolArray:
    """The same with these numbers for ignored rows: those with the smallest stay."""
    moment = _moments(visits)
    clicked = visits.label > 0
    clicks = np.bincount(moment[clicked], minlength=len(visits))
    ignored = np.flatnonzero(~clicked)
    ignored = ignored[np.lexsort((draws(ignored), moment[ignored]))]
    per_moment = np.bincount(moment[ignored], minlength=len(visits))
    rank = np.arange(len(ignored)) - (np.cumsum(per_moment) - per_moment)[moment[ignored]]
    keep = clicked.copy()
    keep[ignored[rank < per_click * clicks[moment[ignored]]]] = True
    return keep


def drop_unused(dataset: Dataset) -> Dataset:
    """Without the people and places that no record names."""
    places = np.bincount(dataset.visits.place, minlength=len(dataset.places)) > 0
    return with_places(drop_unused_people(dataset)[0], places)


def drop_unused_people(dataset: Dataset) -> tuple[Dataset, OffsetArray]:
    """Without the people that no record names, and which rows stay."""
    visits = dataset.visits
    people = np.bincount(visits.person, minlength=len(dataset.people)) > 0
    kept = People(*_kept(dataset.people, people))
    renumbered = replace(visits, person=_renumber(visits.person, people))
    return replace(dataset, people=kept, visits=renumbered), np.flatnonzero(people)


def with_places(dataset: Dataset, places: BoolArray) -> Dataset:
    """With these places only; every record must be at one of them."""
    renumbered = replace(dataset.visits, place=_renumber(dataset.visits.place, places))
    return replace(dataset, places=only_places(dataset.places, places), visits=renumbered)


def only_places(places: Places, keep: BoolArray) -> Places:
    return Places(*_kept(places, keep))


def distinct_visitors(dataset: Dataset) -> OffsetArray:
    """How many different people visited or clicked each place, shape (J,)."""
    pairs = distinct_pairs(dataset.visits.take(dataset.visits.label > 0), places=len(dataset.places))
    return np.bincount(pairs % max(len(dataset.places), 1), minlength=len(dataset.places))


def distinct_pairs(visits: Visits, *, places: int) -> OffsetArray:
    """person * J + place of every pair with a record, sorted, each once (np.unique takes several times as long)."""
    keys = np.sort(visits.person * np.int64(places) + visits.place)
    first = np.ones(len(keys), dtype=np.bool_)
    first[1:] = keys[1:] != keys[:-1]
    return np.asarray(keys[first])


def _moments(visits: Visits) -> OffsetArray:
    """A number for each row, the same for rows of one person and time, below the number of rows."""
    order = person_then_time(visits)
    person = visits.person[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = person[1:] != person[:-1]
    if visits.time is not None:
        first[1:] |= np.diff(visits.time[order]) != 0
    moment = np.empty(len(order), dtype=np.int64)
    moment[order] = np.cumsum(first) - 1
    return moment


def _kept(rows: People | Places, keep: BoolArray) -> tuple[tuple[str, ...], RealArray | None, Columns]:
    where = np.flatnonzero(keep)
    location = None if rows.location is None else rows.location[where]
    columns = {name: take(column, where) for name, column in rows.columns.items()}
    return tuple(compress(rows.ids, keep)), location, columns


def _renumber(rows: IndexArray, keep: BoolArray) -> IndexArray:
    new = np.cumsum(keep, dtype=np.int64) - 1
    return np.asarray(new[rows], dtype=np.int32)


def _check(at_least: int) -> None:
    if not isinstance(at_least, int) or isinstance(at_least, bool) or at_least < 1:
        raise UsageError("at_least must be a whole number from 1 up")
