"""From a data set to training and test records: filter, thin, split, draw negatives, in this order.

There is one definition of each step and two sources of random numbers. Data in memory are prepared with one generator
over all records, as in the paper. Partitioned data (decisions/0017) are prepared with keys: what happens to a record
follows from its person's id and its number among that person's records, so that a part of the people comes to the same
wherever the others are.
"""

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np

from prirec.data.dataset import Dataset, Places, Visits
from prirec.errors import DataError, UsageError
from prirec.types import BoolArray, IndexArray, KeyArray, OffsetArray, RealArray
from prirec.util.geography import unit_vectors
from prirec.util.keyed_random import Word, below_each, mix_each, mix_pairs, person_keys

Filter = Literal["visitors", "records", "none"]
Split = Literal["record", "time", "moment"]
Negatives = Literal["uniform", "nearby"]
POOL = 200
NOWHERE = np.int32(-1)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a data set is prepared. Negatives, ratio and pool serve unlabelled data, thin serves labelled data."""

    filter: Filter = "none"
    at_least: int = 10  # visitors of a place, or records of a person and of a place
    split: Split = "record"
    train_share: float = 0.8
    negatives: Negatives = "uniform"
    ratio: int = 1  # negatives for each positive
    pool: int = POOL  # nearby negatives are drawn from so many places
    thin: int | None = None  # ignored places kept for each click of the same moment; None keeps them all

    def __post_init__(self) -> None:
        for name, allowed in (("filter", Filter), ("split", Split), ("negatives", Negatives)):
            if getattr(self, name) not in get_args(allowed):
                raise UsageError(f"{name} must be one of: {', '.join(get_args(allowed))}")
        for name in ("at_least", "ratio", "pool", "thin"):
            if not (name == "thin" and self.thin is None):
                _check_count(name, getattr(self, name))
        check_share(self.train_share)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The filtered data set, and its records with negatives in two parts, each by person, then time and file order."""

    dataset: Dataset
    train: Visits
    test: Visits
    notes: tuple[str, ...] = field(default=())  # what was left out, in numbers


@dataclass(frozen=True, slots=True)
class TrainTest:
    """Training and test records of some people, and how much was left out on the way to them."""

    train: Visits
    test: Visits
    source: Visits  # the records that were split: without those that thinning dropped, before negatives
    negatives: int = 0  # asked for
    left_out: int = 0  # negatives that were not found


# A generator: one stream over all records. Or the key of each purpose: person by person, see KeyedDraws.
Source: TypeAlias = np.random.Generator | Callable[[str], Word]


def prepare(dataset: Dataset, recipe: Recipe, source: Source) -> Prepared:
    """Training and test records of a whole data set; DataError where one of them would be empty."""
    _refuse_useless_thinning(dataset, recipe)
    kept, notes = filtered(dataset, recipe)
    refuse_nothing_left(len(dataset.visits), len(kept.visits), recipe)
    parts = train_and_test(kept, recipe, source)
    if recipe.thin is not None:
        before, after = len(kept.visits), len(parts.source)
        if not after:
            raise DataError("thinning keeps ignored places beside clicks, and there is no click; leave thin unset")
        notes.append(f"thinning left out {before - after:,} of {before:,} records, all of them ignored places")
    refuse_empty(parts.train, parts.test)
    notes += left_out_note(parts.left_out, parts.negatives)
    return Prepared(kept.with_visits(parts.source), parts.train, parts.test, tuple(notes))


def train_and_test(kept: Dataset, recipe: Recipe, source: Source) -> TrainTest:
    """Thin and split what is labelled; split what is not, and draw its negatives. Keyed, these may be some people of a
    larger data set, which another step has filtered as a whole."""
    draws = SequentialDraws(source) if isinstance(source, np.random.Generator) else KeyedDraws(kept.people.ids, source)
    _refuse_useless_thinning(kept, recipe)
    if not kept.labelled:
        return _with_negatives(kept, recipe, draws)
    rows = kept.visits
    if recipe.thin is not None:
        rows = rows.take(thin_ignored(rows, per_click=recipe.thin, draws=draws))
    train = split(rows, recipe, draws)
    return TrainTest(_ordered(rows.take(train)), _ordered(rows.take(~train)), rows)


def _refuse_useless_thinning(dataset: Dataset, recipe: Recipe) -> None:
    if recipe.thin is not None and not dataset.labelled:
        raise UsageError("thin is for data with ignored places; for visits alone set ratio instead")


