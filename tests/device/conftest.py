"""Where devices keep their journals, and where they are born."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from prirec.device.store import Store
from support.lives import Nursery


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with Store.open(path) as opened:
        yield opened


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as opened:
        yield opened


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory where there is such a place: a kill takes the process and leaves the system, which keeps what it was
    given, so a disk would only make it slower."""
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)
