"""docs/mechanisms.md cannot drift from what was measured, nor its plot from the mechanisms that there are."""

from types import ModuleType

import numpy as np
import pytest

from prirec_experiments.unary import COMPARED
from support import messages
from support.pages import measured, page_writer

MEASURED = measured("popularity")["auc"]


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return page_writer("benchmarks/popularity_page.py", monkeypatch)


def test_the_tables_are_what_was_measured(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.filled(text, MEASURED), "docs/mechanisms.md is old: run make bench"
    row = next(line for line in text.splitlines() if line.startswith("| secure sum |"))
    assert row.split(" | ")[3] == f"{np.mean(MEASURED['foursquare-tokyo']['secure sum']['1']):.3f}"


def test_every_mechanism_is_measured_and_named_in_the_plot(page: ModuleType) -> None:
    picture = page.PICTURE.read_text(encoding="utf-8")
    for city in MEASURED.values():
        assert city.keys() == {"plain counts", *(one.name for one in COMPARED)}
    assert all(picture.count(f">{one.name}<") == len(MEASURED) for one in COMPARED if one.user_level)


def test_a_page_without_its_marks_is_refused(page: ModuleType) -> None:
    with pytest.raises(ValueError, match=messages.Foreign.SEVERAL_GENERATED_PARTS):
        page.filled("# nothing", MEASURED)


def test_names_in_the_plot_keep_their_distance_and_their_order(page: ModuleType) -> None:
    spread = page.popularity_plot._spread
    assert spread(np.array([0.0, 50.0, 100.0]), 10.0).tolist() == [0.0, 50.0, 100.0]
    assert spread(np.array([20.0, 20.0, 20.0]), 10.0).tolist() == [10.0, 20.0, 30.0]
    crowded = spread(np.sort(np.random.default_rng(0).random(12) * 60), 10.0)
    assert (np.diff(crowded) >= 10 - 1e-9).all()
