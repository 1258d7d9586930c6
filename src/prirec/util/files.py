"""Files: only regular ones are read, and whatever is written appears whole or not at all.

A file or folder is written beside its place first, under a name that says by which process, and then moved there.

A process that is killed leaves what it wrote. The next one to write the same path clears that away, if its name tells
that it was written on this machine, by a process that is no more. Of a process elsewhere, on a folder that machines or
containers share, nobody here can tell whether it is alive: what it has left stays.
"""

import errno
import os
import platform
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

EARLIER = ".earlier"  # what stood in the place of a folder, while that is moved in
NO_ROOM = "does not fit on the disk any more; nothing was written. Make room and try again"
NOT_REGULAR = "it is no regular file; name one"
LONGEST_TEXT = 2**24  # bytes
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OS_ERROR = re.compile(r"\(os error (\d+)\)")  # how Polars words what the system has said


def room_beside(path: Path) -> Path:
    """A path beside `path` that only this process writes, with nothing at it: abandoned ones are cleared."""
    for left in abandoned(path):
        clear(left)
    return path.with_name(f".{path.name}.{_machine()}-{os.getpid()}.partial")


def abandoned(path: Path, ending: str = "") -> list[Path]:
    """What is left beside `path` by processes on this machine that are no more, or by this one before."""
    return [left for left in left_beside(path, ending) if not _may_be_written(left)]


def left_beside(path: Path, ending: str = "") -> list[Path]:
    """What processes on any machine are writing beside `path`, or have left there."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}-\d{{1,9}}\.partial{re.escape(ending)}")
    with suppress(OSError):
        return [one for one in path.parent.iterdir() if name.fullmatch(one.name)]
    return []


def clear(left: Path) -> None:
    """Deletes a file or a folder, as far as that can be done."""
    if left.is_dir() and not left.is_symlink():
        # More than once: when a file of a folder could not be written, Polars' other threads still write theirs for a
        # moment. (No pause between: what reads and writes data has no clock.)
        for _ in range(2000):
            shutil.rmtree(left, ignore_errors=True)
            if not left.exists():
                break
    else:
        with suppress(OSError):
            left.unlink()


def _may_be_written(left: Path) -> bool:
    machine, process = left.name.removesuffix(EARLIER).split(".")[-2].split("-")
    if machine != _machine() or os.name != "posix":  # on Windows signal 0 is Ctrl-C
        return True
    if int(process) == os.getpid():
        return False
    try:
        os.kill(int(process), 0)  # asks whether there is one, and sends nothing
    except ProcessLookupError:
        return False
    except OSError:  # there is, and it is somebody else's
        return True
    return True


@cache
def _machine() -> str:
    """Name of the machine or container in which a process's number is valid."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/etc/machine-id").read_text(encoding="ascii", errors="replace"))
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return blake2b("\0".join(parts).encode(), digest_size=4).hexdigest()


def is_full(broken: BaseException) -> bool:
    """Whether something was not written because the disk, or what one may use of it, is full."""
    said = _OS_ERROR.search(str(broken))
    return getattr(broken, "errno", None) in FULL or (said is not None and int(said[1]) in FULL)


def open_regular(path: Path) -> BinaryIO:
    """A file to read to its end. OSError for what has none: a pipe, a terminal or a device would be waited for."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    kind = os.fstat(handle).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    raise OSError(errno.EINVAL, NOT_REGULAR, str(path))


def read_text(path: Path) -> str:
    """A file that a person wrote by hand, such as settings: UTF-8, whether or not it begins with a mark, as some
    editors write. OSError for what is none, or is larger than anybody writes; UnicodeDecodeError for other text."""
    with open_regular(path) as file:
        content = file.read(LONGEST_TEXT + 1)
    if len(content) > LONGEST_TEXT:
        raise OSError(errno.EINVAL, f"it is larger than {LONGEST_TEXT // 2**20} MB", str(path))
    return content.decode("utf-8-sig")


# Files and folders that are whole whenever anybody looks: written beside, made durable, then moved in.


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` at the end; after any error the old one is untouched. Through
    a link it is the file that the link leads to. OSError if something else than a file is there: who may, would
    otherwise put a file in the place of /dev/null."""
    path = Path(os.path.realpath(path))  # unlike resolve(), of a link to itself too
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, NOT_REGULAR, str(path))
    beside = room_beside(path)
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # before the rename: after a power cut the name must not point at nothing
        beside.replace(path)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    sync_folder(path.parent)


@contextmanager
def new_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which is at `path` at the end; after any error there is none. FileExistsError if there is
    something already."""
    if path.exists() or path.is_symlink():
        raise FileExistsError(errno.EEXIST, "it is there already", str(path))
    with replacing(path) as file:
        yield file


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
            with suppress(OSError):  # a read-only disk: whoever opens `path` next reports it missing
                earlier.rename(path)


def sync_folder(path: Path, *, ignored: type[OSError] = OSError) -> None:
    """Makes the names in a folder durable (a new file, a rename); not every system lets a folder be opened for that."""
    with suppress(ignored):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
