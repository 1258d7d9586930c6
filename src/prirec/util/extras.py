"""Packages that only some installations have: those of the extras `prirec[device]` and `prirec[recommender]`."""

from collections.abc import Iterator
from contextlib import contextmanager
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