def refuse_nothing_left(before: int, after: int, recipe: Recipe) -> None:
    """DataError if there were no records, or the filter left none."""
    if not before:
        raise DataError("the data set has no records")
    if not after:
        raise DataError(
            f"no record is left after the filter '{recipe.filter}' with at_least = {recipe.at_least}; "
            "lower data.at_least, or keep everything with data.keep = 'all'"
        )


def refuse_empty(train: Sized, test: Sized) -> None:
    """DataError if there is nothing to learn from, or nothing to test on."""
    if not len(train):
        raise DataError("the training set is empty; raise train_share or give more records")
    if not len(test):
        raise DataError("the test set is empty; lower train_share, loosen the filter or give more records a person")


def left_out_note(count: int, of: int) -> list[str]:
    """A note on negatives that were not found, or none if all were."""
    why = "no unvisited place, or no training visit whose moment it could have, was found"
    return [f"{count:,} of {of:,} negatives left out: {why}"] if count else []


# Step 1, filter: which people, places and records take part. Rows of people and places are numbered anew.


def filtered(dataset: Dataset, recipe: Recipe) -> tuple[Dataset, list[str]]:
    """What the recipe's filter leaves, perhaps nothing, and a note on how much that is."""
    if recipe.filter == "none":
        return dataset, []
    keep = places_with_visitors if recipe.filter == "visitors" else people_and_places_with_records
    kept = keep(dataset, recipe.at_least)
    before, after = ((len(d.people), len(d.places), len(d.visits)) for d in (dataset, kept))
    return kept, [filter_note(before, after)]


def filter_note(before: tuple[int, int, int], after: tuple[int, int, int]) -> str:
    """How many people, places and records there were, and how many are left."""
    people, places, records = (f"{left:,} of {all_:,}" for left, all_ in zip(after, before, strict=True))
    return f"the filter kept {people} people, {places} places and {records} records"


def places_with_visitors(dataset: Dataset, at_least: int = 10) -> Dataset:
    """The paper's Foursquare filter, applied once: places that so many different people visited or clicked."""
    _check_count("at_least", at_least)
    keep = distinct_visitors(dataset) >= at_least
    return drop_unused(dataset.with_visits(dataset.visits.take(keep[dataset.visits.place])))


def people_and_places_with_records(dataset: Dataset, at_least: int = 5) -> Dataset:
    """The paper's Koubei filter: drop whoever and whatever has fewer records, until nobody and nothing has."""
    _check_count("at_least", at_least)
    person, place = dataset.visits.person, dataset.visits.place
    rows = np.arange(len(person))
    while True:
        busy = np.bincount(person[rows], minlength=len(dataset.people)) >= at_least
        seen = np.bincount(place[rows], minlength=len(dataset.places)) >= at_least
        keep = busy[person[rows]] & seen[place[rows]]
        if keep.all():
            return drop_unused(dataset.with_visits(dataset.visits.take(rows)))
        rows = rows[keep]


def drop_unused(dataset: Dataset) -> Dataset:
    """Leave out people and places that no record names."""
    places = np.bincount(dataset.visits.place, minlength=len(dataset.places)) > 0
    return with_places(drop_unused_people(dataset)[0], places)


def drop_unused_people(dataset: Dataset) -> tuple[Dataset, OffsetArray]:
    """Leave out people that no record names; also which rows stay."""
    visits = dataset.visits
    people = np.bincount(visits.person, minlength=len(dataset.people)) > 0
    renumbered = replace(visits, person=_renumber(visits.person, people))
    return replace(dataset, people=dataset.people.take(people), visits=renumbered), np.flatnonzero(people)


def with_places(dataset: Dataset, places: BoolArray) -> Dataset:
    """Keep these places only; every record must be at one of them."""
    renumbered = replace(dataset.visits, place=_renumber(dataset.visits.place, places))
    return replace(dataset, places=dataset.places.take(places), visits=renumbered)


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


def _renumber(rows: IndexArray, keep: BoolArray) -> IndexArray:
    new = np.cumsum(keep, dtype=np.int64) - 1
    return np.asarray(new[rows], dtype=np.int32)


def _check_count(name: str, value: object) -> None:
    if type(value) is not int or value < 1:  # not isinstance: True is an int
        raise UsageError(f"{name} must be a whole number from 1 up")


# Step 2, thin: of labelled data, fewer ignored places.


def thin_ignored(visits: Visits, *, per_click: int, draws: "Draws") -> BoolArray:
    """Mask of the rows that stay: all clicks, and at most so many ignored for each click of the same moment.

    A moment is what one person saw at one time; without times it is all that one person saw.
    """
    moment = _moments(visits)
    clicked = visits.label > 0
    clicks = np.bincount(moment[clicked], minlength=len(visits))
    ignored = np.flatnonzero(~clicked)
    order = draws.uniforms("thinning", visits.person[ignored], _numbers(visits.person)[ignored])
    ignored = ignored[np.lexsort((order, moment[ignored]))]
    keep = clicked.copy()
    keep[ignored[_numbers(moment[ignored]) < per_click * clicks[moment[ignored]]]] = True
    return keep


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


