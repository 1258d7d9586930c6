"""The system that this process runs on: packages that only some installations have, and limits that it sets.

Extras are `prirec[device]` and `prirec[recommender]`. Systems without `resource` (Windows) have none of the limits.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from prirec.errors import UsageError

PACKAGES = {
    "recommender": ("fastapi", "httptools", "prometheus_client", "psycopg", "starlette", "uvicorn", "uvloop"),
    "device": ("httpx", "httpcore", "anyio", "h11"),
}


@contextmanager
def needing(*extras: Literal["recommender", "device"]) -> Iterator[None]:
    """Around imports. UsageError, with what to install, if one of the extras' packages is missing; any other module
    that is missing is a fault of the installation and stays a ModuleNotFoundError."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in [name for extra in extras for name in PACKAGES[extra]]:
            raise
        raise UsageError(
            f"this needs packages that are not installed; get them with: pip install 'prirec[{','.join(extras)}]'"
        ) from None


def allow_many_files() -> None:
    """As many open files as this user may have: each connection and each device's file is one, and systems allow few by
    default."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def disable_core_dumps() -> None:
    """For a process that holds keys: a core dump would write them to the disk. Children inherit it."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        # The limit in force alone: the highest one could never be raised again by the program that called the library.
        _, most = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, most))


def limit_memory(octets: int) -> None:
    """No more addresses than this: what asks for more gets a MemoryError, and the machine stays usable."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (octets, octets))
