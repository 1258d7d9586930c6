"""Rows of several tables under common numbers: equal rows have one number, whichever table they stand in."""

import numpy as np

from prirec.data.dataset import Category, Numbers, Tags, Visits
from prirec.types import BoolArray, OffsetArray


def numbered(*tables: OffsetArray) -> list[OffsetArray]:
    """A number for each row of each (n, k) table, from 0 up."""
    rows = np.concatenate(tables)
    order = np.lexsort(rows.T)
    new = np.append(False, (rows[order[1:]] != rows[order[:-1]]).any(axis=1))[: len(order)]
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(new)
    return np.split(numbers, np.cumsum([len(table) for table in tables])[:-1])


def counted(*tables: OffsetArray) -> list[OffsetArray]:
    """How often each different row is in each table."""
    numbers = numbered(*tables)
    groups = 1 + max((int(one.max()) for one in numbers if len(one)), default=-1)
    return [np.bincount(one, minlength=groups) for one in numbers]


def among(table: OffsetArray, other: OffsetArray) -> BoolArray:
    """Which rows of a table are rows of another one."""
    mine, theirs = numbered(table, other)
    there = np.zeros(1 + max(int(mine.max(initial=-1)), int(theirs.max(initial=-1))), dtype=np.bool_)
    there[theirs] = True
    found: BoolArray = there[mine]
    return found


def rows_of(visits: Visits) -> OffsetArray:
    """Who, where, whether and, where it is known, when: (R, 3) or (R, 4)."""
    parts = [column.astype(np.int64) for column in (visits.person, visits.place, visits.label)]
    return np.column_stack([*parts, *([] if visits.time is None else [visits.time])])


def moments_of(visits: Visits) -> OffsetArray:
    """What describes the moment, (R, k): its time and its context as bits."""
    context = [_bits(column) for column in visits.context.values() if not isinstance(column, Tags)]
    time = np.zeros(len(visits), dtype=np.int64) if visits.time is None else visits.time
    return np.column_stack([time, *context])


def _bits(column: Numbers | Category) -> OffsetArray:
    return column.values.view(np.int64) if isinstance(column, Numbers) else column.codes.astype(np.int64)
