"""Kernels are compiled when they are first needed, once, and again when a kernel that they call has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from prirec.util import jit
from prirec.util.jit import Kernel, kernel, kernel_for

CALLEE = "from prirec.util.jit import inlined\n\n\n@inlined\ndef callee(x):\n    return x + {more}\n"
CALLER = """
from prirec.callee import callee
from prirec.util.jit import kernel


@kernel
def caller(x):
    return callee(x)


print(caller(1), sum(caller.stats.cache_hits.values()))
"""


@kernel
def twice(x):
    return 2 * x


@kernel
def four_times(x):
    return twice(twice(x))


@kernel_for("uint64(uint64)")
def same(x):
    return x


def test_a_kernel_is_compiled_or_loaded_at_its_first_call_and_calls_other_kernels():
    assert four_times._dispatcher is None
    assert four_times(3) == 12
    assert four_times._dispatcher is not None
    assert four_times.__name__ == "four_times"
    assert isinstance(four_times, Kernel)


def test_signatures_hold_from_the_first_call():
    assert same(2**64 - 1) == 2**64 - 1
    assert len(same.signatures) == 1


def test_importing_kernels_imports_no_compiler():
    script = "import sys, prirec.model.sample_pass, prirec.graph.neighbours, prirec.model.own_model\n"
    script += "import prirec.privacy.noise, prirec.sharing.merkle\n"
    script += "print([name for name in ('numba', 'llvmlite', 'scipy') if name in sys.modules])"
    assert _run(script) == "[]"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A copy of the package, with a kernel that calls another one."""
    package = tmp_path / "site" / "prirec"
    shutil.copytree(jit.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "callee.py").write_text(CALLEE.format(more=1))
    (package / "caller.py").write_text(CALLER)
    return package


def test_kernels_are_kept_beside_the_package(copied, tmp_path):
    assert _call(copied, tmp_path) == "2 0"
    assert _call(copied, tmp_path) == "2 1"
    assert _kept(copied / "__pycache__") == {"caller", "callee"}


def test_where_nothing_can_be_written_beside_the_package_they_are_kept_in_the_cache_of_the_user(copied, tmp_path):
    (copied / "__pycache__").write_text("a file where a folder would have to be")  # stops root too
    assert _call(copied, tmp_path) == "2 0"
    assert _call(copied, tmp_path) == "2 1"
    assert _kept(tmp_path / "cache" / "prirec") == {"caller", "callee"}


def test_a_folder_that_is_named_comes_first(copied, tmp_path):
    named = {"NUMBA_CACHE_DIR": str(tmp_path / "named")}
    assert _call(copied, tmp_path, **named) == "2 0"
    assert _call(copied, tmp_path, **named) == "2 1"
    assert _kept(tmp_path / "named") == {"caller", "callee"}
    assert not list(copied.rglob("*.nbi"))


def test_without_any_folder_kernels_work(copied, tmp_path):
    for name in ("file", "cache"):
        (tmp_path / name).write_text("no folder")
    (copied / "__pycache__").write_text("no folder either")
    assert _call(copied, tmp_path, HOME=str(tmp_path / "file")) == "2 0"


def test_a_kernel_is_compiled_anew_when_one_that_it_calls_has_changed(copied, tmp_path):
    assert _call(copied, tmp_path) == "2 0"
    (copied / "callee.py").write_text(CALLEE.format(more=2))
    assert _call(copied, tmp_path) == "3 0"
    assert len(list((copied / "__pycache__").glob("kernels-*"))) == 1  # what nobody will use again is gone


def test_a_cache_that_installations_share_loses_what_nobody_used_for_a_month(copied, tmp_path):
    (copied / "__pycache__").write_text("no folder")
    kept = tmp_path / "cache" / "prirec"
    for name, days in (("kernels-old", 31), ("kernels-other", 29)):
        (kept / name).mkdir(parents=True)
        used = (kept / name).stat().st_mtime - 86_400 * days
        os.utime(kept / name, (used, used))
    _call(copied, tmp_path)
    assert not (kept / "kernels-old").exists()
    assert (kept / "kernels-other").exists()
    assert len(list(kept.iterdir())) == 2


def _call(package: Path, tmp_path: Path, **environment: str) -> str:
    return _run(
        "import prirec.caller", PYTHONPATH=str(package.parent), XDG_CACHE_HOME=str(tmp_path / "cache"), **environment
    )


def _run(script: str, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    found = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True, env={**clean, **environment}
    )
    return found.stdout.strip()


def _kept(folder: Path) -> set[str]:
    """Whose compiled code is there."""
    return {path.name.split(".")[0] for path in folder.rglob("*.nbi")}
