"""What a process does that is started to be killed."""

import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from prirec.device.store import Store


def say(text: str) -> None:
    """At once: whoever is killed next has said it."""
    os.write(1, text.encode() + b"\n")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_at(point: int) -> Callable[[str], None]:
    """For SQLite to call at the start of each statement: the process dies at the point-th."""
    seen = 0

    def count(statement: str) -> None:
        nonlocal seen
        if seen == point:
            die()
        seen += 1

    return count


def write_until(point: int, folder: Path, writes: Callable[[Store], Iterable[object]]) -> None:
    """Tells a file of each write, a dot for one. Dies at the start of the point-th statement: before a transaction,
    inside one, or at its COMMIT; or, where the point is negative, right after a write was durable and before anybody
    was told."""
    store = Store.open(folder / f"journal{point}")
    store._connection.set_trace_callback(dying_at(point))
    with (folder / f"told{point}").open("wb", buffering=0) as told:
        for at, _ in enumerate(writes(store)):
            if at == -1 - point:
                die()
            told.write(b".")


def outlive(lives: Callable[[int], None], *, first: int = 0) -> None:
    """A life in a process of its own for each point, until one outlives its point. Says how each ended."""
    for point in range(first, 100):
        child = os.fork()
        if child == 0:
            lives(point)
            os._exit(0)
        killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
        say(f"{point} {killed}")
        if not killed:
            break
