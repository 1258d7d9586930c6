"""The person's own data on their own device: profile, home and visits, with export, erasure and import from CSV.

None of it leaves the device through this file: what a recommender gets is computed by device/rounds.py and goes masked,
with noise, into sums. Errors name a file, line or column and never repeat a value, since messages end up in logs.
"""

import csv
import re
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from prirec.data.folder import EARLIEST, ISO_8601, LATEST
from prirec.data.schema import RESERVED, Schema, roles_of
from prirec.data.sources import existing, refuse_oversized
from prirec.data.tables import check_header
from prirec.device.store import (
    DAMAGED,
    OF_DEPLOYMENT,
    OF_PERSON,
    Membership,
    Store,
    VisitContribution,
    burn_unsent,
    load_document,
    load_membership,
    load_visit_contribution,
    save_membership,
)
from prirec.errors import DataError, PrirecError, StateError, UsageError
from prirec.features.encoding import AnyBlock, ColumnBlock, Range, Value, Words, rows_to_columns
from prirec.protocols.party import Stage
from prirec.util.decode_errors import NOT_DECODED

Point: TypeAlias = tuple[float, float]  # latitude, longitude in degrees
GivenValue: TypeAlias = float | str | Sequence[str]  # what callers may pass; `Value` is what is stored


@dataclass(frozen=True, slots=True, repr=False)
class Visit:
    """A place, a local time, and whether it was visited (+1) or shown and ignored (-1). Its repr shows nothing."""

    place: str
    time: int | None = None  # seconds since 1970 on the local wall clock
    label: int = 1
    context: Mapping[str, Value] = field(default_factory=dict)
    id: str | None = None  # None: made from place and time, so that a visit recorded twice is stored once

    def checked(self) -> "Visit":
        """This visit, validated and with an id. DataError or UsageError, without any value in the text."""
        place, time = checked_name(self.place, what="the id of a place"), checked_time(self.time)
        if self.label not in (1, -1) or isinstance(self.label, bool):
            raise DataError("a label is 1 (visited or wanted) or -1 (shown and ignored)", column="label")
        context = checked_values(self.context, what="the name of a visit's column", reserved=RESERVED["visits"])
        if self.id is None:
            name = blake2b(f"{time}\0{place}".encode(), digest_size=16, person=b"prirec visit").hexdigest()
        else:
            name = checked_name(self.id, what="the id of a visit")
        return Visit(place, time, int(self.label), context, name)


