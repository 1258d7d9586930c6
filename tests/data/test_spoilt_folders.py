"""However a folder is spoilt, there is a refusal in words: by the reader, by the check and by the partition, as one."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from prirec.data.check import check_folder
from prirec.data.folder import read_folder
from prirec.data.partition import partition_folder
from prirec.errors import DataError

SOUND = {
    "visits.csv": (
        b'user_id,poi,time,label,mood,"no te"\nann,bar,2012-04-03T10:00:00+09:00,1,a|b,"x, y"\n'
        b'bob,inn,1333476006,0,c,"two\nlines"\ncy,bar,1333476008,1,,\n'
    ),
    "pois.csv": b"poi,latitude,lon,kind,seats,name\nbar,35.1,139,food,24,Bar\ninn,35.2,139,,,\nzoo,35,139,fun,7,Z\n",
    "users.csv": b"user,lat,lon,age,gender\nann,35.1,139.1,31,f\nbob,,,45,\ncy,35.0,139.0,,m\n",
    "schema.toml": b'[users.gender]\nvalues = ["f", "m"]\n[users.age]\nlow=0\nhigh=99\n[visits.mood]\nkind="tags"\n',
}
PIECES = [
    b",",
    b'"',
    b"\n",
    b"\r",
    b"|",
    b"\0",
    b"\xff",
    b"nan",
    b"1e999",
    b" ",
    b"user",
    b"lat",
    b"=",
    b"[",
    b'"user"',
]
PLACES = st.floats(0, 1, exclude_max=True)
CUTS = st.tuples(st.sampled_from(list(SOUND)), PLACES, st.sampled_from([0, 1, 3, 20]), st.sampled_from([b"", *PIECES]))


def spoilt(cuts):
    files = dict(SOUND)
    for name, where, length, piece in cuts:
        at = int(where * (len(files[name]) + 1))
        files[name] = files[name][:at] + piece + files[name][at + length :]
    return files


def accepted(read, *args, **kwargs) -> bool:
    try:
        read(*args, **kwargs)
    except DataError:
        return False
    return True


@settings(max_examples=40, deadline=None)
@given(st.lists(CUTS, max_size=3))
def test_reader_and_check_agree_and_nothing_ends_in_a_traceback(cuts):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "city"
        path.mkdir()
        for name, content in spoilt(cuts).items():
            (path / name).write_bytes(content)
        for skip_bad in (False, True):
            found = check_folder(path, skip_bad=skip_bad)
            assert accepted(read_folder, path, skip_bad=skip_bad) == (not found.problems)
        accepted(partition_folder, path, Path(folder) / "parts", parts=2)
        shutil.rmtree(path)
