"""A city that is started for real, and what is left of it afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from support.waiting import PATIENCE

MODULE = "prirec.rehearsal."
SCRIPT = """
import sys
from pathlib import Path
from prirec.rehearsal import processes
processes.MEMORY = Path(sys.argv.pop(1))
from prirec.cli.main import run
run()
"""


def descendants(of: int) -> dict[int, str]:
    """Processes below one, with what they were called as; the database's are found by its folder, see `using`."""
    found, parents = dict[int, str](), dict[int, int]()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, IndexError, ValueError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    below = {of}
    while more := {process for process, parent in parents.items() if parent in below} - below:
        below |= more
    for process in below - {of}:
        found[process] = called(process)
    return found


def called(process: int) -> str:
    """Its command line; nothing if there is no such process, or only what its parent has not taken note of."""
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def using(folder: Path) -> list[int]:
    """Processes that name a folder, or anything in it, on their command line."""
    everyone = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [process for process in everyone if str(folder) in called(process) and process != os.getpid()]


def still_there(seen: dict[int, str]) -> list[str]:
    return [words for process, words in seen.items() if words and called(process) == words]


@contextmanager
def census() -> Iterator[dict[int, str]]:
    """Every process of a rehearsal that this one ever has below it in the meantime."""
    seen, stop = dict[int, str](), Event()

    def count() -> None:
        while not stop.wait(0.05):
            seen.update({at: words for at, words in descendants(os.getpid()).items() if MODULE in words})

    counting = Thread(target=count, daemon=True)
    counting.start()
    try:
        yield seen
    finally:
        stop.set()
        counting.join()


@contextmanager
def started(folder: Path, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """The command in a process of its own, with its files in a folder."""
    command = [sys.executable, "-c", SCRIPT, str(folder), "city", "up", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(true, *, seconds: float = PATIENCE) -> bool:
    """Whether it became true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def ended_by(process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[int, str]:
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE)
    return process.returncode, err


def lines_of(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines()]
