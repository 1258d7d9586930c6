"""A window of many reports through both operators, each a process, over HTTPS (benchmarks/window.py)."""

from types import ModuleType

import pytest

from support.pages import page_writer

KEPT = 1000  # bytes that an operator may keep in memory for each report: a name, a hash, and what holds them
KERNELS = 250  # MB that are loaded with the first proofs


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return page_writer("benchmarks/window.py", monkeypatch)


@pytest.mark.parametrize(
    ("devices", "loaded"),
    [pytest.param(120, KERNELS, marks=pytest.mark.long), pytest.param(100_000, 0, marks=pytest.mark.soak)],
)
def test_every_report_of_a_window_is_in_its_sum_and_memory_is_flat(
    window: ModuleType, devices: int, loaded: int
) -> None:
    found = window.measure(devices)
    assert found["in the sum"] == devices
    assert found["exact but for noise"]
    assert 0.7 < found["noise, × planned"] < 1.4  # of 445 entries; six standard deviations are 0.2
    assert found["bytes of a device"] < 1.2 * 21_000
    for memory in found["MB"].values():
        assert memory["when all had reported"] - memory["at a tenth"] < loaded + devices * KEPT / 1e6
