"""prirec reproduce: every experiment in its quick form, from the command to the page."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from prirec_experiments.cities import CITIES
from prirec_experiments.experiment import Workspace, measure_cells, remaining
from prirec_experiments.models import MODELS as ENTRANTS
from prirec_experiments.reproduce import EXPERIMENTS, print_section
from prirec_experiments.results_store import Cell, ResultsStore
from prirec_experiments.tables import TABLE_4
from support.pages import EXPERIMENTS as PAGE
from support.pages import commands, run
from support.shell import call, flat

ROOT = Path(__file__).parents[2]

MODELS = {"popularity alone", "local only", "FM", "FM + ids", "MF", "DMF", "PriRec-", "PriRec", "PriRec, rounds"}


pytestmark = [pytest.mark.long, pytest.mark.xdist_group("reproduced")]  # once for all of them


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader of the page has after its commands."""
    folder = tmp_path_factory.mktemp("reproduced")
    for line in commands(PAGE):
        assert run(line, inside=folder) == ""
    return folder / "results"


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_figures_to_show(out: Path, name: str) -> None:
    experiment = EXPERIMENTS[name]
    settings, store = experiment.settings(quick=True), ResultsStore(out / "quick", name)
    assert all(store.values(cell) is not None for cell in experiment.cells(settings))
    shown = experiment.show(settings, store)
    assert shown.tables
    for table in shown.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}
    assert experiment.title in (out / "quick" / "RESULTS.md").read_text()
    assert experiment.title in (out / "report.html").read_text()


def test_drawings_are_there_and_stand_by_themselves(out: Path) -> None:
    text = (out / "quick" / "RESULTS.md").read_text()
    named = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert len(named) == len(set(named)) >= 4
    for name in named:
        drawing = (out / "quick" / name).read_text()
        assert drawing.startswith("<svg")
        assert "href=" not in drawing.replace('href="#', "")


def test_scores_that_are_no_probabilities_have_no_log_loss(out: Path) -> None:
    settings = EXPERIMENTS["table4"].settings(quick=True)
    tables = EXPERIMENTS["table4"].show(settings, ResultsStore(out / "quick", "table4")).tables
    losses = {
        row[0]: row[table.columns.index(">log loss")] for table in tables if ">log loss" in table.columns
        for row in table.rows
    }  # fmt: skip
    assert losses.pop("popularity alone (control)") == "–"
    assert "–" not in losses.values()


def test_the_papers_figures_stand_beside_what_stands_for_its_data_and_not_beside_a_quick_run(out: Path) -> None:
    full = (ROOT / "experiments" / "RESULTS.md").read_text("utf-8")
    for model in ("FM", "PriRec-", "PriRec"):
        assert f"| {model}, the paper's | {TABLE_4[model, 5, 0.8]:.4f} |" in full
    for name, experiment in EXPERIMENTS.items():
        shown = experiment.show(experiment.settings(quick=True), ResultsStore(out / "quick", name))
        assert not any(row[0].endswith(", the paper's") for table in shown.tables for row in table.rows)


