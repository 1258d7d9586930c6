"""One private SQLite file, opened with care and changed in whole transactions.

Rollback journal (DELETE) with synchronous=EXTRA, not a write-ahead log. A device writes a few rows a round, so the
log's speed buys nothing; without it the file stands alone and whole whenever no write is under way, and a copy of it
is a copy of everything. A commit is then the removal of the rollback journal. FULL leaves that removal to the system:
after a loss of power the journal can come back and undo a commit that was acknowledged. EXTRA is FULL with the folder
synced as well.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Self, TypeAlias

from prirec.errors import StateError, UsageError

APPLICATION = 0x50524543  # "PREC" in the header of the file
WAIT = 30.0  # seconds that a second writer waits for the first
PRAGMAS = ("synchronous=EXTRA", "fullfsync=ON", "secure_delete=ON", "trusted_schema=OFF", "cell_size_check=ON")

Migrations: TypeAlias = Sequence[Sequence[str]]  # the statements that lead from version 0, 1, ... to the next

DAMAGED = (
    "is damaged; move it away and enrol this device anew. Do not put an older copy in its place: "
    "with that, this device could take part in a round twice"
)
FOREIGN = "is not a file of PriRec's; name another one, or move it away"
CLOSED_OFF = "cannot be opened for writing; look at the folder and at who may write there"
TROUBLE = {
    sqlite3.SQLITE_FULL: "does not fit on the disk any more; nothing was written. Make room and try again",
    sqlite3.SQLITE_BUSY: "is being written by another process; nothing was written. Try again when that is done",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: FOREIGN,
    sqlite3.SQLITE_READONLY: CLOSED_OFF,
    sqlite3.SQLITE_CANTOPEN: CLOSED_OFF,
}


class Database:
    """A file that is ours, of the version that this program knows, and sound as far as SQLite can tell."""

    def __init__(self, path: Path, connection: sqlite3.Connection):
        self._path, self._connection = path, connection

    @classmethod
    def open(cls, path: Path, *, migrations: Migrations) -> Self:
        """Made if it is missing, brought up to date if it is older; StateError if it is anything else than ours."""
        with _explained(path):
            _create(path)
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

    def close(self) -> None:
        self._connection.close()

    def _bring_up(self, migrations: Migrations) -> None:
        with self.transaction() as rows:  # of two processes that find no file, one makes the tables
            version = _version(rows, self._path, newest=len(migrations))
            if 0 < version < len(migrations):
                _back_up(self._path, self._path.with_name(f"{self._path.name}.version-{version}"))
            for statement in (one for migration in migrations[version:] for one in migration):
                rows.execute(statement)
            if version < len(migrations):
                rows.execute(f"PRAGMA application_id={APPLICATION}")
                rows.execute(f"PRAGMA user_version={len(migrations)}")
        self._connection.execute("PRAGMA journal_mode=DELETE")


def _version(rows: sqlite3.Connection, path: Path, *, newest: int) -> int:
    """The version of the file's tables, 0 if there are none yet."""
    application, version, tables = (
        rows.execute(query).fetchone()[0]
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    new = (application, version, tables) == (0, 0, 0)
    if application != APPLICATION and not new:
        raise StateError(f"{path.name} {FOREIGN}")
    if version > newest:
        raise StateError(
            f"{path.name} has version {version}, this program knows {newest}; it is left as it is: get a newer program"
        )
    if (version < 1 and not new) or rows.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise StateError(f"{path.name} {DAMAGED}")
    return int(version)


def _back_up(path: Path, backup: Path) -> None:
    """A whole copy, in place only when it is durable. One from an earlier try holds no more than the present one."""
    part = backup.with_name(f"{backup.name}.part")
    part.unlink(missing_ok=True)
    _create(part)
    with closing(_connect(path)) as source, closing(_connect(part)) as copy:  # a connection cannot copy while it writes
        source.backup(copy)
    part.replace(backup)
    _sync(backup.parent)


def _connect(path: Path) -> sqlite3.Connection:
    """Never makes a file: that would be one which others may read."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, timeout=WAIT, isolation_level=None)
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    return connection


def _create(path: Path) -> None:
    """An empty file for its owner alone, unless there is one."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        _sync(path.parent)


def _sync(folder: Path) -> None:
    """Makes a name in a folder durable, where the system lets a folder be opened."""
    with suppress(PermissionError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's errors in words that say what to do. Their own texts can quote what is in a row, so they are dropped."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise UsageError(f"{path.name} is closed, or was opened by another thread; open it where it is used") from None
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        trouble = TROUBLE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF)
        raise StateError(f"{path.name} {trouble or f'could not be used ({name}); nothing was written'}") from None
    except OSError as error:
        raise StateError(
            f"{path.name} could not be made ({error.strerror}); name a folder that can be written"
        ) from None
