"""The recommender's store in one SQLite file, for one machine.

A write-ahead log with synchronous=FULL: readers go on while one writes, and a commit is in the log and synced before
anybody is told. What is deleted is overwritten in the file at once (secure_delete) and leaves the log when that is cut
off after a round (`tidy`).
"""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from time import monotonic, sleep

from prirec import sqlite
from prirec.errors import StateError, UsageError
from prirec.recommender.database import Migrations, Row, inserting

APPLICATION = 0x50525352  # "PRSR" in the header of the file
WAIT = 30.0  # seconds that a writer waits for one in another process
OLDEST = (3, 37, 0)  # which knows STRICT tables
PRAGMAS = (
    "synchronous=FULL",
    "fullfsync=ON",
    "secure_delete=ON",
    "trusted_schema=OFF",
    "cell_size_check=ON",
    "wal_autocheckpoint=16000",  # pages, as much as is kept below: the log is cut off after a round, not in its middle
    "journal_size_limit=67108864",
)
TYPES = {"bytes": "BLOB", "text": "TEXT", "whole": "INTEGER", "real": "REAL", "table": "STRICT"}
DAMAGED = (
    "is damaged; move it away. A copy may be put back only if nothing was written to the log since: devices refuse a "
    "log that is shorter than the one they know. Otherwise found the deployment anew"
)


class SqliteRows:
    """A connection that is used by one thread at a time, whichever."""

    clock = "((julianday('now') - 2440587.5) * 86400.0)"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def one(self, statement: str, *values: object) -> Row | None:
        row: Row | None = self._connection.execute(statement, values).fetchone()
        return row

    def all(self, statement: str, *values: object) -> list[Row]:
        return self._connection.execute(statement, values).fetchall()

    def change(self, statement: str, *values: object) -> int:
        return self._connection.execute(statement, values).rowcount

    def change_each(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        self._connection.executemany(statement, values)

    def insert(self, into: str, values: Sequence[Sequence[object]], conflict: str = "") -> None:
        for statement, some in inserting(into, values, conflict):
            self.change(statement, *some)

    def sound(self) -> bool:
        return not self._connection.in_transaction

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def undo(self) -> None:
        self._connection.rollback()

    def tidy(self) -> None:
        """Cuts off the log, unless somebody is using it: then the next one does."""
        self._connection.execute("PRAGMA busy_timeout=0")
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout={int(WAIT * 1000)}")

    def close(self) -> None:
        self._connection.close()

    def version(self, path: Path, *, newest: int) -> int:
        return sqlite.version(self._connection, path, application=APPLICATION, newest=newest, damaged=DAMAGED)

    def keep_a_log(self) -> None:
        """From now on the file is written ahead; of two processes that ask for it at once, one has to ask again."""
        until = monotonic() + WAIT
        while True:
            with suppress(sqlite3.OperationalError):
                if self._connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal":
                    return
            if monotonic() > until:
                raise StateError("this file cannot have a write-ahead log; keep it on a disk of this machine")
            sleep(0.01)


class Sqlite:
    """One file, and beside it the two of its log while it is open."""

    def __init__(self, path: Path) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise UsageError(f"SQLite {sqlite3.sqlite_version} is too old; a Python with 3.37 or newer is needed")
        self.path = path
        with self.explained():
            sqlite.create(path)

    def connect(self) -> SqliteRows:
        return SqliteRows(connected(self.path))

    def bring_up(self, rows: SqliteRows, migrations: Migrations) -> None:
        """An older file is copied first, to `<name>.version-<number>` beside it."""
        rows.begin()  # of two processes that find no file, one makes the tables
        try:
            version = rows.version(self.path, newest=len(migrations))
            if 0 < version < len(migrations):
                backup = self.path.with_name(f"{self.path.name}.version-{version}")
                sqlite.back_up(self.path, backup, connected=connected)
            for statement in (one for migration in migrations[version:] for one in migration):
                rows.change(statement.format_map(TYPES))
            if version < len(migrations):
                rows.change(f"PRAGMA application_id={APPLICATION}")
                rows.change(f"PRAGMA user_version={len(migrations)}")
            rows.commit()
        except BaseException:
            rows.undo()
            raise
        rows.keep_a_log()

    def explained(self) -> AbstractContextManager[None]:
        return sqlite.explained(self.path, damaged=DAMAGED)


def connected(path: Path) -> sqlite3.Connection:
    return sqlite.connect(path, pragmas=PRAGMAS, wait=WAIT, any_thread=True)
