"""The table of bytes cannot drift: the page is counted again, and its formulas hold to the byte."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = spec_from_file_location("bytes_table", ROOT / "benchmarks" / "bytes_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_wire_counts(table: ModuleType) -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), "docs/reference/bytes.md is old: run make docs"


@pytest.mark.parametrize("size", [2, 3, 7])
def test_the_ring_elements_sent_are_as_many_as_the_formulas_say(table: ModuleType, size: int) -> None:
    one = table.LENGTH * table.WORD
    shares, pads = (table.counted(method, size) for method in ("shares", "pads"))
    assert shares.payload == {"share": size * (size - 1) * one, "partial": size * one}
    assert pads.payload == {"masked": size * one}
