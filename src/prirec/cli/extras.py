"""Commands that need more than the program itself comes with: what to install is said in one line."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from prirec.errors import UsageError

PACKAGES = {
    "recommender": ("fastapi", "httptools", "prometheus_client", "psycopg", "starlette", "uvicorn", "uvloop"),
    "device": ("httpx", "httpcore", "anyio", "h11"),
}


@contextmanager
def needing(extra: Literal["recommender", "device"]) -> Iterator[None]:
    """Around imports. UsageError if one of the extra's packages is missing; whatever else is missing is a fault."""
    try:
        yield
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in PACKAGES[extra]:
            raise
        raise UsageError(
            f"this command needs packages that are not installed; get them with: pip install 'prirec[{extra}]'"
        ) from None
