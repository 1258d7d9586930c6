"""SQLite files that are PriRec's own: made for their owner alone, recognised, copied before they change, and explained.

What is in them, and how they are locked and synced, is for each user of this module to say: device/store.py and
recommender/database.py.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from prirec.errors import PassingError, StateError, UsageError
from prirec.util.files import NO_ROOM, sync_folder

FOREIGN = "is not a file of PriRec's; name another one, or move it away"
NO_FILE = "is a folder, or no regular file; name a file"
CLOSED_OFF = "cannot be opened for writing; look at the folder and at who may write there"
TROUBLE = {
    sqlite3.SQLITE_FULL: NO_ROOM,
    sqlite3.SQLITE_IOERR: "cannot be read or written (SQLITE_IOERR): the disk is full, or fails; nothing was written",
    sqlite3.SQLITE_BUSY: "is being written by another process; nothing was written. Try again when that is done",
    sqlite3.SQLITE_NOTADB: FOREIGN,
    sqlite3.SQLITE_READONLY: CLOSED_OFF,
    sqlite3.SQLITE_CANTOPEN: CLOSED_OFF,
}
PASSING = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY)


def connect(path: Path, *, pragmas: Sequence[str], wait: float, any_thread: bool = False) -> sqlite3.Connection:
    """Never makes a file: that would be one which others may read. `wait` is in seconds, for another writer."""
    address = f"{path.absolute().as_uri()}?mode=rw"
    connection = sqlite3.connect(
        address, uri=True, timeout=wait, isolation_level=None, check_same_thread=not any_thread
    )  # fmt: skip
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}")
    return connection


def create(path: Path) -> None:
    """An empty file for its owner alone, unless there is one. StateError for a folder or a pipe."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        sync(path.parent)
    if path.exists() and not path.is_file():
        raise StateError(f"{path.name} {NO_FILE}")


# Stricter than for other files: an error of the disk must surface, only a folder that may not be opened is let pass.
sync = partial(sync_folder, ignored=PermissionError)


def version(rows: sqlite3.Connection, path: Path, *, application: int, newest: int, damaged: str) -> int:
    """The version of the file's tables, 0 if there are none yet. StateError if it is not ours, newer or not sound."""
    mark, found, tables = (
        rows.execute(query).fetchone()[0]
        for query in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
    )
    new = (mark, found, tables) == (0, 0, 0)
    if mark != application and not new:
        raise StateError(f"{path.name} {FOREIGN}")
    if found > newest:
        raise StateError(
            f"{path.name} has version {found}, this program knows {newest}; it is left as it is: get a newer program"
        )
    if (found < 1 and not new) or rows.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise StateError(f"{path.name} {damaged}")
    return int(found)


def migrate(
    rows: sqlite3.Connection, path: Path, migrations: Sequence[Sequence[str]], *, application: int, damaged: str,
    connected: Callable[[Path], sqlite3.Connection],
) -> None:  # fmt: skip
    """Brings the tables up to date, inside a transaction of the caller's. `migrations` holds the statements that lead
    from version 0, 1, ... to the next. An older file is copied first, to `<name>.version-<number>` beside it."""
    newest = len(migrations)
    found = version(rows, path, application=application, newest=newest, damaged=damaged)
    if 0 < found < newest:
        back_up(path, path.with_name(f"{path.name}.version-{found}"), connected=connected)
    for statement in (one for migration in migrations[found:] for one in migration):
        rows.execute(statement)
    if found < newest:
        rows.execute(f"PRAGMA application_id={application}")
        rows.execute(f"PRAGMA user_version={newest}")


def back_up(path: Path, backup: Path, *, connected: Callable[[Path], sqlite3.Connection]) -> None:
    """A whole copy, in place only when it is durable. One from an earlier try holds no more than the present one."""
    part = backup.with_name(f"{backup.name}.part")
    remove(part)
    try:
        create(part)  # for its owner alone before anything is in it
        with closing(connected(path)) as source, closing(connected(part)) as copy:  # none can copy while it writes
            source.backup(copy)
        part.replace(backup)
    except BaseException:
        remove(part)  # it may hold secret keys
        raise
    sync(backup.parent)


def remove(path: Path) -> None:
    """Deletes a file of SQLite's, with those that it keeps beside it."""
    for ending in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)


@contextmanager
def explained(path: Path, *, damaged: str) -> Iterator[None]:
    """SQLite's errors in words that say what to do. Their own texts can quote what is in a row, so they are dropped."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise UsageError(f"{path.name} is closed, or was opened by another thread; open it where it is used") from None
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        trouble = (TROUBLE | {sqlite3.SQLITE_CORRUPT: damaged}).get(code)
        kind = PassingError if code in PASSING else StateError
        raise kind(f"{path.name} {trouble or f'could not be used ({name}); nothing was written'}") from None
    except UnicodeDecodeError:  # SQLite quotes a damaged table of tables in its error
        raise StateError(f"{path.name} {damaged}") from None
    except OSError as error:
        raise StateError(
            f"{path.name} could not be made ({error.strerror}); name a folder that can be written"
        ) from None
