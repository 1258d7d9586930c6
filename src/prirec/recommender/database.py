"""The recommender's database: a SQLite file, or PostgreSQL by URL, behind one text of SQL.

Whatever the database, writers are as one after the other: a transaction begins by locking other writers out, in this
process and in all others, and returns when what it wrote is durable. So whatever a transaction reads stays true until
it is over, and numbers that are handed out in one are in the order in which readers come to see them. Readers wait for
nobody. What differs between the two databases is in database_sqlite.py and database_postgres.py, and nowhere else.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar

from prirec.errors import UsageError

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


def file_of(url: str | Path) -> Path | None:
    """The file of a store that is one."""
    scheme, mark, rest = str(url).partition("://")
    if not mark or isinstance(url, Path):
        return Path(url)
    return Path(rest.removeprefix("/")) if scheme == "sqlite" else None


def _backend(url: str | Path) -> Backend[Any]:
    if (file := file_of(url)) is not None:
        return _sqlite(file)
    if not str(url).startswith(("postgresql://", "postgres://")):
        raise UsageError("a store is a file, sqlite:///a-file or postgresql://user@host/database")
    return _postgres(str(url))


def _sqlite(path: Path) -> Backend[Any]:
    from prirec.recommender.database_sqlite import Sqlite

    return Sqlite(path)


def _postgres(url: str) -> Backend[Any]:
    try:
        from prirec.recommender.database_postgres import Postgres  # slow to import, and not needed for a file
    except ImportError:
        raise UsageError("PostgreSQL needs psycopg; install it with: pip install 'prirec[recommender]'") from None
    return Postgres(url)
