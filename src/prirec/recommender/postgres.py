"""The recommender's database in PostgreSQL, for many workers and machines. Its tables are in a schema of their own, so
that the database may be shared with other programs.

A transaction takes an advisory lock first, which the server holds until the transaction ends: every statement after it
sees all that earlier writers committed. A writer that hangs is cut off by the server (POSTGRES_WAIT) and rolled back.
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

from prirec.errors import PassingError, StateError, UsageError
from prirec.recommender.database import Connection, Migrations, Row, typed

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


PASSING = ("08", "53", "55", "57")


class PostgresConnection(Connection):
    clock = "extract(epoch FROM clock_timestamp())::float8"
    # cluster, time line (a new one after a recovery or a fail-over), database, table
    place = (
        "(SELECT concat_ws(':', system.system_identifier, point.timeline_id, database.oid, 'box_keys'::regclass::oid) "
        "FROM pg_control_system() AS system, pg_control_checkpoint() AS point, pg_database AS database "
        "WHERE database.datname = current_database())"
    )

    product = "'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)"
    size = "pg_database_size(current_database())"

    def execute_many(self, statement: str, values: Iterable[Sequence[object]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_with_placeholders(statement), values)

    def is_idle(self) -> bool:
        """An idle server sends nothing unless it is closing the connection: unread input means that it is dead."""
        connection = self._connection
        idle = not connection.closed and connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
        return idle and not _has_input(connection.fileno())

    def begin(self) -> None:
        self._connection.execute(_BEGIN)

    def rollback(self) -> None:
        with suppress(psycopg.Error):  # of a connection that was lost, the server rolls back by itself
            self._connection.execute("ROLLBACK")

    def _run(self, statement: str, values: Sequence[object]) -> "psycopg.Cursor[Row]":
        cursor: psycopg.Cursor[Row] = self._connection.execute(_with_placeholders(statement), values, binary=True)
        return cursor


class Postgres:
    """A database that the operator created; its user must be allowed to create a schema there."""

    def __init__(self, url: str) -> None:
        try:
            wanted: dict[str, Any] = {"connect_timeout": 10, "application_name": "prirec"} | conninfo_to_dict(url)
            self._address = make_conninfo(**wanted)
        except psycopg.Error:  # its text repeats the URL, which may hold a password
            raise UsageError("this is no URL of PostgreSQL; write postgresql://user@host/database") from None

    def connect(self) -> PostgresConnection:
        connection: psycopg.Connection[Row] = psycopg.connect(self._address, autocommit=True)
        try:
            connection.adapters.register_dumper(int, Int8BinaryDumper)  # one type: so a statement is prepared once
            connection.adapters.register_dumper(float, FloatBinaryDumper)
            connection.execute(_session_settings())
        except BaseException:
            connection.close()
            raise
        return PostgresConnection(connection)

    def migrate(self, db: PostgresConnection, migrations: Migrations) -> None:
        """A backup before it is the operator's task: pg_dump."""
        version = _schema_version(db, newest=len(migrations))
        for statement in (one for migration in typed(migrations, POSTGRES_TYPES)[version:] for one in migration):
            db.execute(statement)
        db.execute("UPDATE version SET version = ?", len(migrations))

    def translated_errors(self) -> AbstractContextManager[None]:
        return _translated_errors()


def _schema_version(db: PostgresConnection, *, newest: int) -> int:
    """Version of the tables; 0, and a table to hold it, where there are none yet."""
    if db.one("SELECT 1 FROM pg_namespace WHERE nspname = ?", SCHEMA) is None:
        db.execute(f"CREATE SCHEMA {SCHEMA}")
    if db.one("SELECT 1 FROM pg_tables WHERE schemaname = ? AND tablename = 'version'", SCHEMA) is None:
        if db.one("SELECT 1 FROM pg_tables WHERE schemaname = ?", SCHEMA) is not None:
            raise StateError(f"{NAME} has a schema {SCHEMA} that is not PriRec's; name another database")
        db.execute("CREATE TABLE version (version BIGINT NOT NULL)")
        db.execute("INSERT INTO version VALUES (0)")
    row = db.one("SELECT version FROM version")
    version = -1 if row is None else int(row[0])
    if version > newest:
        raise StateError(
            f"{NAME} has version {version}, this program knows {newest}; it is left as it is: get a newer program"
        )
    if version < 0:
        raise StateError(f"{NAME} {TROUBLE['XX']}")
    return version


def _session_settings() -> bytes:
    """A commit waits at least for the disk, even if the server's default does not; a stricter default is kept."""
    wait = f"{int(POSTGRES_WAIT * 1000)}ms"
    return f"""
        SET search_path TO {SCHEMA};
        SET lock_timeout TO '{wait}';
        SET idle_in_transaction_session_timeout TO '{wait}';
        SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
    """.encode()


def _has_input(descriptor: int) -> bool:
    """Whether something waits to be read. By poll(): select() fails for descriptors above 1023, and a service with many
    long polls has more."""
    poller = poll()
    poller.register(descriptor, POLLIN)
    return bool(poller.poll(0))


@cache
def _with_placeholders(statement: str) -> QueryNoTemplate:
    return statement.replace("?", "%s").encode()


@contextmanager
def _translated_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        state = error.sqlstate or ("08006" if isinstance(error, psycopg.OperationalError) else "")
        trouble = TROUBLE.get(state[:2]) or f"could not be used ({state or type(error).__name__}); nothing was written"
        kind = PassingError if state[:2] in PASSING else StateError
        raise kind(f"{NAME} {trouble}") from None
