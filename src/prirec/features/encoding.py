"""The encoding: which columns become which of the D features, saved with a run and versioned.

X^ij = X^i (+) X^j (+) context, in this order: people's blocks, places' static blocks, popularity, context.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from prirec.damage import NOT_DECODED
from prirec.data.dataset import Column, Numbers
from prirec.errors import DataError, StateError
from prirec.features.blocks import AnyBlock, Clock, ColumnBlock, Distance, Log, Nearest
from prirec.types import FeatureArray, IndexArray, RealArray, TimeArray

VERSION = 1


class Encoding(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Public: the same on every device and at the recommender."""

    version: int = VERSION
    person: tuple[ColumnBlock, ...] = ()
    place: tuple[ColumnBlock, ...] = ()
    popularity: tuple[Log, ...] = ()
    context: tuple[AnyBlock, ...] = ()

    def blocks(self) -> tuple[AnyBlock, ...]:
        return (*self.person, *self.place, *self.popularity, *self.context)

    def sides(self) -> tuple[str, ...]:
        """Whose feature each block is."""
        parts = {"person": self.person, "place": self.place, "popularity": self.popularity, "context": self.context}
        return tuple(side for side, blocks in parts.items() for _ in blocks)

    def labels(self) -> tuple[str, ...]:
        """A name for each block that no other has: a column that stands on two sides is told with its side."""
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
        """For each feature the block that it belongs to, and the blocks' names: what reasons are told in."""
        widths = [block.width for block in self.blocks()]
        return np.repeat(np.arange(len(widths), dtype=np.int32), widths), self.labels()

    def width(self, blocks: Sequence[AnyBlock]) -> int:
        return sum(block.width for block in blocks)

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=2)


def from_json(text: bytes) -> Encoding:
    """A saved encoding; newer or damaged ones are refused."""
    try:
        version = msgspec.json.decode(text, type=dict[str, object]).get("version")
        if version != VERSION:
            told = version if isinstance(version, int) else "unknown"
            raise StateError(f"the encoding has version {told}, this program reads version {VERSION}")
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


def encode_popularity(encoding: Encoding, counts: Mapping[str, RealArray], rows: int) -> FeatureArray:
    """The dynamic features of places, or of the places of records, from their counts."""
    return encode_columns(encoding.popularity, {name: Numbers(values) for name, values in counts.items()}, rows)


def encode_context(
    encoding: Encoding, columns: Mapping[str, Column], *, km: RealArray, nearest: RealArray, time: TimeArray | None
) -> FeatureArray:
    """What describes the moment, (R, c): made on the device, for a visit or for a place that is being considered. km is
    from home, nearest from the nearest other place that the person has visited."""
    parts = [np.zeros((len(km), 0), dtype=np.float32)]
    for block in encoding.context:
        if isinstance(block, Distance):
            parts.append(block.encode_km(km))
        elif isinstance(block, Nearest):
            parts.append(block.encode_km(nearest))
        elif isinstance(block, Clock):
            parts.append(_clock(block, time, len(km)))
        else:
            parts.append(encode_columns([block], columns, len(km)))
    return np.ascontiguousarray(np.hstack(parts))


def _clock(block: Clock, time: TimeArray | None, rows: int) -> FeatureArray:
    if time is None:
        return np.zeros((rows, block.width), dtype=np.float32)
    return block.encode_time(time)
