"""Stores for the recommender's tests: each claim about a store is checked on a file and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from prirec.recommender.store import Store
from support.postgres import GROUP, postgres

__all__ = ["postgres"]
MEMORY = Path("/dev/shm")  # noqa: S108


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=GROUP)])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Of an empty database; a file is in memory where there is such a place, because a kill leaves the system alone."""
    if request.param == "sqlite":
        with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            yield f"sqlite:///{folder}/store"
    else:
        with request.getfixturevalue("postgres").lent() as lent:
            yield lent


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.open(url) as opened:
        yield opened
