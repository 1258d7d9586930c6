"""Whatever is refused is one line that begins with 'error:', whoever refuses it, and says what was meant."""

import pytest

from support.shell import call, flat, write_city


def refused(*words: object) -> str:
    found = call(*words)
    assert (found.exit_code, found.stdout) == (2, ""), found.output
    (line,) = found.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["trian", "x"], "there is no command 'trian'; did you mean 'train'?"),
        (["device", "sttus", "x"], "there is no command 'sttus'; did you mean 'status'?"),
        (["city", "zzz"], "there is no command 'zzz'; known are up"),
        (["train", "x", "--iteration", 3], "there is no option --iteration; did you mean '--iterations'?"),
        (
            ["settings", "--preset", "pivate"],
            "invalid value for --preset: 'pivate' is not one of paper, rounds, private, fm; did you mean 'private'?",
        ),
        (
            ["settings", "--preset", "zzz"],
            "invalid value for --preset: 'zzz' is not one of paper, rounds, private, fm",
        ),
        (["settings", "--set", "iteratons=3"], "unknown setting 'iteratons'; did you mean 'iterations'?"),
        (["reproduce", "tabel4"], "there is no experiment 'tabel4'; did you mean 'table4'?"),
        (["tune", "smal"], "there is no city 'smal'; did you mean 'small'?"),
        (["tune", "small", "--model", "PriRek"], "no model 'PriRek' can be tuned; did you mean 'PriRec'?"),
        (["train"], "missing argument 'DATA'; `prirec train --help` says more"),
        (["recommend", "a", "b"], "missing option --person; `prirec recommend --help` says more"),
    ],
)
def test_what_was_meant_is_said(words, said):
    assert refused(*words).replace("`root ", "`prirec ") == said


def test_numbers_and_extra_words_are_refused_in_the_same_form():
    assert refused("train", "x", "--out", "y", "--iterations", "many").startswith("invalid value for --iterations: ")
    assert refused("privacy", "plan", "--people", 0).startswith("invalid value for --people: ")
    assert "unexpected extra argument" in refused("train", "a", "b", "--out", "c")


def test_a_group_of_commands_alone_still_shows_what_is_in_it():
    found = call("privacy")
    assert found.exit_code == 2
    assert "error:" not in found.output
    assert "plan" in found.output


def test_names_with_commas_are_not_run_together():
    said = refused("tune", "wwww")
    assert "'tokyo', 'tokyo, complete', 'tokyo, profiles'" in said


def test_a_flag_is_not_taken_for_the_name_of_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in (["reproduce", "table4"], ["train", "x", "--out", "y"], ["evaluate", "x", "y"]):
        assert refused(*words, "--report", "--quick").startswith("a file is to be named before --quick")
    assert list(tmp_path.iterdir()) == []


def test_own_data_are_not_taken_for_published_ones(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = refused("reproduce", "table4", "--data", write_city(tmp_path / "own"))
    assert "holds none of the published data" in said
    assert "use `prirec train` and `prirec evaluate`" in said
    assert "holds none of the published data" in refused("reproduce", "all", "--data", "nowhere")
    assert [entry.name for entry in tmp_path.iterdir()] == ["own"]


def test_a_page_of_results_says_where_those_of_quick_runs_are(tmp_path):
    assert call("reproduce", "table2", "--quick", "--out", tmp_path).exit_code == 0
    said = refused("reproduce", "--report", tmp_path / "page.html", "--out", tmp_path)
    assert "those of quick runs are shown with --quick" in said
    found = call("reproduce", "--report", tmp_path / "page.html", "--quick", "--out", tmp_path)
    assert found.exit_code == 0
    assert f"report {tmp_path / 'page.html'}" in flat(found.stdout)
