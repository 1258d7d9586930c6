"""The folder and the child processes of a rehearsal, and how all of them end with it.

However a rehearsal ends, nothing is left over but what was to be kept. In good order, the processes are asked to end.
If the rehearsal is killed, each child notices by itself (`die_with_parent`), and a cleanup process, which outlives them
all, removes the folder (cleanup_process.py).
"""

import json
import os
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
from typing import TYPE_CHECKING, Any, NoReturn

from prirec.errors import StateError, UsageError

if TYPE_CHECKING:  # the cleanup process imports this module, and should need neither NumPy nor cryptography
    from prirec.rehearsal.plan import Plan

MEMORY = Path("/dev/shm")  # noqa: S108  a file system in memory, where there is one
MEMORY_NEEDED, MEMORY_PER_DEVICE = 2**29, 2**21  # bytes
GRACE_SECONDS = 15.0  # that a child has to end in good order
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SERVER_PROCESS, SCRATCH, POSTGRES = "server_process", "scratch", "postgres"


class ChildProcess:
    """A process that runs a module of this package, in a process group of its own: Ctrl-C reaches the rehearsal alone,
    which then ends its children in order. On standard output it writes JSON objects, one a line, of which the last is
    kept; its standard error goes to a log file."""

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
        self.report: dict[str, Any] = {}  # the last line of JSON on its standard output
        self._killed = False
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Kill the process at once, with every process that it started."""
        if self._killed:  # the number may belong to another process by now
            return
        self._killed = True
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        for end in (self.process.stdin, self.process.stdout):
            if end is not None:
                end.close()

    def ask_to_end(self) -> None:
        if self.alive:
            self.process.terminate()

    def end(self) -> None:
        """Ask the process to end, and kill it if it does not in time."""
        self.ask_to_end()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)
        self.kill()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            with suppress(ValueError):  # a line that was cut off by a kill
                self.report = json.loads(line)


class EndSignals:
    """Ctrl-C, SIGTERM and SIGHUP end the rehearsal in good order: each raises an exception in the main thread. Only a
    main thread can handle signals, and one that was ignored (nohup) stays so."""

    def __init__(self) -> None:
        self._deferring = False
        self._waiting: int | None = None  # the signal that came meanwhile

    @contextmanager
    def handled(self) -> Iterator[None]:
        if current_thread() is not main_thread():
            yield
            return
        before = {one: signal.getsignal(one) for one in END_SIGNALS}
        handled = {one: handler for one, handler in before.items() if handler != signal.SIG_IGN}
        for one in handled:
            signal.signal(one, self._receive)
        try:
            yield
        finally:
            for one, handler in handled.items():
                signal.signal(one, handler)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """A signal that comes in here raises at its end."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False
            if self._waiting is not None:
                self._raise(self._waiting)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._deferring:
            self._waiting = number
        else:
            self._raise(number)

    def _raise(self, number: int) -> NoReturn:
        self._waiting = None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)


class Sandbox:
    """The folder of a rehearsal, and the processes that were started in it."""

    def __init__(self, folder: Path, tie: int, signals: EndSignals) -> None:
        self.folder, self._tie, self._signals, self._children = folder, tie, signals, list[ChildProcess]()
        self.devices, self.recommender, self.postgres = folder / "devices", folder / "recommender", folder / POSTGRES
        self.scratch = folder / SCRATCH  # for temporary files that processes leave behind when they are killed
        for path in (self.devices, self.recommender, self.scratch):
            path.mkdir()

    def start(self, module: str, task: Mapping[str, Any], *, log: str) -> ChildProcess:
        # A signal between the start of the process and its entry here would leave a process that nobody ends; the
        # cleanup process would wait for it for ever.
        with self._signals.deferred():
            child = ChildProcess(module, task, folder=self.scratch, log=self.folder / log, tie=self._tie)
            self._children.append(child)
        return child

    def end(self) -> None:
        """End all processes. The recommender first, while devices are still there: it answers all long polls, and ends.
        Then the devices, all at once."""
        try:
            for child in self._children:
                if child.module == SERVER_PROCESS:
                    child.end()
            for child in self._children:
                child.ask_to_end()
            for child in self._children:
                child.end()
        finally:  # the person pressed Ctrl-C again
            for child in self._children:
                child.kill()


@contextmanager
def sandbox(plan: "Plan") -> Iterator[Sandbox]:
    """Ends every process that was started in it and removes the folder, after moving what is to be kept to plan.out."""
    if plan.out is not None and plan.out.exists() and (not plan.out.is_dir() or any(plan.out.iterdir())):
        raise UsageError(f"{plan.out} exists and is not empty; name a new folder")
    folder = _new_folder(plan.devices)
    # The rehearsal and its children hold `tie`, the writing end of a pipe. When the last of them is gone, however it
    # ended, the cleanup process reads the end of file, and begins.
    held, tie = os.pipe()
    signals = EndSignals()
    cleanup = _start_cleanup(folder, plan, held)
    os.close(held)
    try:
        with signals.handled():
            made = Sandbox(folder, tie, signals)
            try:
                yield made
            finally:
                made.end()
    finally:
        os.close(tie)
        if cleanup.wait():
            raise StateError(f"not all files of the city could be removed or kept; look at {folder}")


def _new_folder(devices: int) -> Path:
    """In memory where there is space: here one disk would have to sync what real devices sync on a disk each."""
    needed = MEMORY_NEEDED + MEMORY_PER_DEVICE * devices
    fits = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > needed
    return Path(mkdtemp(prefix="prirec-city-", dir=MEMORY if fits else None))


def _start_cleanup(folder: Path, plan: "Plan", held: int) -> "subprocess.Popen[bytes]":
    options = ["--scratch", SCRATCH]
    options += [] if plan.out is None else ["--keep", str(plan.out.absolute())]
    options += ["--postgres", POSTGRES] if plan.postgres else []
    return subprocess.Popen(  # noqa: S603  this program itself
        [sys.executable, "-m", "prirec.rehearsal.cleanup_process", str(folder), *options],
        stdin=held, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


# Inside a child process


def die_with_parent() -> None:
    """Kill this process, and whatever it starts, when its standard input closes: the rehearsal alone holds the other
    end. Stores and devices' files survive a sudden end; that is what they are made for."""

    def wait() -> NoReturn:
        until_closed(0)
        if os.getpgrp() == os.getpid():  # the process leads a group of its own
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(1)

    Thread(target=wait, name="die with parent", daemon=True).start()


def until_closed(handle: int) -> None:
    while os.read(handle, 4096):
        pass
