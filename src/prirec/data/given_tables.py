"""Tables from what a caller has at hand: a Polars or pandas frame, columns by name, or a list of rows.

What is given is Any: pandas is no dependency, and has no types here.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from prirec.data.tables import Table, memory_table
from prirec.errors import UsageError

if TYPE_CHECKING:
    import polars as pl


def table_of(name: str, given: Any) -> Table:
    """The table `visits`, `pois` or `users`."""
    return memory_table(name, _frame(name, given))


def _frame(name: str, given: Any) -> "pl.DataFrame":
    import polars as pl

    if isinstance(given, pl.LazyFrame):
        given = given.collect()
    frame: pl.DataFrame = given if isinstance(given, pl.DataFrame) else _frame_of_values(name, given)
    if frame.height == 0:
        raise UsageError(f"the table '{name}' has no rows; leave it out if there is nothing to say")
    # pandas and NumPy write NaN where a cell is empty
    return frame.with_columns(pl.col(pl.Float32, pl.Float64).fill_nan(None))


def _frame_of_values(name: str, given: Any) -> "pl.DataFrame":
    import polars as pl

    columns = _columns(name, given)
    try:
        return pl.DataFrame(columns, infer_schema_length=None)
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError):
        # the cause is not chained: it could show somebody's cells
        raise UsageError(
            f"the table '{name}' cannot be read: its columns must be equally long, and hold one kind of value each"
        ) from None


def _columns(name: str, given: Any) -> dict[str, list[Any]]:
    """Columns by name, with None for what pandas holds as NaN, NaT or NA."""
    if hasattr(given, "to_dict") and hasattr(given, "columns"):  # pandas, or what behaves like it
        given = given.to_dict(orient="list")
    if isinstance(given, Mapping):
        columns = {str(key): _cells(name, str(key), values) for key, values in given.items()}
    elif isinstance(given, Sequence) and all(isinstance(row, Mapping) for row in given):
        keys = dict.fromkeys(str(key) for row in given for key in row)
        columns = {key: [_cell(row.get(key)) for row in given] for key in keys}
    else:
        raise UsageError(
            f"the table '{name}' is a Polars or pandas frame, a mapping of columns, or a list of rows that are "
            f"mappings, not {type(given).__name__}"
        )
    return columns


def _cells(name: str, column: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise UsageError(f"the column '{column}' of '{name}' must be a list or an array of cells")
    values = values.tolist() if hasattr(values, "tolist") else values  # NumPy's own numbers become Python's
    return [_cell(value) for value in values]


def _cell(value: Any) -> Any:
    """NaN, NaT and NA are not equal to themselves; NA does not even say so."""
    if isinstance(value, str | int | bytes | list | tuple) or value is None:
        return value
    try:
        return value if bool(value == value) else None
    except TypeError:
        return None