# Step 3, split: which records a model may learn from. A split is a mask: True in training, False in the test set.


def split(visits: Visits, recipe: Recipe, draws: "Draws") -> BoolArray:
    """(R,): True for the visits to learn from, False for those to test on."""
    if recipe.split == "time":
        return by_time(visits, train_share=recipe.train_share)
    if recipe.split == "moment":
        return by_moment(visits, train_share=recipe.train_share, draws=draws)
    return draws.choose("split by record", visits.person, _numbers(visits.person), share=recipe.train_share)


def by_record(count: int, *, train_share: float, rng: np.random.Generator) -> BoolArray:
    """The paper's split: round(train_share * count) records at random, whoever they belong to."""
    check_share(train_share)
    train = np.zeros(count, dtype=np.bool_)
    train[rng.permutation(count)[: int(_rounded(train_share, np.array(count)))]] = True
    return train


def by_time(visits: Visits, *, train_share: float) -> BoolArray:
    """The last records of each person are the test; equal times keep file order; a single record is for training."""
    check_share(train_share)
    if visits.time is None:
        raise UsageError("a split by time needs a time for each record; split by record instead")
    order = person_then_time(visits)
    person = visits.person[order]
    train = np.empty(len(person), dtype=np.bool_)
    train[order] = _numbers(person) < np.maximum(_rounded(train_share, np.bincount(person)), 1)[person]
    return train


def by_moment(visits: Visits, *, train_share: float, draws: "Draws") -> BoolArray:
    """Whole lists at random: what was shown to one person at one time is learnt from, or tested on, all of it.

    A list that is cut in two gives its other half away: where one of four was clicked, and the click is in training,
    the test has none.
    """
    if visits.time is None:
        raise UsageError("a split by moment needs a time for each record; split by record instead")
    lists, moment = np.unique(np.stack([visits.person, visits.time]), axis=1, return_inverse=True)
    return draws.choose("split by moment", lists[0], lists[1], share=train_share)[moment.ravel()]


def person_then_time(visits: Visits) -> np.ndarray:
    """The canonical order of records: by person, then by time where it is known, then as in the file."""
    if visits.time is None:
        return np.argsort(visits.person, kind="stable")
    return np.lexsort((visits.time, visits.person))


def check_share(train_share: float) -> None:
    """UsageError unless 0 < train_share < 1."""
    if not 0 < train_share < 1:
        raise UsageError("train_share must lie strictly between 0 and 1, for example 0.8")


def _ordered(visits: Visits) -> Visits:
    return visits.take(person_then_time(visits))


def _rounded(share: float, count: np.ndarray) -> np.ndarray:
    # a half goes to training; the tolerance keeps 0.7 * 15 a half
    return np.floor(share * count + 0.5 + 1e-9).astype(np.int64)


def _numbers(group: np.ndarray) -> OffsetArray:
    """(R,): the number of each row among those of its group (its person, or its moment), from 0."""
    order = np.argsort(group, kind="stable")
    counts = np.bincount(group)
    number = np.empty(len(group), dtype=np.int64)
    number[order] = np.arange(len(group)) - (np.cumsum(counts) - counts)[group[order]]
    return number


# Step 4, negatives, for data that knows only what was visited: drawn on the device, from the public catalogue.
#
# A device avoids what it knows its owner visited. In training that is the training set alone: a negative that avoided
# the test positives too would give them away.


_ATTEMPTS = 100  # someone who visited nine places of ten is left empty-handed once in 40,000 draws
_CHUNK = 10_000


