"""Which records a model may learn from. A split is a mask: True in training, False in the test set."""

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from typing import Any, Literal, TypeAlias, cast, get_args

import numpy as np

from prirec.data.dataset import Columns, Dataset, People, Places, Visits, take
from prirec.errors import DataError, UsageError
from prirec.types import BoolArray, IndexArray, KeyArray, OffsetArray, RealArray
from prirec.util.geography import unit_vectors
from prirec.util.keyed_random import Word, below_each, mix_each, mix_pairs, person_keys


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
    records = np.bincount(person)
    rank = np.arange(len(person)) - (np.cumsum(records) - records)[person]
    train = np.empty(len(person), dtype=np.bool_)
    train[order] = rank < np.maximum(_rounded(train_share, records), 1)[person]
    return train


def by_moment(visits: Visits, *, train_share: float, rng: np.random.Generator) -> BoolArray:
    """Whole lists at random: what was shown to one person at one time is learnt from, or tested on, all of it.

    A list that is cut in two tells its other half: where one of four was clicked, and the click is in training, the
    test has none. round(train_share * lists) of them are for training."""
    check_share(train_share)
    if visits.time is None:
        raise UsageError("a split by moment needs a time for each record; split by record instead")
    _, moment = np.unique(np.stack([visits.person, visits.time]), axis=1, return_inverse=True)
    lists = int(moment.max(initial=-1)) + 1
    return by_record(lists, train_share=train_share, rng=rng)[moment.ravel()]


def person_then_time(visits: Visits) -> np.ndarray:
    """The canonical order of records: by person, then by time where it is known, then as in the file."""
    if visits.time is None:
        return np.argsort(visits.person, kind="stable")
    return np.lexsort((visits.time, visits.person))


def check_share(train_share: float) -> None:
    """A share strictly between nothing and everything."""
    if not 0 < train_share < 1:
        raise UsageError("train_share must lie strictly between 0 and 1, for example 0.8")


def _rounded(share: float, count: np.ndarray) -> np.ndarray:
    # a half goes to training; the tolerance keeps 0.7 * 15 a half
    return np.floor(share * count + 0.5 + 1e-9).astype(np.int64)


# Which people, places and records take part. A filter of people and places numbers their rows anew.


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


# Negatives for data that knows only what was visited: drawn on the device, from the public catalogue.
#
# A device avoids what it knows its owner visited. In training that is the training set alone: a negative that avoided
# the test positives too would give them away.


Draw: TypeAlias = Callable[[IndexArray, np.random.Generator], IndexArray]  # anchors (-1: none) -> candidate places
NOWHERE = np.int32(-1)
POOL = 200
_ROUNDS = 100  # someone who visited nine places of ten is left empty-handed once in 40,000 draws
_CHUNK = 10_000


def uniform(places: Places) -> Draw:
    """Any place of the catalogue, wherever the anchor is."""
    J = len(places)

    def draw(anchor: IndexArray, rng: np.random.Generator) -> IndexArray:
        return rng.integers(J, size=len(anchor), dtype=np.int32)

    return draw


def nearby(places: Places, *, pool: int = POOL) -> Draw:
    """One of the `pool` places nearest to the anchor; any place where the anchor is missing or has no coordinates."""
    if pool < 1:
        raise UsageError("pool must be at least 1")
    located = _located(places)
    everywhere = uniform(places)
    near = _nearest(places, located, pool=pool)  # (located, pool + 1)
    row = np.full(len(places) + 1, NOWHERE)  # the last entry answers for an anchor of -1
    row[located] = np.arange(len(located), dtype=np.int32)

    def draw(anchor: IndexArray, rng: np.random.Generator) -> IndexArray:
        chosen = near[row[anchor], rng.integers(near.shape[1], size=len(anchor))]
        return np.where(row[anchor] == NOWHERE, everywhere(anchor, rng), chosen)

    return draw


