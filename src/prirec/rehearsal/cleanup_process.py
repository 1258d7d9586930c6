"""The cleanup process of a rehearsal: waits until the rehearsal and all its processes are gone, however they ended;
then stops the database, if one is left, moves what is to be kept, and removes the folder.

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
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--postgres", help="Data folder of the database, inside the folder.")
    parser.add_argument("--scratch", help="What in the folder is never kept.")
    parser.add_argument("--keep", type=Path, help="Where everything else goes; without it, nothing is kept.")
    options = parser.parse_args()
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)  # whatever ends the others, this process ends last
    until_closed(0)
    if options.postgres is not None:
        stop_postgres(options.folder / options.postgres)
    if options.scratch is not None:
        remove(options.folder / options.scratch)
    if options.keep is not None:
        options.keep.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in sorted(options.folder.iterdir()):
            shutil.move(one, options.keep / one.name)
    remove(options.folder)


def stop_postgres(data: Path) -> None:
    """Stop a server that is still running: first in good order (fast shutdown), then at once."""
    for order in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        until = time.monotonic() + PATIENCE
        while (process := _postmaster_pid(data)) is not None and time.monotonic() < until:
            with suppress(ProcessLookupError):
                os.kill(process, order)
            time.sleep(PAUSE)


def remove(folder: Path) -> None:
    """Remove a folder, again and again until it is gone: a process that is just ending may still write."""
    until = time.monotonic() + PATIENCE
    while folder.exists() and time.monotonic() < until:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(PAUSE)


def _postmaster_pid(data: Path) -> int | None:
    """The server's process, while it runs. Its file has the process number in line 1 and the data folder in line 2:
    another process may have got the number since."""
    try:
        process, where = (data / "postmaster.pid").read_text().splitlines()[:2]
        os.kill(int(process), 0)
    except (OSError, ValueError):
        return None
    return int(process) if Path(where) == data else None


if __name__ == "__main__":
    main()
