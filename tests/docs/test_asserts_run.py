"""What the tests themselves stand on: an assert is never skipped in silence."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import low_floors

ROOT = Path(__file__).parents[2]
CLAIMS = """
import sys
from support.helper import must

def test_the_test_module():
    assert sys.flags.optimize == 0, "as it should fail"

def test_a_helper():
    must(sys.flags.optimize == 0)
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Two claims that are false under -O, one of them in a helper, under this project's own conftest.py."""
    (tmp_path / "support").mkdir()
    (tmp_path / "support" / "__init__.py").touch()
    (tmp_path / "support" / "helper.py").write_text("def must(true):\n    assert true\n")
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_claims.py").write_text(CLAIMS)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return tmp_path


def run(suite: Path, *words: str, optimize: str = "") -> subprocess.CompletedProcess[str]:
    """Without the plugins of other packages, which take seconds to load."""
    environment = {**os.environ, "PYTHONOPTIMIZE": optimize, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    quiet = ["-p", "no:cacheprovider", "-W", "ignore::pytest.PytestConfigWarning"]
    command = [sys.executable, *words, "-p", "xdist.plugin", *quiet]
    return subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_asserts_of_tests_and_their_helpers_hold_under_optimisation(suite: Path, workers: str) -> None:
    assert "2 passed" in run(suite, "-m", "pytest", "-n", workers).stdout
    assert "2 failed" in run(suite, "-m", "pytest", "-n", workers, optimize="1").stdout


def test_a_run_whose_workers_are_not_optimised_as_asked_is_refused(suite: Path) -> None:
    done = run(suite, "-O", "-m", "pytest", "-n", "1")
    assert done.returncode != 0
    assert "set PYTHONOPTIMIZE=1" in done.stdout + done.stderr
    assert "passed" not in done.stdout


def test_helpers_of_this_suite_are_read_that_way() -> None:
    assert type(low_floors.__loader__).__name__ == "AssertionRewritingHook"


def test_programs_that_tests_start_assert_nothing_which_would_be_dropped() -> None:
    texts = [
        (str(file.relative_to(ROOT)), node.lineno)
        for file in sorted((ROOT / "tests").rglob("*.py"))
        if file != Path(__file__)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and re.search(r"^\s*assert ", str(node.value), re.M)
    ]
    assert not texts
