"""The summary of a soak says what was run and what was not."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from support.pages import page_writer


@pytest.fixture
def soak(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return page_writer("benchmarks/soak.py", monkeypatch)


def test_a_row_shows_the_exit_code_and_the_last_line(soak: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    print_two = "import os; print('first'); print('=== 3 of', os.environ['HOW'], '==='); print(); raise SystemExit(1)"
    step = soak.Step("tests", [sys.executable, "-c", print_two], {"HOW": "four"}, shows_last_line=True)
    done = soak.run(step, commit="abc")
    assert (done.code, done.last, done.commit) == (1, "3 of four", "abc")
    assert "first\n" in capsys.readouterr().out


def test_a_soak_that_ended_early_does_not_look_whole(soak: ModuleType) -> None:
    names, titles = list(soak.STEPS), [step.title for step in soak.STEPS.values()]
    outcomes = {
        names[0]: soak.Outcome("abc", True, 0, 20.0, "9 passed"),
        names[1]: soak.Outcome("def", False, 2, 1.5, ""),
    }
    rows = soak.page(outcomes).splitlines()[-len(names) - 1 :]
    assert rows[0] == f"| {titles[0]} | passed | 20.0 | abc | yes | 9 passed |"
    assert rows[1] == f"| {titles[1]} | FAILED | 1.5 | def | no |  |"
    assert rows[2:-1] == [f"| {title} | NOT RUN | | | | |" for title in titles[2:]]
    assert rows[-1] == "| together | | 21.5 | | | |"


def test_steps_that_are_run_alone_keep_the_rows_of_the_others(
    soak: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    author = ["-c", "user.name=a", "-c", "user.email=a@b.invalid"]
    subprocess.run(["git", *author, "commit", "--quiet", "--allow-empty", "-m", "x"], cwd=tmp_path, check=True)
    says = {code: soak.Step(f"exit {code}", [sys.executable, "-c", f"raise SystemExit({code})"]) for code in (0, 1)}
    monkeypatch.setattr(soak, "ROOT", tmp_path)
    monkeypatch.setattr(soak, "STEPS", {"good": says[0], "bad": says[1]})
    for argv, code, words in (
        (["good"], 0, ["passed", "NOT RUN"]),
        (["bad"], 1, ["passed", "FAILED"]),
        ([], 1, ["passed", "FAILED"]),
    ):
        monkeypatch.setattr(sys, "argv", ["soak.py", *argv])
        assert soak.main() == code
        assert [row.split(" | ")[1] for row in (folder / "SOAK.md").read_text().splitlines()[-3:-1]] == words


def test_all_tests_of_a_soak_are_optimised(soak: ModuleType) -> None:
    step = soak.STEPS["tests"]
    asked = [step.command[0], "-c", "import sys; print(sys.flags.optimize)"]
    done = subprocess.run(asked, env=step.environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
