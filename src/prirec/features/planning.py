"""Which encoding a city gets. Looks at private tables only for the names and kinds of their columns."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from prirec.data.dataset import Column, Dataset, Declared, Numbers, Places, Tags
from prirec.data.schema import FILE, Schema
from prirec.errors import DataError
from prirec.features.blocks import (
    MOST_WORDS,
    AnyBlock,
    Clock,
    ColumnBlock,
    Distance,
    Hashed,
    Log,
    Nearest,
    Range,
    Words,
    signed_log,
)
from prirec.features.encoding import Encoding
from prirec.features.popularity import Counts, Popularity
from prirec.settings import Features
from prirec.types import RealArray

PRIVATE_SCALE = float(np.log1p(50.0))  # a private count of 50 becomes 1
DISTANCE_SHIFT, DISTANCE_SCALE = float(np.log1p(5.0)), 2.0  # 5 km becomes 0, about 43 km becomes 1


def plan(dataset: Dataset, popularity: Popularity, settings: Features) -> Encoding:
    """The encoding of a city: public columns by their own statistics, private ones by declarations and constants."""
    known, people, context = dataset.declared, dataset.people.columns, dataset.visits.context
    bare = _bare(
        dataset.places,
        person=[_private(n, known.get(f"users.{n}"), settings, number=_numeric(c)) for n, c in people.items()],
        moment=[
            _private(n, known.get(f"visits.{n}"), settings, number=_numeric(c))
            for n, c in context.items()
            if n not in settings.averages
        ],
        timed=dataset.visits.time is not None,
        settings=settings,
    )
    return with_popularity(bare, popularity.released)


def plan_declared(places: Places, schema: Schema, settings: Features, *, timed: bool = True) -> Encoding:
    """The encoding of a deployment, where no table of people or visits is to be seen: private columns are those that
    schema.toml names, what it declares first, and devices know the time of a visit. Popularity comes later."""
    person, moment = (_declared(table, schema, settings) for table in ("users", "visits"))
    return _bare(places, person=person, moment=moment, timed=timed, settings=settings)


def with_popularity(encoding: Encoding, released: Counts) -> Encoding:
    """The same with a feature for each released column that varies over the catalogue."""
    blocks = [_standardised(name, values) for name, values in released.items()]
    return msgspec.structs.replace(encoding, popularity=tuple(block for block in blocks if block is not None))


def _bare(
    places: Places, *, person: Sequence[ColumnBlock], moment: Sequence[ColumnBlock], timed: bool, settings: Features
) -> Encoding:
    blocks = [_public(name, column, settings) for name, column in places.columns.items()]
    context: list[AnyBlock] = []
    if places.location is not None:
        context.append(Distance(column="distance from home", shift=DISTANCE_SHIFT, scale=DISTANCE_SCALE))
        if settings.own_visits:
            context.append(Nearest(column="distance from own visits", shift=DISTANCE_SHIFT, scale=DISTANCE_SCALE))
    if timed:
        context.append(Clock(column="time"))
    return Encoding(
        person=tuple(person),
        place=tuple(block for block in blocks if block is not None),
        context=(*context, *moment) if settings.context else (),
    )


def _declared(table: str, schema: Schema, settings: Features) -> list[ColumnBlock]:
    keys = [key for key in dict.fromkeys((*schema.declared, *schema.kinds)) if key.startswith(f"{table}.")]
    numbers = [schema.is_number(key) or schema.kinds.get(key) == "number" for key in keys]
    return [
        _private(key.partition(".")[2], schema.declared.get(key), settings, number=number)
        for key, number in zip(keys, numbers, strict=True)
    ]


def _numeric(column: Column) -> bool:
    return isinstance(column, Numbers)


def _private(name: str, declared: Declared | None, settings: Features, *, number: bool) -> ColumnBlock:
    known = declared or Declared()
    if number:
        if known.low is not None and known.high is not None:
            return Range(column=name, low=known.low, high=known.high)
        return Log(column=name, scale=PRIVATE_SCALE)
    if known.words is not None:
        _refuse_too_many(name, len(known.words))
        return Words(column=name, words=known.words)
    return Hashed(column=name, buckets=settings.buckets)


def _refuse_too_many(name: str, words: int) -> None:
    """A block that could not be read back would make the whole run unreadable."""
    if words > MOST_WORDS:
        problem = f"{words:,} values are declared, at most {MOST_WORDS:,} can be; without values they are hashed"
        raise DataError(problem, file=Path(FILE), column=name)


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
