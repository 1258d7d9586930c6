"""The encoding: which columns become which of the D features, saved with a run and versioned.

X^ij = X^i (+) X^j (+) context, in this order: people's blocks, places' static blocks, popularity, context.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Annotated, ClassVar, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from prirec.config import Features
from prirec.data.dataset import Column, Dataset, Declared, Numbers, Places, Tags
from prirec.data.schema import FILE, Schema
from prirec.errors import DataError, StateError
from prirec.features.location import area_centres, nearest_centre
from prirec.features.popularity import LARGEST_RANGE, Counts, Popularity, declared_scale
from prirec.types import DAY, FeatureArray, IndexArray, RealArray, TimeArray
from prirec.util.decode_errors import NOT_DECODED

# Blocks of features: each turns one column into numbers by public constants, and can be saved and read back.
#
# A constant may come from the public catalogue, from a declaration, from released popularity, or from this file; never
# from private values.


MOST_WORDS = 65_536  # of one column
LARGEST = 1e6  # no feature that is learnt from is further from 0; what planning makes is far below

# Limits hold where a block is read. A scale is no smaller than planning's, and no block is wider than settings let it.
Shift: TypeAlias = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
Scale: TypeAlias = Annotated[float, Meta(ge=1e-9, le=LARGEST)]


class Block(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all blocks; `column` is the name that people see."""

    column: str

    @property
    def width(self) -> int:
        """How many features it has, without naming them."""
        return 1

    def names(self) -> tuple[str, ...]:
        return (self.column,)


class Log(Block, frozen=True, tag="log"):
    """(sign(x) ln(1 + |x|) - shift) / scale; 0 where nothing is known."""

    shift: Shift = 0.0
    scale: Scale = 1.0

    def encode(self, column: Column) -> FeatureArray:
        if not isinstance(column, Numbers):
            raise _not(self.column, "numbers")
        scaled = (signed_log(column.values) - self.shift) / self.scale
        return np.nan_to_num(scaled, nan=0.0).astype(np.float32)[:, None]


class Range(Block, frozen=True, tag="range"):
    """A number with a declared range, to [-1, 1]; 0 where nothing is known."""

    low: float
    high: float

    def encode(self, column: Column) -> FeatureArray:
        if not isinstance(column, Numbers):
            raise _not(self.column, "numbers")
        inside = 2 * (column.values - self.low) / (self.high - self.low) - 1
        return np.nan_to_num(np.clip(inside, -1, 1), nan=0.0).astype(np.float32)[:, None]


class Words(Block, frozen=True, tag="words"):
    """One 0/1 feature a word; other words have none."""

    words: Annotated[tuple[str, ...], Meta(max_length=MOST_WORDS)]

    @property
    def width(self) -> int:
        return len(self.words)

    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}: {word}" for word in self.words)

    def encode(self, column: Column) -> FeatureArray:
        # a word that the encoding does not know has no feature: a new category must not change the width
        position = {word: at for at, word in enumerate(self.words)}
        return _one_hot(column, self.column, lambda word: position.get(word, -1), len(self.words))


class Hashed(Block, frozen=True, tag="hashed"):
    """0/1 features for words that nobody declared: a public hash decides, so no list of private words is made."""

    buckets: Annotated[int, Meta(ge=1, le=4096)]

    @property
    def width(self) -> int:
        return self.buckets

    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}: bucket {b}" for b in range(self.buckets))

    def encode(self, column: Column) -> FeatureArray:
        return _one_hot(column, self.column, self.bucket, self.buckets)

    def bucket(self, word: str) -> int:
        # with the column in it, so that the same word in two columns does not always share a bucket's number
        digest = blake2b(f"{self.column}\0{word}".encode(), digest_size=8, person=b"prirec word").digest()
        return int.from_bytes(digest, "little") % self.buckets


Latitude: TypeAlias = Annotated[float, Meta(ge=-90, le=90)]
Longitude: TypeAlias = Annotated[float, Meta(ge=-180, le=180)]


