"""prirec demo --json at a terminal: what a person sees of it meanwhile, and what a script gets. One demo serves all."""

import json
import re

import pytest

from prirec.api.comparisons import expected_iterations
from prirec.cli.demo import CHOSEN, MODELS
from support.shell import told
from support.terminal import watch

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("a demo that is watched")]
STAGES = ("loading", "making the city", "writing the city and the run", "drawing the report")


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("watched") / "demo"
    seen = watch("demo", "--people", 200, "--out", out, "--json", piped=True)
    assert seen.code == 0, seen.written
    return out, seen


@pytest.fixture(scope="module")
def answer(demo):
    return json.loads(demo[1].stdout)


def test_every_stage_shows_that_it_is_at_work_in_its_turn(demo):
    lines = demo[1].frames
    first = [next(at for at, line in enumerate(lines) if stage in line) for stage in STAGES]
    assert first == sorted(first)
    assert not any(stage in line for stage in STAGES for line in demo[1].screen)


def test_each_model_has_a_bar_that_is_full_in_the_end_and_nothing_else_is_left(demo, answer):
    """A tuned model has as many passes as were chosen; popularity alone learns nothing step by step."""
    screen = demo[1].screen
    assert len(screen) == len(MODELS)
    chosen = {row["model"]: row["chosen"] for row in answer["models"]}
    for line, (name, model) in zip(screen, MODELS.items(), strict=True):
        iterations = chosen[name]["passes"] if chosen[name] else expected_iterations(model)
        stage = "done" if name == "popularity" else r"loss \d\.\d{4}"
        full = rf" *{re.escape(name)} +━+ +{iterations}/{iterations} +{stage} +\d:\d\d:\d\d"
        assert re.fullmatch(full, line), line


def test_json_has_the_figures_of_each_model_and_the_saved_one_gives_them_again(demo, answer):
    out, _ = demo
    rows = {row["model"]: row for row in answer["models"]}
    assert list(rows) == list(MODELS)
    assert all(row["collects"] for row in rows.values())
    figures = [(row["quality"]["auc"], row["quality"]["log_loss"], row["quality"]["auc_few"]) for row in rows.values()]
    assert len(set(figures)) == len(MODELS)
    assert rows[CHOSEN]["quality"] == told("evaluate", out / "run", out / "data")["quality"]


def rounded(places):
    return json.loads(json.dumps(places), parse_float=lambda digits: round(float(digits), 12))


def test_json_has_ten_places_with_reasons_as_recommend_gives_them(demo, answer):
    out, _ = demo
    found = answer["recommended"]
    again = told("recommend", out / "run", out / "data", "--person", found["person"])
    assert rounded(found["places"]) == rounded(again["places"])  # `recommend` computes without the compiler
    assert len(found["places"]) == 10
    assert all(place["reasons"] for place in found["places"])
    assert (found["by"], found["distance_from"]) == (CHOSEN, again["distance_from"])


def test_json_says_what_was_made_and_where_it_is(demo, answer):
    out, _ = demo
    assert answer["city"] == {"people": 200, "places": 80, "records": 8000}
    assert {name: answer[name] for name in ("report", "run", "data")} == {
        "report": str(out / "report.html"), "run": str(out / "run"), "data": str(out / "data")
    }  # fmt: skip
    assert all((out / name).exists() for name in ("report.html", "run", "data"))
