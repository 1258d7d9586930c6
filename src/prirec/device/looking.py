"""A device's ledger, looked at from outside: nothing is made, brought up to date or written.

Reading holds the file's shared lock while a query runs, some milliseconds; a device that commits then waits for it.
The header is read first, without SQLite: a foreign file in write-ahead mode would otherwise get two files beside it.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from prirec.device.database import APPLICATION, DAMAGED, FOREIGN, Database
from prirec.device.ledger import PaidStore
from prirec.device.store import MIGRATIONS, Store
from prirec.errors import StateError, UsageError
from prirec.privacy.ledger import Budget, Ledger

_WAIT = 5.0  # seconds for a device to finish what it writes
_MAGIC, _LEGACY, _HEADER = b"SQLite format 3\0", b"\1\1", 100
_TROUBLE = {
    sqlite3.SQLITE_BUSY: "is being written; try again in a moment",
    sqlite3.SQLITE_NOTADB: FOREIGN,
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; look at who may read it and its folder",
    sqlite3.SQLITE_READONLY: "was left in the middle of a write, and is put right when its device next opens it; "
    "look again then",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
}


def ledger_in(path: Path) -> Ledger:
    """All that this device was ever charged. StateError, and the file as it was, if it is missing or not such a one."""
    with _explained(path):
        _check_header(path)
        address = f"{path.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(address, uri=True, timeout=_WAIT, isolation_level=None)) as rows:
            rows.execute("PRAGMA trusted_schema=OFF")
            _check_version(rows, path)
            return PaidStore(Store(Database(path, rows)), Budget()).ledger()


def _check_header(path: Path) -> None:
    if not path.exists():
        raise StateError(f"there is no file {path.name}; name the file in which a device keeps its journal and ledger")
    if not path.is_file():
        raise StateError(f"{path.name} is not a file; name the file in which a device keeps its journal and ledger")
    with path.open("rb") as file:
        header = file.read(_HEADER)
    if not header:
        raise StateError(f"{path.name} is empty: no device has written to it yet")
    ours = header[:16] == _MAGIC and header[18:20] == _LEGACY and header[68:72] == APPLICATION.to_bytes(4, "big")
    if not ours:
        raise StateError(f"{path.name} {FOREIGN}")


def _check_version(rows: sqlite3.Connection, path: Path) -> None:
    version: int = rows.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise StateError(
            f"{path.name} has version {version}, this program knows {len(MIGRATIONS)}; get a newer program"
        )
    if version < 1 or rows.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
        raise StateError(f"{path.name} {DAMAGED}")
    if not rows.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'spending'").fetchone()[0]:
        raise StateError(
            f"{path.name} has version {version}, which had no ledger yet; its device adds one when it next opens it"
        )


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Errors in words that say what to do, without what SQLite may quote from a row."""
    try:
        yield
    except sqlite3.Error as error:
        trouble = _TROUBLE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, DAMAGED)
        raise StateError(f"{path.name} {trouble}") from None
    except (ValueError, UsageError):  # a row that no ledger would have written
        raise StateError(f"{path.name} {DAMAGED}") from None
    except OSError as error:
        raise StateError(f"{path.name} cannot be read: {error.strerror}") from None
