"""A person's own visits from a CSV file: the columns of a data folder's visits, without the person.

Errors name file, line and column, never what is there. The whole file is looked at before anything of it is kept.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from prirec.data.folder_visits import ISO_8601
from prirec.data.schema import RESERVED
from prirec.device.visits import Visit
from prirec.errors import DataError, PrirecError, UsageError
from prirec.features.told import Value

OWN = ("poi", "time", "label", "id")  # what has a meaning; every other column describes the moment
LABELS = {"1": 1, "0": -1, "-1": -1, "": 1}
_ISO = re.compile(ISO_8601.replace("(?<", "(?P<"))


class Told(NamedTuple):
    visits: list[Visit]
    labelled: bool  # whether the file says what was ignored, too


def read_visits(path: Path) -> Told:
    """DataError for a file that is not what it should be."""
    header, lines = _lines(path)
    kinds = {name: _kind([cells[name] for _, cells in lines]) for name in header if name not in OWN}
    return Told([_visit(path, line, cells, kinds) for line, cells in lines], "label" in header)


def wall_clock(text: str) -> int:
    """Seconds since 1970 on the local wall clock, from whole seconds or ISO 8601: an offset from UTC is dropped, as it
    is from visits of a data folder. UsageError, without the text, if it is neither."""
    told = text.strip()
    if re.fullmatch(r"-?[0-9]{1,12}", told):
        return int(told)
    found = _ISO.match(told)
    if found is not None:
        clock = f"{found['minute'] or '00:00'}{found['second'] or ':00'}"
        try:
            return int(datetime.fromisoformat(f"{found['date']}T{clock}").replace(tzinfo=UTC).timestamp())
        except ValueError:
            pass
    raise UsageError("a time is a local date and time such as 2024-05-04T19:30, or whole seconds since 1970")


def value_of(text: str) -> Value:
    """A number if it is one, words if there is a | between them, else a word; a word in double quotes stays one."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    if "|" in text:
        return _words(text)
    number = _number(text)
    return text if number is None else number


def _lines(path: Path) -> tuple[Sequence[str], list[tuple[int, Mapping[str, str]]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = _checked(path, reader.fieldnames or ())
            found: list[tuple[int, Mapping[str, str]]] = []
            for cells in reader:
                if None in cells or None in cells.values():
                    raise DataError("has not as many cells as the first line", file=path, line=reader.line_num)
                found.append((reader.line_num, {name: cell.strip() for name, cell in cells.items()}))
    except FileNotFoundError:
        raise UsageError(f"there is no file {path.name}") from None
    except (csv.Error, UnicodeDecodeError):
        raise DataError("is not CSV in UTF-8", file=path) from None
    return header, found


def _checked(path: Path, header: Sequence[str]) -> Sequence[str]:
    if "poi" not in header:
        raise DataError("is missing; the first line names the columns", file=path, line=1, column="poi")
    if len(set(header)) < len(header) or "" in header:
        raise DataError("every column has a name of its own", file=path, line=1)
    for column in header:
        if column in RESERVED["visits"] and column not in OWN:
            problem = "does not belong here: these are one person's visits, and places have their coordinates elsewhere"
            raise DataError(problem, file=path, line=1, column=column)
    return header


def _visit(path: Path, line: int, cells: Mapping[str, str], kinds: Mapping[str, bool]) -> Visit:
    label = cells.get("label", "1")
    if label not in LABELS:
        raise DataError("a label is 1 (visited) or 0 (shown and ignored)", file=path, line=line, column="label")
    moment = {name: _value(cells[name], number=number) for name, number in kinds.items() if cells[name]}
    try:
        time = wall_clock(cells["time"]) if cells.get("time") else None
    except UsageError as error:
        raise DataError(str(error), file=path, line=line, column="time") from None
    try:
        return Visit(cells["poi"], time, LABELS[label], moment, cells.get("id") or None).checked()
    except PrirecError as error:
        raise DataError(str(error), file=path, line=line) from None


def _kind(cells: Iterable[str]) -> bool:
    """Whether a column is of numbers: all that is there are."""
    return all(_number(cell) is not None for cell in cells if cell)


def _value(cell: str, *, number: bool) -> Value:
    return float(cell) if number else _words(cell)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in (part.strip() for part in text.split("|")) if word)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
