"""Fixtures that several folders share; and asserts hold in every process of the tests and under `python -O` as well."""

import gc
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("support")  # without this, Python drops the asserts of helpers under -O


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """In the process that shares tests out: tells each worker what that process itself was started with."""
    node.workerinput["optimize"] = sys.flags.optimize


# How long an example takes says something about the machine, and nothing about what is tested.
settings.register_profile("many", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # make soak
settings.register_profile("few", settings.get_profile("many"), max_examples=40)
settings.load_profile("few")


def pytest_configure(config: pytest.Config) -> None:
    """In each worker: `python -O -m pytest -n 2` starts workers that are not optimised, and would show nothing."""
    asked = getattr(config, "workerinput", {}).get("optimize", sys.flags.optimize)
    if sys.flags.optimize != asked:
        pytest.exit("-O does not reach the workers of -n: set PYTHONOPTIMIZE=1 instead", returncode=4)


@pytest.hookimpl(tryfirst=True)  # before the names of groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file go to one process, or each process would make what they share. Other groups stay."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays until the end: thousands of tests and the modules that they are in. Looking through them
    again and again for garbage took each process more time than many of the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _folder_in_memory() -> Iterator[Path]:
    """In memory where there is such a place: a kill takes a process and leaves the system, which keeps what it was
    given, so a disk would only be slower. That files are synced is tested with the stores."""
    memory = Path("/dev/shm")  # noqa: S108
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        yield Path(made)


@pytest.fixture
def folder() -> Iterator[Path]:
    with _folder_in_memory() as made:
        yield made


@pytest.fixture(scope="module")
def shared_folder() -> Iterator[Path]:
    """For a deployment that several tests look at."""
    with _folder_in_memory() as made:
        yield made