def draw_negatives(
    person: IndexArray, anchor: IndexArray, *, known: Visits, places: int, draw: Draw, rng: np.random.Generator
) -> IndexArray:
    """A place for each row that the person is not known to have visited; -1 where a hundred draws found none."""
    keys = distinct_pairs(known.take(known.label > 0), places=places)
    chosen = np.full(len(person), NOWHERE)
    rows = np.arange(len(person))
    for _ in range(_ROUNDS):
        if not len(rows):
            break
        candidate = draw(anchor[rows], rng)
        free = ~_contains(keys, person[rows] * np.int64(places) + candidate)
        chosen[rows[free]] = candidate[free]
        rows = rows[~free]
    return chosen


def blind_anchor(
    positives: Visits, of: np.ndarray, *, known: BoolArray, pick: Callable[[OffsetArray, OffsetArray], OffsetArray]
) -> OffsetArray:
    """Which positive a negative of each of these goes by, for place and moment, when only known ones may be looked at.

    Its own if that is known, else a known one of the same person, else none (-1). `pick(rows, counts)` draws, for these
    rows of `of`, one of so many.
    """
    rows = np.flatnonzero(known)
    rows = rows[np.argsort(positives.person[rows], kind="stable")]
    count = np.bincount(positives.person[rows], minlength=int(positives.person.max(initial=0)) + 1)
    start = np.cumsum(count) - count
    anchor = np.where(known[of], of, -1)
    hidden = np.flatnonzero(~known[of] & (count[positives.person[of]] > 0))
    person = positives.person[of[hidden]]
    anchor[hidden] = rows[start[person] + pick(hidden, count[person])]
    return anchor


def someone_known(anchor: OffsetArray, *, known: BoolArray, rng: np.random.Generator) -> OffsetArray:
    """The anchors, with any known positive, whoever it belongs to, where there was none."""
    rows, none = np.flatnonzero(known), np.flatnonzero(anchor < 0)
    anchor = anchor.copy()
    if len(rows):
        anchor[none] = rows[rng.integers(len(rows), size=len(none))]
    return anchor


def _contains(keys: OffsetArray, wanted: OffsetArray) -> BoolArray:
    if not len(keys):
        return np.zeros(len(wanted), dtype=np.bool_)
    found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.asarray(keys[found] == wanted)


def _located(places: Places) -> np.ndarray:
    none: RealArray = np.empty((0, 2))
    location = none if places.location is None else places.location
    located = np.flatnonzero(np.isfinite(location).all(axis=1))
    if not len(located):
        raise UsageError("nearby negatives need places with coordinates; choose uniform negatives instead")
    return located


def _nearest(places: Places, located: np.ndarray, *, pool: int) -> IndexArray:
    """The nearest places to each located place and, as it is no use as a candidate, itself: one more than the pool."""
    from scipy.spatial import cKDTree

    points = unit_vectors(np.asarray(places.location)[located])
    tree, width = cKDTree(points), min(pool + 1, len(located))
    near = np.empty((len(located), width), dtype=np.int32)
    for start in range(0, len(located), _CHUNK):  # a query answers in int64 and with distances: six times the memory
        rows = slice(start, start + _CHUNK)
        near[rows] = located[tree.query(points[rows], k=np.arange(1, width + 1))[1]]
    return near


# From a data set to what is learnt from and what is tested on: filter, negatives, split, in a fixed order.


Filter = Literal["visitors", "records", "none"]
Split = Literal["record", "time", "moment"]
Negatives = Literal["uniform", "nearby"]


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
            value = getattr(self, name)
            if not (name == "thin" and value is None) and (type(value) is not int or value < 1):
                raise UsageError(f"{name} must be a whole number from 1 up")
        check_share(self.train_share)


@dataclass(frozen=True, slots=True)
class Prepared:
    """The filtered data set, and its records with negatives in two parts, each by person, then time and file order."""

    dataset: Dataset
    train: Visits
    test: Visits
    notes: tuple[str, ...] = field(default=())  # what was left out, in numbers


def prepare(dataset: Dataset, recipe: Recipe, rng: np.random.Generator) -> Prepared:
    """Filter, then thin and split what is labelled, or split and draw negatives for what is not."""
    if recipe.thin is not None and not dataset.labelled:
        raise UsageError("thin is for data with ignored places; for visits alone set ratio instead")
    kept, notes = filtered(dataset, recipe)
    refuse_nothing_left(dataset, kept, recipe)
    if kept.labelled:
        kept = _thinned(kept, recipe, notes, rng)
        rows, train = kept.visits, split(kept.visits, recipe, rng)
    else:
        rows, train = _with_negatives(kept, recipe, notes, rng)
    parts = [ordered(rows.take(mask)) for mask in (train, ~train)]
    refuse_empty(parts[0], parts[1])
    return Prepared(kept, parts[0], parts[1], tuple(notes))


