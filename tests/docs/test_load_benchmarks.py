"""What benchmarks say about memory over many rounds: a leak is noticed, and memory that stays is not called one."""

from types import ModuleType

import numpy as np
import pytest

from support.pages import page_writer


@pytest.fixture
def server_memory(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return page_writer("benchmarks/server_memory.py", monkeypatch)


def in_jumps(*, rounds: int, leak: int, seed: int) -> list[int]:
    """In kB, as an operating system counts: memory comes in jumps, and some of what is used is given back."""
    rng = np.random.default_rng(seed)
    used = 220_000 + leak * np.arange(rounds) + 40 * rng.integers(0, 4, rounds)
    return (used // 32 * 32).tolist()


@pytest.mark.parametrize("rounds", [100, 1000])
@pytest.mark.parametrize("seed", range(5))
def test_two_kilobytes_lost_a_round_are_noticed(server_memory: ModuleType, rounds: int, seed: int) -> None:
    slope, interval = server_memory.slope(in_jumps(rounds=rounds, leak=2, seed=seed))
    assert abs(slope - 2) < interval
    assert rounds == 100 or slope - interval > 0


@pytest.mark.parametrize("seed", range(5))
def test_memory_that_stays_has_no_slope(server_memory: ModuleType, seed: int) -> None:
    slope, interval = server_memory.slope(in_jumps(rounds=1000, leak=0, seed=seed))
    assert abs(slope) < interval < 0.5


def test_what_fills_in_the_first_rounds_is_not_counted(server_memory: ModuleType) -> None:
    filling = np.minimum(np.arange(1000), 250) * 100
    slope, _ = server_memory.slope((220_000 + filling).tolist())
    assert slope == 0