class Person:
    """Reads and writes the person's rows in the device's file. Everything is validated before anything is written.

    Rows that must change together with a round are written by the functions of device/store.py, inside that round's
    transaction."""

    def __init__(self, store: Store) -> None:
        self.store = store

    # --- profile and home

    def profile(self) -> dict[str, Value]:
        """The person's private features by column name."""
        with self.store.reading() as rows:
            return _profile(rows)

    def set_profile(self, values: Mapping[str, GivenValue | None]) -> None:
        """Set these columns and leave the others; None deletes one."""
        gone = [checked_name(name, what="a name") for name, value in values.items() if value is None]
        new = checked_values(
            {name: value for name, value in values.items() if value is not None},
            what="the name of a person's column",
            reserved=RESERVED["users"],
        )
        with self.store.transaction() as rows:
            rows.executemany("DELETE FROM profile WHERE name = ?", ((name,) for name in gone))
            rows.executemany(
                "INSERT OR REPLACE INTO profile VALUES (?, ?)", ((name, to_json(one)) for name, one in new.items())
            )

    def home(self) -> Point | None:
        """The home that the person gave. Without one, features use the middle of the visits (device/records.py)."""
        with self.store.reading() as rows:
            found: Point | None = rows.execute("SELECT lat, lon FROM home").fetchone()
            return found

    def set_home(self, home: Point | None) -> None:
        point = None if home is None else checked_point(*home)
        with self.store.transaction() as rows:
            rows.execute("DELETE FROM home")
            if point is not None:
                rows.execute("INSERT INTO home VALUES (1, ?, ?)", point)

    # --- visits

    def record_visit(
        self, place: str, *, time: int | None = None, label: int = 1,
        context: Mapping[str, GivenValue] | None = None, id: str | None = None,  # noqa: A002
    ) -> bool:  # fmt: skip
        """Store a visit; False if it was stored before."""
        given = cast("Mapping[str, Value]", context or {})  # validated when it is saved
        return self.record_visits([Visit(place, time, label, given, id)]) == 1

    def record_visits(self, visits: Iterable[Visit]) -> int:
        """Store all of these or none, durably; returns how many are new."""
        found = list(visits)  # before the transaction: a slow iterator must not hold the write lock
        with self.store.transaction() as rows:
            return sum(_save_visit(rows, visit) for visit in found)

    def visits(self) -> tuple[Visit, ...]:
        """Ordered by time, then by arrival: the order in which records are learnt from."""
        with self.store.reading() as rows:
            return load_visits(rows)

    def remove_visit(self, id: str) -> bool:  # noqa: A002
        """Delete a visit; False if there is none. It is in no recommendation from then on; what was added to sums that
        are open stays in them."""
        with self.store.transaction() as rows:
            return rows.execute("DELETE FROM visits WHERE id = ?", (checked_name(id, what="a name"),)).rowcount == 1

    def labelled(self) -> bool:
        """Whether ignored suggestions are recorded too. Where they are not, the device draws negatives of its own.

        As set by `set_labelled`; otherwise, whether there is such a record."""
        with self.store.reading() as rows:
            declared = rows.execute("SELECT so FROM labelled").fetchone()
            ignored = rows.execute("SELECT EXISTS (SELECT 1 FROM visits WHERE label < 0)").fetchone()
            return bool((declared or ignored)[0])

    def set_labelled(self, *, labelled: bool) -> None:
        """For an app that shows places and records which of them were ignored: say so once."""
        with self.store.transaction() as rows:
            rows.execute("INSERT OR REPLACE INTO labelled VALUES (1, ?)", (bool(labelled),))

    # --- the deployment, and what the device has from it

    def membership(self) -> Membership | None:
        with self.store.reading() as rows:
            return load_membership(rows)

    def require_membership(self) -> Membership:
        """StateError for a device that belongs to no deployment."""
        if (membership := self.membership()) is None:
            raise StateError("this device belongs to no deployment yet; prirec device init joins one, and Device.join")
        return membership

    def join(self, membership: Membership) -> None:
        """Store the deployment that the device joins. StateError if it belongs to one already."""
        checked_name(membership.url, what="the address of a recommender")
        if membership.title:
            checked_name(membership.title, what="the title of a deployment")
        with self.store.transaction() as rows:
            save_membership(rows, membership)

    def leave(self) -> None:
        """Delete everything of the deployment, including masked vectors that were not sent; personal data stay."""
        with self.store.transaction() as rows:
            _empty(rows, OF_DEPLOYMENT)

    def visit_contribution(self, campaign: bytes) -> VisitContribution:
        """What this device added to a campaign's sum of visits."""
        with self.store.reading() as rows:
            return load_visit_contribution(rows, campaign)

    def document(self, name: bytes) -> bytes | None:
        with self.store.reading() as rows:
            return load_document(rows, name)

    # --- all of it

    def export(self) -> dict[str, Any]:
        """Everything stored about the person, ready for JSON, for their own eyes.

        Without secret keys, with which somebody else could act as this device, and without public documents."""
        with self.store.reading() as rows:
            return _export(rows)

    def forget(self) -> None:
        """Erase all personal data and the deployment's, backups included.

        Ledger and journal stay: nothing spent is refunded, and no round can be entered a second time."""
        with self.store.transaction() as rows:
            _empty(rows, OF_DEPLOYMENT + OF_PERSON)
        self.store.delete_backups()


def load_visits(rows: sqlite3.Connection) -> tuple[Visit, ...]:
    found = rows.execute("SELECT place, time, label, context, id FROM visits ORDER BY time, number")
    return tuple(Visit(place, time, label, context_from(data), name) for place, time, label, data, name in found)


def _save_visit(rows: sqlite3.Connection, visit: Visit) -> bool:
    """Store a visit, and say whether it is new. UsageError if its id belongs to a different visit."""
    one = visit.checked()
    held = rows.execute("SELECT place, time, label, context FROM visits WHERE id = ?", (one.id,)).fetchone()
    new = (one.place, one.time, one.label, to_json(dict(sorted(one.context.items()))))
    if held is None:
        rows.execute("INSERT INTO visits (id, place, time, label, context) VALUES (?, ?, ?, ?, ?)", (one.id, *new))
    elif held != new:
        # never overwritten: two visits under one id are an app's mistake more often than a correction
        raise UsageError("that id, or that place and time, stands for another visit; remove it first, or give an id")
    return held is None


def _profile(rows: sqlite3.Connection) -> dict[str, Value]:
    return {name: value_from(data) for name, data in rows.execute("SELECT name, value FROM profile ORDER BY name")}


