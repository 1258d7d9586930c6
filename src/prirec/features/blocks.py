"""Blocks of features: each turns one column into numbers by public constants, and can be saved and read back.

A constant may come from the public catalogue, from a declaration, from released popularity, or from this file; never
from private values.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Annotated, ClassVar, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta

from prirec.data.dataset import Column, Numbers, Tags
from prirec.errors import DataError
from prirec.types import FeatureArray, RealArray

DAY, HOUR = 86_400, 3_600
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


class Kilometres(Block, frozen=True):
    """(ln(1 + km) - shift) / scale; 0 where an end of the way is unknown."""

    shift: Shift
    scale: Scale

    def encode_km(self, km: RealArray) -> FeatureArray:
        return np.nan_to_num((np.log1p(km) - self.shift) / self.scale, nan=0.0).astype(np.float32)[:, None]


class Distance(Kilometres, frozen=True, tag="distance"):
    """Distance of a place from the person's home."""


class Nearest(Kilometres, frozen=True, tag="nearest"):
    """Distance from the nearest other place that the person has visited (OwnVisits in location.py)."""


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
AnyBlock: TypeAlias = Log | Range | Words | Hashed | Distance | Nearest | Clock


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
