"""Cells to columns and back: what is a number, a category or a list of tags, and what was declared about it."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from prirec.data.dataset import Category, Column, Columns, Declared, Numbers, Tags
from prirec.data.schema import NAME, RESERVED, Kind, Schema, ask, roles_of
from prirec.data.tables import Table, holds_numbers, holds_words
from prirec.errors import UsageError
from prirec.types import IndexArray, RealArray
from prirec.util.sentences import suggest

if TYPE_CHECKING:
    import polars as pl

SEPARATOR = "|"
NO_WORDS = "is neither number, text nor list of text; give one of these"
WHOLE = 2.0**53  # up to here every whole float is written as an integer without loss


# Cells to columns.


def read_columns(table: Table, schema: Schema) -> Columns:
    """Every column of the table that has no meaning of its own, in the table's order."""
    names = [name for name in table.frame.columns if name not in (*RESERVED[table.name], table.shown)]
    return {name: read_checked(table, name, schema) for name in names}


def check_names(table: Table, schema: Schema) -> None:
    """DataError if schema.toml names a column that the table does not have."""
    for key in schema.columns():
        name, _, column = key.partition(".")
        if name == table.name and column not in table.frame.columns:
            raise schema.error(f"{table.label} has no such column; {suggest(column, table.frame.columns)}", key=key)


def with_roles(table: Table, schema: Schema) -> Table:
    """The table with ids, times, labels and coordinates under their plain names, and without ignored columns."""
    found = roles_of(table.name, table.frame.columns, schema)
    for column, problem in found.asked.items():
        raise table.error(ask(table.name, column, problem), column=column)
    plain = {column: role for role, column in found.taken.items() if role not in (column, NAME)}
    notes = [f"{table.label}, column '{column}' {doubt}" for column, (doubt, _) in found.doubts.items()]
    said = [f"'{column}' as {role}" for column, role in plain.items() if f"{table.name}.{column}" not in schema.roles]
    shown = found.taken.get(NAME)
    if shown is not None and f"{table.name}.{shown}" not in schema.roles:
        notes.append(f"{table.label}, column '{shown}' is shown with each place, and not learnt from")
    return replace(
        table,
        frame=table.frame.drop(found.ignored).rename(plain),
        names={**table.names, **{role: column for column, role in plain.items()}},
        shown=shown,
        notes=(*table.notes, *([f"{table.label}: read {', '.join(said)}"] if said else []), *notes),
    )


def read_names(table: Table) -> tuple[str, ...]:
    """What each place is called, empty where nothing is known; no entries where no column says."""
    return () if table.shown is None else tuple(_text(table, table.shown).fill_null("").to_list())


def read_checked(table: Table, name: str, schema: Schema) -> Column:
    """One column, by its kind, with values that were declared."""
    key = f"{table.name}.{name}"
    kind = schema.kinds.get(key)
    if schema.is_number(key):
        kind = "number"
    elif kind is None:
        alone = table.frame[name].to_frame().lazy()  # to pick one of thousands by a plan takes long
        kind = guess_kind(alone, name, text=schema.is_text(key), typed=table.typed, engine="in-memory")
    column = read_column(table, name, kind=kind)
    if key in schema.declared:
        _check_declared(table, name, column=column, declared=schema.declared[key])
    return column


def read_column(table: Table, name: str, *, kind: Kind) -> Column:
    """One column read as numbers, a category or tags."""
    if kind == "number":
        return read_numbers(table, name)
    text = _text(table, name)
    return _category(text) if kind == "category" else _tags(text)


