"""What a terminal shows while prirec works: bars that fill up, signs of life, and readable refusals."""

import re

import pytest
from rich.progress import Progress

from prirec.cli.output import bar
from prirec.engines.state import IterationReport
from support import messages
from support.shell import call, says, write_city
from support.terminal import watch

pytestmark = pytest.mark.xdist_group("a training that is watched")
ITERATIONS = 5
BAR = re.compile(r"training +━+[╸╺]?━* +(\d+)/5 +(loss \d\.\d{4}|waiting|preparing)(, measuring)? +[-\d]:")


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    return write_city(tmp_path_factory.mktemp("watched") / "city")


@pytest.fixture(scope="module")
def trained(city):
    """Its answer in a pipe, its progress at a terminal."""
    words = ("--preset", "rounds", "--iterations", ITERATIONS)
    seen = watch("train", city, "--out", city.with_name("run"), *words, piped=True)
    assert seen.code == 0, seen.written
    return seen


def test_a_bar_with_the_loss_fills_up_and_stays(trained):
    bars = [found for line in trained.frames if (found := BAR.search(line))]
    counts = [int(found[1]) for found in bars]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, ITERATIONS)
    assert bars[0][2] in {"waiting", "preparing"}
    (last,) = [found for line in trained.screen if (found := BAR.search(line))]
    assert last[1] == str(ITERATIONS)
    assert last[2].startswith("loss ")
    assert last[3] is None


def test_while_data_are_read_the_terminal_says_so_and_forgets_it(trained):
    assert any("reading the data" in line for line in trained.frames)
    assert not any("reading the data" in line for line in trained.screen)


def test_a_pipe_gets_the_answer_without_bars_and_codes(trained):
    assert f"{ITERATIONS} iterations; saved to" in trained.stdout
    assert "\x1b" not in trained.stdout
    assert "\r" not in trained.stdout
    assert "━" not in trained.stdout
    assert not any("saved to" in line for line in trained.frames)


def test_the_cursor_is_given_back(trained):
    hidden, shown = (trained.written.rfind(code) for code in ("\x1b[?25l", "\x1b[?25h"))
    assert 0 <= hidden < shown


def test_a_refusal_in_the_middle_of_work_is_the_only_line_left_on_the_screen(city, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "visits.csv").write_text("user,poi\nu1,\n")
    seen = watch("train", broken, "--out", tmp_path / "run", piped=False)
    assert seen.code == 3
    (line,) = seen.screen
    assert line.startswith("error: ")
    assert says(line, messages.in_column("poi", messages.ID_EMPTY, file="visits.csv", line=2))
    assert any("reading the data" in frame for frame in seen.frames)


def test_without_a_terminal_there_is_no_progress_at_all(city, tmp_path):
    found = call("train", city, "--out", tmp_path / "run", "--preset", "fm", "--iterations", 2)
    assert found.exit_code == 0
    assert "\x1b" not in found.stdout + found.stderr
    assert "loss 0." not in found.stderr


def passed(iteration):
    return IterationReport(iteration=iteration, loss=0.5, took_part=1, in_sum=1)


@pytest.mark.parametrize(("told", "full"), [((20,), 20), ((11, 12), 12), ((), 20)])
def test_a_bar_is_full_after_a_resumed_an_early_stopped_and_a_finished_training(told, full):
    with Progress(disable=True) as shown:
        row = bar(shown, "training", iterations=20)
        for iteration in told:
            row.tell(passed(iteration))
        row.finish()
        assert (shown.tasks[0].completed, shown.tasks[0].total) == (full, full)


def test_after_its_last_iteration_a_model_is_measured_and_then_done():
    with Progress(disable=True) as shown:
        row = bar(shown, "training", iterations=2)
        stages = []
        for act in (lambda: row.tell(passed(1)), lambda: row.tell(passed(2)), row.finish):
            act()
            stages.append(shown.tasks[0].fields["stage"])
    assert stages == ["loss 0.5000", "loss 0.5000, measuring", "loss 0.5000"]