def filtered(dataset: Dataset, recipe: Recipe) -> tuple[Dataset, list[str]]:
    """What the recipe's filter leaves, perhaps nothing, and how much that is."""
    if recipe.filter == "none":
        return dataset, []
    if recipe.filter == "visitors":
        kept = places_with_visitors(dataset, recipe.at_least)
    else:
        kept = people_and_places_with_records(dataset, recipe.at_least)
    note = (
        f"the filter kept {len(kept.people):,} of {len(dataset.people):,} people, {len(kept.places):,} of"
        f" {len(dataset.places):,} places and {len(kept.visits):,} of {len(dataset.visits):,} records"
    )
    return kept, [note]


def refuse_nothing_left(dataset: Dataset, kept: Dataset, recipe: Recipe) -> None:
    if not len(dataset.visits):
        raise DataError("the data set has no records")
    if not len(kept.visits):
        raise DataError(
            f"no record is left after the filter '{recipe.filter}' with at_least = {recipe.at_least}; lower it"
        )


def _thinned(dataset: Dataset, recipe: Recipe, notes: list[str], rng: np.random.Generator) -> Dataset:
    if recipe.thin is None:
        return dataset
    keep = thin_ignored(dataset.visits, per_click=recipe.thin, rng=rng)
    if not keep.any():
        raise DataError("thinning keeps ignored places beside clicks, and there is no click; leave thin unset")
    notes.append(f"thinning left out {np.count_nonzero(~keep):,} of {len(keep):,} records, all of them ignored places")
    return dataset.with_visits(dataset.visits.take(keep))


def split(visits: Visits, recipe: Recipe, rng: np.random.Generator) -> BoolArray:
    """Which of these visits are for training."""
    if recipe.split == "time":
        return by_time(visits, train_share=recipe.train_share)
    if recipe.split == "moment":
        return by_moment(visits, train_share=recipe.train_share, rng=rng)
    return by_record(len(visits), train_share=recipe.train_share, rng=rng)


def _with_negatives(
    dataset: Dataset, recipe: Recipe, notes: list[str], rng: np.random.Generator
) -> tuple[Visits, BoolArray]:
    """Each positive and its negatives, in file order, and which of them are for training.

    Split by record: positives and negatives fall independently, as in the paper. By time or moment: a negative goes
    with its positive. Either way places and moments are drawn after the split, so that training negatives are blind to
    the test set: one whose positive is tested has the moment of a training positive (decisions/0009).
    """
    positives, width = dataset.visits, 1 + recipe.ratio
    of = np.repeat(np.arange(len(positives)), width)  # row -> its positive
    negative = np.arange(len(of)) % width > 0
    if recipe.split != "record":
        train = split(positives, recipe, rng)[of]
    else:
        train = by_record(len(of), train_share=recipe.train_share, rng=rng)
    draw = nearby(dataset.places, pool=recipe.pool) if recipe.negatives == "nearby" else uniform(dataset.places)
    known = train[::width]
    chosen, moment = np.full(len(of), NOWHERE), of.copy()
    for side in (True, False):  # training first: how much is drawn for the test depends on its visits
        rows = np.flatnonzero(negative & (train == side))
        chosen[rows], moment[rows] = _draw_side(dataset, of[rows], known=known if side else None, draw=draw, rng=rng)
    keep = ~negative | ((chosen != NOWHERE) & (moment >= 0))  # no moment: nothing but negatives is in training
    if dropped := np.count_nonzero(~keep):
        notes.append(f"{dropped:,} of {np.count_nonzero(negative):,} negatives left out: no unvisited place was found")
    records = replace(
        positives.take(moment),
        person=positives.person[of],
        place=np.where(negative, chosen, positives.place[of]),
        label=np.where(negative, np.int8(-1), positives.label[of]),
    )
    return records.take(keep), train[keep]