def _empty(rows: sqlite3.Connection, tables: Iterable[str]) -> None:
    for table in tables:
        rows.execute(f"DELETE FROM {table}")  # noqa: S608
    burn_unsent(rows)  # a masked vector is computed from what was just erased


def _export(rows: sqlite3.Connection) -> dict[str, Any]:
    home = rows.execute("SELECT lat, lon FROM home").fetchone()
    labelled = rows.execute("SELECT so FROM labelled").fetchone()
    budget = rows.execute("SELECT epsilon, delta, period_days FROM budget").fetchone()
    floor = rows.execute("SELECT devices FROM own_floor").fetchone()
    campaigns = rows.execute("SELECT DISTINCT campaign FROM given ORDER BY campaign")
    member = load_membership(rows)
    return {
        "profile": _profile(rows),
        "home": None if home is None else list(home),
        "visits": [
            {"id": one.id, "place": one.place, "time": one.time, "label": one.label, "context": dict(one.context)}
            for one in load_visits(rows)
        ],
        "labelled": None if labelled is None else bool(labelled[0]),
        "membership": None if member is None else {
            "deployment": member.deployment.hex(),
            "url": member.url,
            "title": member.title,
            "name": member.name.hex(),
            "cell": f"{member.cell:x}" if member.cell else None,
            "enrolled": member.enrolled,
        },
        "regions": [cell.hex() for (cell,) in rows.execute("SELECT cell FROM regions ORDER BY cell")],
        "visits_in_sums": [_export_contribution(rows, campaign) for (campaign,) in campaigns.fetchall()],
        "budget": None
        if budget is None
        else dict(zip(("epsilon_per_user", "delta", "period_days"), budget, strict=True)),
        "floor": None if floor is None else floor[0],
        "zeros": _dicts(rows, ("kind", "number", "attempt", "why"), "zeros ORDER BY rowid"),
        "spent": _dicts(rows, ("kind", "number", "attempt", "what", "day"), "spending ORDER BY rowid"),
        "rounds": [
            {**one, "stage": Stage(one["stage"]).name.lower()}
            for one in _dicts(
                rows, ("kind", "number", "attempt", "cohort", "stage"), "rounds ORDER BY kind, number"
            )
        ],
    }  # fmt: skip


def _export_contribution(rows: sqlite3.Connection, campaign: bytes) -> dict[str, Any]:
    given = load_visit_contribution(rows, campaign)
    return {"campaign": campaign.hex(), "places": given.entries.tolist(), "whole": given.whole.tolist()}


def _dicts(rows: sqlite3.Connection, columns: Sequence[str], source: str) -> list[dict[str, Any]]:
    found = rows.execute(f"SELECT {', '.join(columns)} FROM {source}")  # noqa: S608
    return [dict(zip(columns, row, strict=True)) for row in found]


# --- Visits from a CSV file: the columns of a data folder's visits, without the person ------------------------------
# The whole file is validated before anything of it is stored.

ROLES, ID = ("poi", "time", "label"), "id"  # columns with a meaning; every other one describes the moment
LABELS = {"1": 1, "0": -1, "-1": -1, "": 1}
_ISO = re.compile(ISO_8601.replace("(?<", "(?P<"))


class VisitsFile(NamedTuple):
    visits: list[Visit]
    labelled: bool  # whether the file has a column that says what was ignored


def read_visits(path: Path) -> VisitsFile:
    """All visits of a CSV file. Columns have the names that those of a data folder may have, such as venue_id or
    timestamp. DataError for a file that is not as it should be."""
    header, lines = _read_csv(path)
    roles = _roles(path, header)
    # a column is numeric if all its filled cells are numbers: one odd cell makes all of them words
    numeric = {
        name: all(_number(cells[name]) is not None for _, cells in lines if cells[name])
        for name in header
        if name not in (*roles.values(), ID)
    }
    return VisitsFile([_visit(path, line, cells, roles, numeric) for line, cells in lines], "label" in roles)


def parse_local_time(text: str) -> int:
    """Seconds since 1970 on the local wall clock, from whole seconds or ISO 8601. UsageError without the text.

    An offset from UTC is dropped, as it is from the visits of a data folder."""
    time = text.strip()
    if re.fullmatch(r"-?[0-9]{1,12}", time):
        return int(time)
    found = _ISO.match(time)
    if found is not None:
        clock = f"{found['minute'] or '00:00'}{found['second'] or ':00'}"
        try:
            return int(datetime.fromisoformat(f"{found['date']}T{clock}").replace(tzinfo=UTC).timestamp())
        except ValueError:
            pass
    raise UsageError("a time is a local date and time such as 2024-05-04T19:30, or whole seconds since 1970")


