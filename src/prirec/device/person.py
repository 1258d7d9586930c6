"""A person's visits on their own device. Each has an id, so that one that is told twice is kept once."""

import csv
import re
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple, cast

from prirec.data.folder import ISO_8601
from prirec.data.schema import RESERVED
from prirec.device.store import (
    OF_DEPLOYMENT,
    OF_PERSON,
    LinearModel,
    Membership,
    Store,
    VisitContribution,
    burn_unsent,
    load_document,
    load_membership,
    load_model,
    load_visit_contribution,
    save_membership,
)
from prirec.device.values import (
    Given,
    checked_name,
    checked_point,
    checked_time,
    checked_values,
    context_from,
    to_json,
    value_from,
)
from prirec.errors import DataError, PrirecError, UsageError
from prirec.features.encoding import Value
from prirec.protocols.actions import Stage

_LABELS = (1, -1)


@dataclass(frozen=True, slots=True, repr=False)
class Visit:
    """Where, when (local wall clock), whether it was wanted (+1) or shown and ignored (-1). Nothing of it prints."""

    place: str
    time: int | None = None
    label: int = 1
    context: Mapping[str, Value] = field(default_factory=dict)
    id: str | None = None  # none: place and time are what tell visits apart

    def checked(self) -> "Visit":
        """The same, put straight. DataError or UsageError, with nothing of it in the text, if it is no visit."""
        place = checked_name(self.place, what="the id of a place")
        time = checked_time(self.time)
        if self.label not in _LABELS or isinstance(self.label, bool):
            raise DataError("a label is 1 (visited or wanted) or -1 (shown and ignored)", column="label")
        context = checked_values(self.context, what="the name of a visit's column", reserved=RESERVED["visits"])
        told = default_visit_id(place, time) if self.id is None else checked_name(self.id, what="the id of a visit")
        return Visit(place, time, int(self.label), context, told)


def default_visit_id(place: str, time: int | None) -> str:
    """The id of a visit that was given none."""
    return blake2b(f"{time}\0{place}".encode(), digest_size=16, person=b"prirec visit").hexdigest()


def save_visit(rows: sqlite3.Connection, visit: Visit) -> bool:
    """Whether it is new. UsageError if its id stands for another visit."""
    one = visit.checked()
    held = rows.execute("SELECT place, time, label, context FROM visits WHERE id = ?", (one.id,)).fetchone()
    new = (one.place, one.time, one.label, to_json(dict(sorted(one.context.items()))))
    if held is None:
        rows.execute("INSERT INTO visits (id, place, time, label, context) VALUES (?, ?, ?, ?, ?)", (one.id, *new))
    elif held != new:
        raise UsageError("that id, or that place and time, stands for another visit; remove it first, or give an id")
    return held is None


def load_visits(rows: sqlite3.Connection) -> tuple[Visit, ...]:
    """By time, then as they came: the order in which records are learnt from."""
    found = rows.execute("SELECT place, time, label, context, id FROM visits ORDER BY time, number")
    return tuple(Visit(place, time, label, context_from(data), told) for place, time, label, data, told in found)


# All that a device's file holds on its person, for that person to read or to take elsewhere.


def exported(rows: sqlite3.Connection) -> dict[str, Any]:
    """Ready for JSON. Secrets are left out: with them somebody else could take part as this device. So are public
    documents."""
    home = rows.execute("SELECT lat, lon FROM home").fetchone()
    labelled = rows.execute("SELECT so FROM labelled").fetchone()
    return {
        "profile": {name: value_from(data) for name, data in rows.execute("SELECT * FROM profile ORDER BY name")},
        "home": None if home is None else list(home),
        "visits": [
            {"id": one.id, "place": one.place, "time": one.time, "label": one.label, "context": dict(one.context)}
            for one in load_visits(rows)
        ],
        "labelled": None if labelled is None else bool(labelled[0]),
        "membership": _membership(rows),
        "regions": [cell.hex() for (cell,) in rows.execute("SELECT cell FROM regions ORDER BY cell")],
        "models": [_model(rows, campaign) for campaign in _campaigns(rows)],
        "budget": _budget(rows),
        "spent": [
            {"kind": kind, "number": number, "attempt": attempt, "what": what, "day": day}
            for kind, number, attempt, what, day in rows.execute(
                "SELECT kind, number, attempt, what, day FROM spending ORDER BY rowid"
            )
        ],
        "rounds": [
            {"kind": kind, "number": number, "attempt": attempt, "cohort": cohort, "stage": Stage(stage).name.lower()}
            for kind, number, attempt, cohort, stage in rows.execute(
                "SELECT kind, number, attempt, cohort, stage FROM rounds ORDER BY kind, number"
            )
        ],
    }


