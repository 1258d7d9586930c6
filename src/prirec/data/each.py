"""The same steps as data/recipe.py, person by person: split, thinning and negatives follow from a person's key and the
number of a record among the person's own, and from nobody else's records.

So a part of the people comes to the same wherever the others are. Data that are partitioned are prepared in this way,
whole or in parts (decisions/0017). A record is learnt from with the chance train_share, each by itself. A negative
whose positive is tested has the place and moment of another training positive of the same person to go by; where that
person has none, it is left out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from prirec.data.dataset import Dataset, Visits
from prirec.data.filters import distinct_pairs, thinned
from prirec.data.negatives import NOWHERE, Draw, blind_anchor, nearby, uniform
from prirec.data.recipe import Prepared, Recipe, filtered, ordered, refuse_empty, refuse_nothing_left
from prirec.data.splits import by_time
from prirec.errors import UsageError
from prirec.keyed import Word, below_each, mix_each, mix_pairs, person_keys
from prirec.types import BoolArray, IndexArray, KeyArray, OffsetArray, RealArray

_ATTEMPTS = 100  # as in data/negatives.py
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
        rows = _thinned(kept.visits, recipe, chance)
        train = _split(rows, numbers(rows.person), recipe, chance)
        return Made(ordered(rows.take(train)), ordered(rows.take(~train)), 0, 0)
    return _with_negatives(kept, recipe, chance)


def numbers(person: IndexArray) -> OffsetArray:
    """(R,): the number of each row among its person's, from 0."""
    order = np.argsort(person, kind="stable")
    counts = np.bincount(person)
    rank = np.empty(len(person), dtype=np.int64)
    rank[order] = np.arange(len(person)) - (np.cumsum(counts) - counts)[person[order]]
    return rank


def _thinned(visits: Visits, recipe: Recipe, chance: Chance) -> Visits:
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


def _with_negatives(kept: Dataset, recipe: Recipe, chance: Chance) -> Made:
    """Each positive and its negatives; the latter blind to the test (data/recipe.py says how and why)."""
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
