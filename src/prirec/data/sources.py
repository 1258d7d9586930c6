"""The files of a data folder before a cell of them is read: whether they are there, and whether they can be held.

What is there and cannot be read is an error, never an absent table. What would fill the memory is refused while it is
read block by block: a gzip file that unpacks to hundreds of times its size, a line of megabytes, thousands of columns.
"""

import gzip
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from prirec.errors import DataError
from prirec.util.decode_errors import NOT_UNPACKED
from prirec.util.files import open_regular

MANIFEST = "partition.json"  # of a folder that `prirec data partition` has made
LONGEST_LINE = 2**22  # bytes: 4 MB
MOST_COLUMNS = 10_000
LARGEST_RATIO = 200  # of what a gzip file unpacks to and its size; tables of real data reach 20
_ANY_RATIO = 2**26  # bytes that any gzip file may unpack to
_BLOCK = LONGEST_LINE // 2


def existing(file: Path) -> Path | None:
    """The file, or None where there is nothing of that name. DataError for anything that is no readable file."""
    try:
        open_regular(file).close()
    except FileNotFoundError:
        if not file.is_symlink():
            return None
        raise DataError("is a link to nothing", file=file) from None
    except IsADirectoryError:
        raise DataError("is a folder, and a file is needed", file=file) from None
    except OSError as broken:
        raise unreadable(file, broken) from None
    return file


def existing_folder(path: Path, *, needs: str) -> Path:
    """The folder. DataError, with what such a folder needs, if it is none."""
    try:
        kind = path.stat().st_mode
    except FileNotFoundError:
        raise DataError(f"there is no such folder; {needs}", file=path) from None
    except OSError as broken:
        raise unreadable(path, broken) from None
    if not stat.S_ISDIR(kind):
        raise DataError(f"is a file, and a folder is needed; {needs}", file=path)
    return path


def is_partitioned(folder: Path) -> bool:
    """Whether the tables of a folder are cut into parts (partitioned.py)."""
    return existing(folder / MANIFEST) is not None


def unreadable(file: Path, broken: OSError) -> DataError:
    """The error for a file that the system does not let be read."""
    return DataError(f"cannot be read: {broken.strerror or 'it is damaged'}", file=file)


def open_unpacked(file: Path) -> IO[bytes]:
    """The bytes of a file, unpacked if it is a gzip file."""
    return gzip.open(file, "rb") if file.suffix.lower() == ".gz" else file.open("rb")  # type: ignore[return-value]


def refuse_oversized(file: Path) -> None:
    """DataError for a text file with a line that no table has, or for a gzip file that is a bomb."""
    try:
        size, unpacked, before = file.stat().st_size, 0, b"\n"
        with open_unpacked(file) as stream:
            while block := stream.read(_BLOCK):
                unpacked += len(block)
                # two blocks in a row without a line break; a quoted cell with line breaks may be as long as it likes
                if b"\n" not in block and b"\n" not in before and len(block) == _BLOCK:
                    raise DataError(f"has a line of over {LONGEST_LINE / 2**20:.0f} MB; is it a table?", file=file)
                if unpacked > max(_ANY_RATIO, LARGEST_RATIO * size) and file.suffix.lower() == ".gz":
                    problem = f"unpacks to over {LARGEST_RATIO} times its size, as no table does; unpack it yourself"
                    raise DataError(problem, file=file)
                before = block
    except NOT_UNPACKED:
        raise DataError("cannot be read; is it complete?", file=file) from None


def refuse_oversized_parquet(file: Path, *, rows: int, columns: int) -> None:
    """DataError for a bomb: in Parquet a few bytes can stand for any number of equal cells."""
    as_text = 2 * rows * columns  # bytes, at the least
    if as_text > max(_ANY_RATIO, LARGEST_RATIO * file.stat().st_size):
        problem = f"unpacks to over {LARGEST_RATIO} times its size, as no table does; write it as CSV if it is one"
        raise DataError(problem, file=file)


def refuse_many_columns(file: Path, count: int, *, line: int | None = None) -> None:
    if count > MOST_COLUMNS:
        problem = f"has {count:,} columns, and a table has at most {MOST_COLUMNS:,}; is it turned on its side?"
        raise DataError(problem, file=file, line=line)


_REDIRECTED: dict[str, object] = {}


@contextmanager
def without_panic_texts() -> Iterator[None]:
    """Context manager that hides what Polars prints when a damaged Parquet file makes it panic: pages of text, beside
    an exception. What else is printed on the standard error stream meanwhile is printed afterwards."""
    import polars as pl

    me = object()
    if _REDIRECTED.setdefault("stderr", me) is not me:  # another thread is in here: one redirection at a time
        yield
        return
    try:
        with TemporaryFile() as held:
            try:
                ours = os.dup(2)
            except OSError:  # there is no such stream
                yield
                return
            if sys.stderr is not None:
                sys.stderr.flush()
            os.dup2(held.fileno(), 2)
            panicked = False
            try:
                yield
            except pl.exceptions.PanicException:
                panicked = True
                raise
            finally:
                os.dup2(ours, 2)
                os.close(ours)
                held.seek(0)
                if not panicked and (printed := held.read()):
                    os.write(2, printed)
    finally:
        _REDIRECTED.clear()