def _with_negatives(dataset: Dataset, recipe: Recipe, draws: "Draws") -> TrainTest:
    """Each positive and its negatives, for training or for the test.

    Split by record: positives and negatives fall independently, as in the paper. By time or moment: a negative goes
    with its positive. Either way places and moments are drawn after the split, so that training negatives are blind to
    the test set: one whose positive is tested has the moment of a training positive (decisions/0009).
    """
    positives, width = dataset.visits, 1 + recipe.ratio
    of = np.repeat(np.arange(len(positives)), width)  # row -> its positive
    negative = np.arange(len(of)) % width > 0
    number = _numbers(positives.person)[of] * width + np.arange(len(of)) % width
    person = positives.person[of]
    if recipe.split == "record":
        train = draws.choose("split by record", person, number, share=recipe.train_share)
    else:
        train = split(positives, recipe, draws)[of]
    candidates = nearby(dataset.places, pool=recipe.pool) if recipe.negatives == "nearby" else uniform(dataset.places)
    place, moment = np.where(negative, NOWHERE, positives.place[of]), of.copy()
    for side in (True, False):  # training first: how much is drawn for the test depends on its visits
        at = np.flatnonzero(negative & (train == side))
        known = train[::width] if side else np.ones(len(positives), dtype=np.bool_)  # positives that may be looked at
        row_draws = draws.rows(f"negatives, {side}", person[at], number[at])
        anchor = blind_anchor(positives, of[at], known=known, draws=row_draws)
        near = np.where(anchor < 0, NOWHERE, positives.place[anchor])
        moment[at] = row_draws.fill_missing(anchor, known=known)
        place[at] = draw_negatives(
            person[at], near, known=positives.take(known), places=len(dataset.places), candidates=candidates,
            draws=row_draws,
        )  # fmt: skip
    found = ~negative | ((place != NOWHERE) & (moment >= 0))
    label = np.where(negative, np.int8(-1), positives.label[of])
    records = replace(positives.take(moment), person=person, place=place, label=label)
    trained, tested = (_ordered(records.take(found & mask)) for mask in (train, ~train))
    return TrainTest(trained, tested, positives, int(negative.sum()), int((~found).sum()))


def blind_anchor(positives: Visits, of: np.ndarray, *, known: BoolArray, draws: "RowDraws") -> OffsetArray:
    """Which positive a negative of each of these goes by, for place and moment, when only known ones may be looked at:
    its own if that is known, else a known one of the same person, else none (-1)."""
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(positives.person[rows], kind="stable")]
    count = np.bincount(positives.person[rows], minlength=int(positives.person.max(initial=0)) + 1)
    start = np.cumsum(count) - count
    anchor = np.where(known[of], of, -1)
    hidden = np.flatnonzero(~known[of] & (count[positives.person[of]] > 0))
    person = positives.person[of[hidden]]
    anchor[hidden] = rows[start[person] + draws.one_of(hidden, count[person])]
    return anchor


class Integers(Protocol):
    """The method of a NumPy generator that drawing a candidate needs."""

    def integers(self, high: int, /, *, size: int, dtype: Any = np.int64) -> np.ndarray: ...


Candidates: TypeAlias = Callable[[IndexArray, Integers], IndexArray]  # anchors (-1: none) -> a place for each


def uniform(places: Places) -> Candidates:
    """Any place of the catalogue, wherever the anchor is."""
    J = len(places)

    def draw(anchor: IndexArray, rng: Integers) -> IndexArray:
        return rng.integers(J, size=len(anchor), dtype=np.int32)

    return draw


def nearby(places: Places, *, pool: int = POOL) -> Candidates:
    """One of the `pool` places nearest to the anchor; any place where the anchor is missing or has no coordinates."""
    if pool < 1:
        raise UsageError("pool must be at least 1")
    location = np.empty((0, 2)) if places.location is None else places.location
    located = np.flatnonzero(np.isfinite(location).all(axis=1))
    if not len(located):
        raise UsageError("nearby negatives need places with coordinates; choose uniform negatives instead")
    everywhere = uniform(places)
    near = nearest_places(location, located, pool=pool)  # (located, pool + 1)
    row = np.full(len(places) + 1, NOWHERE)  # the last entry answers for an anchor of -1
    row[located] = np.arange(len(located), dtype=np.int32)

    def draw(anchor: IndexArray, rng: Integers) -> IndexArray:
        chosen = near[row[anchor], rng.integers(near.shape[1], size=len(anchor))]
        return np.where(row[anchor] == NOWHERE, everywhere(anchor, rng), chosen)

    return draw


def nearest_places(location: RealArray, located: np.ndarray, *, pool: int) -> IndexArray:
    """The nearest places to each located place and, as it is no use as a candidate, itself: one more than the pool."""
    from scipy.spatial import cKDTree  # here: devices import this file, and never need the half second

    points = unit_vectors(location[located])
    tree, width = cKDTree(points), min(pool + 1, len(located))
    near = np.empty((len(located), width), dtype=np.int32)
    for start in range(0, len(located), _CHUNK):  # a query answers in int64 and with distances: six times the memory
        rows = slice(start, start + _CHUNK)
        near[rows] = located[tree.query(points[rows], k=np.arange(1, width + 1))[1]]
    return near


