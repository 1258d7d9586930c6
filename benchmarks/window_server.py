"""One of two operators, by a clock that the benchmark can put forward: python window_server.py '{"store": ..., ...}'"""

import json
import mmap
import struct
import sys
from functools import partial
from pathlib import Path
from time import time

from prirec.recommender.conductor import conduct
from prirec.recommender.server import Worker, serve
from prirec.rehearsal import processes
from relay_server import OPEN


class ShiftedClock:
    """The time of day, and the seconds that a file says."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._shift = mmap.mmap(opened.fileno(), 8)

    def __call__(self) -> float:
        return time() + float(struct.unpack("<d", self._shift[:])[0])

    def put_forward(self, seconds: float) -> None:
        self._shift[:] = struct.pack("<d", seconds)


def main(store: str, certificate: str, key: str, clock: str, port: int, *, leads: bool) -> None:
    clocked = ShiftedClock(Path(clock))
    conducting = partial(conduct, clock=clocked) if leads else None
    worker = Worker(store, Path(certificate), Path(key), conduct=conducting, limits=OPEN, clock=clocked)
    serve(worker, host="127.0.0.1", port=port)


if __name__ == "__main__":
    processes.die_with_parent()
    main(**json.loads(sys.argv[1]))