class Area(Block, frozen=True, tag="area"):
    """A 0/1 feature for each of these points: 1 at the one nearest to the person's home; all 0 without a home."""

    centres: Annotated[tuple[tuple[Latitude, Longitude], ...], Meta(min_length=1, max_length=256)]

    @property
    def width(self) -> int:
        return len(self.centres)

    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}: around {lat:.3f}, {lon:.3f}" for lat, lon in self.centres)

    def encode_home(self, home: RealArray) -> FeatureArray:
        nearest = nearest_centre(home, np.array(self.centres))
        features = np.zeros((len(home), self.width), dtype=np.float32)
        features[nearest >= 0, nearest[nearest >= 0]] = 1.0
        return features


class Kilometres(Block, frozen=True):
    """(ln(1 + km) - shift) / scale; 0 where an end of the way is unknown."""

    shift: Shift
    scale: Scale

    def encode_km(self, km: RealArray) -> FeatureArray:
        return np.nan_to_num((np.log1p(km) - self.shift) / self.scale, nan=0.0).astype(np.float32)[:, None]


class Distance(Kilometres, frozen=True, tag="distance"):
    """Distance of a place from the person's home."""


# Blocks of the person's own history: what they are made of is in history.py.


class Nearest(Kilometres, frozen=True, tag="nearest"):
    """Distance from the nearest other place that the person has visited."""


class Density(Block, frozen=True, tag="density"):
    """How many of the person's other places are around: (ln(FLOOR + the mean of exp(-km / scale)) - shift) / spread,
    for each scale; 0 where there are none. The mean and not the sum: a visit leaves itself out, and its smaller sum
    would tell it from a place not visited."""

    FLOOR: ClassVar = 1e-3
    scales_km: Annotated[tuple[Scale, ...], Meta(min_length=1, max_length=8)]
    shift: Shift
    spread: Scale

    @property
    def width(self) -> int:
        return len(self.scales_km)

    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}: {scale:g} km" for scale in self.scales_km)

    def encode_mean(self, mean: RealArray) -> FeatureArray:
        scaled = (np.log(mean + self.FLOOR) - self.shift) / self.spread
        return np.nan_to_num(scaled, nan=0.0).astype(np.float32)


class Affinity(Block, frozen=True, tag="affinity"):
    """Whether the person's other places have the words of this one: the mean over its words of
    ln((c + PRIOR b) / ((n + PRIOR) b)), where c of n other places have the word, and a share b of the catalogue has."""

    PRIOR: ClassVar = 5.0  # places; with no other place there is 0
    of: str  # the words of places that are compared
    shares: Annotated[tuple[Annotated[float, Meta(gt=0, le=1)], ...], Meta(max_length=MOST_WORDS)]

    def encode_ratio(self, log_ratio: RealArray) -> FeatureArray:
        return log_ratio.astype(np.float32)[:, None]


class Closeness(Block, frozen=True, tag="closeness"):
    """(shift - |the place's number - the mean of the person's other places|) / scale; 0 where either is unknown."""

    of: str  # the number of places that is compared
    shift: Shift
    scale: Scale

    def encode_apart(self, apart: RealArray) -> FeatureArray:
        return np.nan_to_num((self.shift - apart) / self.scale, nan=0.0).astype(np.float32)[:, None]


