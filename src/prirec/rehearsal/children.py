"""Processes of a rehearsal: each in a group of its own, so that Ctrl-C reaches the rehearsal alone, which then ends
them in order; each on a lifeline, so that none outlives it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

GRACE = 15.0  # seconds to end in good order
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Child:
    """One process that runs a module of this package. What it says on its standard output is a JSON object a line, of
    which the last is kept; its standard error stream is added to a log."""

    def __init__(self, module: str, task: Mapping[str, Any], *, folder: Path, log: Path, tie: int) -> None:
        self.module = module
        environment = os.environ | ONE_THREAD | {"TMPDIR": str(folder)}
        with log.open("ab") as errors:
            self.process = subprocess.Popen(  # noqa: S603  this program itself
                [sys.executable, "-m", f"prirec.rehearsal.{module}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                start_new_session=True, pass_fds=(tie,), env=environment,
            )  # fmt: skip
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.write(json.dumps(task).encode() + b"\n")
                self.process.stdin.flush()
        self.said: dict[str, Any] = {}
        self._over = False
        self._listening = Thread(target=self._listen, daemon=True)
        self._listening.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """At once, with everything that it started."""
        if self._over:  # the number may be somebody else's by now
            return
        self._over = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._gone()

    def ask_to_end(self) -> None:
        if self.alive:
            self.process.terminate()

    def end(self) -> None:
        """In good order if it does so in time."""
        self.ask_to_end()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE)
        self.kill()

    def _gone(self) -> None:
        self.process.wait()
        self._listening.join()
        for end in (self.process.stdin, self.process.stdout):
            if end is not None:
                end.close()

    def _listen(self) -> None:
        if self.process.stdout is None:
            return
        for line in self.process.stdout:
            with suppress(ValueError):  # a line that was cut off by a kill
                self.said = json.loads(line)