def parse_value(text: str) -> Value:
    """A number if it is one, a list of words if it has a |, else one word; double quotes force a word."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    if "|" in text:
        return _words(text)
    number = _number(text)
    return text if number is None else number


def _read_csv(path: Path) -> tuple[Sequence[str], list[tuple[int, Mapping[str, str]]]]:
    """The header, and each line's number and cells."""
    if existing(path) is None:
        raise UsageError(f"there is no file {path.name}")
    refuse_oversized(path)
    check_header("visits", path, needed=ROLES[:1])
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            header = reader.fieldnames or ()
            found: list[tuple[int, Mapping[str, str]]] = []
            for cells in reader:
                if None in cells or None in cells.values():
                    raise DataError("has not as many cells as the first line", file=path, line=reader.line_num)
                found.append((reader.line_num, {name: cell.strip() for name, cell in cells.items()}))
    except (csv.Error, UnicodeDecodeError):
        raise DataError("is not CSV in UTF-8", file=path) from None
    return header, found


def _roles(path: Path, header: Sequence[str]) -> Mapping[str, str]:
    """The columns that hold place, time and label, by these words."""
    found = roles_of("visits", [name for name in header if name != ID], Schema())  # a folder's visits have no ids
    for column, doubt in found.asked.items():
        raise DataError(f"{doubt}; leave the column out, or rename it", file=path, line=1, column=column)
    for role, column in found.taken.items():
        if role not in ROLES:
            problem = "does not belong here: these are one person's visits, and no more; leave the column out"
            raise DataError(problem, file=path, line=1, column=column)
    if "poi" not in found.taken:
        problem = "no column holds places; call one of them poi, or venue_id, place_id and the like"
        raise DataError(problem, file=path, line=1)
    return found.taken


def _visit(
    path: Path, line: int, cells: Mapping[str, str], roles: Mapping[str, str], numeric: Mapping[str, bool]
) -> Visit:
    place, time, label = (cells[roles[role]] if role in roles else "" for role in ROLES)
    if label not in LABELS:
        problem = "a label is 1 (visited) or 0 (shown and ignored)"
        raise DataError(problem, file=path, line=line, column=roles["label"])
    context = {
        name: float(cells[name]) if is_so else _words(cells[name]) for name, is_so in numeric.items() if cells[name]
    }
    try:
        when = parse_local_time(time) if time else None
    except UsageError as error:
        raise DataError(str(error), file=path, line=line, column=roles["time"]) from None
    try:
        return Visit(place, when, LABELS[label], context, cells.get(ID) or None).checked()
    except PrirecError as error:
        raise DataError(str(error), file=path, line=line) from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in (part.strip() for part in text.split("|")) if word)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


# --- Values that describe a person or a visit: numbers, words, lists of words; their validation and JSON -------------

Decoded = TypeVar("Decoded")

MOST_VALUES, MOST_WORDS = 1000, 1000  # far above any encoding: a bug in an app must not fill the file
_LONGEST = 500  # characters of a name or a word
_SHOWN = 20  # declared words that an error lists

_values: msgspec.json.Decoder[Value] = msgspec.json.Decoder(Value)
_contexts: msgspec.json.Decoder[dict[str, Value]] = msgspec.json.Decoder(dict[str, Value])


def checked_name(name: object, *, what: str, reserved: Sequence[str] = ()) -> str:
    """The name of a column, or an id. UsageError, without the name, for one that is empty, too long or reserved."""
    if not isinstance(name, str) or not _is_text(name):
        raise UsageError(f"{what} is 1 to {_LONGEST} characters of text, not blank")
    if name in reserved:
        raise UsageError(f"{what} is none of {', '.join(reserved)}: these have a meaning of their own")
    return name


