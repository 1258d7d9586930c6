"""prirec demo, as small as it gets; one demo serves all tests."""

import json
import re
from functools import partial

import numpy as np
import pytest

from prirec.config import PRIVATE
from prirec.data.folder import read_folder
from prirec.simulate.saved_runs import CityOfRun, load_run
from prirec.simulate.setup import set_up
from prirec.util.shown import SIMULATION
from support import messages, shell
from support.cities import change

call = partial(shell.call, columns=140)


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    out = tmp_path_factory.mktemp("held") / "demo"
    found = call("demo", "--out", out, "--people", 200)
    assert found.exit_code == 0, found.stderr
    return out, found.stdout


def row(text, name, *, table=1):
    """The line of a model in the first table, lists among places nearby, or in the second, all test records."""
    return [line for line in text.splitlines() if line.strip().startswith(name)][table]


def test_the_second_table_says_what_each_model_collects(held):
    _, said = held
    assert said.count("what it collects") == 1
    assert "exact counts" in row(said, "popularity")
    assert "every record" in row(said, "FM, tuned")
    assert "sums over 100 people or more" in row(said, "PriRec, rounds")
    assert "noisy sums, at ε = 1 for each person" in row(said, "PriRec, private")
    assert SIMULATION in said


def test_the_first_table_is_about_later_places_nearby_with_intervals_and_what_the_difference_is_worth(held):
    _, said = held
    words = shell.flat(said)
    assert "each person's latest" in words
    heads = next(line for line in said.splitlines() if "NDCG@10" in line).split("  ")
    assert [one.strip() for one in heads if one.strip()] == ["model", "NDCG@10", "recall@10", "AUC nearby", "GAUC"]
    for name in ("popularity", "FM, tuned", "PriRec, rounds", "PriRec, private"):
        assert len(re.findall(r"0\.\d{3} ± 0\.\d{3}", row(said, name, table=0))) == 4
    shown = r"[0-9.]+ by 'PriRec, private' and [0-9.]+ by 'FM, tuned' \(difference [+−][0-9.]+ to [+−][0-9.]+"
    assert re.search(rf"of 100 new places [a-z ,]+ {shown}.*, and of 100 pairs [a-z ,]+ {shown}", words)
    assert re.search(r"'FM, tuned' has K = \d+, learning rate 0.\d+, \d+ passes", words)


@pytest.mark.long  # another demo
def test_json_has_the_figures_with_intervals_and_what_was_chosen(tmp_path):
    found = json.loads(call("demo", "--out", tmp_path / "demo", "--people", 200, "--json").stdout)
    by_name = {one["model"]: one for one in found["models"]}
    assert set(by_name) == {"popularity", "FM, tuned", "PriRec, rounds", "PriRec, private"}
    for one in by_name.values():
        for name, value in {**one["quality"], **one["ranking"]}.items():
            if name in one["intervals"] and value is not None:
                low, high = one["intervals"][name]
                assert low <= value <= high, name
    assert by_name["FM, tuned"]["chosen"]["dimension"] in (5, 15, 30)
    assert by_name["PriRec, private"]["chosen"] is None
    assert by_name["popularity"]["quality"]["log_loss"] is None  # counts are no log-odds
    assert "PriRec, private" in found["worth"]


def test_a_figure_that_noise_has_drowned_is_explained_below_its_table(held):
    """With how many people the budget takes, in the demo, in evaluate and in JSON."""
    out, said = held
    table, _, rest = shell.flat(said).partition("Only 'PriRec, private' has noise in its sums. ")
    explained = rest.partition(". Places for ")[0]
    assert "PriRec, private 0." in table
    assert re.fullmatch(r"Noise drowns much of what \d+ people add: ε = 1 takes about [0-9,]+ people for .*", explained)
    assert explained in shell.flat(call("evaluate", out / "run", out / "data").stdout)
    assert f"{explained}." in json.loads(call("evaluate", out / "run", out / "data", "--json").stdout)["notes"]


def test_the_saved_run_and_data_give_the_figures_of_the_table(held):
    out, said = held
    found = json.loads(call("evaluate", out / "run", out / "data", "--json").stdout)["quality"]
    figures = [f"{found[name]:.4f}" for name in ("auc", "auc_new", "log_loss", "auc_few")]
    assert row(said, "PriRec, private").split()[2:6] == figures
    saved = load_run(out / "run")
    later = change(PRIVATE, data={"split": "time"})
    assert saved.settings == set_up(read_folder(out / "data").dataset, later).settings


