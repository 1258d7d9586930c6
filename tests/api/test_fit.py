"""Settings, fits, suggestions: the whole way on one small city."""

import json
from datetime import datetime
from html import unescape
from pathlib import Path

import pytest

import prirec
from prirec.errors import DataError, StateError, UsageError
from prirec.protocols.prediction import Suggestion
from prirec.protocols.reasons import Reason
from support import messages

SMALL = {"iterations": 3, "floor": 50}


@pytest.fixture(scope="module")
def city() -> prirec.City:
    return prirec.make_city(people=300, seed=5)


@pytest.fixture(scope="module")
def fit(city: prirec.City) -> prirec.Fit:
    return prirec.fit(city, prirec.settings("rounds", **SMALL))


def test_settings_take_keywords_sections_and_dotted_names() -> None:
    one = prirec.settings("private", iterations=20, features={"areas": 8})
    assert one == prirec.settings("private", {"iterations": 20, "features.areas": 8})
    assert (one.iterations, one.features.areas, one.preset) == (20, 8, "private")
    assert prirec.settings() == prirec.settings("private")


def test_settings_come_from_a_file_too(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('preset = "rounds"\niterations = 7\n', encoding="utf-8")
    assert prirec.settings(file=tmp_path / "mine.toml", seed=2) == prirec.settings("rounds", iterations=7, seed=2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: prirec.settings("rounds", itrations=3), messages.did_you_mean("iterations")),
        (
            lambda: prirec.settings("rounds", {"iterations": 3}, iterations=4),
            messages.setting_given_twice("iterations"),
        ),
        (lambda: prirec.settings("round"), messages.no_such_preset("round")),
        (lambda: prirec.fit(7), messages.NOT_A_CITY),
        (lambda: prirec.fit(prirec.make_city(people=40), {"iterations": 3}), messages.NOT_SETTINGS),
        (lambda: prirec.compare(prirec.make_city(people=40), "fm"), messages.MODELS_NOT_A_LIST),
        (lambda: prirec.compare(prirec.make_city(people=40), ["fm", "fm"]), messages.two_models_called("fm")),
    ],
)  # fmt: skip
def test_invalid_arguments_are_refused_with_the_reason(call, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call()


def test_a_fit_says_what_it_is(fit: prirec.Fit, city: prirec.City) -> None:
    assert "Fit of 'rounds' on 'city'" in repr(fit)
    assert f"AUC {fit.quality.auc:.4f}" in repr(fit)
    assert "Simulation: all data are on one machine" in repr(fit)
    assert len(fit.history) == 3
    assert [one["iteration"] for one in fit.history.to_dict()] == [1, 2, 3]
    assert fit.history.to_polars().height == 3
    assert "3 iterations: training loss from" in repr(fit.history)
    assert len(fit.history[1:]) == 2
    assert fit.settings.iterations == 3
    assert "No privacy promise" in fit.plan.verdict
    assert 0.4 < fit.quality.auc < 1


def test_a_private_fit_has_a_plan(city: prirec.City) -> None:
    private = prirec.fit(city, prirec.settings("private", iterations=2))
    assert private.plan.plan is not None
    assert private.plan.verdict in repr(private)
    assert private.plan.to_dict()["promised"]["epsilon"] == 1.0


def test_a_fit_reports_progress_and_writes_checkpoints(city: prirec.City, fit: prirec.Fit, tmp_path: Path) -> None:
    seen: list[int] = []
    again = prirec.fit(
        city,
        fit.settings,
        checkpoint=tmp_path / "half",
        checkpoint_every=1,
        progress=lambda report: seen.append(report.iteration),
    )
    assert seen == [1, 2, 3]
    assert again.quality == fit.quality
    assert (tmp_path / "half").exists()


def test_suggestions_are_a_sequence_that_prints(fit: prirec.Fit) -> None:
    person = fit.people[7]
    found = fit.recommend(person, k=4)
    assert len(found) == 4
    assert [place.place for place in found] == [place["place"] for place in found.to_dict()["places"]]
    assert found[0].probability >= found[-1].probability
    assert found.to_polars().columns == ["rank", "place", "about", "distance_km", "probability", "reasons"]
    assert found[0].place in repr(found)
    assert len(found[:2]) == 2
    json.dumps(found.to_dict())


def test_a_point_and_a_time_may_be_given(fit: prirec.Fit) -> None:
    person = fit.people[7]
    lat, lon = fit.city.dataset.places.location[3].tolist()
    here = fit.recommend(person, near=(lat, lon), at="2024-05-04T19:30", k=3)
    assert here.distance_from == "here"
    same = fit.recommend(person, near=(lat, lon), at=datetime(2024, 5, 4, 19, 30), k=3)
    assert here.to_dict() == same.to_dict()


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"near": "35,139"}, UsageError, messages.NEAR_NOT_A_PAIR),
        ({"near": (139.7, 35.6)}, DataError, messages.in_column("lat", messages.DEGREES_OUT_OF_RANGE)),
        ({"near": (-41.3, 12.6)}, UsageError, messages.no_place_within(100)),
        ({"at": "tonight"}, UsageError, messages.AT_NOT_A_DATE),
        ({"at": 3.5}, UsageError, messages.AT_NOT_A_TIME),
        ({"k": 0}, UsageError, messages.not_a_count("k, how many places to suggest,")),
        ({"radius_km": -1}, UsageError, messages.RADIUS_NEGATIVE),
        ({"radius_km": "far"}, UsageError, messages.RADIUS_NEGATIVE),
    ],
)
def test_invalid_questions_are_refused_with_the_reason(fit: prirec.Fit, given, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        fit.recommend(fit.people[7], **given)


def test_a_fit_has_a_page_and_so_has_the_same_run_once_it_is_loaded(
    fit: prirec.Fit, city: prirec.City, tmp_path: Path
) -> None:  # fmt: skip
    page = fit.report(tmp_path / "trained.html").read_text(encoding="utf-8")
    assert f"{fit.quality.auc:.4f}" in page
    assert all(f'id="{part}"' in page for part in ("comparison", "learning", "who-gains", "map", "advice", "settings"))
    assert fit.recommend(fit.typical_person)[0].place in page
    assert fit.typical_person not in page
    loaded = prirec.load(fit.save(tmp_path / "run"), city)
    assert loaded.report(tmp_path / "loaded.html").read_text(encoding="utf-8") == page
    with pytest.raises(StateError, match=messages.RUN_WITHOUT_ITS_CITY):
        prirec.load(tmp_path / "run").report(tmp_path / "nothing.html")
    assert not (tmp_path / "nothing.html").exists()


def test_a_page_says_what_a_budget_costs_and_what_was_noted(city: prirec.City, tmp_path: Path) -> None:
    private = prirec.fit(city, prirec.settings("private", iterations=2))
    page = unescape(private.report(tmp_path / "page.html").read_text(encoding="utf-8"))
    assert f"<li>{private.plan.verdict}</li>" in page
    assert private.notes
    assert all(f"<li>{words}</li>" in page for words in (*private.notes, *private.quality_notes))


def test_the_id_of_an_unknown_person_is_not_repeated(fit: prirec.Fit) -> None:
    with pytest.raises(UsageError) as refused:
        fit.recommend("somebody-secret")
    assert "somebody-secret" not in str(refused.value)


def test_ranking_counts_the_same_people_among_matched_and_all_places(fit: prirec.Fit) -> None:
    near, everywhere = fit.rank(people=50), fit.rank(people=50, candidates="all")
    assert near.people == everywhere.people > 0
    assert 0 <= everywhere.hit_rate <= 1


def test_a_fit_is_saved_and_loaded(fit: prirec.Fit, city: prirec.City, tmp_path: Path) -> None:
    fit.save(tmp_path / "run")
    with pytest.raises(UsageError, match=messages.FOLDER_EXISTS):
        fit.save(tmp_path / "run")
    loaded = prirec.load(tmp_path / "run", city)
    person = fit.people[7]
    assert loaded.recommend(person).to_dict() == fit.recommend(person).to_dict()
    assert loaded.quality == fit.quality
    assert loaded.rank(people=20) == fit.rank(people=20)
    assert loaded.settings == fit.settings
    assert loaded.history.to_dict() == fit.history.to_dict()
    assert loaded.plan.to_dict() == fit.plan.to_dict()
    loaded.save(tmp_path / "copy")
    assert (tmp_path / "copy" / "run.json").read_bytes() == (tmp_path / "run" / "run.json").read_bytes()


ADVISED = {
    "private": ("private", {}),
    "private, of those who were not lost": ("private", {"participation.dropout": 0.1}),
    "private, with a cap": ("private", {"popularity.cap": 2}),
    "private, nothing left out": ("private", {"features.own_left_out": False}),
    "rounds, later records": ("rounds", {"data.split": "time"}),
    "randomized answers": ("rounds", {"popularity.mechanism": "randomized-response"}),
    "paper": ("paper", {"neighbours.count": 6}),
    "fm": ("fm", {}),
}


@pytest.mark.parametrize("case", ADVISED)
def test_a_loaded_run_gives_each_person_alone_the_bits_that_the_fit_gives(case, city: prirec.City, tmp_path) -> None:
    preset, changed = ADVISED[case]
    floor = {} if preset == "fm" else {"floor": 50}
    trained = prirec.fit(city, prirec.settings(preset, iterations=1, **floor, **changed))
    trained.save(tmp_path / "run")
    loaded = prirec.load(tmp_path / "run", city)
    assert (loaded.people, loaded.typical_person) == (trained.people, trained.typical_person)
    for person in trained.people[::5]:
        assert loaded.recommend(person).to_dict() == trained.recommend(person).to_dict()


def test_without_its_city_a_saved_run_can_be_looked_at_and_says_what_it_lacks(fit: prirec.Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "run")
    loaded = prirec.load(tmp_path / "run")
    assert loaded.settings == fit.settings
    assert "a city that is not loaded" in repr(loaded)
    for ask in (lambda: loaded.recommend("u001"), lambda: loaded.quality, loaded.rank):
        with pytest.raises(StateError, match=messages.RUN_WITHOUT_ITS_CITY):
            ask()


def test_another_city_is_refused(fit: prirec.Fit, tmp_path: Path) -> None:
    fit.save(tmp_path / "run")
    with pytest.raises(StateError, match=messages.places_differ(0, places=120)):
        prirec.load(tmp_path / "run", prirec.make_city(people=300, seed=6))
    with pytest.raises(StateError):
        prirec.load(tmp_path / "nothing")


def test_what_comes_from_data_is_escaped_in_notebooks_and_harmless_in_terminals() -> None:
    hostile = '<script>alert("1")</script>\x1b[31m'
    line = Suggestion(hostile, hostile, 1.0, 0.5, (Reason(hostile, 1.0),))
    found = prirec.Suggestions(hostile, [line], distance_from="home", notes=[hostile])
    assert "<script" not in found._repr_html_()
    assert "\x1b" not in found._repr_html_() + repr(found)
    named = prirec.City({"user": ["a"], "poi": ["b"]}, name=hostile)
    assert "<script" not in named._repr_html_()
    assert "\x1b" not in repr(named)


def test_every_result_shows_in_a_notebook(fit: prirec.Fit) -> None:
    for shown in (fit, fit.city, fit.quality, fit.history, fit.plan, fit.recommend(fit.people[7], k=2)):
        assert shown._repr_html_().startswith("<div>")