def checked_value(value: Any, *, column: str) -> Value:
    """A finite number, a word, or a list of words without repetitions."""
    if isinstance(value, str):
        return _checked_word(value, column)
    if isinstance(value, int | float):
        if not abs(value) <= sys.float_info.max:  # false for NaN as well; a whole number may be beyond all floats
            raise DataError("a number must be finite; leave out what is not known", column=column)
        return float(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        if len(value) > MOST_WORDS:
            raise DataError(f"a list has at most {MOST_WORDS} words", column=column)
        return tuple(dict.fromkeys(_checked_word(word, column) for word in value))
    raise DataError("give a number, a word or a list of words", column=column)


def checked_values(values: Mapping[str, Any], *, what: str, reserved: Sequence[str]) -> dict[str, Value]:
    if not isinstance(values, Mapping) or len(values) > MOST_VALUES:
        raise UsageError(f"there are at most {MOST_VALUES} values, each with its name")
    names = [checked_name(name, what=what, reserved=reserved) for name in values]
    return {name: checked_value(values[name], column=name) for name in names}


def refuse_unfit(blocks: Sequence[AnyBlock], rows: Sequence[Mapping[str, Value]]) -> None:
    """DataError, without the value, for what the features of a deployment have no place for: a name that is none of
    them, a word for a number or the reverse, a word or number that is not among the declared ones."""
    used = {block.column: block for block in blocks if isinstance(block, ColumnBlock)}
    for name in {name for row in rows for name in row} - used.keys():
        others = f"; it uses {', '.join(used)}" if used else ""
        raise DataError(f"is none of the features that this deployment uses{others}", column=name)
    rows_to_columns(blocks, rows)  # of the right kind
    for block in used.values():
        given = [row[block.column] for row in rows if block.column in row]
        if isinstance(block, Words) and not set(block.words).issuperset(_each_word(given)):
            shown = ", ".join(block.words[:_SHOWN]) + (" and others" if len(block.words) > _SHOWN else "")
            raise DataError(f"a word is not among those that the deployment declares: {shown}", column=block.column)
        if isinstance(block, Range) and not all(block.low <= cast("float", one) <= block.high for one in given):
            raise DataError(f"a number from {block.low:g} to {block.high:g} belongs here", column=block.column)


def why_unfit(blocks: Sequence[AnyBlock], values: Mapping[str, Value]) -> dict[str, str]:
    """Of these values, those that the features of a deployment have no place for, and why, without the value."""
    found = {}
    for name, value in values.items():
        try:
            refuse_unfit(blocks, [{name: value}])
        except DataError as problem:
            found[name] = str(problem).removeprefix(f"column '{name}': ")
    return found


def fitting(blocks: Sequence[AnyBlock], rows: Sequence[Mapping[str, Value]]) -> Sequence[Mapping[str, Value]]:
    """These rows without the values that `refuse_unfit` would refuse: they were recorded before the device had this
    catalogue, and count as unknown."""
    with suppress(DataError):
        refuse_unfit(blocks, rows)
        return rows
    used = {block.column: block for block in blocks if isinstance(block, ColumnBlock)}
    fit: dict[tuple[str, Value], bool] = {}
    for name, value in {(name, value) for row in rows for name, value in row.items() if name in used}:
        fit[name, value] = not why_unfit([used[name]], {name: value})
    return [{name: value for name, value in row.items() if fit.get((name, value))} for row in rows]


def _each_word(values: Iterable[Value]) -> Iterator[str]:
    for value in values:
        yield from (value,) if isinstance(value, str) else cast("tuple[str, ...]", value)


def checked_time(time: object) -> int | None:
    """Seconds since 1970 on the local wall clock, or None."""
    if time is None:
        return None
    if not isinstance(time, int) or isinstance(time, bool) or not EARLIEST <= time <= LATEST:
        raise DataError("a time is whole seconds since 1970, within the years 1 to 9999", column="time")
    return time


def checked_point(lat: object, lon: object) -> Point:
    """Latitude and longitude in degrees."""
    for value, most, column in ((lat, 90, "lat"), (lon, 180, "lon")):
        if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= most:
            raise DataError(f"give degrees from -{most} to {most}, latitude first, then longitude", column=column)
    return float(lat), float(lon)  # type: ignore[arg-type]  # checked in the loop


def to_json(value: Value | Mapping[str, Value]) -> bytes:
    return msgspec.json.encode(value)


def value_from(data: bytes) -> Value:
    return _decoded(_values, data)


def context_from(data: bytes) -> dict[str, Value]:
    return _decoded(_contexts, data)


def _decoded(decoder: msgspec.json.Decoder[Decoded], data: bytes) -> Decoded:
    try:
        return decoder.decode(data)
    except NOT_DECODED:  # its text may quote the value
        raise StateError(f"the device's file {DAMAGED}") from None


def _checked_word(word: object, column: str) -> str:
    if not isinstance(word, str) or not _is_text(word):
        raise DataError(f"a word is 1 to {_LONGEST} characters of text, not blank", column=column)
    return word


def _is_text(text: str) -> bool:
    """Unicode that can be encoded: half a surrogate pair would end in an error of UTF-8 that quotes the whole text."""
    return 0 < len(text) <= _LONGEST and bool(text.strip()) and not any("\ud800" <= one <= "\udfff" for one in text)
