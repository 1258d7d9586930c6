"""Programs that write pages, and the figures that were measured for them."""

import json
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def page_writer(path: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A program that is no part of the package and finds its helpers beside it."""
    monkeypatch.syspath_prepend(str((ROOT / path).parent))
    return import_module(Path(path).stem)


def measured(what: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results.json").read_text(encoding="utf-8"))[what]
