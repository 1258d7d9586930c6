"""Where devices keep their journals, and where they are born."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from prirec.device.store import Store
from support.restarted_device import Nursery


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