def _membership(rows: sqlite3.Connection) -> dict[str, Any] | None:
    held = load_membership(rows)
    if held is None:
        return None
    return {
        "deployment": held.deployment.hex(),
        "url": held.url,
        "title": held.title,
        "name": held.name.hex(),
        "cell": f"{held.cell:x}" if held.cell else None,
        "enrolled": held.enrolled,
    }


def _budget(rows: sqlite3.Connection) -> dict[str, Any] | None:
    row = rows.execute("SELECT epsilon, delta, period_days FROM budget").fetchone()
    names = ("epsilon_per_user", "delta", "period_days")
    return None if row is None else dict(zip(names, row, strict=True))


def _campaigns(rows: sqlite3.Connection) -> list[bytes]:
    found = rows.execute("SELECT campaign FROM models UNION SELECT campaign FROM given ORDER BY campaign")
    return [campaign for (campaign,) in found.fetchall()]


def _model(rows: sqlite3.Connection, campaign: bytes) -> dict[str, Any]:
    kept, given = load_model(rows, campaign), load_visit_contribution(rows, campaign)
    return {
        "campaign": campaign.hex(),
        "rounds": 0 if kept is None else kept.iteration,
        "linear": [] if kept is None else kept.linear.tolist(),
        "given": {"places": given.places.tolist(), "whole": given.whole.tolist()},
    }


# A person's own data on their own device: what describes them, where they live, where they were. None of it leaves.
#
# What a recommender ever gets is computed from it by device/rounds.py, and goes masked and noisy into sums.


Point = tuple[float, float]  # latitude, longitude in degrees


