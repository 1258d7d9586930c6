"""The last to leave: it waits until a rehearsal and all its processes are gone, however they went, and then stops the
database, if there is one left, puts what is to stay where it is to stay, and removes the folder.

    python -m prirec.rehearsal.cleanup_process FOLDER [--postgres NAME] [--scratch NAME] [--keep FOLDER]

Its standard input is a pipe whose other end the rehearsal and its processes hold, and nobody else.
"""

import argparse
import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

from prirec.rehearsal.processes import until_closed

PAUSE, PATIENCE = 0.05, 10.0  # seconds


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("folder", type=Path)
    words.add_argument("--postgres", help="Where in the folder its database is.")
    words.add_argument("--scratch", help="What in the folder is never kept.")
    words.add_argument("--keep", type=Path, help="Where everything else goes; without it, nothing is kept.")
    told = words.parse_args()
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)
    until_closed(0)
    if told.postgres is not None:
        stop_postgres(told.folder / told.postgres)
    if told.scratch is not None:
        remove(told.folder / told.scratch)
    if told.keep is not None:
        move_contents(told.folder, told.keep)
    remove(told.folder)


def stop_postgres(data: Path) -> None:
    """A server that nobody else has stopped: first in good order, then at once."""
    for order in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        until = time.monotonic() + PATIENCE
        while (process := _postmaster_pid(data)) is not None and time.monotonic() < until:
            with suppress(ProcessLookupError):
                os.kill(process, order)
            time.sleep(PAUSE)


def move_contents(folder: Path, where: Path) -> None:
    """Moves all that is in one folder to another, which is empty."""
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in sorted(folder.iterdir()):
        shutil.move(one, where / one.name)


def remove(folder: Path) -> None:
    """Whoever is just ending may still write: again until it is gone."""
    until = time.monotonic() + PATIENCE
    while folder.exists() and time.monotonic() < until:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(PAUSE)


def _postmaster_pid(data: Path) -> int | None:
    """The server's process, while it runs. Its file has its number in the first line and its folder in the second."""
    try:
        process, where = (data / "postmaster.pid").read_text().splitlines()[:2]
        os.kill(int(process), 0)
    except (OSError, ValueError):
        return None
    return int(process) if Path(where) == data else None


if __name__ == "__main__":
    main()
