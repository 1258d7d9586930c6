"""prirec train, evaluate and recommend on one small city; most tests share one trained run."""

import json
import shutil

import numpy as np
import pytest

from prirec.config import PRIVATE
from prirec.data.folder import read_folder
from prirec.simulate.saved_runs import CityOfRun, load_run, names_of_files
from prirec.simulate.setup import quality, set_up
from prirec.util.shown import SIMULATION
from support import messages
from support.cities import change
from support.shell import call, says, write_city


@pytest.fixture(scope="session")
def city(tmp_path_factory):
    return write_city(tmp_path_factory.mktemp("trained") / "city")


@pytest.fixture(scope="session")
def run(city):
    """Of the default settings, those with a budget, but for the number of rounds."""
    found = call("train", city, "--out", city.parent / "run", "--iterations", 12)
    assert found.exit_code == 0, found.stderr
    assert "AUC" in found.stdout
    assert "cost each person ε = 1 for life (δ = 1e-06; " in found.stdout
    assert SIMULATION in found.stdout
    return city.parent / "run"


@pytest.fixture(scope="session")
def someone(city):
    return read_folder(city).dataset.people.ids[7]


def test_a_saved_run_knows_its_source_and_leaves_no_checkpoint(run, city):
    assert load_run(run).source == str(city)
    assert load_run(run).settings == set_up(read_folder(city).dataset, change(PRIVATE, iterations=12)).settings
    assert {entry.name for entry in run.parent.iterdir()} >= {"city", "run"}
    assert not run.with_name("run.checkpoint").exists()


def test_own_data_get_a_page_from_train_and_from_evaluate(city, run, tmp_path):
    trained, measured = tmp_path / "r" / "page.html", tmp_path / "measured.html"  # one in the folder of the run
    found = call("train", city, "--out", tmp_path / "r", "--iterations", 2, "--report", trained)
    assert f"report: {trained}" in found.stdout
    assert call("evaluate", tmp_path / "r", city).exit_code == 0
    found = call("evaluate", run, city, "--report", measured, "--json")
    answer = json.loads(found.stdout)
    assert answer["report"] == str(measured)
    assert f"{answer['quality']['auc']:.4f}" in measured.read_text(encoding="utf-8")
    for page in (trained, measured):
        assert "<title>PriRec on “city”</title>" in page.read_text(encoding="utf-8")