def guess_kind(
    frame: "pl.LazyFrame", name: str, *, text: bool, typed: bool, engine: Literal["in-memory", "streaming"]
) -> Kind:
    """All numbers or all true/false: a number, unless known to be text. A | anywhere: tags. Otherwise a category.

    Over a stream too, so that a folder which does not fit into memory gets the same kinds when it is partitioned.
    """
    import polars as pl

    dtype = frame.collect_schema()[name]
    if not text and (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        return "number"
    if isinstance(dtype, pl.List):
        return "tags"
    if not holds_words(dtype):
        return "category"  # whoever reads it says what is wrong, with the line
    cells = pl.col(name).cast(pl.String)
    bare = cells.str.strip_chars()
    tags, numbers, truths, filled = (
        frame.select(
            tags=cells.str.contains(SEPARATOR, literal=True).any(),
            numbers=bare.cast(pl.Float64, strict=False).is_not_null().sum(),
            truths=bare.str.to_lowercase().is_in(["true", "false"]).sum(),
            filled=cells.is_not_null().sum(),
        )
        .collect(engine=engine)
        .row(0)
    )
    if tags:
        return "tags"
    return "category" if text or typed or (numbers or truths) < filled else "number"


def _text(table: Table, name: str) -> "pl.Series":
    import polars as pl

    cells = table.frame[name]
    if not holds_words(cells.dtype):
        raise table.error(NO_WORDS, column=name)
    if isinstance(cells.dtype, pl.List):
        return cells.cast(pl.List(pl.String)).list.join(SEPARATOR)
    return cells.cast(pl.String)


def as_numbers(cells: "pl.Series") -> "pl.Series":
    """float64, null where a cell is empty or no number; true and false are 1 and 0 if there is nothing else."""
    import polars as pl

    if cells.dtype != pl.String:
        return cells.cast(pl.Float64)
    text = cells.str.strip_chars()
    numbers = text.cast(pl.Float64, strict=False)
    if numbers.null_count() < text.len():
        return numbers
    return text.str.to_lowercase().replace_strict({"true": 1.0, "false": 0.0}, default=None, return_dtype=pl.Float64)


def all_numbers(text: "pl.Series") -> bool:
    """Whether every cell that is not empty would be read as a number."""
    return as_numbers(text).null_count() == text.null_count()


def read_numbers(table: Table, name: str) -> Numbers:
    """Finite numbers; NaN only where a cell is empty."""
    cells = table.frame[name]
    if not holds_numbers(cells.dtype):
        raise table.error("does not hold numbers", column=name)
    numbers = as_numbers(cells)
    wrong = cells.is_not_null() & (numbers.is_null() | ~numbers.is_finite().fill_null(value=True))
    if wrong.any():
        problem = "not a finite number; leave the cell empty where nothing is known"
        raise table.wrong_rows(problem, wrong.to_numpy(), column=name)
    return Numbers(numbers.fill_null(np.nan).to_numpy().astype(np.float64, copy=True))


def codes_of(text: "pl.Series", words: "pl.Series") -> IndexArray:
    """Row of each cell's word among the words; -1 where it is empty or not among them."""
    import polars as pl

    codes = text.cast(pl.Enum(words), strict=False).to_physical().cast(pl.Int32)
    return codes.fill_null(-1).to_numpy().astype(np.int32, copy=True)


def _category(text: "pl.Series") -> Category:
    words = text.drop_nulls().unique().sort()
    return Category(codes_of(text, words), tuple(words.to_list()))


def _tags(text: "pl.Series") -> Tags:
    """Each word once a row, without spaces around it, in the order of the words."""
    import polars as pl

    pieces = pl.DataFrame({"word": text.str.split(SEPARATOR)}).with_row_index("row").explode("word")
    pieces = (
        pieces.with_columns(pl.col("word").str.strip_chars()).filter(pl.col("word") != "").unique().sort("row", "word")
    )
    words = pieces["word"].unique().sort()
    lengths = np.bincount(pieces["row"].to_numpy(), minlength=text.len())
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return Tags(offsets, codes_of(pieces["word"], words), tuple(words.to_list()))


def _check_declared(table: Table, name: str, *, column: Column, declared: Declared) -> None:
    if isinstance(column, Numbers):
        low, high = declared.low, declared.high
        wrong = (column.values < (-np.inf if low is None else low)) | (
            column.values > (np.inf if high is None else high)
        )
        if wrong.any():
            raise table.wrong_rows(f"outside the range {table.declared_by}", wrong, column=name)
        return
    allowed = set(declared.words or ())
    strange = np.array([word not in allowed for word in column.words] + [False])  # the last stands for code -1
    wrong = strange[column.codes]
    if wrong.any():
        if isinstance(column, Tags):  # from words to the rows that they are in
            rows = np.repeat(np.arange(len(column.offsets) - 1), np.diff(column.offsets))[wrong]
            wrong = np.bincount(rows, minlength=len(column.offsets) - 1) > 0
        raise table.wrong_rows(f"not among the values {table.declared_by}", wrong, column=name)


@dataclass(slots=True)
class MixedCells:
    """Columns that are read as words although most of their cells are numbers: likely a slip, so it is said, with
    counts. Parts of a table are added one after another."""

    cells: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)  # words and all, by file and column

    def add(self, table: Table, columns: Columns, schema: Schema) -> None:
        """Columns of some rows of a table, as they were read."""
        import polars as pl

        for name, column in columns.items():
            key = f"{table.name}.{name}"
            if table.typed or key in schema.columns() or not isinstance(column, Category):
                continue
            numeric = as_numbers(pl.Series(column.words, dtype=pl.String)).is_not_null().to_numpy()
            known = int((column.codes >= 0).sum())
            words, every = self.cells.get((table.label, name), (0, 0))
            words += known - int(np.append(numeric, False)[column.codes].sum())
            self.cells[table.label, name] = words, every + known

    def notes(self) -> list[str]:
        return [
            f"{file}, column '{name}': {words:,} of {known:,} cells are not numbers, so all are read as words"
            for (file, name), (words, known) in self.cells.items()
            if 2 * words < known
        ]


def mixed_notes(table: Table, columns: Columns, schema: Schema) -> list[str]:
    """Notes on mixed cells of a whole table."""
    mixed = MixedCells()
    mixed.add(table, columns, schema)
    return mixed.notes()


# Columns to cells, so that what is written is read back to the same columns.


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


def would_be_misread(column: Category, *, text: bool) -> bool:
    """Whether a reader would take these cells for something else than a category."""
    import polars as pl

    used = [column.words[code] for code in np.unique(column.codes[column.codes >= 0])]
    if any(SEPARATOR in word for word in used):
        return True
    return not text and all_numbers(pl.Series(used, dtype=pl.String))