def _draw_side(
    dataset: Dataset, of: np.ndarray, *, known: BoolArray | None, draw: Draw, rng: np.random.Generator
) -> tuple[IndexArray, OffsetArray]:
    """Places for the negatives of these positives, and the positives whose moments they have (-1: there is none).

    known: mask of the positives that may be looked at (None: all).
    """
    positives = dataset.visits
    seen, near, moment = positives, positives.place[of], of
    if known is not None:
        anchor = blind_anchor(positives, of, known=known, pick=lambda rows, counts: rng.integers(counts))
        seen, near = positives.take(known), np.where(anchor < 0, NOWHERE, positives.place[anchor])
        moment = someone_known(anchor, known=known, rng=rng)
    person = positives.person[of]
    return draw_negatives(person, near, known=seen, places=len(dataset.places), draw=draw, rng=rng), moment


def ordered(visits: Visits) -> Visits:
    return visits.take(person_then_time(visits))


def refuse_empty(train: Sized, test: Sized) -> None:
    if not len(train):
        raise DataError("the training set is empty; raise train_share or give more records")
    if not len(test):
        raise DataError("the test set is empty; lower train_share, loosen the filter or give more records a person")


# The same steps as data/prepare.py, person by person: split, thinning and negatives follow from a person's key and the
# number of a record among the person's own, and from nobody else's records.
#
# So a part of the people comes to the same wherever the others are. Data that are partitioned are prepared in this way,
# whole or in parts (decisions/0017). A record is learnt from with the chance train_share, each by itself. A negative
# whose positive is tested has the place and moment of another training positive of the same person to go by; where that
# person has none, it is left out.


_ATTEMPTS = 100  # as in data/prepare.py
_DRAWS = 4  # numbers that one attempt may need


class Chance:
    """Random words by purpose, person and number."""

    def __init__(self, ids: Sequence[str], key: Callable[[str], Word]):
        self.keys, self.key = person_keys(ids), key

    def words(self, purpose: str, person: IndexArray, number: np.ndarray) -> KeyArray:
        mine = mix_each(self.key(purpose), self.keys)[person]
        return mix_pairs(mine, np.ascontiguousarray(number, dtype=np.int64).view(np.uint64))

    def uniforms(self, purpose: str, person: IndexArray, number: np.ndarray) -> RealArray:
        """In [0, 1)."""
        found: RealArray = (self.words(purpose, person, number) >> np.uint64(11)) * np.float64(2.0**-53)
        return found


@dataclass(frozen=True, slots=True)
class Made:
    """Records of some people, ready, and how many negatives were left out."""

    train: Visits
    test: Visits
    negatives: int
    left_out: int


def prepare_each(dataset: Dataset, recipe: Recipe, key: Callable[[str], Word]) -> Prepared:
    """Filter over everyone, then each person."""
    kept, notes = filtered(dataset, recipe)
    refuse_nothing_left(dataset, kept, recipe)
    made = each(kept, recipe, key)
    refuse_empty(made.train, made.test)
    if made.left_out:
        notes.append(left_out(made.left_out, made.negatives))
    return Prepared(kept, made.train, made.test, tuple(notes))


def left_out(some: int, of: int) -> str:
    return f"{some:,} of {of:,} negatives left out: no unvisited place or no training visit of the person was found"


def each(kept: Dataset, recipe: Recipe, key: Callable[[str], Word]) -> Made:
    """What the filter has left of these people, split, thinned or with negatives."""
    if recipe.thin is not None and not kept.labelled:
        raise UsageError("thin is for data with ignored places; for visits alone set ratio instead")
    chance = Chance(kept.people.ids, key)
    if kept.labelled:
        rows = _thinned_each(kept.visits, recipe, chance)
        train = _split(rows, numbers(rows.person), recipe, chance)
        return Made(ordered(rows.take(train)), ordered(rows.take(~train)), 0, 0)
    return _with_negatives_each(kept, recipe, chance)


def numbers(person: IndexArray) -> OffsetArray:
    """(R,): the number of each row among its person's, from 0."""
    order = np.argsort(person, kind="stable")
    counts = np.bincount(person)
    rank = np.empty(len(person), dtype=np.int64)
    rank[order] = np.arange(len(person)) - (np.cumsum(counts) - counts)[person[order]]
    return rank


