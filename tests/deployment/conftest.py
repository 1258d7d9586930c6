"""Where a deployment's files are."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a place: what is synced is tested in tests/device."""
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)
