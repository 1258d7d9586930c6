"""What a typed column may be read as. A CSV file holds text alone; Parquet has types that mean nothing here."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl
    from polars.datatypes import DataType, DataTypeClass


def holds_numbers(kind: "DataType | DataTypeClass") -> bool:
    """Numbers, true and false, text (each cell of which may still be no number), or nothing at all."""
    import polars as pl

    return kind.is_numeric() or kind in (pl.Boolean, pl.Null, pl.String)


def holds_words(kind: "DataType | DataTypeClass") -> bool:
    """Whatever has one obvious way of being written, or lists of such."""
    import polars as pl

    inner = kind.inner if isinstance(kind, pl.List) else kind
    return holds_numbers(inner) or inner in (pl.Categorical, pl.Enum)


def holds_ids(kind: "DataType | DataTypeClass") -> bool:
    """No fractions: 1 and 1.0 would be two people."""
    import polars as pl

    return kind.is_integer() or kind == pl.String


def plain_text(schema: "pl.Schema") -> "list[pl.Expr]":
    """Categories as the text that they stand for, and text of nothing but spaces as an empty cell."""
    import polars as pl

    named = [name for name, kind in schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    text = pl.col(named).cast(pl.String)
    return [pl.when(text.str.contains(r"\S")).then(text)] if named else []
