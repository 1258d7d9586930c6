"""From a data set to what is learnt from and what is tested on: filter, negatives, split, in a fixed order."""

from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from prirec.data.dataset import Dataset, Visits
from prirec.data.filters import people_and_places_with_records, places_with_visitors, thin_ignored
from prirec.data.negatives import NOWHERE, POOL, Draw, blind_anchor, draw_negatives, nearby, uniform
from prirec.data.splits import by_record, by_time, check_share, person_then_time
from prirec.errors import DataError, UsageError
from prirec.types import BoolArray, IndexArray

Filter = Literal["visitors", "records", "none"]
Split = Literal["record", "time"]
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
    notes: list[str] = []
    filtered = _filtered(dataset, recipe, notes)
    if filtered.labelled:
        filtered = _thinned(filtered, recipe, notes, rng)
        rows, train = filtered.visits, _split(filtered.visits, recipe, rng)
    else:
        rows, train = _with_negatives(filtered, recipe, notes, rng)
    parts = [_ordered(rows.take(mask)) for mask in (train, ~train)]
    _refuse_empty(parts[0], parts[1])
    return Prepared(filtered, parts[0], parts[1], tuple(notes))


def _filtered(dataset: Dataset, recipe: Recipe, notes: list[str]) -> Dataset:
    if recipe.filter == "none":
        kept = dataset
    elif recipe.filter == "visitors":
        kept = places_with_visitors(dataset, recipe.at_least)
    else:
        kept = people_and_places_with_records(dataset, recipe.at_least)
    if not len(kept.visits):
        raise DataError(
            "the data set has no records"
            if not len(dataset.visits)
            else f"no record is left after the filter '{recipe.filter}' with at_least = {recipe.at_least}; lower it"
        )
    if recipe.filter != "none":
        notes.append(
            f"the filter kept {len(kept.people):,} of {len(dataset.people):,} people, {len(kept.places):,} of"
            f" {len(dataset.places):,} places and {len(kept.visits):,} of {len(dataset.visits):,} records"
        )
    return kept


def _thinned(dataset: Dataset, recipe: Recipe, notes: list[str], rng: np.random.Generator) -> Dataset:
    if recipe.thin is None:
        return dataset
    keep = thin_ignored(dataset.visits, per_click=recipe.thin, rng=rng)
    if not keep.any():
        raise DataError("thinning keeps ignored places beside clicks, and there is no click; leave thin unset")
    notes.append(f"thinning left out {np.count_nonzero(~keep):,} of {len(keep):,} records, all of them ignored places")
    return dataset.with_visits(dataset.visits.take(keep))


def _split(visits: Visits, recipe: Recipe, rng: np.random.Generator) -> BoolArray:
    if recipe.split == "time":
        return by_time(visits, train_share=recipe.train_share)
    return by_record(len(visits), train_share=recipe.train_share, rng=rng)


def _with_negatives(
    dataset: Dataset, recipe: Recipe, notes: list[str], rng: np.random.Generator
) -> tuple[Visits, BoolArray]:
    """Each positive and its negatives, in file order, and which of them are for training.

    Split by record: positives and negatives fall independently, as in the paper. By time: a negative goes with its
    positive. Either way places are drawn after the split, so that training negatives are blind to the test set.
    """
    positives, width = dataset.visits, 1 + recipe.ratio
    of = np.repeat(np.arange(len(positives)), width)  # row -> its positive
    negative = np.arange(len(of)) % width > 0
    if recipe.split == "time":
        train = _split(positives, recipe, rng)[of]
    else:
        train = by_record(len(of), train_share=recipe.train_share, rng=rng)
    draw = nearby(dataset.places, pool=recipe.pool) if recipe.negatives == "nearby" else uniform(dataset.places)
    chosen = np.full(len(of), NOWHERE)
    for side in (True, False):
        rows = np.flatnonzero(negative & (train == side))
        chosen[rows] = _draw_side(dataset, of[rows], known=train[::width] if side else None, draw=draw, rng=rng)
    keep = ~negative | (chosen != NOWHERE)
    if dropped := np.count_nonzero(~keep):
        notes.append(f"{dropped:,} of {np.count_nonzero(negative):,} negatives left out: no unvisited place was found")
    records = positives.take(of)
    place = np.where(negative, chosen, records.place)
    label = np.where(negative, np.int8(-1), records.label)
    return replace(records, place=place, label=label).take(keep), train[keep]


def _draw_side(
    dataset: Dataset, of: np.ndarray, *, known: BoolArray | None, draw: Draw, rng: np.random.Generator
) -> IndexArray:
    """Places for the negatives of these positives; known: mask of the positives that may be looked at (None: all)."""
    positives = dataset.visits
    if known is None:
        seen, anchor = positives, positives.place[of]
    else:
        seen, anchor = positives.take(known), blind_anchor(positives, of, known=known, rng=rng)
    person = positives.person[of]
    return draw_negatives(person, anchor, known=seen, places=len(dataset.places), draw=draw, rng=rng)


def _ordered(visits: Visits) -> Visits:
    return visits.take(person_then_time(visits))


def _refuse_empty(train: Visits, test: Visits) -> None:
    if not len(train):
        raise DataError("the training set is empty; raise train_share or give more records")
    if not len(test):
        raise DataError("the test set is empty; lower train_share, loosen the filter or give more records a person")
