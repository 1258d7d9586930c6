"""The table of bytes cannot drift: the page is counted again, and its formulas hold to the byte."""

from types import ModuleType

import pytest

from support.pages import page_writer


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return page_writer("benchmarks/bytes_table.py", monkeypatch)


def test_the_page_is_what_the_wire_counts(table: ModuleType) -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), "docs/reference/bytes.md is old: run make docs"


@pytest.mark.parametrize("size", [2, 3, 7])
def test_the_ring_elements_sent_are_as_many_as_the_formulas_say(table: ModuleType, size: int) -> None:
    one = table.LENGTH * table.WORD
    shares, pads = (table.count_bytes(method, size) for method in ("shares", "pads"))
    assert shares.payload == {"share": size * (size - 1) * one, "partial": size * one}
    assert pads.payload == {"masked": size * one}
