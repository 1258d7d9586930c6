"""A person's visits on their own device. Each has an id, so that one that is told twice is kept once."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from prirec.data.schema import RESERVED
from prirec.device.values import checked_name, checked_time, checked_values, context_from, to_json
from prirec.errors import DataError, UsageError
from prirec.features.told import Value

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
        told = usual_id(place, time) if self.id is None else checked_name(self.id, what="the id of a visit")
        return Visit(place, time, int(self.label), context, told)


def usual_id(place: str, time: int | None) -> str:
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


def held_visits(rows: sqlite3.Connection) -> tuple[Visit, ...]:
    """By time, then as they came: the order in which records are learnt from."""
    found = rows.execute("SELECT place, time, label, context, id FROM visits ORDER BY time, number")
    return tuple(Visit(place, time, label, context_from(data), told) for place, time, label, data, told in found)
