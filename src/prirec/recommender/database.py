"""The recommender's database: a SQLite file, or PostgreSQL by URL, behind one text of SQL.

Whatever the database, writers are as one after the other: a transaction begins by locking other writers out, in this
process and in all others, and returns when what it wrote is durable. So whatever a transaction reads stays true until
it is over, and numbers that are handed out in one are in the order in which readers come to see them. Readers wait for
nobody. What differs between the two databases is in database_sqlite.py and database_postgres.py, and nowhere else.
"""

import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore, Lock
from time import monotonic, sleep
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

from prirec.errors import StateError, UsageError
from prirec.util import sqlite

Migrations: TypeAlias = Sequence[Sequence[str]]  # the statements that lead from version 0, 1, ... to the next
Row: TypeAlias = tuple[Any, ...]

MOST_ROWS = 64  # that one statement inserts
CONNECTIONS = 6  # at most, of one process: one writes, the others read


class Rows(Protocol):
    """A connection, as the store's functions see it. A "?" in a statement stands for a value."""

    clock: str  # an expression for the seconds since 1970, by the clock of the database

    def one(self, statement: str, *values: object) -> Row | None:
        """The first row."""

    def all(self, statement: str, *values: object) -> list[Row]: ...

    def change(self, statement: str, *values: object) -> int:
        """How many rows it changed."""

    def change_each(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        """The same statement for each of many rows of values."""

    def insert(self, into: str, values: Sequence[Sequence[object]], conflict: str = "") -> None:
        """Rows of values into a table's columns, many with one statement: where other threads are busy, each statement
        waits for its turn."""

    def sound(self) -> bool:
        """Whether a connection that was laid aside can be used again."""

    def begin(self) -> None:
        """Opens a transaction, and locks other writers out."""

    def commit(self) -> None: ...

    def undo(self) -> None: ...

    def tidy(self) -> None:
        """Where the database can: what was deleted is overwritten on the disk."""

    def close(self) -> None: ...


def inserting(into: str, values: Sequence[Sequence[object]], conflict: str) -> Iterator[tuple[str, list[object]]]:
    """Statements with their values. Each is for a power of two of rows: so there are few, and each is prepared once."""
    first = 0
    while left := len(values) - first:
        some = values[first : first + min(MOST_ROWS, 1 << (left.bit_length() - 1))]
        marks = f"({', '.join('?' * len(some[0]))})"
        statement = f"INSERT INTO {into} VALUES {', '.join([marks] * len(some))} {conflict}"  # noqa: S608
        yield statement, [value for row in some for value in row]
        first += len(some)


R = TypeVar("R", bound=Rows)


class Backend(Protocol, Generic[R]):
    """A kind of database."""

    def connect(self) -> R: ...

    def bring_up(self, rows: R, migrations: Migrations) -> None:
        """Makes the tables, or brings them up to date. StateError if they are newer, damaged or not ours."""

    def explained(self) -> AbstractContextManager[None]:
        """The database's errors as ours. Their own texts can quote what is in a row, so they are dropped."""


class Database:
    """Open, and of the version that this program knows. Any thread may use it."""

    def __init__(self, backend: Backend[Any], *, most: int = CONNECTIONS) -> None:
        self._backend, self._idle, self._closed = backend, deque[Rows](), False
        self._free, self._writing = BoundedSemaphore(most), Lock()

    @classmethod
    def open(cls, url: str | Path, *, migrations: Migrations) -> Self:
        """A path, "sqlite:///path" or "postgresql://...": made if it is missing, brought up to date if it is older."""
        backend = _backend(url)
        database = cls(backend)
        try:
            with database._connection() as rows:
                backend.bring_up(rows, migrations)
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def transaction(self) -> Iterator[Rows]:
        """What is done to the rows in here is durable, all of it, once this is left; after an error none of it is."""
        with self._writing, self._connection() as rows:  # who waits for a writer holds no connection meanwhile
            rows.begin()
            try:
                yield rows
                rows.commit()
            except BaseException:
                rows.undo()
                raise

    @contextmanager
    def reading(self) -> Iterator[Rows]:
        """The rows as they are. Each statement sees all that was durable when it began."""
        with self._connection() as rows:
            yield rows

    def tidy(self) -> None:
        """After deletions of what must not be kept."""
        with self._writing, self._connection() as rows:
            rows.tidy()

    def close(self) -> None:
        """Connections that are in use close when they are laid aside."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    @contextmanager
    def _connection(self) -> Iterator[Rows]:
        if self._closed:
            raise UsageError("this store is closed; open it again to use it")
        with self._free, self._backend.explained():
            rows = self._taken() or self._backend.connect()
            try:
                yield rows
            finally:
                self._lay_aside(rows)

    def _taken(self) -> Rows | None:
        """The connection that was used last: its statements are prepared and its pages at hand."""
        while True:
            try:
                rows = self._idle.pop()
            except IndexError:
                return None
            if rows.sound():
                return rows
            rows.close()

    def _lay_aside(self, rows: Rows) -> None:
        """What was done with it is done: whether it can be used again is no error of whoever did that."""
        sound = False
        with suppress(Exception):
            sound = not self._closed and rows.sound()
        if sound:
            self._idle.append(rows)
        else:
            rows.close()


def sqlite_path(url: str | Path) -> Path | None:
    """The file of a store that is one."""
    scheme, mark, rest = str(url).partition("://")
    if not mark or isinstance(url, Path):
        return Path(url)
    return Path(rest.removeprefix("/")) if scheme == "sqlite" else None


def _backend(url: str | Path) -> Backend[Any]:
    if (file := sqlite_path(url)) is not None:
        return _sqlite(file)
    if not str(url).startswith(("postgresql://", "postgres://")):
        raise UsageError("a store is a file, sqlite:///a-file or postgresql://user@host/database")
    return _postgres(str(url))


def _sqlite(path: Path) -> Backend[Any]:
    pass

    return Sqlite(path)


def _postgres(url: str) -> Backend[Any]:
    try:
        from prirec.recommender.postgres import Postgres  # slow to import, and not needed for a file
    except ImportError:
        raise UsageError("PostgreSQL needs psycopg; install it with: pip install 'prirec[recommender]'") from None
    return Postgres(url)


# The recommender's store in one SQLite file, for one machine.
#
# A write-ahead log with synchronous=FULL: readers go on while one writes, and a commit is in the log and synced before
# anybody is told. What is deleted is overwritten in the file at once (secure_delete) and leaves the log when that is
# cut off after a round (`tidy`).


APPLICATION = 0x50525352  # "PRSR" in the header of the file
SQLITE_WAIT = 30.0  # seconds that a writer waits for one in another process
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
SQLITE_TYPES = {"bytes": "BLOB", "text": "TEXT", "whole": "INTEGER", "real": "REAL", "table": "STRICT"}
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
            self._connection.execute(f"PRAGMA busy_timeout={int(SQLITE_WAIT * 1000)}")

    def close(self) -> None:
        self._connection.close()

    def version(self, path: Path, *, newest: int) -> int:
        return sqlite.version(self._connection, path, application=APPLICATION, newest=newest, damaged=DAMAGED)

    def keep_a_log(self) -> None:
        """From now on the file is written ahead; of two processes that ask for it at once, one has to ask again."""
        until = monotonic() + SQLITE_WAIT
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
        return SqliteRows(connect_sqlite(self.path))

    def bring_up(self, rows: SqliteRows, migrations: Migrations) -> None:
        """An older file is copied first, to `<name>.version-<number>` beside it."""
        rows.begin()  # of two processes that find no file, one makes the tables
        try:
            version = rows.version(self.path, newest=len(migrations))
            if 0 < version < len(migrations):
                backup = self.path.with_name(f"{self.path.name}.version-{version}")
                sqlite.back_up(self.path, backup, connected=connect_sqlite)
            for statement in (one for migration in migrations[version:] for one in migration):
                rows.change(statement.format_map(SQLITE_TYPES))
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


def connect_sqlite(path: Path) -> sqlite3.Connection:
    return sqlite.connect(path, pragmas=PRAGMAS, wait=SQLITE_WAIT, any_thread=True)


# A copy of a store that is one file, made while the service goes on.
#
# What waits to be delivered or heard is left out of it: boxes and shares are not kept after use, and a copy would keep
# them. Whoever starts from the copy burns the rounds that were open, so nobody will miss them.


def back_up(store: Path, target: Path) -> int:
    """Copies a store to a new file, for its owner alone; how long the log is in there.

    UsageError if there is such a file already. In place only when it is whole and durable."""
    if target.exists():
        raise UsageError(f"{target.name} is there already; name another file: a copy is not written over an older one")
    made = target.with_name(f"{target.name}.unsifted")
    with sqlite.explained(target, damaged=DAMAGED):
        try:
            sqlite.back_up(store, made, connected=connect_sqlite)
            entries = _sift(made)
            made.replace(target)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
        sqlite.sync(target.absolute().parent)
    return entries


def _sift(copy: Path) -> int:
    with closing(connect_sqlite(copy)) as rows:
        for table in ("mail", "inbox", "invited", "lease"):  # who conducts the original does not conduct the copy
            rows.execute(f"DELETE FROM {table}")  # noqa: S608
        rows.execute("PRAGMA journal_mode=DELETE")  # one file, and none beside it
        if rows.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise StateError(f"the store {DAMAGED}")
        entries: int = rows.execute("SELECT count(*) FROM log").fetchone()[0]
        return entries
