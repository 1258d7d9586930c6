"""The recommender's store in PostgreSQL, for many workers and machines. Its tables are in a schema of their own: a
database may be shared with other programs.

Writers take an advisory lock first, which the server holds until the transaction is over: each statement after it sees
all that writers before have done. A writer that hangs is cut off by the server, and what it wrote is undone.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from select import POLLIN, poll
from typing import Any

import psycopg
from psycopg.abc import QueryNoTemplate
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import FloatBinaryDumper, Int8BinaryDumper

from prirec.errors import StateError, UsageError
from prirec.recommender.database import Migrations, Row, inserting

POSTGRES_WAIT = 30.0  # seconds that a writer waits for another, and that one may be idle in the middle of a write
NAME = "the PostgreSQL database"
SCHEMA = "prirec"
POSTGRES_TYPES = {"bytes": "BYTEA", "text": "TEXT", "whole": "BIGINT", "real": "DOUBLE PRECISION", "table": ""}
_BEGIN = "BEGIN; SELECT pg_advisory_xact_lock(5787213827046133840)"  # "PRIREC" and a number: this program's writers
TROUBLE = {  # by the class of SQLSTATE
    "08": "was lost, or cannot be reached; what was being written may or may not be there",
    "28": "does not let this user in; look at the name, the password and pg_hba.conf",
    "42": "has other tables than this program knows, or does not let this user write; look at its privileges",
    "53": "has no room, or no connection, to spare; nothing was written. Make room and try again",
    "55": "is being written by another process; nothing was written. Try again when that is done",
    "57": "is shutting down or starting up; what was being written may or may not be there",
    "XX": "is damaged; put back a copy that is whole, and let no device see a log shorter than it knows",
}


class PostgresRows:
    """A connection that is used by one thread at a time."""

    clock = "extract(epoch FROM clock_timestamp())::float8"

    def __init__(self, connection: "psycopg.Connection[Row]") -> None:
        self._connection = connection

    def one(self, statement: str, *values: object) -> Row | None:
        return self._connection.execute(_spelt(statement), values, binary=True).fetchone()

    def all(self, statement: str, *values: object) -> list[Row]:
        return self._connection.execute(_spelt(statement), values, binary=True).fetchall()

    def change(self, statement: str, *values: object) -> int:
        return self._connection.execute(_spelt(statement), values).rowcount

    def change_each(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_spelt(statement), values)

    def insert(self, into: str, values: Sequence[Sequence[object]], conflict: str = "") -> None:
        for statement, some in inserting(into, values, conflict):
            self.change(statement, *some)

    def sound(self) -> bool:
        """Nothing comes from a server that was not asked, unless it says good-bye."""
        connection = self._connection
        idle = not connection.closed and connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        return idle and not _heard(connection.fileno())

    def begin(self) -> None:
        self._connection.execute(_BEGIN)

    def commit(self) -> None:
        self._connection.execute("COMMIT")

    def undo(self) -> None:
        with suppress(psycopg.Error):  # a connection that was lost is undone by the server
            self._connection.execute("ROLLBACK")

    def tidy(self) -> None:
        """The server overwrites what was deleted when it needs the room."""

    def close(self) -> None:
        self._connection.close()


class Postgres:
    """A database that the operator made; its user may make a schema there."""

    def __init__(self, url: str) -> None:
        try:
            wanted: dict[str, Any] = {"connect_timeout": 10, "application_name": "prirec"} | conninfo_to_dict(url)
            self._address = make_conninfo(**wanted)
        except psycopg.Error:  # its text repeats the URL, which may hold a password
            raise UsageError("this is no URL of PostgreSQL; write postgresql://user@host/database") from None

    def connect(self) -> PostgresRows:
        connection: psycopg.Connection[Row] = psycopg.connect(self._address, autocommit=True)
        try:
            connection.adapters.register_dumper(int, Int8BinaryDumper)  # one type: so a statement is prepared once
            connection.adapters.register_dumper(float, FloatBinaryDumper)
            connection.execute(_settings())
        except BaseException:
            connection.close()
            raise
        return PostgresRows(connection)

    def bring_up(self, rows: PostgresRows, migrations: Migrations) -> None:
        """All in one transaction. The copy before is the operator's: pg_dump."""
        rows.begin()  # of two processes that find no tables, one makes them
        try:
            version = _version(rows, newest=len(migrations))
            for statement in (one for migration in migrations[version:] for one in migration):
                rows.change(statement.format_map(POSTGRES_TYPES))
            rows.change("UPDATE version SET version = ?", len(migrations))
            rows.commit()
        except BaseException:
            rows.undo()
            raise

    def explained(self) -> AbstractContextManager[None]:
        return _explained()


def _version(rows: PostgresRows, *, newest: int) -> int:
    """The version of the tables; 0, and a place for it, where there are none yet."""
    if rows.one("SELECT 1 FROM pg_namespace WHERE nspname = ?", SCHEMA) is None:
        rows.change(f"CREATE SCHEMA {SCHEMA}")
    if rows.one("SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'version'", SCHEMA) is None:
        if rows.one("SELECT 1 FROM pg_tables WHERE schemaname = ?", SCHEMA) is not None:
            raise StateError(f"{NAME} has a schema {SCHEMA} that is not PriRec's; name another database")
        rows.change("CREATE TABLE version (version BIGINT NOT NULL)")
        rows.change("INSERT INTO version VALUES (0)")
    row = rows.one("SELECT version FROM version")
    version = -1 if row is None else int(row[0])
    if version > newest:
        raise StateError(
            f"{NAME} has version {version}, this program knows {newest}; it is left as it is: get a newer program"
        )
    if version < 0:
        raise StateError(f"{NAME} {TROUBLE['XX']}")
    return version


def _settings() -> bytes:
    """A commit waits for the disk, whatever the server's habit; more than that it may ask for."""
    wait = f"{int(POSTGRES_WAIT * 1000)}ms"
    return f"""
        SET search_path TO {SCHEMA};
        SET lock_timeout TO '{wait}';
        SET idle_in_transaction_session_timeout TO '{wait}';
        SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
    """.encode()


def _heard(descriptor: int) -> bool:
    """Whether something waits to be read. Any number will do: select() knows none above 1023, and a service that many
    devices wait at has more."""
    looking = poll()
    looking.register(descriptor, POLLIN)
    return bool(looking.poll(0))


@cache
def _spelt(statement: str) -> QueryNoTemplate:
    return statement.replace("?", "%s").encode()


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ("08006" if isinstance(error, psycopg.OperationalError) else "")
        trouble = TROUBLE.get(state[:2]) or f"could not be used ({state or type(error).__name__}); nothing was written"
        raise StateError(f"{NAME} {trouble}") from None
