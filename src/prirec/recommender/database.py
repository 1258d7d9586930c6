"""The recommender's database: a SQLite file, or PostgreSQL by URL (postgres.py), behind one text of SQL.

Writers run one after the other, whatever the database: a transaction begins by locking out other writers, in this
process and in all others, and returns when what it wrote is durable. So whatever a transaction reads stays true until
its end, and numbers given out in transactions rise in the order in which readers come to see them: a reader that has
seen number n has seen all numbers below. Readers wait for nobody.
"""

import sqlite3
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore, Lock
from time import monotonic, sleep
from typing import Any, Literal, Protocol, Self, TypeAlias

from prirec.errors import PassingError, StateError, UsageError
from prirec.util import sqlite

Migrations: TypeAlias = Sequence[Sequence[str]]  # the statements that lead from version 0, 1, ... to the next
Row: TypeAlias = tuple[Any, ...]

MOST_ROWS = 64  # that one statement inserts
CONNECTIONS = 6  # at most, of one process: one writes, the others read


class Connection(ABC):
    """A connection to either database. A "?" in a statement stands for a value. One thread uses it at a time."""

    clock: str  # SQL expression for the seconds since 1970, by the database's clock
    place: str  # SQL expression for where these tables are: another one once they were restored from a dump or snapshot
    product: str  # SQL expression for the database's name and version
    size: str  # SQL expression for the bytes that it takes

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def one(self, statement: str, *values: object) -> Row | None:
        """The first row."""
        row: Row | None = self._run(statement, values).fetchone()
        return row

    def all(self, statement: str, *values: object) -> list[Row]:
        rows: list[Row] = self._run(statement, values).fetchall()
        return rows

    def execute(self, statement: str, *values: object) -> int:
        """Run a statement; how many rows it changed."""
        return int(self._run(statement, values).rowcount)

    def insert(self, into: str, values: Sequence[Sequence[object]], conflict: str = "") -> None:
        """Insert rows, many with one statement: in a process with busy threads each statement waits for the GIL. Each
        statement inserts a power of two of rows: so there are few different ones, and each is prepared once."""
        first = 0
        while left := len(values) - first:
            some = values[first : first + min(MOST_ROWS, 1 << (left.bit_length() - 1))]
            marks = f"({', '.join('?' * len(some[0]))})"
            statement = f"INSERT INTO {into} VALUES {', '.join([marks] * len(some))} {conflict}"  # noqa: S608
            self.execute(statement, *(value for row in some for value in row))
            first += len(some)

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()

    def after_migration(self) -> None:
        """What an open database needs outside a transaction, once its tables are known to be this program's."""
        return

    def erase_deleted(self) -> None:
        """Overwrite deleted rows on the disk. PostgreSQL cannot: it overwrites them when it needs the space."""
        return

    @abstractmethod
    def execute_many(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        """Run a statement once for each row of values."""

    @abstractmethod
    def is_idle(self) -> bool:
        """Whether the connection is alive and in no transaction, so that it can be used again."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a transaction, and lock out other writers."""

    @abstractmethod
    def rollback(self) -> None: ...

    @abstractmethod
    def _run(self, statement: str, values: Sequence[object]) -> Any:
        """Run a statement, and return a cursor on its rows."""


def take_numbers(db: Connection, counter: str, *, many: int = 1) -> int:
    """In a transaction: the first of so many fresh numbers, higher than any that a reader can have seen."""
    db.execute("UPDATE counters SET value = value + ? WHERE name = ?", many, counter)
    row = db.one("SELECT value FROM counters WHERE name = ?", counter)
    if row is None:
        raise StateError("the store has lost its counters; put back a whole copy")
    return int(row[0]) - many + 1


class Backend(Protocol):
    """A kind of database."""

    def connect(self) -> Connection: ...

    def migrate(self, db: Any, migrations: Migrations) -> None:
        """Create the tables, or bring them up to date, inside a transaction. StateError if they are newer, damaged or
        not PriRec's."""

    def translated_errors(self) -> AbstractContextManager[None]:
        """Raise the database's errors as StateError. Their own texts are dropped: they can quote what is in a row."""


class Outage:
    """Whether the database can be used, as its users find out. `tell` is called with the error when an outage begins,
    and with None when it is over: once each, however many requests fail meanwhile."""

    def __init__(self) -> None:
        self.tell: Callable[[PassingError | None], None] = lambda problem: None
        self._began_with, self._lock = "", Lock()  # "reading" or "writing" while there is one

    @contextmanager
    def watch(self, doing: Literal["reading", "writing"]) -> Iterator[None]:
        try:
            yield
        except PassingError as problem:
            with self._lock:
                if not self._began_with:
                    self._began_with = doing
                    self.tell(problem)
            raise
        # On a full disk one can still read: only a write ends an outage that began with one.
        if self._began_with and doing in ("writing", self._began_with):
            with self._lock:
                if self._began_with:
                    self._began_with = ""
                    self.tell(None)


class Database:
    """A pool of connections to one database, whose tables are of this program's version. Any thread may use it."""

    def __init__(self, backend: Backend, *, most: int = CONNECTIONS) -> None:
        self._backend, self._idle, self._closed = backend, deque[Connection](), False
        self._free, self._writing, self.outage = BoundedSemaphore(most), Lock(), Outage()

    @classmethod
    def open(cls, url: str | Path, *, migrations: Migrations) -> Self:
        """A path, "sqlite:///path" or "postgresql://...": created if missing, migrated if older."""
        backend = _backend(url)
        database = cls(backend)
        try:
            with database.transaction() as db:  # of two processes that find no tables, one creates them
                backend.migrate(db, migrations)
            with database.reading() as db:
                db.after_migration()
        except BaseException:
            database.close()
            raise
        return database

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """All that is written in here is durable when this is left; after an error none of it is."""
        # A thread that waits to write holds no connection meanwhile.
        with self._writing, self.outage.watch("writing"), self._connection() as db:
            db.begin()
            try:
                yield db
                db.commit()
            except BaseException:
                db.rollback()
                raise

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection outside a transaction: each statement sees all that was durable when it began."""
        with self.outage.watch("reading"), self._connection() as db:
            yield db

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        if self._closed:
            raise UsageError("this store is closed; open it again to use it")
        with self._free, self._backend.translated_errors():
            db = self._take_idle() or self._backend.connect()
            try:
                yield db
            finally:
                self._put_back(db)

    def one(self, statement: str, *values: object) -> Row | None:
        with self.reading() as db:
            return db.one(statement, *values)

    def all(self, statement: str, *values: object) -> list[Row]:
        with self.reading() as db:
            return db.all(statement, *values)

    def usage(self) -> tuple[str, int]:
        """The database's name and version, and how many bytes it takes."""
        with self.reading() as db:
            product, size = db.one(f"SELECT {db.product}, {db.size}") or ("", 0)
        return str(product), int(size)

    @property
    def file(self) -> Path | None:
        """The database's file; None for PostgreSQL."""
        return self._backend.path if isinstance(self._backend, Sqlite) else None

    def erase_deleted(self) -> None:
        """Overwrite deleted rows on the disk, where the database can."""
        with self._writing, self.outage.watch("writing"), self._connection() as db:
            db.erase_deleted()

    def close(self) -> None:
        """Connections in use are closed when they are put back."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()

    def _take_idle(self) -> Connection | None:
        """The connection that was used last: its statements are prepared and its pages cached."""
        while True:
            try:
                db = self._idle.pop()
            except IndexError:
                return None
            if db.is_idle():
                return db
            db.close()

    def _put_back(self, db: Connection) -> None:
        # A connection that broke is no error of the caller, whose transaction has succeeded or failed by now.
        idle = False
        with suppress(Exception):
            idle = not self._closed and db.is_idle()
        if idle:
            self._idle.append(db)
        else:
            db.close()


def sqlite_path(url: str | Path) -> Path | None:
    """The file of a store that is one; None for PostgreSQL."""
    scheme, mark, rest = str(url).partition("://")
    if not mark or isinstance(url, Path):
        return Path(url)
    return Path(rest.removeprefix("/")) if scheme == "sqlite" else None


def _backend(url: str | Path) -> Backend:
    if (file := sqlite_path(url)) is not None:
        return Sqlite(file)
    if not str(url).startswith(("postgresql://", "postgres://")):
        raise UsageError("a store is a file, sqlite:///a-file or postgresql://user@host/database")
    try:
        from prirec.recommender.postgres import Postgres  # slow to import, and not needed for a file
    except ImportError:
        raise UsageError("PostgreSQL needs psycopg; install it with: pip install 'prirec[recommender]'") from None
    return Postgres(str(url))


def typed(migrations: Migrations, types: dict[str, str]) -> Migrations:
    """Migrations with the column types of a database filled in."""
    return [[statement.format_map(types) for statement in migration] for migration in migrations]


# SQLite: one file, for one machine.
#
# A write-ahead log with synchronous=FULL: readers go on while one thread writes, and a commit is synced to disk before
# any answer leaves. Deleted rows are overwritten in the file at once (secure_delete), and leave the write-ahead log
# when that is truncated after a round (`erase_deleted`).


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


class SqliteConnection(Connection):
    clock = "((julianday('now') - 2440587.5) * 86400.0)"
    place = "''"  # a file does not know that it is a copy
    product = "'SQLite ' || sqlite_version()"
    size = "(SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size())"

    def execute_many(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        self._connection.executemany(statement, values)

    def is_idle(self) -> bool:
        return not self._connection.in_transaction

    def begin(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def rollback(self) -> None:
        self._connection.rollback()

    def erase_deleted(self) -> None:
        """Truncate the write-ahead log, unless another connection reads it: then the next round's end does."""
        self._connection.execute("PRAGMA busy_timeout=0")
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        finally:
            self._connection.execute(f"PRAGMA busy_timeout={int(SQLITE_WAIT * 1000)}")

    def after_migration(self) -> None:
        """Switch to a write-ahead log. Of two processes that ask for it at once, one is refused and asks again."""
        until = monotonic() + SQLITE_WAIT
        while True:
            with suppress(sqlite3.OperationalError):
                if self._connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] == "wal":
                    return
            if monotonic() > until:
                raise StateError("this file cannot have a write-ahead log; keep it on a disk of this machine")
            sleep(0.01)

    def migrate(self, path: Path, migrations: Migrations) -> None:
        sqlite.migrate(
            self._connection, path, migrations, application=APPLICATION, damaged=DAMAGED, connected=connect_sqlite
        )

    def _run(self, statement: str, values: Sequence[object]) -> sqlite3.Cursor:
        cursor: sqlite3.Cursor = self._connection.execute(statement, values)
        return cursor


