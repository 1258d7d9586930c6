"""When a driver is gone, however it ended, no process of its Ray session is left on the machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from prirec.cluster.session_guard import processes_of
from support.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no /proc to look at")

HOLD = "import sys, time; held = open(sys.argv[1], 'a'); print('open', flush=True); time.sleep(1e6)"
DRIVER = """
import time
from prirec.cluster.pool import import_ray, ray_session
with ray_session(cpus=1):
    print(import_ray().get_runtime_context().get_session_name(), flush=True)
    time.sleep(1e6)
"""


@contextmanager
def holding(file: Path, *, title: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of this title that has the file open."""
    with subprocess.Popen([title, "-c", HOLD, str(file)], executable=sys.executable, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        try:
            yield process
        finally:
            process.kill()


def guard_of(folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "prirec.cluster.session_guard", str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE)


def test_rays_processes_of_this_session_end_and_no_others(tmp_path: Path) -> None:
    session, other = tmp_path / "session_1", tmp_path / "session_11"
    session.mkdir()
    other.mkdir()
    with (
        guard_of(session) as guard,
        holding(session / "agent.log", title="ray::DashboardAgent") as helper,
        holding(session / "agent.log", title="tail") as reader,
        holding(other / "agent.log", title="ray::DashboardAgent") as stranger,
    ):
        assert set(processes_of(session)) == {helper.pid}
        guard.communicate()  # the driver is gone
        assert guard.returncode == 0
        assert helper.wait(PATIENCE) == -9
        assert (reader.poll(), stranger.poll()) == (None, None)


def guards_of(session: Path) -> list[int]:
    """Processes that guard this session; one that has ended and was not waited for yet has no command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            found += [process.name] if b"prirec.cluster.session_guard" in words and bytes(session) in words else []
    return [int(process) for process in found]


@pytest.mark.long
@pytest.mark.xdist_group("ray")
def test_helpers_of_a_driver_that_was_killed_are_gone_when_its_guard_is(tmp_path: Path) -> None:
    scratch = os.environ | {"RAY_TMPDIR": "/tmp"}  # noqa: S108  pytest's own are too deep for the names of sockets
    with subprocess.Popen([sys.executable, "-c", DRIVER], stdout=subprocess.PIPE, text=True, env=scratch) as driver:
        assert driver.stdout is not None
        name = driver.stdout.readline().strip()
        session = Path("/tmp/ray") / name  # noqa: S108
        until(lambda: guards_of(session) and list(processes_of(session)))
        driver.kill()
    until(lambda: not guards_of(session))
    assert list(processes_of(session)) == []
