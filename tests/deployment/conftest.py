"""Where a deployment's files are."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@contextmanager
def _made() -> Iterator[Path]:
    """In memory where there is such a place: what is synced is tested in tests/device."""
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


@pytest.fixture
def folder() -> Iterator[Path]:
    with _made() as made:
        yield made


@pytest.fixture(scope="module")
def shared_folder() -> Iterator[Path]:
    """For a deployment that several tests look at."""
    with _made() as made:
        yield made
