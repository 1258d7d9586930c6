"""Programs that write pages, the figures that were measured for them, and the commands on them."""

import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from support.shell import call

ROOT = Path(__file__).parents[2]
HERE = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
ON_STAGE = [ROOT / "docs" / "how-to" / page for page in ("deployment.md", "operator.md")]  # in a town, by its own test
EXPERIMENTS = ROOT / "docs" / "experiments.md"  # by the tests that look at what they gave


def commands(page: Path) -> list[str]:
    """What a reader would type."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]


TWO_OPERATORS = ROOT / "docs" / "how-to" / "two-operators.md"
CITY_UP, CITY_OF_TWO = (commands(page)[0] for page in (ON_STAGE[0], TWO_OPERATORS))  # by the tests of a whole city


def run(line: str, *, inside: Path) -> str:
    """A command of a page, which must go well; what it complained of. A cluster is started by a process of its own."""
    program, *words = shlex.split(line)
    if "cluster" in words:
        done = subprocess.run([program, *words], cwd=inside, env=HERE, capture_output=True, text=True, check=False)
        code, complaint, cause = done.returncode, done.stderr, None
    else:
        with chdir(inside):
            found = call(*words)
        code, complaint, cause = found.exit_code, found.stderr, found.exception
    if (program, code) != ("prirec", 0):  # said by hand: under -O there is no assert outside of tests
        raise AssertionError(f"{line}\n{complaint}") from cause
    return complaint


def page_writer(path: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A program that is no part of the package and finds its helpers beside it."""
    monkeypatch.syspath_prepend(str((ROOT / path).parent))
    return import_module(Path(path).stem)


def measured(what: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))[what]
