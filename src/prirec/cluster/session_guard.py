"""Ends what is left of a Ray session when its driver is gone: python -m prirec.cluster.session_guard FOLDER

Ray's processes end with a driver that was killed, but for two helpers, which go on for a minute. This process waits for
the end of its standard input, whose other end only the driver holds, and then kills those of Ray's processes that have
a file in the session's folder open. It needs Linux, and no Ray.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PAUSE, PATIENCE = 0.1, 10.0  # seconds
TITLE = b"ray::"


def main() -> None:
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_IGN)  # whatever ends the driver, this process ends after it
    while os.read(0, 4096):
        pass
    until = time.monotonic() + PATIENCE
    while (left := list(processes_of(Path(sys.argv[1])))) and time.monotonic() < until:
        for process in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        time.sleep(PAUSE)


def processes_of(folder: Path) -> Iterator[int]:
    """Ray's helpers and actors, by their titles, that have a file in this folder open."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if (process / "cmdline").read_bytes().startswith(TITLE):
                open_files = [file.readlink() for file in (process / "fd").iterdir()]
                if any(file.is_relative_to(folder) for file in open_files):
                    yield int(process.name)


if __name__ == "__main__":
    main()
