"""docs/one-budget.md cannot drift from what was measured, nor from the settings that it tells of."""

from types import ModuleType

import numpy as np
import pytest

from prirec.config import PRIVATE
from prirec.privacy.plan import MOMENTS_PART
from support.pages import ROOT, measured, page_writer

MEASURED = measured("private")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return page_writer("benchmarks/private_page.py", monkeypatch)


def test_the_tables_are_what_was_measured(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.page(text, MEASURED), "docs/one-budget.md is old: run make bench"


def test_on_yelp_the_budget_costs_less_than_half_a_hundredth_against_fm_with_the_same_features() -> None:
    """What the README claims."""
    difference = MEASURED["yelp"]["private: difference from FM"]
    assert -0.005 < difference["low"] < difference["mean"] < difference["high"]
    mean, least, most = (f"{-difference[name]:.4f}" for name in ("mean", "high", "low"))
    words = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{mean} (95 % interval {least} to {most}, ten splits" in words, "the README gives another interval"


README_ROWS = {
    "which sees everyone's raw data": "centralised FM, tuned",
    "the paper's schedule": "PriRec, paper",
    "for each person in total": "private, ε = 1",
    "10 % of the devices lost": "private, ε = 1, 10 % lost",
    "in rounds, no noise": "PriRec, rounds",
    "popularity alone": "popularity alone",
}


@pytest.mark.parametrize(("words", "name"), README_ROWS.items(), ids=README_ROWS.values())
def test_the_readme_gives_the_means_of_three_splits_that_were_measured(words: str, name: str) -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("| Yelp | Foursquare Tokyo | trivago |")[2]
    shown = next(line for line in table.splitlines() if words in line).split("|")[2:5]
    figures = measured("figures")
    cities = ("yelp", "foursquare-tokyo", "trivago")
    if name in MEASURED["yelp"]:
        aucs = [MEASURED[city][name][:3] for city in cities]
    else:
        aucs = [[seed["auc"] for seed in figures[city][name]] for city in cities]
    assert [cell.strip(" *") for cell in shown] == [f"{np.mean(three):.3f}" for three in aucs]


def test_the_settings_on_the_page_are_those_of_the_preset(page: ModuleType) -> None:
    text, p = page.PAGE.read_text(encoding="utf-8"), PRIVATE.privacy
    assert {p.popularity, p.moments, p.interaction} == {None}
    assert text.count("| chosen by the plan |") == 2
    for part in (MOMENTS_PART, p.quality):
        assert f"| {part:.0%} |".replace("%", " %") in text
    assert (p.epsilon_per_user, p.delta) == (1.0, 1e-6)
