"""What a process that was killed has left is cleared away or put back; what others may be writing is left alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prirec.data.write_folder import new_folder
from prirec.errors import StateError
from prirec.simulate.saved_runs import read_card, refuse_occupied
from prirec.util.files import move_in, put_back, replacing, room_beside
from support import messages

KILLED = """
import os, signal, sys
from pathlib import Path
from prirec.util.files import move_in, replacing
path, step = Path(sys.argv[2]), sys.argv[1]
die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if step == "file":
    with replacing(path) as file:
        file.write(b"half")
        file.flush()
        die()
beside = Path(sys.argv[3])
os.rename(beside, beside := path.with_name(f".{path.name}." + sys.argv[4] + f"-{os.getpid()}.partial"))
if step == "moved":
    from prirec.util import files
    files.clear = die
else:
    rename = Path.rename
    Path.rename = lambda one, other: die() if other == path else rename(one, other)
move_in(beside, path)
"""


def killed(*words: object) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, *map(str, words)], check=False, capture_output=True)
    assert ended.returncode == -9, ended.stderr


def names(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()}


def a_folder(path: Path, text: str) -> Path:
    path.mkdir()
    (path / "run.json").write_text(text)
    return path


def machine(path: Path) -> str:
    return room_beside(path).name.split(".")[-2].split("-")[0]


def killed_while_moving_in(path: Path, *, step: str = "between") -> None:
    """Over a folder that says 'old' one is moved in that says 'new'."""
    a_folder(path, "old")
    killed(step, path, a_folder(path.with_name("new"), "new"), machine(path))


def test_half_a_file_is_cleared_away_when_the_file_is_written_next(tmp_path):
    path = tmp_path / "kept"
    killed("file", path)
    assert len(names(tmp_path)) == 1
    with replacing(path) as file:
        file.write(b"whole")
    assert names(tmp_path) == {"kept"}


def test_half_a_folder_is_cleared_away_when_the_folder_is_written_next(tmp_path):
    killed("file", tmp_path / "city")
    (left,) = tmp_path.iterdir()
    left.unlink()
    a_folder(left, "half")
    with new_folder(tmp_path / "city") as beside:
        (beside / "visits.csv").touch()
    assert names(tmp_path) == {"city"}


def test_only_our_names_of_processes_that_are_gone_from_this_machine_are_cleared_away(tmp_path):
    path = tmp_path / "kept"
    killed("file", path)
    (gone,) = (one.name for one in tmp_path.iterdir())
    here, number = gone.split(".")[-2].split("-")
    elsewhere = "00000000" if here != "00000000" else "11111111"
    others = {
        f".kept.{here}-{os.getppid()}.partial",  # alive
        f".kept.{elsewhere}-{number}.partial",  # on another machine
        f".kept.{number}.partial",  # of before names told the machine
        f".kept2.{here}-{number}.partial",
        f"kept.{here}-{number}.partial",
        f".kept.{here}-{number}.partial.txt",
        f".kept.{here}-{number}",
    }
    for name in others:
        (tmp_path / name).touch()
    with replacing(path):
        pass
    assert names(tmp_path) == {"kept", *others}


def test_what_was_there_is_put_back_if_the_process_that_replaced_it_was_killed_in_between(tmp_path):
    path = tmp_path / "run"
    killed_while_moving_in(path)
    assert not path.exists()
    put_back(path)
    assert (path / "run.json").read_text() == "old"
    room_beside(path)
    assert names(tmp_path) == {"run"}


def test_what_was_replaced_before_the_process_was_killed_is_cleared_away_and_not_put_back(tmp_path):
    path = tmp_path / "run"
    killed_while_moving_in(path, step="moved")
    put_back(path)
    assert (path / "run.json").read_text() == "new"
    assert len(names(tmp_path)) == 2
    move_in(a_folder(room_beside(path), "newer"), path)
    assert names(tmp_path) == {"run"}
    assert (path / "run.json").read_text() == "newer"


@pytest.mark.parametrize("process", [f"00000000-{os.getpid()}", "11111111-1"], ids=["our number", "another"])
def test_what_another_machine_may_be_replacing_is_left_alone_and_named(tmp_path, process):
    earlier = a_folder(tmp_path / f".run.{process}.partial.earlier", "old")
    put_back(tmp_path / "run")
    assert names(tmp_path) == {earlier.name}
    with pytest.raises(StateError, match=messages.joined(messages.NO_RUN, messages.run_left_in(earlier.name))):
        read_card(tmp_path / "run")


def test_with_two_earlier_folders_neither_is_put_back(tmp_path):
    path = tmp_path / "run"
    killed_while_moving_in(path)
    (earlier,) = tmp_path.glob("*.earlier")
    a_folder(tmp_path / ".run.00000000-1.partial.earlier", "older")
    put_back(path)
    assert earlier.is_dir()
    assert not path.exists()


def test_a_run_that_cannot_be_put_back_is_not_lost_behind_a_new_one(tmp_path):
    earlier = a_folder(tmp_path / ".run.00000000-1.partial.earlier", "old")
    with pytest.raises(
        StateError,
        match=messages.joined(messages.NO_RUN, messages.run_left_in(earlier.name) + messages.OR_ANOTHER_FOLDER),
    ):
        refuse_occupied(tmp_path / "run", overwrite=True)
    assert names(tmp_path) == {earlier.name}


def test_leftovers_under_our_own_process_id_do_not_block_a_new_run(tmp_path):
    path = a_folder(tmp_path / "run", "new")
    beside = room_beside(path)
    a_folder(beside.with_name(f"{beside.name}.earlier"), "old")
    move_in(a_folder(beside, "newer"), path)
    assert names(tmp_path) == {"run"}
    assert (path / "run.json").read_text() == "newer"
