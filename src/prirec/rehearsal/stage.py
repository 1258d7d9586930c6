"""Where a rehearsal takes place: a folder, and the processes in it. Whatever ends it, nothing is left but what was to
stay: in good order the processes are asked to end; otherwise each notices by itself, and a caretaker tidies up."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, NoReturn

from prirec.errors import StateError, UsageError
from prirec.rehearsal.children import Child
from prirec.rehearsal.plan import Plan

MEMORY = Path("/dev/shm")  # noqa: S108  a file system in memory, where there is one
ROOM, ROOM_EACH = 2**29, 2**21  # bytes that a city needs, and each device
SERVER = "server_child"
SCRATCH, POSTGRES = "scratch", "postgres"
ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class Stage:
    """A folder with `devices` and `recommender` in it, and the processes that were started."""

    def __init__(self, folder: Path, tie: int) -> None:
        self.folder, self._tie, self._children = folder, tie, list[Child]()
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

    def start(self, module: str, task: Mapping[str, Any], *, log: str) -> Child:
        child = Child(module, task, folder=self.scratch, log=self.folder / log, tie=self._tie)
        self._children.append(child)
        return child

    def end(self) -> None:
        """The recommender first, while devices are there: it answers all that wait for letters, and is done. Then
        devices, all at once."""
        try:
            for child in self._children:
                if child.module == SERVER:
                    child.end()
            for child in self._children:
                child.ask_to_end()
            for child in self._children:
                child.end()
        finally:  # somebody was too impatient for that
            for child in self._children:
                child.kill()


@contextmanager
def stage(plan: Plan) -> Iterator[Stage]:
    """Ends everything that was started in it, and removes the folder; what is to be kept is put in its place first."""
    _refuse_occupied(plan.out)
    folder = _folder(plan)
    held, tie = os.pipe()
    caretaker = _caretaker(folder, plan, held)
    os.close(held)
    try:
        with _ended_in_order():
            made = Stage(folder, tie)
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
    room = ROOM + ROOM_EACH * plan.devices
    roomy = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > room
    return Path(mkdtemp(prefix="prirec-city-", dir=MEMORY if roomy else None))


def _caretaker(folder: Path, plan: Plan, held: int) -> "subprocess.Popen[bytes]":
    words = ["--scratch", SCRATCH]
    words += [] if plan.out is None else ["--keep", str(plan.out.absolute())]
    words += ["--postgres", POSTGRES] if plan.postgres else []
    return subprocess.Popen(  # noqa: S603  this program itself
        [sys.executable, "-m", "prirec.rehearsal.caretaker", str(folder), *words],
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

    before = {one: signal.signal(one, end) for one in ENDINGS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
