"""One private SQLite file: created for its owner only, migrated with a backup, changed in durable transactions.

Why a rollback journal (journal_mode=DELETE, synchronous=EXTRA) and no write-ahead log. A device writes a few rows a
round, so the speed of a log buys nothing; without one, the file is complete whenever no write is under way, and a copy
of it is a copy of everything. A commit is then the removal of the rollback journal. FULL leaves that removal to the
operating system: after a power failure the journal can reappear and undo an acknowledged commit, which here would be
an acknowledged charge. EXTRA is FULL with the folder synced as well.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Self, TypeAlias

from prirec.errors import StateError
from prirec.util import sqlite

APPLICATION = 0x50524543  # "PREC" in the header of the file
WAIT = 30.0  # seconds that a second writer waits for the first
# secure_delete: `forget` must leave nothing in free pages. trusted_schema: a schema in a foreign file runs no code.
PRAGMAS = ("synchronous=EXTRA", "fullfsync=ON", "secure_delete=ON", "trusted_schema=OFF", "cell_size_check=ON")

Migrations: TypeAlias = Sequence[Sequence[str]]  # the statements that lead from version 0, 1, ... to the next

DAMAGED = (
    "is damaged; move it away and enrol this device anew. Do not put an older copy in its place: "
    "with that, this device could take part in a round twice"
)


class Database:
    """A file of ours, of the version that this program knows, and sound as far as SQLite can tell."""

    def __init__(self, path: Path, connection: sqlite3.Connection):
        self.path, self._connection = path, connection

    @classmethod
    def open(cls, path: Path, *, migrations: Migrations) -> Self:
        """Created if missing, migrated if older. StateError, and the file untouched, if it is anything else."""
        with _explained(path):
            sqlite.create(path)
            database = cls(path, _connect(path))
            try:
                database._migrate(migrations)
            except BaseException:
                database.close()
                raise
        return database

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All changes inside are durable on exit; after an error none of them is."""
        with _explained(self.path):
            # IMMEDIATE takes the write lock before anything is read: nobody changes what a rule has just looked at
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The rows as they are, for SELECT only."""
        with _explained(self.path):
            yield self._connection

    @contextmanager
    def agent_lock(self) -> Iterator[None]:
        """Held by the one process that answers letters on this file; StateError while another holds it.

        A lock on a file of its own, so that writers do not wait for it; the system releases it when the process ends,
        however it ends."""
        beside = self.path.with_name(f"{self.path.name}.agent")
        with _explained(self.path):
            sqlite.create(beside)
            lock = sqlite3.connect(beside, timeout=0.0, isolation_level=None)
        try:
            with _explained(beside):
                try:
                    lock.execute("BEGIN EXCLUSIVE")
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                        raise
                    raise StateError(f"another agent is at work on {self.path.name}; stop that one first") from None
            yield
        finally:
            lock.close()

    def delete_backups(self) -> None:
        """Delete the backups that migrations made: they still hold what was erased here since."""
        folder, prefix = self.path.absolute().parent, f"{self.path.name}.version-"
        try:
            for file in [one for one in folder.iterdir() if one.name.startswith(prefix)]:
                file.unlink(missing_ok=True)
            sqlite.sync(folder)
        except OSError as error:
            raise StateError(
                f"an older copy of {self.path.name} could not be removed ({error.strerror}); remove it by hand"
            ) from None

    def close(self) -> None:
        self._connection.close()

    def _migrate(self, migrations: Migrations) -> None:
        # one transaction for all: of two processes that find no file, one creates the tables and the other sees them
        with Database.transaction(self) as rows:
            version = sqlite.version(
                rows, self.path, application=APPLICATION, newest=len(migrations), damaged=DAMAGED
            )  # fmt: skip
            if 0 < version < len(migrations):
                backup = self.path.with_name(f"{self.path.name}.version-{version}")
                sqlite.back_up(self.path, backup, connected=_connect)
            for statement in (one for migration in migrations[version:] for one in migration):
                rows.execute(statement)
            if version < len(migrations):
                rows.execute(f"PRAGMA application_id={APPLICATION}")
                rows.execute(f"PRAGMA user_version={len(migrations)}")
        self._connection.execute("PRAGMA journal_mode=DELETE")


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite.connect(path, pragmas=PRAGMAS, wait=WAIT)


def _explained(path: Path) -> AbstractContextManager[None]:
    return sqlite.explained(path, damaged=DAMAGED)
