"""Services for tests: files in memory where there is such a place, as what is synced is tested with the store."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.postgres import postgres
from support.services import Served, Site, served

__all__ = ["postgres"]


@pytest.fixture
def folder() -> Iterator[Path]:
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


@pytest.fixture
def site(folder: Path) -> Site:
    return Site.founded(folder)


@pytest.fixture
def service(site: Site) -> Iterator[Served]:
    with served(site) as running:
        yield running


@pytest.fixture(scope="module")
def lasting() -> Iterator[Served]:
    """One for a whole file, where tests do not get in each other's way."""
    with TemporaryDirectory() as folder, served(Site.founded(Path(folder))) as running:
        yield running
