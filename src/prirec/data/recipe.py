"""From a data set to what is learnt from and what is tested on: filter, negatives, split, in a fixed order."""

from collections.abc import Sized
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np

from prirec.data.dataset import Dataset, Visits
from prirec.data.filters import people_and_places_with_records, places_with_visitors, thin_ignored
from prirec.data.negatives import NOWHERE, POOL, Draw, blind_anchor, draw_negatives, nearby, someone_known, uniform
from prirec.data.splits import by_moment, by_record, by_time, check_share, person_then_time
from prirec.errors import DataError, UsageError
from prirec.types import BoolArray, IndexArray, OffsetArray

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
