"""One private SQLite file, opened with care and changed in whole transactions.

Rollback journal (DELETE) with synchronous=EXTRA, not a write-ahead log. A device writes a few rows a round, so the
log's speed buys nothing; without it the file stands alone and whole whenever no write is under way, and a copy of it
is a copy of everything. A commit is then the removal of the rollback journal. FULL leaves that removal to the system:
after a loss of power the journal can come back and undo a commit that was acknowledged. EXTRA is FULL with the folder
synced as well.
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
PRAGMAS = ("synchronous=EXTRA", "fullfsync=ON", "secure_delete=ON", "trusted_schema=OFF", "cell_size_check=ON")

Migrations: TypeAlias = Sequence[Sequence[str]]  # the statements that lead from version 0, 1, ... to the next

DAMAGED = (
    "is damaged; move it away and enrol this device anew. Do not put an older copy in its place: "
    "with that, this device could take part in a round twice"
)


class Database:
    """A file that is ours, of the version that this program knows, and sound as far as SQLite can tell."""

    def __init__(self, path: Path, connection: sqlite3.Connection):
        self._path, self._connection = path, connection

    @classmethod
    def open(cls, path: Path, *, migrations: Migrations) -> Self:
        """Made if it is missing, brought up to date if it is older; StateError if it is anything else than ours."""
        with _explained(path):
            sqlite.create(path)
            database = cls(path, _connect(path))
            try:
                database._bring_up(migrations)
            except BaseException:
                database.close()
                raise
        return database

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """What is done to the rows in here is durable, all of it, once this is left; after an error none of it is."""
        with _explained(self._path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.rollback()
                raise

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with _explained(self._path):
            yield self._connection

    def erase_copies(self) -> None:
        """Removes the copies that were made before migrations: they still hold what was erased here since."""
        folder, began = self._path.absolute().parent, f"{self._path.name}.version-"
        try:
            for file in [one for one in folder.iterdir() if one.name.startswith(began)]:
                file.unlink(missing_ok=True)
            sqlite.sync(folder)
        except OSError as error:
            raise StateError(
                f"an older copy of {self._path.name} could not be removed ({error.strerror}); remove it by hand"
            ) from None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """StateError while another has this. A lock of its own beside the file, which writers do not wait for, and
        which goes with its process, however that ends."""
        beside = self._path.with_name(f"{self._path.name}.agent")
        with _explained(self._path):
            sqlite.create(beside)
            lock = sqlite3.connect(beside, timeout=0.0, isolation_level=None)
        try:
            with _explained(beside):
                try:
                    lock.execute("BEGIN EXCLUSIVE")
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                        raise
                    raise StateError(f"another agent is at work on {self._path.name}; stop that one first") from None
            yield
        finally:
            lock.close()

    def close(self) -> None:
        self._connection.close()

    def _bring_up(self, migrations: Migrations) -> None:
        with self.transaction() as rows:  # of two processes that find no file, one makes the tables
            version = sqlite.version(
                rows, self._path, application=APPLICATION, newest=len(migrations), damaged=DAMAGED
            )  # fmt: skip
            if 0 < version < len(migrations):
                backup = self._path.with_name(f"{self._path.name}.version-{version}")
                sqlite.back_up(self._path, backup, connected=_connect)
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
