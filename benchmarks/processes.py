"""Processes that a benchmark starts, and what they cost: CPU seconds and resident memory, as Linux counts them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATIENCE = 60.0  # seconds to start in
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def cpu_of(process: int) -> float:
    """Seconds of CPU that a process has had, in all its threads: its own clock, which Linux lets others read."""
    return time.clock_gettime((~process << 3) | 2)


def resident_of(process: int) -> int:
    """Bytes of memory that it has."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def peak_of(process: int) -> int:
    """Bytes of memory that it had at most. `ru_maxrss` would not do: it counts whoever started the process as well."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    return 0


class Server:
    """A script of this folder that serves, with its task as JSON. It ends with whoever holds its standard input."""

    def __init__(self, script: str, task: dict[str, Any], *, log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / script), json.dumps(task)],
                stdin=subprocess.PIPE, stderr=errors, env=os.environ | ONE_THREAD,
            )  # fmt: skip
        self.pid, self.port = self._process.pid, self._serving()

    def _serving(self) -> int:
        """The port, once it says that it serves."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self._process.poll() is None:
            for line in self._log.read_text().splitlines(keepends=True):
                if line.endswith("\n") and '"serving"' in line:
                    return int(json.loads(line)["port"])
            time.sleep(0.02)
        self.end()
        raise RuntimeError(f"{self._log.name}: it did not start\n{self._log.read_text()[-2000:]}")

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


@contextmanager
def serving(script: str, task: dict[str, Any], *, log: Path) -> Iterator[Server]:
    server = Server(script, task, log=log)
    try:
        yield server
    finally:
        server.end()