def test_a_saved_run_as_a_page_is_that_of_evaluate(city, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("evaluate", run, city, "--no-ranking", "--report", "measured.html").exit_code == 0
    assert "report: report.html\n" in call("report", run, city).stdout
    answer = json.loads(call("report", run, city, "--out", "named.html", "--json").stdout)
    assert answer["report"] == "named.html"
    pages = [(tmp_path / name).read_bytes() for name in ("measured.html", "report.html", "named.html")]
    assert pages[0] == pages[1] == pages[2]
    assert call("report", run, city, "--out", "against.html", "--against", "popularity").exit_code == 0
    assert "<h2>How good are they?</h2>" in (tmp_path / "against.html").read_text(encoding="utf-8")


def test_a_page_that_could_not_be_written_is_refused_before_any_work(city, run, tmp_path):
    nowhere = tmp_path / "missing" / "page.html"
    for words in (
        ("train", city, "--out", tmp_path / "r", "--report", nowhere),
        ("evaluate", run, city, "--report", nowhere),
        ("report", run, city, "--out", nowhere),
    ):
        found = call(*words)
        assert found.exit_code == 2
        assert says(found.stderr, messages.REPORT_TO_NO_FOLDER)
    assert list(tmp_path.iterdir()) == []


def test_a_relative_data_folder_is_stored_as_it_was_named(city, tmp_path, monkeypatch):
    monkeypatch.chdir(city.parent)
    assert call("train", "city", "--out", tmp_path / "r", "--iterations", 1).exit_code == 0
    assert load_run(tmp_path / "r").source == "city"


def test_flags_reach_the_settings(city, tmp_path):
    words = ("--preset", "paper", "--iterations", 1, "--dimension", 3, "--neighbours", 7, "--seed", 5)
    answer = json.loads(call("train", city, "--out", tmp_path / "r", *words, "--json").stdout)
    settings = load_run(tmp_path / "r").settings
    assert (settings.schedule, settings.iterations, settings.model.dimension) == ("samples", 1, 3)
    assert (settings.neighbours.count, settings.seed) == (7, 5)
    assert answer["settings"]["model"]["dimension"] == 3
    assert (answer["iterations"], answer["resumed_at"], len(answer["loss"])) == (1, 0, 1)


def test_figures_that_the_noise_drowns_leave_the_true_ones_whole(city, tmp_path):
    words = ("--iterations", 2, "--set", "privacy.quality=0.5")
    figures = json.loads(call("train", city, "--out", tmp_path / "json", *words, "--json").stdout)["privacy"]["figures"]
    assert figures["read"]["auc"] is None
    shown = call("train", city, "--out", tmp_path / "words", *words).stdout
    table = shown[shown.index("GAUC") :]
    assert "the noise drowns it" in table
    for name, figure in (("AUC", "auc"), ("log loss", "log_loss"), ("share of positives", "base_rate")):
        assert f"\n {name} " in table
        assert f" {figures['true'][figure]:.4f} " in table


def test_the_plain_engine_and_any_number_of_threads_give_the_same_bits(city, tmp_path):
    for name, words in (("usual", ()), ("plain", ("--engine", "plain")), ("threads", ("--threads", 3))):
        assert call("train", city, "--out", tmp_path / name, "--iterations", 3, *words).exit_code == 0
        for file in ("shared.npy", "scales.json"):
            assert (tmp_path / name / file).read_bytes() == (tmp_path / "usual" / file).read_bytes()


def test_an_earlier_run_is_replaced_only_on_request(city, tmp_path):
    out = tmp_path / "r"
    assert call("train", city, "--out", out, "--iterations", 1).exit_code == 0
    refused = call("train", city, "--out", out, "--iterations", 2)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert says(refused.stderr, messages.OVERWRITE_REPLACES_A_RUN)
    assert load_run(out).settings.iterations == 1
    assert call("train", city, "--out", out, "--iterations", 2, "--overwrite").exit_code == 0
    assert load_run(out).settings.iterations == 2


def test_overwriting_never_replaces_what_is_not_a_run(city):
    found = call("train", city, "--out", city, "--overwrite")
    assert found.exit_code == 2
    assert (city / "visits.csv").is_file()


def test_rounds_in_which_nothing_could_be_summed_are_flagged(city, tmp_path):
    words = ("--iterations", 3, "--set", "participation.online=0.1")
    told = json.loads(call("train", city, "--out", tmp_path / "r", *words, "--json").stdout)["notes"]
    assert any("in 3 of 3 rounds" in text and "the shared model did not move" in text for text in told)


def test_a_run_with_own_history_and_areas_is_trained_evaluated_and_recommended_from(city, tmp_path, someone):
    words = ("--iterations", 6, "--set", "features.own_history=true", "--set", "features.areas=4")
    trained = json.loads(call("train", city, "--out", tmp_path / "r", *words, "--json").stdout)
    told = json.loads(call("evaluate", tmp_path / "r", city, "--json").stdout)
    assert told["quality"] == pytest.approx(trained["quality"])
    assert json.loads(call("recommend", tmp_path / "r", city, "--person", someone, "--json").stdout)["places"]


def test_a_latent_part_is_refused_before_the_data_are_read(tmp_path):
    refused = call("train", tmp_path / "nowhere", "--out", tmp_path / "r", "--set", "latent.dimension=4")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert says(refused.stderr, messages.setting_of_an_earlier_version("latent"))


def test_evaluate_measures_what_the_library_measures(run, city):
    saved = load_run(run)
    samples = CityOfRun.of(read_folder(city).dataset, saved).set_up().samples
    expected = quality(samples, saved.models).to_dict()
    assert json.loads(call("evaluate", run, city, "--json").stdout)["quality"] == pytest.approx(expected)
    assert f"{expected['auc']:.4f}" in call("evaluate", run, city).stdout


@pytest.mark.parametrize("candidates", ["matched", "all"])
def test_ranking_is_repeatable(run, city, candidates):
    words = ("evaluate", run, city, "--ranking", "--k", 5, "--candidates", candidates, "--people", 40, "--json")
    first, again = (json.loads(call(*words).stdout)["ranking"] for _ in range(2))
    assert first == again
    assert 0 < first["ndcg"] < first["hit_rate"] <= 1
    assert (first["k"], first["candidates"]) == (5, candidates)
    assert 0 < first["people"] <= 40


def test_ranking_has_intervals_over_people_and_the_list_of_popularity_alone(run, city):
    found = json.loads(call("evaluate", run, city, "--json").stdout)["ranking"]
    for name in ("ndcg", "recall", "hit_rate", "auc_nearby"):
        low, high = found["intervals"][name]
        assert low < found[name] < high
    assert 0 < found["ndcg_popularity"] < 1
    said = call("evaluate", run, city, columns=140).stdout
    assert "{:.4f} to {:.4f}".format(*found["intervals"]["ndcg"]) in said
    assert f"{found['ndcg_popularity']:.4f}" in said
    assert "ranking" not in json.loads(call("evaluate", run, city, "--no-ranking", "--json").stdout)


def test_a_saved_run_is_compared_with_models_that_are_trained_now(run, city, tmp_path):
    words = ("evaluate", run, city, "--against", "fm-tuned", "--against", "popularity")
    found = json.loads(call(*words, "--json", "--report", tmp_path / "page.html").stdout)
    own, tuned, popularity = found["comparison"]
    assert own["auc"] == pytest.approx(found["quality"]["auc"])
    assert (own["records"], own["chosen"], popularity["model"]) == (tuned["records"], None, "popularity")
    assert tuned["chosen"]["dimension"] in (5, 15, 30)
    assert "'fm-tuned'" in found["worth"]
    assert "fm-tuned" in (tmp_path / "page.html").read_text(encoding="utf-8")
    wrong = call("evaluate", run, city, "--against", "fm-tunned")
    assert wrong.exit_code == 2
    assert says(wrong.stderr, messages.did_you_mean("fm-tuned"))


def test_a_longer_list_hits_at_least_as_often(run, city):
    rates = [json.loads(call("evaluate", run, city, "--ranking", "-k", k, "--json").stdout)["ranking"] for k in (1, 70)]
    assert rates[0]["hit_rate"] < rates[1]["hit_rate"]
    assert rates[0]["recall"] < rates[1]["recall"]


def test_recommendations_come_with_distance_words_and_reasons(run, city, someone):
    found = call("recommend", run, city, "--person", someone, columns=140)
    assert found.exit_code == 0
    assert all(word in found.stdout for word in ("place", "km", "chance", "why", "from home"))
    places = json.loads(call("recommend", run, city, "--person", someone, "--json").stdout)["places"]
    assert len(places) == 10
    assert places == sorted(places, key=lambda place: -place["probability"])
    assert all(place["about"] and place["reasons"] and place["distance_km"] > 0 for place in places)
    assert all(place["place"] in found.stdout for place in places)


def test_recommendations_near_a_place_begin_there(run, city, someone):
    catalogue = read_folder(city).dataset.places
    lat, lon = catalogue.location[4]
    words = ("--near", f"{lat},{lon}", "--radius-km", 0, "-k", 80, "--json")
    answer = json.loads(call("recommend", run, city, "--person", someone, *words).stdout)
    km = {place["place"]: place["distance_km"] for place in answer["places"]}
    assert answer["distance_from"] == "here"
    assert km.get(catalogue.ids[4], 0.0) == pytest.approx(0.0, abs=1e-6)
    assert max(km.values()) > 1


def test_the_time_of_day_changes_the_odds(run, city, someone):
    words = ("recommend", run, city, "--person", someone, "--json", "--at")
    noon, night, offset = (
        call(*words, time).stdout for time in ("2024-05-04T12:00", "2024-05-04T22:00", "2024-05-04T12:00+09:00")
    )
    assert noon != night
    assert noon == offset  # the wall clock counts, as it does in visits


@pytest.mark.parametrize(
    "words",
    [
        ("--near", "north"),
        ("--near", "139.7,35.6"),
        ("--near", "nan,1"),
        ("--at", "soon"),
        ("-k", 0),
        ("--radius-km", "nan"),
    ],
)
def test_invalid_points_and_times_are_usage_errors_and_not_repeated(run, city, someone, words):
    found = call("recommend", run, city, "--person", someone, *words)
    assert (found.exit_code, found.stdout) == (2, "")
    assert "139.7,35.6" not in found.stderr


def test_an_unknown_person_is_refused_without_repeating_the_id(run, city):
    found = call("recommend", run, city, "--person", "somebody-else")
    assert found.exit_code == 2
    assert "somebody-else" not in found.stderr


@pytest.mark.parametrize("columns", [40, 80, 140])
def test_tables_fit_the_terminal_and_lose_nothing(run, city, someone, columns):
    found = call("recommend", run, city, "--person", someone, columns=columns).stdout
    table = [line for line in found.splitlines() if line.startswith(" ")]
    assert max(len(line) for line in table) <= columns
    assert "…" not in found


def test_ids_that_look_like_markup_are_printed_as_they_are(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"u{u},[bold]p{p}:smile:" for u in range(150) for p in rng.choice(30, size=8, replace=False)]
    (tmp_path / "visits.csv").write_text("\n".join(["user,poi", *rows]) + "\n")
    assert call("train", tmp_path, "--out", tmp_path / "r", "--iterations", 1).exit_code == 0
    assert "[bold]p" in (found := call("recommend", tmp_path / "r", tmp_path, "--person", "u3").stdout)
    assert ":smile:" in found


def test_a_figure_without_meaning_is_null_in_json_and_a_dash_in_a_table(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"u{u},p{p},1" for u in range(150) for p in rng.choice(30, size=8, replace=False)]
    (tmp_path / "visits.csv").write_text("\n".join(["user,poi,label", *rows]) + "\n")
    found = call("train", tmp_path, "--out", tmp_path / "r", "--iterations", 1, "--json")
    assert json.loads(found.stdout)["quality"]["auc"] is None
    assert "NaN" not in found.stdout
    assert " – " in call("evaluate", tmp_path / "r", tmp_path).stdout


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (
            ["--preset", "fm", "--dimension", 0],
            2,
            messages.setting_out_of_range("model.dimension (K)", "between 1 and 256"),
        ),
        (
            ["--neighbours", 1],
            2,
            messages.is_at_least("--neighbours", 2),
        ),
        (["--set", "neighbours.count=0"], 2, messages.setting_out_of_range("neighbours.count (N)", "at least 1")),
        (["--preset", "paper", "--neighbours", 1000], 2, messages.NUMBER_OF_NEIGHBOURS_OUT_OF_RANGE),
        (
            ["--preset", "fm", "--neighbours", 5],
            2,
            messages.flag_read_by_others_only("--neighbours", reader="the paper's schedule"),
        ),
        (["--neighbours", 60], 2, messages.flag_read_by_others_only("--neighbours", reader="the paper's schedule")),
        (
            ["--neighbours", 30],
            2,
            messages.flag_read_by_others_only("--neighbours", reader="the paper's schedule"),
        ),  # the default, which nothing reads either
        (
            ["--preset", "rounds", "--dimension", 8],
            2,
            messages.flag_read_by_others_only("--dimension", reader="the paper's schedule and the baseline"),
        ),
        (["--set", "linear.alpha=1e9"], 2, messages.SETTING_NOT_READ),
        (["--set", "neighbours.size=500"], 2, messages.setting_of_an_earlier_version("neighbours.size")),
        (["--preset", "fm", "--set", "linear.alpha=1e9"], 2, messages.LOSS_NOT_A_NUMBER),
        (["--iterations", 3, "--set", "iterations=4"], 2, messages.setting_given_twice("iterations")),
        (["--preset", "nothing"], 2, messages.of_option("--preset")),
        (["--set", "data.at_least=100000"], 3, messages.filter_leaves_nothing("records", at_least=100_000)),
        (["--set", "stopping.patience=2"], 4, messages.EARLY_STOPPING_OUTSIDE_THE_BUDGET),
        (
            ["--preset", "rounds", "--set", "privacy.epsilon_per_user=1"],
            4,
            messages.mechanism_outside_the_budget("plain"),
        ),
        (["--set", "privacy.epsilon_per_user=1e-6"], 2, messages.BUDGET_TOO_SMALL_FOR_ITS_RELEASES),
        (["--set", "participation.dropout=0.4"], 4, messages.devices_left_for_popularity(226)),
        (["--set", "floor=1000"], 4, messages.too_few_devices(226, floor=1000)),
    ],
)
def test_invalid_settings_of_a_training_are_refused_and_nothing_is_saved(city, tmp_path, words, code, message):
    found = call("train", city, "--out", tmp_path / "r", *words)
    assert (found.exit_code, found.stdout) == (code, "")
    assert says(found.stderr, message), found.stderr
    assert "Traceback" not in found.stderr
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("file", ["run.json", *names_of_files(PRIVATE)])
def test_a_damaged_run_is_a_state_error(run, city, tmp_path, file):
    shutil.copytree(run, tmp_path / "r")
    damaged = (tmp_path / "r" / file).read_bytes()
    (tmp_path / "r" / file).write_bytes(damaged[: len(damaged) // 2])
    found = call("evaluate", tmp_path / "r", city)
    assert (found.exit_code, found.stdout) == (5, "")
    assert says(found.stderr, messages.run_file_damaged(file))


def test_a_missing_run_is_a_state_error_and_missing_data_are_a_data_error(run, city, tmp_path):
    assert call("evaluate", tmp_path / "none", city).exit_code == 5
    assert call("evaluate", run, tmp_path / "none").exit_code == 3


def test_data_that_a_run_was_not_trained_on_are_refused(run, tmp_path):
    write_city(tmp_path / "other", seed=2)
    found = call("evaluate", run, tmp_path / "other")
    assert found.exit_code == 5
    assert says(found.stderr, messages.TRAINED_ON_ANOTHER_CITY)


def test_nothing_is_recommended_in_a_city_that_a_run_was_not_trained_on(run, city, tmp_path, someone):
    """Though it has the same people and places by name."""
    here, other = (read_folder(folder).dataset for folder in (city, write_city(tmp_path / "other", seed=2)))
    assert (other.people.ids, other.places.ids) == (here.people.ids, here.places.ids)
    found = call("recommend", run, tmp_path / "other", "--person", someone)
    assert (found.exit_code, found.stdout) == (5, "")
    again = messages.give_the_data_of_the_run(str(city))
    assert says(found.stderr, messages.joined(messages.TRAINED_ON_ANOTHER_CITY, again))


def test_no_visit_of_a_person_is_recommended_whatever_part_of_the_split_it_is_in(run, city):
    dataset = read_folder(city).dataset
    visits, ids = dataset.visits, np.array(dataset.places.ids)
    for row in np.argsort(np.bincount(visits.person))[-3:]:  # whom no filter leaves out
        words = ("--person", dataset.people.ids[row], "-k", len(ids), "--radius-km", 1000)
        done = call("recommend", run, city, *words, "--json")
        assert done.exit_code == 0, done.stderr
        found = json.loads(done.stdout)["places"]
        visited = ids[visits.place[(visits.person == row) & (visits.label > 0)]]
        assert len(visited) > 0
        assert {place["place"] for place in found} <= set(ids) - set(visited)
        assert found
