"""A window of many reports through both operators, each a process, over HTTPS (benchmarks/window.py)."""

from types import ModuleType

import pytest

from support.pages import page_writer

KEPT = 1500  # bytes that an operator may keep in memory for each report: a name, a hash, and what holds them


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return page_writer("benchmarks/window.py", monkeypatch)


@pytest.mark.parametrize(
    "devices", [pytest.param(120, marks=pytest.mark.long), pytest.param(100_000, marks=pytest.mark.soak)]
)
def test_every_report_of_a_window_is_in_its_sum_and_memory_is_flat(window: ModuleType, devices: int) -> None:
    found = window.measure(devices)
    assert found["in the sum"] == devices
    assert found["exact but for noise"]
    assert 0.7 < found["noise, × planned"] < 1.4  # of 445 entries; six standard deviations are 0.2
    assert found["bytes of a device"] < 1.2 * 21_000
    for memory in found["MB"].values():
        assert memory["when all had reported"] - memory["at a tenth"] < 250 + devices * KEPT / 1e6
