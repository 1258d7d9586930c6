"""What would fill the memory is refused early: within 1 GB, and long before it is read to its end."""

import gzip
import subprocess
import sys

import pytest

from prirec import config
from prirec.data.folder import read_folder
from prirec.errors import PrirecError
from support import messages

LIMIT = 2**30
READ = """
import resource, sys
from pathlib import Path
import numpy, polars  # their memory, and that of their threads, is not what is measured
from prirec.data.{module} import {function}
from prirec.errors import DataError
now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + {limit},) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
try:
    {function}(Path(sys.argv[1]){more})
except DataError as refusal:
    print(refusal)
"""
READERS = {"read_folder": ("folder", ""), "partition_folder": ("partition", ", Path(sys.argv[1] + '-parts'), parts=2")}


def refusal(path, function="read_folder"):
    """What is said in a process with a gigabyte of memory and ten seconds."""
    module, more = READERS[function]
    code = READ.format(module=module, function=function, more=more, limit=LIMIT)
    found = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.parametrize("function", READERS)
def test_a_gzip_bomb_is_refused(tmp_path, function):
    rows = gzip.compress(b"ann,bar\n" * 2**21)  # a gzip file may have any number of members
    (tmp_path / "visits.csv.gz").write_bytes(gzip.compress(b"user,poi\n") + rows * 256)
    assert (tmp_path / "visits.csv.gz").stat().st_size < 2**25 < 2**32 == 256 * 8 * 2**21
    assert "unpacks to over 200 times its size" in refusal(tmp_path, function)


@pytest.mark.parametrize("function", READERS)
@pytest.mark.parametrize("before", [b"", b"user,poi\nann,bar\n"], ids=["the header", "a row"])
def test_a_line_of_a_gigabyte_is_refused(tmp_path, before, function):
    with (tmp_path / "visits.csv").open("wb") as file:
        file.write(before)
        file.truncate(2**30 + len(before))  # sparse: nothing but zeros
    assert "has a line of over 4 MB" in refusal(tmp_path, function)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_a_hundred_thousand_columns_are_refused(tmp_path, kind):
    columns = ["user", "poi", *(f"c{n}" for n in range(10**5))]
    text = (",".join(columns) + "\n" + "1," * (len(columns) - 1) + "1\n").encode()
    if kind == "parquet":
        code = "import polars, sys; polars.read_csv(sys.stdin.buffer).write_parquet(sys.argv[1])"
        file = tmp_path / "visits.parquet"
        subprocess.run([sys.executable, "-c", code, str(file)], input=text, check=True)
    else:
        (tmp_path / f"visits.{kind}").write_bytes(gzip.compress(text) if kind == "csv.gz" else text)
    for function in READERS:
        assert "100,002 columns" in refusal(tmp_path, function)


@pytest.mark.parametrize("function", READERS)
def test_parquet_in_which_a_few_bytes_stand_for_millions_of_rows_is_refused(tmp_path, function):
    code = """
import polars, sys
rows = 60_000_000
columns = {"user": polars.repeat("ann", rows, eager=True), "poi": polars.repeat("bar", rows, eager=True)}
polars.DataFrame(columns).write_parquet(sys.argv[1])
"""
    file = tmp_path / "visits.parquet"
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)
    assert file.stat().st_size < 2**20
    assert "unpacks to over 200 times its size" in refusal(tmp_path, function)


def test_thousands_of_columns_are_read(tmp_path):
    columns = [f"c{n}" for n in range(3000)]
    rows = [["user", "poi", *columns], *(["ann", f"bar{n}", *(str(n + 0.5) for _ in columns)] for n in range(20))]
    (tmp_path / "visits.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    assert refusal(tmp_path) == ""


@pytest.mark.parametrize("name", ["schema.toml", "settings.toml"])
def test_a_text_file_larger_than_anybody_writes_is_refused(tmp_path, name):
    (tmp_path / "visits.csv").write_text("user,poi\nann,bar\n")
    with (tmp_path / name).open("wb") as file:
        file.truncate(2**26)
    with pytest.raises(PrirecError, match=messages.LARGER_THAN_ANYBODY_WRITES):
        read_folder(tmp_path) if name == "schema.toml" else config.load(tmp_path / name)


def test_a_table_as_long_as_it_likes_is_read(tmp_path):
    """No false alarm: gzip has little to do with rows that repeat, and a quoted cell may be long."""
    rows = "".join(f'ann,bar{n},"{"x" * 1000}\n"\n' for n in range(2000))
    cell = "ann,long," + '"' + "line\n" * 2_000_000 + '"\n'
    (tmp_path / "visits.csv.gz").write_bytes(gzip.compress(("user,poi,words\n" + rows + cell).encode()))
    assert refusal(tmp_path) == ""
