"""The summary of a soak says what was run and what was not."""

import subprocess
import sys
from types import ModuleType

import pytest

from support.pages import page_writer


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return page_writer("benchmarks/soak.py", monkeypatch)


def test_a_row_shows_the_exit_code_and_the_last_line(soak: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    print_two = "import os; print('first'); print('=== 3 of', os.environ['HOW'], '==='); print(); raise SystemExit(1)"
    done = soak.run(soak.Step("tests", [sys.executable, "-c", print_two], {"HOW": "four"}, shows_last_line=True))
    assert (done.code, done.last) == (1, "3 of four")
    assert "first\n" in capsys.readouterr().out


def test_a_soak_that_ended_early_does_not_look_whole(soak: ModuleType) -> None:
    names = [step.name for step in soak.STEPS]
    outcomes = {names[0]: soak.Outcome(0, 20.0, "9 passed"), names[1]: soak.Outcome(2, 1.5, "oh")}
    rows = soak.page(outcomes, commit="abc").splitlines()[-len(names) - 1 :]
    assert rows[0] == f"| {names[0]} | passed | 20.0 | 9 passed |"
    assert rows[1] == f"| {names[1]} | FAILED | 1.5 |  |"
    assert rows[2:-1] == [f"| {name} | NOT RUN | | |" for name in names[2:]]
    assert rows[-1] == "| together | | 21.5 | |"


def test_all_tests_of_a_soak_are_optimised(soak: ModuleType) -> None:
    step = soak.STEPS[0]
    asked = [step.command[0], "-c", "import sys; print(sys.flags.optimize)"]
    done = subprocess.run(asked, env=step.environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
