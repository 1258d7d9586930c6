"""Columns from what one person has told: values by name, of any kind, some of them missing.

A block decides what it reads: numbers, or words. A single word is a list of one, which is encoded in the same way.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from prirec.data.dataset import Column, Numbers, Tags
from prirec.errors import DataError
from prirec.features.blocks import AnyBlock, Clock, Kilometres, Log, Range

Value: TypeAlias = float | str | tuple[str, ...]
Told: TypeAlias = Mapping[str, Value]


def columns_of(blocks: Sequence[AnyBlock], rows: Sequence[Told]) -> dict[str, Column]:
    """The columns that these blocks read, one entry a row. DataError, without the value, for one of another kind."""
    named = [block for block in blocks if not isinstance(block, Kilometres | Clock)]
    return {block.column: _column(block, [row.get(block.column) for row in rows]) for block in named}


def _column(block: AnyBlock, values: Sequence[Value | None]) -> Column:
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