class Sqlite:
    """A SQLite file; while it is open, its write-ahead log is two files beside it."""

    def __init__(self, path: Path) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise UsageError(f"SQLite {sqlite3.sqlite_version} is too old; a Python with 3.37 or newer is needed")
        self.path = path
        with self.translated_errors():
            sqlite.create(path)

    def connect(self) -> SqliteConnection:
        return SqliteConnection(connect_sqlite(self.path))

    def migrate(self, db: SqliteConnection, migrations: Migrations) -> None:
        """An older file is copied first, to `<name>.version-<number>` beside it."""
        db.migrate(self.path, typed(migrations, SQLITE_TYPES))

    def translated_errors(self) -> AbstractContextManager[None]:
        return sqlite.explained(self.path, damaged=DAMAGED)


def connect_sqlite(path: Path) -> sqlite3.Connection:
    return sqlite.connect(path, pragmas=PRAGMAS, wait=SQLITE_WAIT, any_thread=True)


def back_up(store: Path, target: Path) -> int:
    """Copy a SQLite store to a new file while the service runs; returns the length of the log in the copy.

    Messages that wait are left out: sealed boxes and shares are not kept after use, and a copy would keep them. A
    service that starts from the copy burns the rounds that were open, so nobody will miss them. The file gets its
    final name only when it is whole and durable. UsageError if there is such a file already."""
    if target.exists():
        raise UsageError(f"{target.name} is there already; name another file: a copy is not written over an older one")
    made = target.with_name(f"{target.name}.unsifted")
    with sqlite.explained(target, damaged=DAMAGED):
        try:
            sqlite.back_up(store, made, connected=connect_sqlite)
            entries = _drop_transient(made)
            made.replace(target)
        except BaseException:
            sqlite.remove(made)
            raise
        sqlite.sync(target.absolute().parent)
    return entries


def forget_joint_rounds(db: Connection) -> None:
    """An operator of two that is restored opens nothing that began before: it has neither box keys nor shares."""
    for table in ("reports", "box_keys"):
        db.execute(f"DELETE FROM {table}")  # noqa: S608
    db.execute("UPDATE joint_rounds SET payload = ?, state = ?", b"", b"")


def _drop_transient(copy: Path) -> int:
    with closing(connect_sqlite(copy)) as rows:
        # The lease too: the worker that conducts the original does not conduct the copy.
        for table in ("mail", "inbox", "invited", "lease", "answered", "operator_sessions"):
            rows.execute(f"DELETE FROM {table}")  # noqa: S608
        forget_joint_rounds(SqliteConnection(rows))
        rows.execute("PRAGMA journal_mode=DELETE")  # one file, and none beside it
        if rows.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise StateError(f"the store {DAMAGED}")
        entries: int = rows.execute("SELECT count(*) FROM log").fetchone()[0]
        return entries