def draw_negatives(
    person: IndexArray, anchor: IndexArray, *, known: Visits, places: int, candidates: Candidates, draws: "RowDraws"
) -> IndexArray:
    """A place for each row that the person is not known to have visited; -1 where a hundred attempts found none."""
    visited = distinct_pairs(known.take(known.label > 0), places=places)
    chosen = np.full(len(person), NOWHERE)
    rows = np.arange(len(person))
    for attempt in range(_ATTEMPTS):
        if not len(rows):
            break
        candidate = candidates(anchor[rows], draws.attempt(rows, attempt))
        free = ~_contains(visited, person[rows] * np.int64(places) + candidate)
        chosen[rows[free]] = candidate[free]
        rows = rows[~free]
    return chosen


def _contains(keys: OffsetArray, wanted: OffsetArray) -> BoolArray:
    """Which of the wanted are among the keys, which are sorted."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.bool_)
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray(keys[found] == wanted)


# Two sources of random numbers for the steps above.


class SequentialDraws:
    """One generator over all records, in file order: exact shares, and a record's draw depends on those before it."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng

    def choose(self, purpose: str, person: np.ndarray, number: np.ndarray, *, share: float) -> BoolArray:
        """round(share * rows) of the rows."""
        return by_record(len(person), train_share=share, rng=self.rng)

    def uniforms(self, purpose: str, person: np.ndarray, number: np.ndarray) -> RealArray:
        return self.rng.random(len(person))

    def rows(self, purpose: str, person: np.ndarray, number: np.ndarray) -> "SequentialDraws":
        return self

    def one_of(self, rows: OffsetArray, counts: OffsetArray) -> OffsetArray:
        return self.rng.integers(counts)

    def attempt(self, rows: OffsetArray, attempt: int) -> Integers:
        return self.rng

    def fill_missing(self, anchor: OffsetArray, *, known: BoolArray) -> OffsetArray:
        """The anchors, with any known positive, whoever it belongs to, where there was none."""
        rows, none = np.flatnonzero(known), np.flatnonzero(anchor < 0)
        anchor = anchor.copy()
        if len(rows):
            anchor[none] = rows[self.rng.integers(len(rows), size=len(none))]
        return anchor


class KeyedDraws:
    """Draws that follow from a purpose, a person's id and the number of the row among that person's, and from nobody
    else's records. Each row is chosen with the chance `share`, by itself."""

    def __init__(self, ids: Sequence[str], key: Callable[[str], Word]):
        self.keys, self.key = person_keys(ids), key

    def choose(self, purpose: str, person: np.ndarray, number: np.ndarray, *, share: float) -> BoolArray:
        check_share(share)
        return self.uniforms(purpose, person, number) < share

    def uniforms(self, purpose: str, person: np.ndarray, number: np.ndarray) -> RealArray:
        """A number in [0, 1) for each row, with 53 random bits."""
        found: RealArray = (self._words(purpose, person, number) >> np.uint64(11)) * np.float64(2.0**-53)
        return found

    def rows(self, purpose: str, person: np.ndarray, number: np.ndarray) -> "KeyedRows":
        return KeyedRows(self._words(purpose, person, number))

    def _words(self, purpose: str, person: np.ndarray, number: np.ndarray) -> KeyArray:
        mine = mix_each(self.key(purpose), self.keys)[person]
        return mix_pairs(mine, np.ascontiguousarray(number, dtype=np.int64).view(np.uint64))


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Draws for these rows, from a random word of each."""

    words: KeyArray = field(repr=False)

    def one_of(self, rows: OffsetArray, counts: OffsetArray) -> OffsetArray:
        return below_each(self.words[rows], counts.astype(np.uint64)).astype(np.int64)

    def attempt(self, rows: OffsetArray, attempt: int) -> Integers:
        return _KeyedIntegers(self.words[rows], attempt)

    def fill_missing(self, anchor: OffsetArray, *, known: BoolArray) -> OffsetArray:
        """The anchors: another person's visit may be in a part that is not here, so that the negative is left out."""
        return anchor


Draws: TypeAlias = SequentialDraws | KeyedDraws
RowDraws: TypeAlias = SequentialDraws | KeyedRows


class _KeyedIntegers:
    """An integer for each row of one attempt, and at the next call the next one."""

    _CALLS = 4  # that one attempt may need

    def __init__(self, words: KeyArray, attempt: int):
        self.words, self.position = words, 1 + attempt * self._CALLS

    def integers(self, high: int, /, *, size: int, dtype: Any = np.int64) -> np.ndarray:
        fresh = mix_pairs(self.words, np.full(size, self.position, dtype=np.uint64))
        self.position += 1
        return below_each(fresh, np.full(size, high, dtype=np.uint64)).astype(dtype)
