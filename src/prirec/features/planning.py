"""Which encoding a city gets. Looks at private tables only for the names and kinds of their columns."""

import numpy as np

from prirec.data.dataset import Column, Dataset, Declared, Numbers, Tags
from prirec.features.blocks import AnyBlock, Clock, ColumnBlock, Distance, Hashed, Log, Range, Words, signed_log
from prirec.features.encoding import Encoding
from prirec.features.popularity import Popularity
from prirec.settings import Features
from prirec.types import RealArray

PRIVATE_SCALE = float(np.log1p(50.0))  # a private count of 50 becomes 1
DISTANCE_SHIFT, DISTANCE_SCALE = float(np.log1p(5.0)), 2.0  # 5 km becomes 0, about 43 km becomes 1


def plan(dataset: Dataset, popularity: Popularity, settings: Features) -> Encoding:
    """The encoding of a city: public columns by their own statistics, private ones by declarations and constants."""
    people = tuple(
        _private(f"users.{name}", name, column, dataset, settings) for name, column in dataset.people.columns.items()
    )
    places = [_public(name, column, settings) for name, column in dataset.places.columns.items()]
    counts = [_standardised(name, values) for name, values in popularity.released.items()]
    return Encoding(
        person=people,
        place=tuple(block for block in places if block is not None),
        popularity=tuple(block for block in counts if block is not None),
        context=_context(dataset, settings) if settings.context else (),
    )


def _context(dataset: Dataset, settings: Features) -> tuple[AnyBlock, ...]:
    blocks: list[AnyBlock] = []
    if dataset.places.location is not None:
        blocks.append(Distance(column="distance from home", shift=DISTANCE_SHIFT, scale=DISTANCE_SCALE))
    if dataset.visits.time is not None:
        blocks.append(Clock(column="time"))
    columns = {name: column for name, column in dataset.visits.context.items() if name not in settings.averages}
    blocks += [_private(f"visits.{name}", name, column, dataset, settings) for name, column in columns.items()]
    return tuple(blocks)


def _private(key: str, name: str, column: Column, dataset: Dataset, settings: Features) -> ColumnBlock:
    declared = dataset.declared.get(key, Declared())
    if isinstance(column, Numbers):
        if declared.low is not None and declared.high is not None:
            return Range(column=name, low=declared.low, high=declared.high)
        return Log(column=name, scale=PRIVATE_SCALE)
    if declared.words is not None:
        return Words(column=name, words=declared.words)
    return Hashed(column=name, buckets=settings.buckets)


def _public(name: str, column: Column, settings: Features) -> ColumnBlock | None:
    if isinstance(column, Numbers):
        return _standardised(name, column.values)
    codes = column.codes if isinstance(column, Tags) else column.codes[column.codes >= 0]
    counts = np.bincount(codes, minlength=len(column.words))
    common = sorted(range(len(column.words)), key=lambda word: (-counts[word], column.words[word]))[: settings.words]
    return Words(column=name, words=tuple(column.words[word] for word in common)) if common else None


def _standardised(name: str, values: RealArray) -> Log | None:
    """A public number by its own mean and spread over the catalogue; a constant column says nothing and is left out."""
    logs = signed_log(values[~np.isnan(values)])
    spread = float(logs.std()) if len(logs) else 0.0
    return Log(column=name, shift=float(logs.mean()), scale=spread) if spread > 1e-9 else None
