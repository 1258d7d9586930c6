"""docs/cluster.md cannot drift from what was measured, and what was measured keeps what was promised."""

from types import ModuleType

import pytest

from support.pages import measured, page_writer

MEASURED = measured("cluster")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return page_writer("benchmarks/cluster_page.py", monkeypatch)


def test_the_tables_are_what_was_measured(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.page(text, MEASURED), "docs/cluster.md is old: run make bench"


def test_the_drivers_memory_does_not_grow_with_people() -> None:
    assert [row["people"] for row in MEASURED["people"]][-1] >= 2_900_000
    assert all(row["driver"] < 1.0 for row in MEASURED["people"])


def test_a_round_takes_time_in_proportion_to_people(page: ModuleType) -> None:
    """By processor time, as the other figures here: by the clock it would hang on what else the machine had to do."""
    fitted = page.cluster.fit([(row["people"], row["processor seconds"]) for row in MEASURED["people"]])
    assert fitted["R2"] >= 0.98


def test_two_actors_are_as_fast_as_was_promised(page: ModuleType) -> None:
    faster, slower = page.cluster.compared(MEASURED["beside"], "processor seconds")
    assert faster >= 1.6
    assert slower <= 0.15
