"""Columns to cells: the way back from prirec.data.columns."""

from typing import TYPE_CHECKING

import numpy as np

from prirec.data.columns import SEPARATOR, all_numbers
from prirec.data.dataset import Category, Column, Numbers, Tags
from prirec.errors import UsageError
from prirec.types import RealArray

if TYPE_CHECKING:
    import polars as pl

WHOLE = 2.0**53  # up to here every whole float is written as an integer without loss


def cells_of(key: str, column: Column) -> "pl.Series":
    """One column as cells, null where nothing is known; a column that no cells can hold is refused."""
    import polars as pl

    if isinstance(column, Numbers):
        return number_cells(key, column.values)
    if any(not word.strip() for word in column.words):
        raise UsageError(f"{key} has a blank word; give it a name")
    words = pl.Series(column.words, dtype=pl.String)
    if isinstance(column, Category):
        codes = pl.Series(column.codes)
        return words.gather(codes.set(codes < 0, None))
    if any(SEPARATOR in word or "\n" in word or "\r" in word for word in column.words):
        raise UsageError(f"{key} has a word with '{SEPARATOR}' or a line break in it, which a list cannot hold")
    if (words != words.str.strip_chars()).any():
        raise UsageError(f"{key} has a word with spaces around it, which a list cannot hold")
    return _lists(column, words)


def _lists(column: Tags, words: "pl.Series") -> "pl.Series":
    """a|b, and a| for a single word, so that a list is known as one."""
    import polars as pl

    rows = np.repeat(np.arange(len(column.offsets) - 1), np.diff(column.offsets))
    pieces = pl.DataFrame({"row": rows, "word": words.gather(column.codes)})
    joined = pieces.group_by("row", maintain_order=True).agg(pl.col("word").str.join(SEPARATOR), count=pl.len())
    everyone = pl.DataFrame({"row": np.arange(len(column.offsets) - 1)})
    ends = pl.when(pl.col("count").fill_null(0) < 2).then(pl.lit(SEPARATOR)).otherwise(pl.lit(""))
    lists = everyone.join(joined, on="row", how="left", maintain_order="left")
    return lists.select(pl.col("word").fill_null("") + ends).to_series()


def number_cells(key: str, values: RealArray) -> "pl.Series":
    """Whole numbers without a point, others in the shortest form that reads back to the same bits."""
    import polars as pl

    if np.isinf(values).any():
        raise UsageError(f"{key} has an infinite number; a folder holds finite ones")
    numbers = pl.Series(values).fill_nan(None)
    known = values[~np.isnan(values)]
    whole = bool(np.all((known == np.rint(known)) & (np.abs(known) <= WHOLE)))
    return numbers.cast(pl.Int64) if whole and known.size else numbers


def misleads(column: Category, *, text: bool) -> bool:
    """Whether a reader would take these cells for something else than a category."""
    import polars as pl

    used = [column.words[code] for code in np.unique(column.codes[column.codes >= 0])]
    if any(SEPARATOR in word for word in used):
        return True
    return not text and all_numbers(pl.Series(used, dtype=pl.String))
