"""Whatever is refused is one line that begins with 'error:', whoever refuses it, and says what was meant."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import prirec
from support import messages
from support.messages import did_you_mean, joined
from support.shell import call, flat, says, write_city


def refused(*words: object) -> str:
    found = call(*words)
    assert (found.exit_code, found.stdout) == (2, ""), found.output
    (line,) = found.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


PRESETS = messages.not_one_of("paper, rounds, private, fm")
REFUSALS = [
    (["trian", "x"], joined(messages.no_such_command("trian"), did_you_mean("train"))),
    (["device", "sttus", "x"], joined(messages.no_such_command("sttus"), did_you_mean("status"))),
    (["city", "zzz"], joined(messages.no_such_command("zzz"), messages.known_are("up"))),
    (["train", "x", "--iteration", 3], joined(messages.no_such_option("--iteration"), did_you_mean("--iterations"))),
    (
        ["settings", "--preset", "pivate"],
        joined(messages.of_option("--preset"), PRESETS, did_you_mean("private")),
    ),
    (["settings", "--preset", "zzz"], joined(messages.of_option("--preset"), PRESETS + "$")),
    (["settings", "--set", "iteratons=3"], did_you_mean("iterations")),
    (["reproduce", "tabel4"], joined(messages.no_such_experiment("tabel4"), did_you_mean("table4"))),
    (["tune", "smal"], joined(messages.no_such_city("smal"), did_you_mean("small"))),
    (["tune", "small", "--model", "PriRek"], joined(messages.no_such_tuned_model("PriRek"), did_you_mean("PriRec"))),
    (
        ["device", "profile", "phone.db", "--set", "age=3"],
        joined(messages.no_such_option("--set"), messages.known_are("--forget, ")),  # no guess: --forget erases
    ),
    (
        ["device", "profile", "phone.db", "--forgt", "age"],
        joined(messages.no_such_option("--forgt"), did_you_mean("--forget")),
    ),
    (["reproduce", "--quick", "--report"], messages.value_missing("--report", "FILE", example="results.html")),
    (["train", "x", "--out"], messages.value_missing("--out", "RUN", example="runs/first")),
    (["privacy", "plan", "--settings"], messages.value_missing("--settings", "FILE")),
    (["train"], joined(messages.Foreign.MISSING_ARGUMENT, messages.help_says_more("root train"))),
    (["recommend", "a", "b"], joined(messages.Foreign.MISSING_OPTION, messages.help_says_more("root recommend"))),
    (["train", "a", "b", "--out", "c"], joined(messages.Foreign.EXTRA_ARGUMENT, messages.help_says_more("root train"))),
    (["train", "x", "--out", "y", "--iterations", "many"], messages.takes("--iterations", "a whole number")),
    (["data", "make", "x", "--people", 1.5], messages.takes("--people", "a whole number")),
    (["data", "make", "x", "--span-km", "wide"], messages.takes("--span-km", "a number")),
    (["privacy", "plan", "--people", 0], messages.is_at_least("--people", 1)),
    (["train", "x", "--out", "y", "--threads", 999], messages.is_at_most("--threads", 256)),
    (["settings", "--set", "iterations=many"], messages.takes("iterations", "a whole number")),
    (["settings", "--set", "linear.alpha=x"], messages.takes("linear.alpha", "a number")),
    (["settings", "--set", "features.dynamic=3"], messages.takes("features.dynamic", "true or false")),
    (["settings", "--set", "features.averages=x"], messages.takes("features.averages", "a list")),
    (["settings", "--set", "features.averages=[1]"], messages.takes("features.averages[0]", "a word")),
    (
        ["settings", "--set", "data.keep=x"],
        joined(messages.of_option("data.keep"), messages.not_one_of("paper, visitors")),
    ),
]


@pytest.mark.parametrize(("words", "message"), REFUSALS, ids=[" ".join(map(str, words)) for words, _ in REFUSALS])
def test_what_was_meant_is_said(words, message):
    assert re.search(message, refused(*words))


def test_a_group_of_commands_alone_still_shows_what_is_in_it():
    found = call("privacy")
    assert found.exit_code == 2
    assert "error:" not in found.output
    assert "plan" in found.output


GROUPS = ("", "data", "privacy", "recommender", "recommender rounds", "recommender keys", "helper", "device", "city")


@pytest.mark.parametrize("group", GROUPS)
def test_what_a_command_does_fits_into_its_line_of_a_list(group):
    listed = re.findall(r"^  [a-z].*", call(*group.split(), "--help").stdout, flags=re.MULTILINE)
    assert listed
    assert not [line for line in listed if line.endswith("...")]


def test_names_with_commas_are_not_run_together():
    assert "'tokyo', 'tokyo, complete', 'tokyo, profiles'" in refused("tune", "wwww")


def test_a_flag_is_not_taken_for_the_name_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (["reproduce", "table4"], ["train", "x", "--out", "y"], ["evaluate", "x", "y"]):
        assert re.search(messages.FLAG_FOR_A_FILE, refused(*words, "--report", "--quick"))
    assert list(tmp_path.iterdir()) == []


def test_own_data_are_not_taken_for_published_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = joined(messages.NO_PUBLISHED_DATA, messages.DATA_OF_YOUR_OWN)
    assert re.search(own, refused("reproduce", "table4", "--data", write_city(tmp_path / "own")))
    assert re.search(messages.NO_PUBLISHED_DATA, refused("reproduce", "all", "--data", "nowhere"))
    assert re.search(messages.QUICK_READS_NO_DATA, refused("reproduce", "table2", "--quick", "--data", "own"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["own"]


def test_a_quick_run_does_not_mind_where_published_data_are(tmp_path, monkeypatch):
    monkeypatch.setenv("PRIREC_DATA", str(tmp_path))
    assert call("reproduce", "table2", "--quick", "--forecast", "--out", tmp_path).exit_code == 0


def test_a_page_of_results_says_where_those_of_quick_runs_are(tmp_path):
    assert call("reproduce", "table2", "--quick", "--out", tmp_path).exit_code == 0
    said = refused("reproduce", "--report", tmp_path / "page.html", "--out", tmp_path)
    assert re.search(messages.RESULTS_OF_QUICK_RUNS, said)
    found = call("reproduce", "--report", tmp_path / "page.html", "--quick", "--out", tmp_path)
    assert found.exit_code == 0
    assert f"report {tmp_path / 'page.html'}" in flat(found.stdout)


@contextmanager
def pipe(path: Path, content: bytes) -> Iterator[Path]:
    """A pipe with somebody who writes to it as soon as it is read, so that a reader would get all of a good file."""
    os.mkfifo(path)

    def write() -> None:
        with suppress(BrokenPipeError):
            path.write_bytes(content)

    writer = threading.Thread(target=write)
    writer.start()
    yield path
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # lets a writer go whom nobody has read from
    writer.join()


@pytest.mark.parametrize(
    ("words", "content", "code", "message"),
    [
        (["settings", "--settings"], b"iterations = 3\n", 2, messages.settings_file_unreadable("pipe")),
        (["train", "city", "--out", "run", "--settings"], b"", 2, messages.settings_file_unreadable("pipe")),
        (
            ["privacy", "plan", "--people", 9000, "--places", 9, "--settings"],
            b"",
            2,
            messages.settings_file_unreadable("pipe"),
        ),
        (["device", "visit", "phone.db", "--from"], b"poi\np1\n", 3, messages.NOT_A_REGULAR_FILE),
    ],
    ids=lambda given: " ".join(map(str, given)) if isinstance(given, list) else "",
)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, monkeypatch, words, content, code, message):
    monkeypatch.chdir(tmp_path)
    with prirec.Device.open(tmp_path / "phone.db"):
        pass
    with pipe(tmp_path / "pipe", content):
        found = call(*words, "pipe")
    assert (found.exit_code, found.stdout) == (code, "")
    assert re.search(message, flat(found.stderr).removeprefix("error: "))


def test_a_pipe_in_a_run_or_for_a_checkpoint_is_refused(tmp_path):
    city = write_city(tmp_path / "city")
    (tmp_path / "run").mkdir()
    with pipe(tmp_path / "run" / "run.json", b"{}"):
        found = call("recommend", tmp_path / "run", city, "--person", "u001")
    assert found.exit_code == 5
    assert says(found.stderr, messages.NO_RUN)
    with pipe(tmp_path / "half", b"PK"):
        found = call("train", city, "--out", tmp_path / "new", "--checkpoint", tmp_path / "half", "--preset", "fm")
    assert found.exit_code == 5
    assert says(found.stderr, messages.CHECKPOINT_DAMAGED)