class Clock(Block, frozen=True, tag="clock"):
    """Hour of the day and day of the week on their circles, and whether it is a weekend."""

    PARTS: ClassVar = ("hour sin", "hour cos", "day sin", "day cos", "weekend")

    @property
    def width(self) -> int:
        return len(self.PARTS)

    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.column}: {part}" for part in self.PARTS)

    def encode_time(self, seconds: np.ndarray) -> FeatureArray:
        hour = 2 * np.pi * (seconds % DAY) / DAY
        weekday = (seconds // DAY + 3) % 7  # 1970 began on a Thursday; Monday is 0
        day = 2 * np.pi * weekday / 7
        parts = [np.sin(hour), np.cos(hour), np.sin(day), np.cos(day), weekday >= 5]
        return np.stack(parts, axis=1).astype(np.float32)


ColumnBlock: TypeAlias = Log | Range | Words | Hashed
HistoryBlock: TypeAlias = Nearest | Density | Affinity | Closeness
PersonBlock: TypeAlias = Log | Range | Words | Hashed | Area
ContextBlock: TypeAlias = Log | Range | Words | Hashed | Distance | Nearest | Density | Affinity | Closeness | Clock
AnyBlock: TypeAlias = PersonBlock | ContextBlock


def signed_log(values: RealArray) -> RealArray:
    logs: RealArray = np.sign(values) * np.log1p(np.abs(values))
    return logs


def _one_hot(column: Column, name: str, feature_of: Callable[[str], int], width: int) -> FeatureArray:
    """(n, width): 1 at the feature of each word that a row has; a word whose feature is -1 has none."""
    if isinstance(column, Numbers):
        raise _not(name, "words")
    target = np.array([*map(feature_of, column.words), -1], dtype=np.int64)  # the last is for code -1, nothing known
    lengths = np.diff(column.offsets) if isinstance(column, Tags) else np.ones(len(column.codes), dtype=np.int64)
    rows, at = np.repeat(np.arange(len(lengths)), lengths), target[column.codes]
    features = np.zeros((len(lengths), width), dtype=np.float32)
    features[rows[at >= 0], at[at >= 0]] = 1.0
    return features


def _not(column: str, kind: str) -> DataError:
    """The error for a column of another kind than the run's; it shows no value."""
    return DataError(f"this run was made with {kind} in it; use data of the same form", column=column)


VERSION = 2  # with averages; without any it is written as version 1, which has no place for them


class Encoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Public: the same on every device and at the recommender."""

    version: int = 1
    person: tuple[PersonBlock, ...] = ()
    place: tuple[ColumnBlock, ...] = ()
    popularity: tuple[Log, ...] = ()
    context: tuple[ContextBlock, ...] = ()
    averages: tuple[Range, ...] = ()  # numbers of visits that places get an average of; of a record they are no feature

    def __post_init__(self) -> None:
        """ValueError, which a reader of documents turns into one of its own, for blocks that do not fit together."""
        if (self.version == VERSION) != bool(self.averages):
            raise ValueError("averages came with version 2, and are why there is one")
        if not all(-LARGEST_RANGE <= one.low < one.high <= LARGEST_RANGE for one in self.averages):
            raise ValueError("what is averaged has a range")
        if sum(isinstance(block, Density) for block in self.history) > 1:
            raise ValueError("one density of own visits is enough")
        for block in self.history:
            if isinstance(block, Affinity | Closeness):
                wanted = len(block.shares) if isinstance(block, Affinity) else 1
                kind = Words if isinstance(block, Affinity) else Log
                if [one.width for one in self.place if one.column == block.of and isinstance(one, kind)] != [wanted]:
                    raise ValueError("own visits are compared by something that places do not have")

    @property
    def history(self) -> tuple[HistoryBlock, ...]:
        """The blocks of the context that a device makes of its person's own history."""
        return tuple(block for block in self.context if isinstance(block, HistoryBlock))

    @property
    def recorded(self) -> tuple[ContextBlock, ...]:
        """The blocks whose columns a visit may be described by."""
        return (*self.context, *self.averages)

    def place_columns(self, name: str) -> range:
        """Which of the static features of places belong to this column of places."""
        at = [block.column for block in self.place].index(name)
        first = self.width(self.place[:at])
        return range(first, first + self.place[at].width)

    def blocks(self) -> tuple[AnyBlock, ...]:
        return (*self.person, *self.place, *self.popularity, *self.context)

    def sides(self) -> tuple[str, ...]:
        """Whose feature each block is."""
        parts = {"person": self.person, "place": self.place, "popularity": self.popularity, "context": self.context}
        return tuple(side for side, blocks in parts.items() for _ in blocks)

    def labels(self) -> tuple[str, ...]:
        """A name for each block that no other has: a column name that two sides have gets its side added."""
        columns = [block.column for block in self.blocks()]
        times = Counter(columns)
        return tuple(
            column if times[column] == 1 else f"{column} ({side})"
            for column, side in zip(columns, self.sides(), strict=True)
        )

    def names(self) -> tuple[str, ...]:
        """The D feature names."""
        pairs = zip(self.blocks(), self.labels(), strict=True)
        return tuple(label + name.removeprefix(block.column) for block, label in pairs for name in block.names())

    def groups(self) -> tuple[IndexArray, tuple[str, ...]]:
        """For each feature the block that it belongs to, and the blocks' names, by which reasons are given."""
        widths = [block.width for block in self.blocks()]
        return np.repeat(np.arange(len(widths), dtype=np.int32), widths), self.labels()

    def width(self, blocks: Sequence[AnyBlock]) -> int:
        """How many features these blocks have together."""
        return sum(block.width for block in blocks)

    def to_json(self) -> bytes:
        fields = msgspec.structs.asdict(self)
        if not self.averages:
            del fields["averages"]
        return msgspec.json.format(msgspec.json.encode(fields), indent=2)


def from_json(text: bytes) -> Encoding:
    """A saved encoding; newer or damaged ones are refused."""
    try:
        version = msgspec.json.decode(text, type=dict[str, object]).get("version")
        if version not in (1, VERSION):
            found = version if isinstance(version, int) else "unknown"  # not shown: it may be anything
            raise StateError(f"the encoding has version {found}, this program reads version {VERSION}")
        return msgspec.json.decode(text, type=Encoding)
    except NOT_DECODED:
        raise StateError("the saved encoding is damaged") from None


def encode_columns(blocks: Sequence[ColumnBlock], columns: Mapping[str, Column], rows: int) -> FeatureArray:
    """Features of `rows` people, places or moments from their columns, side by side."""
    missing = [block.column for block in blocks if block.column not in columns]
    if missing:
        raise DataError("the column that this run was made with is missing", column=missing[0])
    parts = [block.encode(columns[block.column]) for block in blocks]
    return np.ascontiguousarray(np.hstack([np.zeros((rows, 0), dtype=np.float32), *parts]))


def encode_person(encoding: Encoding, columns: Mapping[str, Column], *, home: RealArray) -> FeatureArray:
    """X^i, (I, m): features of people from their columns and homes (I, 2), NaN where unknown. Made on the device."""
    parts = [np.zeros((len(home), 0), dtype=np.float32)]
    for block in encoding.person:
        if isinstance(block, Area):
            parts.append(block.encode_home(home))
        else:
            parts.append(encode_columns([block], columns, len(home)))
    return np.ascontiguousarray(np.hstack(parts))


def encode_popularity(encoding: Encoding, counts: Mapping[str, RealArray], rows: int) -> FeatureArray:
    """The dynamic features of places, or of the places of records, from their counts."""
    return encode_columns(encoding.popularity, {name: Numbers(values) for name, values in counts.items()}, rows)


def encode_context(
    encoding: Encoding,
    columns: Mapping[str, Column],
    *,
    km: RealArray,
    history: Sequence[FeatureArray],
    time: TimeArray | None,
) -> FeatureArray:
    """What describes the moment, (R, c): made on the device, for a visit or for a place that is being considered. km is
    from home; history has the features of `Encoding.history`, block by block (features/history.py)."""
    parts, own = [np.zeros((len(km), 0), dtype=np.float32)], iter(history)
    for block in encoding.context:
        if isinstance(block, Distance):
            parts.append(block.encode_km(km))
        elif isinstance(block, HistoryBlock):
            parts.append(next(own))
        elif isinstance(block, Clock):  # 0 where the time is unknown: neither day nor night
            parts.append(np.zeros((len(km), block.width), np.float32) if time is None else block.encode_time(time))
        else:
            parts.append(encode_columns([block], columns, len(km)))
    return np.ascontiguousarray(np.hstack(parts))


# Which encoding a city gets. Looks at private tables only for the names and kinds of their columns.


PRIVATE_SCALE = float(np.log1p(50.0))  # a private count of 50 becomes 1
DISTANCE_SHIFT, DISTANCE_SCALE = float(np.log1p(5.0)), 2.0  # 5 km becomes 0, about 43 km becomes 1
NEAREST_SHIFT, NEAREST_SCALE = float(np.log1p(1.0)), 1.0  # 1 km becomes 0, about 4 km becomes 1
DENSITY_KM = (0.5, 2.0, 8.0)  # a street, a district, a town
DENSITY_SHIFT, DENSITY_SPREAD = float(np.log(Density.FLOOR)) / 2, -float(np.log(Density.FLOOR)) / 3  # -1.5 to 1.5
MOST_COMPARED = 4  # columns of words, and of numbers: what is learnt together under noise pays for its width
SMALLEST_SHARE = 1e-3  # of the catalogue: a rarer word counts as if it were as common
MEAN_APART = float(np.sqrt(2 / np.pi))  # of a standardised number from its mean, if it is normal


def plan_encoding(dataset: Dataset, popularity: Popularity, settings: Features) -> Encoding:
    """The encoding of a city: public columns by their own statistics, private ones by declarations and constants."""

    def private(table: str, columns: Mapping[str, Column]) -> list[ColumnBlock]:
        declared = {name: dataset.declared.get(f"{table}.{name}") for name in columns}
        kinds = {name: isinstance(column, Numbers) for name, column in columns.items()}
        return [_private(name, declared[name], settings, number=kinds[name]) for name in columns]

    # what a visit will have cost is known after it: an averaged column describes places, never the moment
    moment = {name: column for name, column in dataset.visits.context.items() if name not in settings.averages}
    bare = _without_popularity(
        dataset.places,
        person=private("users", dataset.people.columns),
        moment=private("visits", moment),
        timed=dataset.visits.time is not None,
        settings=settings,
        averages=_averages(
            settings, dataset.declared, lambda name: isinstance(dataset.visits.context.get(name), Numbers)
        ),
    )
    return with_popularity(bare, popularity.released)


def plan_declared_encoding(places: Places, schema: Schema, settings: Features, *, timed: bool = True) -> Encoding:
    """The encoding of a deployment, where no table of people or visits is to be seen: private columns are those that
    schema.toml names, what it declares first, and devices know the time of a visit. Popularity comes later."""
    person, moment = (_declared(table, schema, settings) for table in ("users", "visits"))
    moment = [block for block in moment if block.column not in settings.averages]
    averages = _averages(settings, schema.declared, lambda name: schema.is_number(f"visits.{name}"))
    return _without_popularity(
        places, person=person, moment=moment, timed=timed, settings=settings, averages=averages
    )  # fmt: skip


def with_popularity(encoding: Encoding, released: Counts) -> Encoding:
    """The encoding with a feature for each released column that varies over the catalogue."""
    blocks = [_standardised(name, values) for name, values in released.items()]
    return msgspec.structs.replace(encoding, popularity=tuple(block for block in blocks if block is not None))


def _without_popularity(
    places: Places, *, person: Sequence[ColumnBlock], moment: Sequence[ColumnBlock], timed: bool, settings: Features,
    averages: tuple[Range, ...],
) -> Encoding:  # fmt: skip
    context: list[ContextBlock] = []
    if places.location is not None:
        context.append(Distance(column="distance from home", shift=DISTANCE_SHIFT, scale=DISTANCE_SCALE))
    place = plan_places(places, settings)
    if settings.own_history:
        context += _own_history(places, place)
    if timed:
        context.append(Clock(column="time"))
    return Encoding(
        version=VERSION if averages else 1,
        person=(*person, *_home_areas(places, settings)),
        place=place,
        context=(*context, *moment) if settings.context else (),
        averages=averages,
    )


def _averages(
    settings: Features, declared: Mapping[str, Declared], is_number: Callable[[str], bool]
) -> tuple[Range, ...]:  # fmt: skip
    if not settings.dynamic:
        return ()
    scales = {name: declared_scale(name, declared, is_number=is_number(name)) for name in settings.averages}
    return tuple(Range(column=name, low=scale.low, high=scale.high) for name, scale in scales.items())


def _own_history(places: Places, blocks: Sequence[ColumnBlock]) -> Iterator[HistoryBlock]:
    """How near a person's other places are, where places have coordinates, and how like them a place is by its words
    and numbers: those that are features of places anyway, which is all that devices hold of places."""
    if places.location is not None:
        yield Nearest(column="distance from own visits", shift=NEAREST_SHIFT, scale=NEAREST_SCALE)
        yield Density(
            column="density of own visits", scales_km=DENSITY_KM, shift=DENSITY_SHIFT, spread=DENSITY_SPREAD
        )  # fmt: skip
    for words in [block for block in blocks if isinstance(block, Words)][:MOST_COMPARED]:
        shares = np.maximum(words.encode(places.columns[words.column]).mean(axis=0, dtype=np.float64), SMALLEST_SHARE)
        yield Affinity(column=f"own visits by {words.column}", of=words.column, shares=tuple(shares.tolist()))
    for number in [block for block in blocks if isinstance(block, Log)][:MOST_COMPARED]:
        name = number.column
        yield Closeness(column=f"own visits by {name}", of=name, shift=MEAN_APART, scale=1.0)


def plan_places(places: Places, settings: Features) -> tuple[ColumnBlock, ...]:
    """The blocks of the catalogue's columns, by their own statistics."""
    blocks = [_public(name, column, settings) for name, column in places.columns.items()]
    return tuple(block for block in blocks if block is not None)


def _home_areas(places: Places, settings: Features) -> list[Area]:
    """The area that a person lives in, by centres of the public catalogue; none where everyone would be in one."""
    if places.location is None:
        return []
    centres = area_centres(places.location, settings.areas).tolist()
    return [Area(column="home area", centres=tuple((lat, lon) for lat, lon in centres))] if len(centres) > 1 else []


def _declared(table: str, schema: Schema, settings: Features) -> list[ColumnBlock]:
    keys = [key for key in dict.fromkeys((*schema.declared, *schema.kinds)) if key.startswith(f"{table}.")]
    numbers = [schema.is_number(key) or schema.kinds.get(key) == "number" for key in keys]
    return [
        _private(key.partition(".")[2], schema.declared.get(key), settings, number=number)
        for key, number in zip(keys, numbers, strict=True)
    ]


def _private(name: str, declared: Declared | None, settings: Features, *, number: bool) -> ColumnBlock:
    """The block of a private column: from its name, its kind and what was declared, never from its values."""
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
    """The block of a public column: numbers by their statistics, words by how common they are in the catalogue."""
    # Looking at the values is allowed here, and nowhere above: the catalogue is published anyway.
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


# Columns from one person's profile or visits, as a device holds them: rows of values by name, some of them missing.
#
# A block decides what it reads: numbers, or words. A single word is a list of one, which is encoded in the same way.


Value: TypeAlias = float | str | tuple[str, ...]
NamedValues: TypeAlias = Mapping[str, Value]


def rows_to_columns(blocks: Sequence[AnyBlock], rows: Sequence[NamedValues]) -> dict[str, Column]:
    """The columns that these blocks read, one entry a row. DataError, without the value, for one of another kind."""
    named = [block for block in blocks if isinstance(block, ColumnBlock)]
    return {block.column: _column(block, [row.get(block.column) for row in rows]) for block in named}


def _column(block: ColumnBlock, values: Sequence[Value | None]) -> Column:
    if isinstance(block, Log | Range):
        return Numbers(np.array([_number(value, block.column) for value in values], dtype=np.float64))
    lists = [_words(value, block.column) for value in values]
    known = {word: code for code, word in enumerate(dict.fromkeys(word for words in lists for word in words))}
    offsets = np.concatenate([[0], np.cumsum([len(words) for words in lists])]).astype(np.int64)
    codes = np.array([known[word] for words in lists for word in words], dtype=np.int32)
    return Tags(offsets, codes, tuple(known))


def _number(value: Value | None, column: str) -> float:
    if isinstance(value, str | tuple):
        raise DataError("a number belongs here, and words were given", column=column)
    return np.nan if value is None else value


def _words(value: Value | None, column: str) -> tuple[str, ...]:
    if isinstance(value, int | float):
        raise DataError("a word or a list of words belongs here, and a number was given", column=column)
    return () if value is None else (value,) if isinstance(value, str) else value
