"""Stores and services for the recommender's tests: each claim about a store is checked on a file and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from prirec.recommender.store import Store
from support.postgres import GROUP, postgres
from support.services import Served, Site, endless_polls, served

__all__ = ["endless_polls", "postgres"]
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


@pytest.fixture
def site(folder: Path) -> Site:
    return Site.founded(folder)


@pytest.fixture
def service(site: Site) -> Iterator[Served]:
    with served(site) as running:
        yield running


@pytest.fixture(scope="module")
def shared_service() -> Iterator[Served]:
    """One for a whole file, where tests do not get in each other's way."""
    with TemporaryDirectory() as folder, served(Site.founded(Path(folder))) as running:
        yield running