def test_the_person_has_a_median_number_of_records_and_gets_ten_places(held):
    out, said = held
    person = said.partition("Places for ")[2].partition(":")[0]
    saved = load_run(out / "run")
    samples = CityOfRun.of(read_folder(out / "data").dataset, saved).set_up().samples
    counts = samples.train.counts()
    assert counts[samples.ids.index(person)] == np.quantile(counts, 0.5, method="higher")
    again = json.loads(call("recommend", out / "run", out / "data", "--person", person, "--json").stdout)["places"]
    shown = [line for line in said.splitlines() if line[:4].strip().isdigit()]
    assert [line.split()[1] for line in shown] == [place["place"] for place in again]
    assert len(shown) == 10


def test_the_demo_and_recommend_describe_places_in_the_same_words(held):
    """The demo's city comes from memory, the other's from a folder."""
    out, said = held
    person = said.partition("Places for ")[2].partition(":")[0]
    again = call("recommend", out / "run", out / "data", "--person", person).stdout
    first, second = ([line for line in text.splitlines() if line[:4].strip().isdigit()] for text in (said, again))
    assert first == second
    assert len(first) == 10


def test_the_report_is_one_file_that_needs_nothing_else(held):
    out, said = held
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<html" in page
    assert "PriRec, rounds" in page
    assert "PriRec, private" in page
    assert 'src="http' not in page
    assert f"report  {out / 'report.html'}" in said
    assert {entry.name for entry in out.iterdir()} == {"report.html", "run", "data"}
    assert {entry.name for entry in out.parent.iterdir()} == {"demo"}


def test_an_earlier_demo_is_replaced_and_the_same_seed_gives_the_same_answer_in_80_columns(held):
    out, said = held
    (out / "report.html").write_text("an old report")
    narrow = shell.call("demo", "--out", out, "--people", 200, columns=80).stdout
    assert (out / "report.html").read_text(encoding="utf-8") != "an old report"
    tables, places = (narrow[: narrow.index("Places for ")], narrow[narrow.index("Places for ") :])
    assert max(map(len, tables.splitlines())) <= 80
    assert tables.count("PriRec, private  0.") == 2  # one row in each table: no band is set below another
    for figures in (r"0\.\d{3,}", r"[0-9.]+ by '"):
        assert re.findall(figures, tables) == re.findall(figures, said[: said.index("Places for ")])
    assert re.findall(r"^ *\d+ +(p\d+)", places, re.M) == re.findall(r"^ *\d+ +(p\d+)", said, re.M)


@pytest.mark.parametrize("name", ["thesis.txt", "report.html"])
def test_a_folder_that_is_no_earlier_demo_is_left_alone(tmp_path, name):
    (tmp_path / name).write_text("years of work")
    found = call("demo", "--out", tmp_path, "--quick")
    assert (found.exit_code, found.stdout) == (2, "")
    assert shell.says(found.stderr, messages.NOT_AN_EARLIER_DEMO)
    assert (tmp_path / name).read_text() == "years of work"


def earlier_demo(folder):
    for inside in ("run", "data"):
        (folder / inside).mkdir(parents=True)
    (folder / "report.html").touch()
    (folder / "run" / "run.json").touch()
    return folder


def refused_here(*words):
    found = call("demo", "--quick", *words)
    assert (found.exit_code, found.stdout) == (2, "")
    assert shell.says(found.stderr, messages.FOLDER_YOU_ARE_IN)


def test_the_folder_one_is_in_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # empty: any other empty folder would be taken
    refused_here("--out", ".")
    refused_here("--out", tmp_path)
    refused_here("--out", "/")


def test_an_earlier_demo_is_not_replaced_under_ones_feet(tmp_path, monkeypatch):
    held = earlier_demo(tmp_path / "demo")
    monkeypatch.chdir(held)
    refused_here("--out", ".")
    monkeypatch.chdir(held / "data")
    refused_here("--out", "..")
    assert (held / "run" / "run.json").is_file()


def test_quick_and_people_together_are_refused(tmp_path):
    assert call("demo", "--out", tmp_path / "d", "--quick", "--people", 300).exit_code == 2


def test_too_few_people_for_a_sum_are_refused(tmp_path):
    assert call("demo", "--out", tmp_path / "d", "--people", 99).exit_code == 2
