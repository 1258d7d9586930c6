"""A table that is there and cannot be read is an error that says so, never an absent table and never a traceback."""

import os
import subprocess
import sys
from contextlib import contextmanager

import polars as pl
import pytest

from prirec.data.check import check_folder
from prirec.data.folder import read_folder
from prirec.data.partition import partition_folder
from prirec.errors import DataError
from support import messages

VISITS = "user,poi\nann,bar\n"


def folder(path):
    path.mkdir()
    (path / "visits.csv").write_text(VISITS)
    return path


def link_to_nothing(file):
    file.symlink_to(file.with_name("gone"))


SPOILT = {
    "a link to nothing": (link_to_nothing, messages.LINK_TO_NOTHING),
    "a link to itself": (lambda file: file.symlink_to(file), messages.UNREADABLE),
    "a folder": (lambda file: file.mkdir(), messages.FOLDER_FOR_A_FILE),
    "a pipe": (os.mkfifo, messages.NOT_A_REGULAR_FILE),
}


@pytest.mark.parametrize("name", ["users.csv", "pois.parquet", "users.csv.gz", "schema.toml", "partition.json"])
@pytest.mark.parametrize("kind", SPOILT)
def test_what_is_no_readable_file_is_not_taken_for_absent(tmp_path, name, kind):
    spoil, words = SPOILT[kind]
    path = folder(tmp_path / "city")
    spoil(path / name)
    for read in (read_folder, lambda path: partition_folder(path, tmp_path / "parts", parts=2)):
        if name == "partition.json" and read is not read_folder:
            continue  # it is no part of what is partitioned
        with pytest.raises(DataError, match=words) as refused:
            read(path)
        assert refused.value.file.name == name


@pytest.mark.parametrize("name", ["users.csv", "visits.parquet", "schema.toml"])
def test_no_permission_is_said(tmp_path, name):
    path = folder(tmp_path / "city")
    if name.startswith("visits"):
        (path / "visits.csv").unlink()
    (path / name).write_text("user\nann\n")
    (path / name).chmod(0)
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        parent.chmod(0o755)
    with as_nobody(), pytest.raises(DataError, match=messages.UNREADABLE) as refused:
        read_folder(path)
    assert refused.value.file.name == name


@contextmanager
def as_nobody():
    """Root may read everything: for a while the process is somebody else."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_file_in_the_place_of_the_folder_is_said(tmp_path):
    folder(tmp_path / "city")
    with pytest.raises(DataError, match=messages.FILE_FOR_A_FOLDER):
        read_folder(tmp_path / "city" / "visits.csv")
    with pytest.raises(DataError, match=messages.FILE_FOR_A_FOLDER):
        partition_folder(tmp_path / "city" / "visits.csv", tmp_path / "parts", parts=2)


# Parquet that makes Polars panic: an exception that is no Exception, and a backtrace that it prints by itself.


def panicking(content: bytes):
    """Changed until Polars panics over it; in another process, for what that prints."""
    code = """
import polars, random, sys
whole, rng = bytearray(sys.stdin.buffer.read()), random.Random(3)
for _ in range(20_000):
    spoilt = bytearray(whole)
    for _ in range(rng.choice([1, 2, 5])):
        spoilt[rng.randrange(len(spoilt))] = rng.randrange(256)
    try:
        polars.read_parquet(bytes(spoilt))
    except polars.exceptions.PanicException:
        sys.stdout.buffer.write(bytes(spoilt))
        break
    except Exception:
        pass
"""
    return subprocess.run([sys.executable, "-c", code], input=content, capture_output=True, check=True).stdout


def parquet_visits(file):
    users, pois = ([f"{letter}{row * 7 % size}" for row in range(500)] for letter, size in (("u", 50), ("p", 37)))
    tags = [["a", "b"] if row % 2 else ["c"] for row in range(500)]
    pl.DataFrame({"user": users, "poi": pois, "t": tags}).write_parquet(file)


def test_parquet_that_makes_the_reader_panic_is_an_error_in_words(tmp_path, capfd):
    path = tmp_path / "city"
    path.mkdir()
    parquet_visits(path / "visits.parquet")
    spoilt = panicking((path / "visits.parquet").read_bytes())
    assert spoilt, "this version of Polars does not panic over any of these files"
    (path / "visits.parquet").write_bytes(spoilt)
    with pytest.raises(DataError, match=messages.NOT_PARQUET):
        read_folder(path)
    with pytest.raises(DataError, match=messages.NOT_PARQUET):
        partition_folder(path, tmp_path / "parts", parts=2)
    assert [problem.rows for problem in check_folder(path).problems] == [None]
    assert capfd.readouterr().err == ""


def test_what_others_print_meanwhile_is_not_lost(tmp_path, capfd, monkeypatch):
    (tmp_path / "city").mkdir()
    parquet_visits(tmp_path / "city" / "visits.parquet")
    read = pl.read_parquet

    def chatty(*args, **kwargs):
        os.write(2, b"another thread\n")
        return read(*args, **kwargs)

    monkeypatch.setattr(pl, "read_parquet", chatty)
    read_folder(tmp_path / "city")
    assert capfd.readouterr().err == "another thread\n"