def _thinned_each(visits: Visits, recipe: Recipe, chance: Chance) -> Visits:
    if recipe.thin is None:
        return visits
    number = numbers(visits.person)
    draws = chance.uniforms("thinning", visits.person, number)
    return visits.take(thinned(visits, per_click=recipe.thin, draws=lambda ignored: draws[ignored]))


def _split(visits: Visits, number: OffsetArray, recipe: Recipe, chance: Chance) -> BoolArray:
    if recipe.split == "time":
        return by_time(visits, train_share=recipe.train_share)
    if recipe.split == "moment":
        if visits.time is None:
            raise UsageError("a split by moment needs a time for each record; split by record instead")
        number = visits.time
    return chance.uniforms(f"split by {recipe.split}", visits.person, number) < recipe.train_share


def _with_negatives_each(kept: Dataset, recipe: Recipe, chance: Chance) -> Made:
    """Each positive and its negatives; the latter blind to the test (data/prepare.py says how and why)."""
    positives, width = kept.visits, 1 + recipe.ratio
    of = np.repeat(np.arange(len(positives)), width)
    negative = np.arange(len(of)) % width > 0
    number = numbers(positives.person)[of] * width + np.arange(len(of)) % width
    rows = positives.take(of)
    if recipe.split == "record":
        train = _split(rows, number, recipe, chance)
    else:
        train = _split(positives, numbers(positives.person), recipe, chance)[of]
    draw = nearby(kept.places, pool=recipe.pool) if recipe.negatives == "nearby" else uniform(kept.places)
    place, moment = np.where(negative, NOWHERE, rows.place), of.copy()
    for side in (True, False):
        at = np.flatnonzero(negative & (train == side))
        known = train[::width] if side else np.ones(len(positives), dtype=np.bool_)
        words = chance.words(f"negatives, {side}", rows.person[at], number[at])
        anchor = blind_anchor(positives, of[at], known=known, pick=partial(_picked, words))
        moment[at] = anchor
        place[at] = _drawn(positives, rows.person[at], anchor, known=known, draw=draw, words=words, J=len(kept.places))
    fine = ~negative | ((place != NOWHERE) & (moment >= 0))
    label = np.where(negative, np.int8(-1), rows.label)
    records = replace(positives.take(np.maximum(moment, 0)), person=rows.person, place=place, label=label)
    parts = [ordered(records.take(fine & mask)) for mask in (train, ~train)]
    return Made(parts[0], parts[1], int(negative.sum()), int((~fine).sum()))


def _picked(words: KeyArray, rows: OffsetArray, counts: OffsetArray) -> OffsetArray:
    return below_each(words[rows], counts.astype(np.uint64)).astype(np.int64)


class _Keyed:
    """Stands in for a generator where places are drawn: a number for each row of one attempt, and the next one."""

    def __init__(self, words: KeyArray, attempt: int):
        self.words, self.next = words, 1 + attempt * _DRAWS

    def integers(self, high: int, *, size: int, dtype: Any = np.int64) -> np.ndarray:
        fresh = mix_pairs(self.words, np.full(size, self.next, dtype=np.uint64))
        self.next += 1
        return below_each(fresh, np.full(size, high, dtype=np.uint64)).astype(dtype)


def _drawn(
    positives: Visits, person: IndexArray, anchor: OffsetArray, *, known: BoolArray, draw: Draw, words: KeyArray, J: int
) -> IndexArray:
    """A place that the person is not known to have visited, near the anchor's; NOWHERE if there is none."""
    visited = distinct_pairs(positives.take(known & (positives.label > 0)), places=J)
    near = np.where(anchor < 0, NOWHERE, positives.place[anchor])
    chosen, rows = np.full(len(person), NOWHERE), np.flatnonzero(anchor >= 0)
    for attempt in range(_ATTEMPTS):
        if not len(rows):
            break
        candidate = draw(near[rows], cast(np.random.Generator, _Keyed(words[rows], attempt)))
        free = ~np.isin(person[rows] * np.int64(J) + candidate, visited)
        chosen[rows[free]] = candidate[free]
        rows = rows[~free]
    return chosen
