"""schema.toml of a data folder: what is publicly known about private columns, and how a column is to be read.

    [users.gender]
    values = ["female", "male"]     # the words it may hold

    [users.age]
    low = 0                         # the range of its numbers
    high = 100

    [pois.postcode]
    kind = "category"               # digits, yet no number; also "number" or "tags"

Everything in it is public: it must not be computed from anyone's data.
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeGuard, get_args

from prirec.data.dataset import Declared
from prirec.errors import DataError, UsageError
from prirec.util.decode_errors import NOT_TOML
from prirec.util.suggest import suggest

Kind = Literal["number", "category", "tags"]
KINDS: tuple[str, ...] = get_args(Kind)
FILE = "schema.toml"
BARE = re.compile("[A-Za-z0-9_-]+")  # keys that TOML takes without quotes
# places are public: their range and words are read off the catalogue, and only a kind may need to be said
KEYS = {"users": ("values", "low", "high", "kind"), "visits": ("values", "low", "high", "kind"), "pois": ("kind",)}
RESERVED = {
    "users": ("user", "lat", "lon"),
    "visits": ("user", "poi", "label", "time", "lat", "lon"),  # coordinates are refused there, not read
    "pois": ("poi", "lat", "lon"),
}


@dataclass(frozen=True, slots=True)
class Schema:
    """Keys are like "users.gender". A column with declared words is text, one with a declared range is a number."""

    kinds: Mapping[str, Kind] = field(default_factory=dict)
    declared: Mapping[str, Declared] = field(default_factory=dict)
    file: Path | None = None

    def is_text(self, key: str) -> bool:
        return key in self.declared and self.declared[key].words is not None

    def is_number(self, key: str) -> bool:
        return key in self.declared and self.declared[key].words is None

    def error(self, problem: str, *, column: str | None = None) -> DataError:
        return DataError(problem, file=self.file or Path(FILE), column=column)


def read_schema(folder: Path) -> Schema:
    """The folder's schema.toml, or an empty schema; whether its columns exist is checked against the tables later."""
    file = folder / FILE
    if not file.is_file():
        return Schema()
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except NOT_TOML as broken:
        raise DataError(f"is not TOML: {broken}", file=file) from broken
    return schema_from(content, file=file)


def schema_from(content: Mapping[str, Any], *, file: Path | None = None) -> Schema:
    """The schema that a nested table gives, as schema.toml has it: {"users": {"age": {"low": 0, "high": 100}}}."""
    named = file if file is not None else Path(FILE)
    kinds: dict[str, Kind] = {}
    declared: dict[str, Declared] = {}
    for table, column, entry in _entries(content, named):
        _read_entry(f"{table}.{column}", entry, kinds=kinds, declared=declared, file=named)
    return Schema(kinds=kinds, declared=declared, file=file)


def _entries(content: Mapping[str, Any], file: Path) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
    for table, columns in content.items():
        if table not in KEYS:
            raise DataError(f"there is no table '{table}'; {suggest(table, KEYS)}", file=file)
        if not isinstance(columns, dict):
            raise DataError(f"write [{table}.COLUMN] and the keys below it", file=file)
        for column, entry in columns.items():
            if not isinstance(entry, dict):
                raise DataError(f"write [{table}.{column}] and the keys below it", file=file, column=column)
            if column in RESERVED[table]:
                raise DataError("has a meaning of its own and cannot be declared", file=file, column=column)
            for key in entry:
                if key not in KEYS[table]:
                    raise DataError(f"unknown key '{key}'; {suggest(key, KEYS[table])}", file=file, column=column)
            yield table, column, entry


def _read_entry(
    key: str, entry: Mapping[str, Any], *, kinds: dict[str, Kind], declared: dict[str, Declared], file: Path
) -> None:
    column = key.split(".", 1)[1]
    kind = entry.get("kind")
    if kind is not None and kind not in KINDS:
        raise DataError(f"kind is one of {', '.join(KINDS)}", file=file, column=column)
    known = _declaration(entry, file=file, column=column)
    if known is not None and kind is not None and (kind == "number") is (known.words is not None):
        raise DataError("numbers have low and high, categories and tags have values", file=file, column=column)
    if known is not None:
        declared[key] = known
    if kind is not None:
        kinds[key] = kind


def _declaration(entry: Mapping[str, Any], *, file: Path, column: str) -> Declared | None:
    values, low, high = (entry.get(key) for key in ("values", "low", "high"))
    if values is not None and (low is not None or high is not None):
        raise DataError("give values for words, or low and high for numbers, not both", file=file, column=column)
    if values is not None:
        if not isinstance(values, list) or not values or not all(isinstance(word, str) and word for word in values):
            raise DataError('values is a list of words such as ["female", "male"]', file=file, column=column)
        if len(set(values)) < len(values):
            raise DataError("a word is there twice in values", file=file, column=column)
        return Declared(words=tuple(values))
    if low is None and high is None:
        return None
    bounds = [float(bound) for bound in (low, high) if _finite(bound)]
    if len(bounds) < 2 or bounds[0] >= bounds[1]:
        raise DataError("low and high are two numbers, low the smaller", file=file, column=column)
    return Declared(low=bounds[0], high=bounds[1])


def _finite(value: object) -> TypeGuard[float]:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= sys.float_info.max  # a whole number may be too large for a float, and NaN is not less


def schema_text(*, declared: Mapping[str, Declared], kinds: Mapping[str, Kind]) -> str:
    """schema.toml as text, so that read_schema gives the same back; empty if there is nothing to state."""
    lines: list[str] = []
    for key in sorted({*declared, *kinds}):
        table, _, column = key.partition(".")
        lines += [f"[{table}.{column if BARE.fullmatch(column) else _quoted(column)}]"]
        lines += [f'kind = "{kinds[key]}"'] if key in kinds else []
        lines += _declared_lines(key, declared[key]) if key in declared else []
        lines += [""]
    return "\n".join(lines)


def _declared_lines(key: str, known: Declared) -> list[str]:
    if known.words is not None and known.low is None and known.high is None:
        return [f"values = [{', '.join(_quoted(word) for word in known.words)}]"]
    if known.words is None and known.low is not None and known.high is not None:
        return [f"low = {float(known.low)!r}", f"high = {float(known.high)!r}"]
    raise UsageError(f"the declaration of {key} needs either words, or both low and high")


def _quoted(text: str) -> str:
    # JSON strings are TOML strings but for DEL, which TOML wants escaped
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