class Person:
    """Over the device's file. What is refused is refused before anything is written, in words that repeat none of it.

    What must be true together with a round joins that round's transaction, through functions of its rows: models.py,
    membership.py, shelf.py."""

    def __init__(self, store: Store) -> None:
        self.store = store

    # what describes the person

    def profile(self) -> dict[str, Value]:
        with self.store.reading() as rows:
            return {
                name: value_from(data) for name, data in rows.execute("SELECT name, value FROM profile ORDER BY name")
            }

    def set_profile(self, values: Mapping[str, Given | None]) -> None:
        """Sets these and leaves the others; what is None is forgotten."""
        gone = [_name(name) for name, value in values.items() if value is None]
        kept = checked_values(
            {name: value for name, value in values.items() if value is not None},
            what="the name of a person's column",
            reserved=RESERVED["users"],
        )
        with self.store.transaction() as rows:
            rows.executemany("DELETE FROM profile WHERE name = ?", ((name,) for name in gone))
            rows.executemany(
                "INSERT OR REPLACE INTO profile VALUES (?, ?)", ((name, to_json(one)) for name, one in kept.items())
            )

    def home(self) -> Point | None:
        """Where the person said to live; the device works it out from visits where nothing was said."""
        with self.store.reading() as rows:
            found: Point | None = rows.execute("SELECT lat, lon FROM home").fetchone()
            return found

    def set_home(self, home: Point | None) -> None:
        point = None if home is None else checked_point(*home)
        with self.store.transaction() as rows:
            rows.execute("DELETE FROM home")
            if point is not None:
                rows.execute("INSERT INTO home VALUES (1, ?, ?)", point)

    # visits

    def record_visit(
        self, place: str, *, time: int | None = None, label: int = 1,
        context: Mapping[str, Given] | None = None, id: str | None = None,  # noqa: A002
    ) -> bool:  # fmt: skip
        """Whether it is new: the same visit told again is the same visit."""
        told = cast("Mapping[str, Value]", context or {})  # looked at when it is saved
        return self.record_visits([Visit(place, time, label, told, id)]) == 1

    def record_visits(self, visits: Iterable[Visit]) -> int:
        """All of them or none, durable when this returns; how many are new."""
        told = list(visits)  # whatever they come from is not waited for while others are locked out
        with self.store.transaction() as rows:
            return sum(save_visit(rows, visit) for visit in told)

    def visits(self) -> tuple[Visit, ...]:
        """By time, then as they came."""
        with self.store.reading() as rows:
            return load_visits(rows)

    def labelled(self) -> bool:
        """Whether visits tell what was ignored, too. Where they do not, the device draws negatives of its own. As it
        was said; where nothing was said, whether there is such a visit."""
        with self.store.reading() as rows:
            said = rows.execute("SELECT so FROM labelled").fetchone()
            shown = rows.execute("SELECT EXISTS (SELECT 1 FROM visits WHERE label < 0)").fetchone()
            return bool((said or shown)[0])

    def set_labelled(self, *, so: bool) -> None:
        """Said once by whoever records the visits: an app that shows places and knows which of them were ignored."""
        with self.store.transaction() as rows:
            rows.execute("INSERT OR REPLACE INTO labelled VALUES (1, ?)", (bool(so),))

    def remove_visit(self, id: str) -> bool:  # noqa: A002
        """Whether there was one. What was learnt from it stays in the model until the next campaign begins anew."""
        with self.store.transaction() as rows:
            return rows.execute("DELETE FROM visits WHERE id = ?", (_name(id),)).rowcount == 1

    # where the device belongs, and what it has from there

    def membership(self) -> Membership | None:
        with self.store.reading() as rows:
            return load_membership(rows)

    def join(self, membership: Membership) -> None:
        """StateError if the device belongs somewhere already."""
        with self.store.transaction() as rows:
            save_membership(rows, membership)

    def leave(self) -> None:
        """The device is nobody there any more, and what it had from there is gone, vectors that it masked for a sum
        there included; the person's own data stay."""
        with self.store.transaction() as rows:
            _empty(rows, OF_DEPLOYMENT)
            burn_unsent(rows)

    def model(self, campaign: bytes) -> LinearModel | None:
        with self.store.reading() as rows:
            return load_model(rows, campaign)

    def given(self, campaign: bytes) -> VisitContribution:
        """What this device added to a campaign's sum of visits."""
        with self.store.reading() as rows:
            return load_visit_contribution(rows, campaign)

    def document(self, name: bytes) -> bytes | None:
        with self.store.reading() as rows:
            return load_document(rows, name)

    # all of it

    def export(self) -> dict[str, Any]:
        """Everything that the file holds on the person, ready for JSON, for the person's eyes; no secret key."""
        with self.store.reading() as rows:
            return exported(rows)

    def forget(self) -> None:
        """Erases all of it, copies of older versions included. What was spent is not refunded, and rounds that were
        entered stay entered: ledger and journal are kept."""
        with self.store.transaction() as rows:
            _empty(rows, OF_DEPLOYMENT + OF_PERSON)
            burn_unsent(rows)
        self.store.erase_copies()


def _empty(rows: sqlite3.Connection, tables: Iterable[str]) -> None:
    for table in tables:
        rows.execute(f"DELETE FROM {table}")  # noqa: S608


def _name(name: object) -> str:
    return checked_name(name, what="a name")


# A person's own visits from a CSV file: the columns of a data folder's visits, without the person.
#
# Errors name file, line and column, never what is there. The whole file is looked at before anything of it is kept.


OWN = ("poi", "time", "label", "id")  # what has a meaning; every other column describes the moment
LABELS = {"1": 1, "0": -1, "-1": -1, "": 1}
_ISO = re.compile(ISO_8601.replace("(?<", "(?P<"))


class VisitsFile(NamedTuple):
    visits: list[Visit]
    labelled: bool  # whether the file says what was ignored, too


def read_visits(path: Path) -> VisitsFile:
    """DataError for a file that is not what it should be."""
    header, lines = _lines(path)
    kinds = {name: _kind([cells[name] for _, cells in lines]) for name in header if name not in OWN}
    return VisitsFile([_visit(path, line, cells, kinds) for line, cells in lines], "label" in header)


def parse_local_time(text: str) -> int:
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


def parse_value(text: str) -> Value:
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
        time = parse_local_time(cells["time"]) if cells.get("time") else None
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
