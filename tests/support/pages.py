"""Programs that write pages, the figures that were measured for them, and the commands on them."""

import json
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ON_STAGE = [ROOT / "docs" / "how-to" / page for page in ("deployment.md", "operator.md")]  # in a town, by its own test


def commands(page: Path) -> list[str]:
    """What a reader would type."""
    blocks = re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line and not line.startswith("#")]


def page_writer(path: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A program that is no part of the package and finds its helpers beside it."""
    monkeypatch.syspath_prepend(str((ROOT / path).parent))
    return import_module(Path(path).stem)


def measured(what: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))[what]
