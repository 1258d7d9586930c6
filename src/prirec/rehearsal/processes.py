"""Where a rehearsal takes place: a folder, and the processes in it. Whatever ends it, nothing is left but what was to
stay: in good order the processes are asked to end; otherwise each notices by itself, and a caretaker tidies up."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from threading import Thread, current_thread, main_thread
from types import FrameType
from typing import Any, NoReturn

from prirec.errors import StateError, UsageError
from prirec.rehearsal.plan import Plan

MEMORY = Path("/dev/shm")  # noqa: S108  a file system in memory, where there is one
MEMORY_NEEDED, MEMORY_PER_DEVICE = 2**29, 2**21  # bytes that a city needs, and each device
SERVER_PROCESS = "server_process"
SCRATCH, POSTGRES = "scratch", "postgres"
END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class Sandbox:
    """A folder with `devices` and `recommender` in it, and the processes that were started."""

    def __init__(self, folder: Path, tie: int) -> None:
        self.folder, self._tie, self._children = folder, tie, list[ChildProcess]()
        for name in (self.devices, self.recommender, self.scratch):
            name.mkdir()

    @property
    def devices(self) -> Path:
        return self.folder / "devices"

    @property
    def recommender(self) -> Path:
        return self.folder / "recommender"

    @property
    def scratch(self) -> Path:
        """For what processes leave behind when they are killed."""
        return self.folder / SCRATCH

    @property
    def postgres(self) -> Path:
        return self.folder / POSTGRES

    def start(self, module: str, task: Mapping[str, Any], *, log: str) -> "ChildProcess":
        child = ChildProcess(module, task, folder=self.scratch, log=self.folder / log, tie=self._tie)
        self._children.append(child)
        return child

    def end(self) -> None:
        """The recommender first, while devices are there: it answers all that wait for letters, and is done. Then
        devices, all at once."""
        try:
            for child in self._children:
                if child.module == SERVER_PROCESS:
                    child.end()
            for child in self._children:
                child.ask_to_end()
            for child in self._children:
                child.end()
        finally:  # somebody was too impatient for that
            for child in self._children:
                child.kill()


@contextmanager
def sandbox(plan: Plan) -> Iterator[Sandbox]:
    """Ends everything that was started in it, and removes the folder; what is to be kept is put in its place first."""
    _refuse_occupied(plan.out)
    folder = _folder(plan)
    held, tie = os.pipe()
    caretaker = _caretaker(folder, plan, held)
    os.close(held)
    try:
        with _ended_in_order():
            made = Sandbox(folder, tie)
            try:
                yield made
            finally:
                made.end()
    finally:
        os.close(tie)
        if caretaker.wait():
            raise StateError(f"not all files of the city could be removed or kept; look at {folder}")


def _refuse_occupied(out: Path | None) -> None:
    if out is not None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists and is not empty; name a new folder")


def _folder(plan: Plan) -> Path:
    """In memory where there is room: a city's devices sync on one disk what real ones would sync on many."""
    room = MEMORY_NEEDED + MEMORY_PER_DEVICE * plan.devices
    roomy = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > room
    return Path(mkdtemp(prefix="prirec-city-", dir=MEMORY if roomy else None))


def _caretaker(folder: Path, plan: Plan, held: int) -> "subprocess.Popen[bytes]":
    words = ["--scratch", SCRATCH]
    words += [] if plan.out is None else ["--keep", str(plan.out.absolute())]
    words += ["--postgres", POSTGRES] if plan.postgres else []
    return subprocess.Popen(  # noqa: S603  this program itself
        [sys.executable, "-m", "prirec.rehearsal.cleanup_process", str(folder), *words],
        stdin=held,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Who is told to end by a signal ends as by Ctrl-C. Only a main thread hears signals."""
    if current_thread() is not main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    before = {one: signal.signal(one, end) for one in END_SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


# Processes of a rehearsal: each in a group of its own, so that Ctrl-C reaches the rehearsal alone, which then ends
# them in order; each on a lifeline, so that none outlives it.


GRACE_SECONDS = 15.0  # seconds to end in good order
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class ChildProcess:
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
            self.process.wait(GRACE_SECONDS)
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


# A process of a rehearsal ends with whoever started it, however that ended.


def die_with_parent() -> None:
    """From now on this process, and whatever it starts, ends when its standard input does: the other end is in the
    hands of the rehearsal alone. Stores and devices' files stand a sudden end; that is what they are made for."""
    Thread(target=_die_when_closed, name="lifeline", daemon=True).start()


def allow_many_files() -> None:
    """As many as the system lets this user have: a city's devices have a file and a connection each."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def until_closed(handle: int) -> None:
    while os.read(handle, 4096):
        pass


def _die_when_closed() -> NoReturn:
    until_closed(0)
    if os.getpgrp() == os.getpid():  # it was given a group of its own
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)
