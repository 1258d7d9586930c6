"""Limits of a process: no core dump of one that holds keys, and as many open files as there may be."""

import subprocess
import sys

import pytest

resource = pytest.importorskip("resource")

PROGRAM = """
import resource, sys
_, most = resource.getrlimit(resource.RLIMIT_CORE)
resource.setrlimit(resource.RLIMIT_CORE, (most, most))
from prirec.cli.main import run
try:
    run()
finally:
    print(resource.getrlimit(resource.RLIMIT_CORE)[0] == 0)
"""


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_CORE)[1] == 0, reason="this system dumps no core anyway")
@pytest.mark.parametrize(("group", "off"), [("device", True), ("recommender", True), ("data", False)])
def test_commands_that_hold_keys_leave_no_core_dump(group: str, off: bool) -> None:
    words = ["describe", "nothing-here"] if group == "data" else ["status", "nothing-here"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, group, *words], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode in (3, 5), done.stderr
    assert done.stdout.splitlines()[-1] == str(off)
