"""Files and folders that are whole whenever anybody looks: written beside, made durable, then moved in."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from prirec.beside import EARLIER, abandoned, clear, left_beside, room_beside


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """What is written to it takes the place of the file when this is left; after any error the old one is untouched."""
    beside = room_beside(path)
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    sync_folder(path.parent)


def move_in(beside: Path, path: Path) -> None:
    """Puts a whole folder in the place of another; if that fails, the other is put back."""
    earlier, replaces = beside.with_name(f"{beside.name}{EARLIER}"), path.exists()
    if replaces:
        for left in abandoned(path, EARLIER):  # what is at `path` came after them
            clear(left)
        path.rename(earlier)
    try:
        beside.rename(path)
    except OSError:
        if replaces:
            earlier.rename(path)
        raise
    sync_folder(path.parent)
    if replaces:
        clear(earlier)


def put_back(path: Path) -> None:
    """If a process was killed between the two moves above, and there is nothing at `path`: what was there before."""
    if not path.exists() and len(left_beside(path, EARLIER)) == 1:
        for earlier in abandoned(path, EARLIER):
            with suppress(OSError):  # a disk that is only read: whoever looks for `path` is told of it
                earlier.rename(path)


def sync_folder(path: Path) -> None:
    """Makes a rename durable, where the system lets a folder be opened."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
