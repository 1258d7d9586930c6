"""A window of many reports through both operators, each a process, over HTTPS (benchmarks/window.py).

One of 100,000 is a step of make soak by itself, which holds the same."""

from types import ModuleType

import pytest

from support.pages import page_writer


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return page_writer("benchmarks/window.py", monkeypatch)


@pytest.mark.parametrize(
    "devices", [pytest.param(120, marks=pytest.mark.long), pytest.param(10_000, marks=pytest.mark.soak)]
)
def test_every_report_of_a_window_is_in_its_sum_and_memory_is_flat(window: ModuleType, devices: int) -> None:
    assert window.faults(window.measure(devices)) == []


def test_a_window_that_lost_a_report_or_kept_memory_for_each_is_at_fault(window: ModuleType) -> None:
    memory = {"at a tenth": 400.0, "when all had reported": 499.0, "at the most": 500.0}
    found = {
        "devices": 100_000, "in the sum": 100_000, "exact but for noise": True, "noise, × planned": 1.05,
        "bytes of a device": 23_196, "MB": {"leader": memory, "helper": memory},
    }  # fmt: skip
    assert window.faults(found) == []
    for wrong in (
        {"in the sum": 99_999}, {"exact but for noise": False}, {"noise, × planned": 0.5},
        {"noise, × planned": 1.5}, {"bytes of a device": 30_000},
        {"MB": {"leader": memory, "helper": memory | {"when all had reported": 501.0}}},
    ):  # fmt: skip
        assert len(window.faults(found | wrong)) == 1
