"""What a device must not forget: the journal of its rounds, written before use (the rules: protocols/journal.py).

Correct: every write reads what is held, asks the rules and writes the answer inside one transaction that locks others
out, and returns when that is durable. So a crash at any moment leaves the journal as it was before a write or after
it, and what a caller was told of is after it; two processes that share the file are as one after the other.

A limit: that an older copy of the file was put back, or the file removed, cannot be seen from the file. The
recommender's round numbers catch part of it: those that it has closed it does not open again.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from prirec.device.database import Database, Migrations
from prirec.device.tables import PERSON, WITHOUT_ANSWERS
from prirec.errors import StateError
from prirec.protocols import journal
from prirec.protocols.actions import Persist, Stage
from prirec.protocols.journal import ConflictError, Entry, Verdict
from prirec.protocols.messages import Round

MIGRATIONS: Migrations = (
    (
        """
        CREATE TABLE rounds (
            deployment BLOB    NOT NULL CHECK (typeof(deployment) = 'blob'),
            kind       TEXT    NOT NULL CHECK (typeof(kind) = 'text'),
            number     INTEGER NOT NULL CHECK (typeof(number) = 'integer'),
            cohort     INTEGER NOT NULL CHECK (typeof(cohort) = 'integer'),
            attempt    INTEGER NOT NULL CHECK (typeof(attempt) = 'integer'),
            stage      INTEGER NOT NULL CHECK (stage IN (1, 2, 3, 4, 5, 6)),
            digest     BLOB    NOT NULL CHECK (typeof(digest) = 'blob'),
            payload    BLOB    NOT NULL CHECK (typeof(payload) = 'blob'),
            masked     INTEGER NOT NULL CHECK (masked IN (0, 1)),
            PRIMARY KEY (deployment, kind, number)
        )
        """,
    ),
    (
        """
        CREATE TABLE spending (
            deployment BLOB    NOT NULL CHECK (typeof(deployment) = 'blob'),
            kind       TEXT    NOT NULL CHECK (typeof(kind) = 'text'),
            number     INTEGER NOT NULL CHECK (typeof(number) = 'integer'),
            attempt    INTEGER NOT NULL CHECK (typeof(attempt) = 'integer'),
            what       TEXT    NOT NULL CHECK (typeof(what) = 'text'),
            unit       TEXT    NOT NULL CHECK (unit IN ('bit', 'value', 'event', 'user-day', 'user')),
            day        INTEGER NOT NULL CHECK (typeof(day) = 'integer'),
            grains     INTEGER NOT NULL CHECK (typeof(grains) = 'integer' AND grains >= 0),
            epsilon    REAL    NOT NULL CHECK (typeof(epsilon) = 'real' AND epsilon >= 0),
            delta      REAL    NOT NULL CHECK (typeof(delta) = 'real' AND delta BETWEEN 0 AND 1),
            adjacency  TEXT    NOT NULL CHECK (adjacency IN ('a contribution or none', 'a contribution or any other')),
            PRIMARY KEY (deployment, kind, number, attempt)
        )
        """,
        # nothing is refunded
        "CREATE TRIGGER spent_is_spent BEFORE DELETE ON spending BEGIN SELECT RAISE(ABORT, 'spent'); END",
        "CREATE TRIGGER paid_is_paid BEFORE UPDATE ON spending BEGIN SELECT RAISE(ABORT, 'paid'); END",
    ),
    PERSON,
    (),  # version 4 had tables for local answers, which the next step removes from files that have them
    WITHOUT_ANSWERS,
)


class Store:
    """A device's memory in one file. Whoever drives a party hands it each `Persist` before doing what follows.

    The ledger (device/ledger.py), or whatever else must be true together with the journal, joins in one `transaction`
    through functions of its rows, as `settle` does.
    """

    def __init__(self, database: Database):
        self._database = database

    @classmethod
    def open(cls, path: Path, *, migrations: Migrations = MIGRATIONS) -> Self:
        """Opens the file, or makes it, for its owner alone. Damaged, newer or not ours: StateError, and left alone.

        An older one is brought up to date, after a copy of it was put beside it as `<name>.version-<number>`."""
        return cls(Database.open(path, migrations=migrations))

    def write(self, persist: Persist) -> Entry:
        """What is held once this is on disk. StateError where the rules refuse it; a conflict burns the round first."""
        with self.transaction() as rows:
            return settle(rows, persist)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing, durable when it is left. After a conflict: nothing of it, but the round burnt."""
        try:
            with self._database.transaction() as rows:
                yield rows
        except ConflictError as conflict:
            with self._database.transaction() as rows, suppress(StateError):  # one that is over is not burnt any more
                settle(rows, Persist(conflict.round, Stage.BURNT, bytes(32)))
            raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The rows as they are, to look at only."""
        with self._database.reading() as rows:
            yield rows

    def entry(self, of: Round) -> Entry | None:
        """What is held for the number of this round, if need be from another attempt: the entry's own round tells."""
        with self.reading() as rows:
            return _held(rows, of)

    def last(self, deployment: bytes, kind: str) -> int | None:
        """The highest number that this device has entered."""
        with self.reading() as rows:
            return _last(rows, deployment, kind)

    def resend(self, of: Round) -> bytes | None:
        """The masked vector of this very round, bit for bit, while its survivors are not settled."""
        held = self.entry(of)
        return held.payload or None if held is not None and held.round == of else None

    def alone(self) -> AbstractContextManager[None]:
        """As long as this lasts no other process can have the same: for whoever answers letters on this file."""
        return self._database.alone()

    def erase_copies(self) -> None:
        """Removes the copies of older versions that stand beside the file."""
        self._database.erase_copies()

    def pending(self) -> list[bytes]:
        """Every masked vector that may still be sent again, bit for bit."""
        with self.reading() as rows:
            found = rows.execute("SELECT payload FROM rounds WHERE stage = ? AND payload != x''", (Stage.MASKED,))
            return [bytes(payload) for (payload,) in found]

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def settle(rows: sqlite3.Connection, wanted: Persist) -> Entry:
    """Writes what the rules admit, inside a transaction that others may have joined."""
    held, last = _held(rows, wanted.round), _last(rows, wanted.round.deployment, wanted.round.kind)
    if journal.admit(wanted, held=held, last=last) is Verdict.KNOWN and held is not None:
        return held
    new = journal.entry(wanted, held=held)
    of = new.round
    rows.execute(
        "INSERT OR REPLACE INTO rounds VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (of.deployment, of.kind, of.number, of.group, of.attempt, new.stage, new.digest, new.payload, new.masked),
    )
    return new


def give_up(rows: sqlite3.Connection) -> None:
    """Burns every round in which a masked vector could still be sent, and the vector with it: the device leaves."""
    rows.execute("UPDATE rounds SET stage = ?, payload = x'' WHERE payload != x''", (Stage.BURNT,))


def _held(rows: sqlite3.Connection, of: Round) -> Entry | None:
    row = rows.execute(
        "SELECT cohort, attempt, stage, digest, payload, masked FROM rounds"
        " WHERE deployment = ? AND kind = ? AND number = ?",
        (of.deployment, of.kind, of.number),
    ).fetchone()
    if row is None:
        return None
    group, attempt, stage, digest, payload, masked = row
    return Entry(Round(of.deployment, of.kind, of.number, group, attempt), Stage(stage), digest, payload, bool(masked))


def _last(rows: sqlite3.Connection, deployment: bytes, kind: str) -> int | None:
    found = rows.execute("SELECT max(number) FROM rounds WHERE deployment = ? AND kind = ?", (deployment, kind))
    number: int | None = found.fetchone()[0]
    return number
