"""A deployment that was founded by the command, in a folder that costs no disk: fixtures to import."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.shell import call


@pytest.fixture
def folder() -> Iterator[Path]:
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


@pytest.fixture
def store(folder: Path) -> Path:
    words = ("--title", "Our town", "--host", "recommender.example")
    assert call("recommender", "init", folder / "town.db", *words).exit_code == 0
    return folder / "town.db"
