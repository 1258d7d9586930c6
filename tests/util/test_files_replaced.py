"""What takes the place of a file takes the place of nothing else."""

import os
import stat
from pathlib import Path

import pytest

from prirec.util.files import replacing
from support import messages


@pytest.mark.parametrize("linked", [False, True], ids=["itself", "by a link"])
def test_a_pipe_or_a_device_is_not_replaced_by_a_file(tmp_path: Path, *, linked: bool) -> None:
    """As root, whoever wrote to /dev/null would otherwise take it away from everybody."""
    pipe = named = tmp_path / "pipe"
    os.mkfifo(pipe)
    if linked:
        named = tmp_path / "link"
        named.symlink_to(pipe)
    with pytest.raises(OSError, match=messages.NOT_A_REGULAR_FILE), replacing(named) as file:
        file.write(b"new")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert named.is_symlink() == linked


@pytest.mark.parametrize("there", [False, True], ids=["that is not there yet", "that is there"])
def test_a_link_still_leads_to_the_file_that_is_written(tmp_path: Path, *, there: bool) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(file)
    if there:
        file.write_text("old")
    with replacing(link) as written:
        written.write(b"new")
    assert (link.is_symlink(), file.read_text()) == (True, "new")


def test_a_link_that_leads_to_itself_is_replaced(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with replacing(link) as written:
        written.write(b"new")
    assert (link.is_symlink(), link.read_text()) == (False, "new")
