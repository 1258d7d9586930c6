"""docs/one-budget.md cannot drift from what was measured, nor from the settings that it tells of."""

from types import ModuleType

import pytest

from prirec.config import PRIVATE
from prirec.privacy.plan import MOMENTS_PART
from support.pages import measured, page_writer

MEASURED = measured("private")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return page_writer("benchmarks/private_page.py", monkeypatch)


def test_the_tables_are_what_was_measured(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.page(text, MEASURED), "docs/one-budget.md is old: run make bench"


def test_on_yelp_the_budget_costs_less_than_half_a_hundredth_against_fm_with_the_same_features() -> None:
    difference = MEASURED["yelp"]["private: difference from FM"]
    assert -0.005 < difference["low"] < difference["mean"] < difference["high"]


def test_the_settings_on_the_page_are_those_of_the_preset(page: ModuleType) -> None:
    text, p = page.PAGE.read_text(encoding="utf-8"), PRIVATE.privacy
    assert {p.popularity, p.moments, p.interaction} == {None}
    assert text.count("| chosen by the plan |") == 2
    for part in (MOMENTS_PART, p.quality):
        assert f"| {part:.0%} |".replace("%", " %") in text
    assert (p.epsilon_per_user, p.delta) == (1.0, 1e-6)
