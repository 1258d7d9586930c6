"""Who conducts, how far it has come, and numbers that are given once, as rows."""

from dataclasses import dataclass
from typing import Final

from prirec.errors import StateError
from prirec.recommender.database import Rows

ANYTHING: Final = b"anything"  # that the progress may have been before


@dataclass(frozen=True, slots=True)
class Counts:
    """How much there is of everything, for whoever looks after the service."""

    people: int
    documents: int
    entries: int
    rounds: int  # ever entered
    open_rounds: int
    messages: int  # handed in, of rounds that are open
    letters: int  # that have not arrived


class LeaseLostError(StateError):
    """Another worker conducts now. Whoever hears this gives up its rounds: they were burnt."""

    def __init__(self) -> None:
        super().__init__("another worker conducts the rounds now; nothing was written")


class OvertakenError(StateError):
    """The campaign is not where whoever writes believed it to be."""

    def __init__(self) -> None:
        super().__init__("another worker has gone on with the campaign; what was begun here is given up")


def numbers(rows: Rows, counter: str, *, many: int) -> int:
    """The first of so many new numbers: never given before, and higher than all that anybody can have seen."""
    row = rows.one("SELECT value FROM counters WHERE name = ?", counter)
    if row is None:
        raise StateError("the store has lost its counters; put back a whole copy")
    rows.change("UPDATE counters SET value = value + ? WHERE name = ?", many, counter)
    return int(row[0]) + 1


def note(rows: Rows, progress: bytes) -> None:
    """How far the conductor has come, in its own words."""
    query = "INSERT INTO progress (one, body) VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET body = excluded.body"
    rows.change(query, progress)
    numbers(rows, "progress", many=1)


def expect(rows: Rows, before: bytes | None) -> None:
    """OvertakenError if the progress is another."""
    if before is not ANYTHING and progress(rows) != before:
        raise OvertakenError


def progress(rows: Rows) -> bytes | None:
    row = rows.one("SELECT body FROM progress")
    return None if row is None else row[0]


def progress_since(rows: Rows, changes: int) -> tuple[int, bytes | None]:
    """In one statement: the body is the one that was there after so many changes."""
    row = rows.one(
        "SELECT counters.value, progress.body FROM counters LEFT JOIN progress ON counters.value <> ?"
        " WHERE counters.name = 'progress'",
        changes,
    )
    return (changes, None) if row is None else (int(row[0]), row[1])


def counts(rows: Rows) -> Counts:
    tables = ("people", "documents", "log", "rounds", "rounds WHERE stage < 5", "inbox", "mail")
    row = rows.one("SELECT " + ", ".join(f"(SELECT count(*) FROM {table})" for table in tables))  # noqa: S608
    return Counts(*row or ())


def lease(rows: Rows, holder: bytes, seconds: float) -> bool:
    """Takes or renews; by the clock of the database, so that machines need not agree on the time. One that lasts longer
    than anybody asks for was taken before the clock was set back, and binds nobody."""
    return bool(
        rows.change(
            f"INSERT INTO lease (one, holder, until) VALUES (1, ?, {rows.clock} + ?)"  # noqa: S608
            " ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, until = excluded.until"
            f" WHERE lease.holder = excluded.holder OR lease.until <= {rows.clock}"
            f" OR lease.until > {rows.clock} + ?",
            holder, float(seconds), 2.0 * seconds,
        )
    )  # fmt: skip


def release(rows: Rows, holder: bytes) -> None:
    rows.change("DELETE FROM lease WHERE holder = ?", holder)


def fence(rows: Rows, holder: bytes | None) -> None:
    """LeaseLostError where somebody else has taken the lease since, however long ago it ran out."""
    if holder is not None and rows.one("SELECT 1 FROM lease WHERE holder = ?", holder) is None:
        raise LeaseLostError