def test_every_quick_table_can_be_read_at_eighty_columns(out: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for name, experiment in EXPERIMENTS.items():
        shown = experiment.show(experiment.settings(quick=True), ResultsStore(out / "quick", name))
        print_section(shown)
        printed = capsys.readouterr().out
        assert max(map(len, printed.splitlines())) <= 80
        words = set(printed.split())
        for table in shown.tables:
            assert {word for row in table.rows for cell in row for word in cell.split()} <= words, table.title


def test_a_quick_table_says_how_many_people_the_budget_takes(out: Path) -> None:
    text = (out / "quick" / "RESULTS.md").read_text("utf-8")
    assert re.search(r"PriRec, private: Noise drowns much of what \d+ people add: ε = 1 takes .* people for", text)


def test_results_name_nobody(out: Path) -> None:
    people = CITIES["small"].open(None).people.ids
    for file in [*(out / "quick").glob("*.json"), out / "quick" / "RESULTS.md", out / "report.html"]:
        text = file.read_text()
        assert not any(f'"{person}"' in text for person in people)


def test_finished_cells_are_not_measured_again(out: Path) -> None:
    before = {file.name: file.read_bytes() for file in (out / "quick").glob("*.json")}
    again = call("reproduce", "all", "--quick", "--out", out, "--threads", 1)
    assert again.exit_code == 0
    assert {file.name: file.read_bytes() for file in (out / "quick").glob("*.json")} == before
    for line in again.stdout.splitlines():
        if line.split() and line.split()[0] in EXPERIMENTS:
            assert line.split()[2] == "0"


def test_a_report_is_made_of_what_is_there(out: Path) -> None:
    page = out / "another.html"
    assert call("reproduce", "--quick", "--out", out, "--report", page).exit_code == 0
    assert page.read_bytes() == (out / "report.html").read_bytes()


def test_a_stopped_experiment_goes_on_where_it_was(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["table4"]
    settings, workspace = experiment.settings(quick=True), Workspace()
    settings |= {"models": ["popularity alone", "MF", "FM"], "seeds": [0]}
    cells = experiment.cells(settings)
    first = remaining(experiment, cells, workspace, ResultsStore(tmp_path, "table4"))
    assert (len(first.cells), first.done, first.without_data) == (3, 0, ())
    assert first.seconds > 0

    def stop(cell: Cell) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_cells(experiment, first, workspace, ResultsStore(tmp_path, "table4"), done=stop)
    left, measured = remaining(experiment, cells, workspace, ResultsStore(tmp_path, "table4")), list[str]()
    assert (len(left.cells), left.done) == (2, 1)
    measure_cells(
        experiment, left, workspace, ResultsStore(tmp_path, "table4"), done=lambda cell: measured.append(cell.model)
    )
    assert len(measured) == 2
    assert remaining(experiment, cells, workspace, ResultsStore(tmp_path, "table4")).cells == ()


def test_other_settings_or_data_are_another_cell(tmp_path: Path) -> None:
    experiment, workspace = EXPERIMENTS["table4"], Workspace()
    cell = Cell.of("small visits", "MF", {"seed": 0})
    one = experiment.measure.digest(cell, workspace)
    assert experiment.measure.digest(cell.changed(rival__alpha=0.2), workspace) != one
    assert experiment.measure.digest(cell.changed(model__dimension=6), workspace) != one
    assert experiment.measure.digest(cell.changed(data__ratio=2), workspace) != one
    assert experiment.measure.digest(Cell.of("small visits", "FM", {"seed": 0}), workspace) != one
    workspace.city("small visits")
    name, dataset, _ = workspace._open
    workspace._open = (name, dataset, "other data")
    assert experiment.measure.digest(cell, workspace) != one


def test_a_forecast_measures_nothing(tmp_path: Path) -> None:
    said = call("reproduce", "all", "--quick", "--forecast", "--out", tmp_path / "none")
    assert said.exit_code == 0
    assert "to do" in said.stdout
    assert not (tmp_path / "none").exists()


def test_cities_without_data_are_left_out_with_a_note(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv("PRIREC_DATA", raising=False)
    said = call("reproduce", "figure4", "--forecast", "--out", tmp_path)
    assert said.exit_code == 0
    assert "Yelp (CAPRI) is left out: there is no folder yelp" in flat(said.stderr)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["table9"], "there is no experiment 'table9'; did you mean 'table5'?"),
        ([], "name an experiment, or all"),
        (["--report", "x.html", "--quick", "--out", "nowhere"], "there are no results in nowhere"),
    ],
)
def test_invalid_requests_are_refused_with_the_reason(words: list[str], told: str) -> None:
    said = call("reproduce", *words)
    assert said.exit_code == 2
    assert told in flat(said.stderr)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"version": 9, "cells": {}, "together": {}}', '{"version": 1}'])
def test_a_file_that_holds_no_results_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / "quick" / "table2.json"
    file.parent.mkdir()
    file.write_text(text)
    said = call("reproduce", "table2", "--quick", "--out", tmp_path)
    assert said.exit_code == 5
    assert "move it away" in flat(said.stderr)
    assert file.read_text() == text


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_settings_name_cities_and_models_that_exist(name: str, quick: bool) -> None:
    cells = EXPERIMENTS[name].cells(EXPERIMENTS[name].settings(quick=quick))
    assert len({cell.key for cell in cells}) == len(cells) > 0
    assert {cell.city for cell in cells} <= CITIES.keys()
    if name in ("table4", "table5", "figure5", "figure6", "beyond"):
        assert {cell.model for cell in cells} <= ENTRANTS.keys()


@pytest.mark.parametrize("name", ["table4", "table5"])
def test_the_tables_have_all_that_the_paper_has_three_times_and_the_controls(name: str) -> None:
    cells = EXPERIMENTS[name].cells(EXPERIMENTS[name].settings(quick=False))
    for model, K, share in TABLE_4:
        wanted = {"model.dimension": K, "data.train_share": share}
        found = [one for one in cells if one.model == model and wanted.items() <= dict(one.changes).items()]
        cities = {one.city for one in found}
        assert sorted(int(one.get("seed")) for one in found) == sorted([0, 1, 2] * len(cities))
    assert {cell.model for cell in cells} >= MODELS | {"PriRec, private"}


def test_evidence_comes_back_as_it_was(out: Path) -> None:
    store = ResultsStore(out / "quick", "table4")
    ours, theirs = (store.scores(Cell.of("small visits", model, {
        "model.dimension": 5, "data.train_share": 0.8, "seed": 0})) for model in ("PriRec, rounds", "FM"))  # fmt: skip
    assert (ours.person == theirs.person).all()
    assert (ours.label == theirs.label).all()
    assert not np.array_equal(ours.scores, theirs.scores)
    held = json.loads((out / "quick" / "table4.json").read_text())["together"]["differences"]["small visits"]
    assert held["PriRec, rounds"]["auc"]["low"] < held["PriRec, rounds"]["auc"]["high"]
    assert "FM" not in held


def test_a_report_that_cannot_be_written_is_an_error(out: Path) -> None:
    blocked = out / "blocked"
    blocked.write_text("a file where a folder should be")
    said = call("reproduce", "--quick", "--out", out, "--report", blocked / "report.html")
    assert said.exit_code == 2
    assert "could not be written" in flat(said.stderr)
