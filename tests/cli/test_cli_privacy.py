"""prirec privacy plan: before any collection, from settings and public counts alone."""

from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest

from prirec import config
from prirec.config import PRIVATE
from prirec.data.dataset import Declared, Numbers
from prirec.data.folder import read_folder
from prirec.data.synthetic import CityPlan, make_city
from prirec.features.columns import ModelSize
from prirec.privacy.accountant import Adjacency
from prirec.privacy.plan import plan_for
from prirec.privacy.quality_figures import FIGURES
from prirec.simulate.setup import columns_of, features_of, set_up
from support import messages, shell
from support.accounting import epsilon_by_pld
from support.shell import flat

SIZE = ("--people", 20_000, "--places", 15_000)
BY_BITS = {"preset": "rounds", "popularity.mechanism": "randomized-response"}
ANSWERS = ("--preset", "rounds", "--set", "popularity.mechanism=randomized-response")
call, told = partial(shell.call, "privacy"), partial(shell.told, "privacy")


@pytest.fixture(scope="module")
def city(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planned") / "city"
    made = shell.call("data", "make", folder, "--people", 150, "--places", 40, "--records", 3000)
    assert made.exit_code == 0
    return folder


def test_the_plan_is_the_one_that_the_settings_come_to():
    found = told("plan", *SIZE, "--features", 60)
    plan = plan_for(PRIVATE, people=20_000, pois=15_000, size=ModelSize.assumed(60))
    assert (found["preset"], found["people"], found["places"], found["features"]) == ("private", 20_000, 15_000, 60)
    assert found["promised"] == {"unit": "user", "epsilon": 1.0, "delta": 1e-6, "period_days": None}
    (term,) = found["terms"]
    assert (term["when"], term["days"], term["plans"]) == ("for life", None, 1)
    assert term["epsilon"] == plan.loss().epsilon == pytest.approx(1)
    assert term["epsilon_replace_one"] == plan.loss(Adjacency.REPLACE_ONE).epsilon > 2
    assert found["sums"] == [asdict(row) for row in plan.rows()]
    for line, release in zip(found["sums"], plan.releases, strict=True):
        alone = release.spent.loss(plan.delta).epsilon
        assert (line["epsilon_alone"], line["longest_contribution"]) == (alone, release.of.sensitivity)
    assert [line["what"] for line in found["sums"]] == ["popularity", "moments", "interaction"]
    assert (found["amplification_by_sampling"], found["roster_is_public"]) == (False, True)
    assert found["randomized_response"] is None


def test_json_of_a_plan_has_one_schema_whatever_is_promised():
    private, nothing, local = (told("plan", *SIZE, *more) for more in ((), ("--preset", "fm"), ANSWERS))
    assert private.keys() == nothing.keys() == local.keys()
    assert (nothing["promised"], nothing["terms"], nothing["sums"]) == (None, [], [])
    wanted = "what share releases devices survivors colluders noise_multiplier sd_of_sum sd_of_mean sd_of_mean_at_worst"
    figures = "longest_contribution entries epsilon_alone epsilon_at_worst"
    assert private["sums"][0].keys() == {*wanted.split(), *figures.split()}


def test_the_plan_says_in_words_what_is_promised_and_what_is_not():
    found = call("plan", *SIZE)
    text = flat(found.stdout)
    assert (found.exit_code, found.stderr) == (0, "")
    for words in ("for life", "replaced by zero, the roster public", "replace-one", "No amplification by sampling"):
        assert words in text
    for words in ("16,000", "1,000", "54.6 %", "that a device takes part", "20,000 people"):
        assert words in text
    assert all(len(line) <= 80 for line in found.stdout.splitlines())


def test_a_plan_foresees_with_what_error_quality_figures_are_read():
    part = ("--set", "privacy.quality=0.1")
    few, many = (told("plan", "--people", people, "--places", 500, *part)["figures"] for people in (20_000, 80_000))
    assert few.keys() == many.keys() == FIGURES.keys()
    assert all(0 < many[key]["error"] < few[key]["error"] / 2 for key in FIGURES)
    drowned = told("plan", "--people", 500, "--places", 500, *part)
    assert drowned["figures"].keys() < FIGURES.keys()
    assert any("quality figures" in note for note in drowned["notes"])
    assert told("plan", *SIZE)["figures"] == {}
    text = flat(call("plan", "--people", 20_000, "--places", 500, *part).stdout)
    assert f"AUC ± {few['auc']['error']:.2g}" in text


def test_a_plan_foresees_with_what_error_averages_over_visits_are_read():
    spend = ("--places", 2000, "--set", "features.averages=['spend']")
    few, many = (told("plan", "--people", people, *spend)["averages"] for people in (5_000, 80_000))
    assert 0 < many["city"] < few["city"] / 8
    assert 0 < many["place"] < few["place"] < 1 / 3**0.5  # that of values evenly over the range
    more = told("plan", "--people", 5_000, *spend, "--visits-per-person", 80)["averages"]
    assert more["city"] == pytest.approx(few["city"] / 2)
    assert told("plan", *SIZE)["averages"] is None
    text = flat(call("plan", "--people", 5_000, *spend).stdout)
    assert f"± {100 * few['city']:.2g} % of its declared range in the city, ± {100 * few['place']:.2g} %" in text


def test_with_a_period_the_period_and_the_lifetime_are_both_shown():
    words = ("plan", *SIZE, "--set", "privacy.period_days=30")
    year, longer = told(*words)["terms"], told(*words, "--years", 3)["terms"]
    assert [(term["when"], term["days"], term["plans"]) for term in year + longer[1:]] == [
        ("in any 30 days", 30, 1),
        ("if it goes on for a year", 365, 13),
        ("if it goes on for 3 years", 1095, 37),
    ]
    assert year[0] == longer[0]
    assert 1 < year[1]["epsilon"] < longer[1]["epsilon"] < 37  # it adds up, and not to 37 times as much
    assert all(term["epsilon_replace_one"] > 2 * term["epsilon"] for term in year + longer)
    text = flat(call(*words).stdout)
    assert "in any 30 days 1.000" in text
    assert f"if it goes on for a year {year[1]['epsilon']:.3f} {year[1]['epsilon_replace_one']:.3f}" in text


def test_the_lifetime_agrees_with_another_accountant():
    spent = plan_for(PRIVATE, people=20_000, pois=15_000, size=ModelSize.assumed(50)).spent
    term = told("plan", *SIZE, "--set", "privacy.period_days=30")["terms"][1]
    other = epsilon_by_pld([spent] * 13, 1e-6)
    assert term["epsilon"] == pytest.approx(other, rel=1e-3)


def test_counts_come_from_the_folder_and_flags_go_before_them(city):
    dataset = read_folder(city).dataset
    found = told("plan", city)
    assert (found["people"], found["places"]) == (len(dataset.people), len(dataset.places)) == (150, 40)
    assert found["features"] == set_up(dataset, config.load()).samples.features
    more = told("plan", city, "--people", 5000)
    assert (more["people"], more["places"]) == (5000, 40)
    assert [line["devices"] for line in found["sums"]] == [150, 150, 150]
    assert found["shared_model"]["entries"] == columns_of(dataset, config.load()).entries


def spending_city(**changes):
    """What some visits cost is known, within public bounds."""
    made = make_city(CityPlan(people=300, places=60, records=9000), np.random.default_rng(1))
    cost = np.random.default_rng(2).uniform(0, 100, len(made.visits))
    visits = replace(made.visits, context={"spend": Numbers(cost)})
    declared = {**made.declared, "visits.spend": Declared(low=0.0, high=100.0)}
    return replace(made, visits=visits, declared=declared, **changes)


def dear_and_cheap():
    """Every other place costs the most that is declared, all others nothing: no bit hides that places differ."""
    made = spending_city()
    cost = np.where(made.visits.place % 2 == 0, 100.0, 0.0)
    return replace(made, visits=replace(made.visits, context={"spend": Numbers(cost)}))


def elsewhere():
    """The same, and nobody knows where places are."""
    made = spending_city()
    return replace(made, places=replace(made.places, location=None))


@pytest.mark.parametrize(
    ("made", "changes"),
    [
        (spending_city(), {}),
        (elsewhere(), {}),
        (spending_city(), {"features.averages": ["spend"], "privacy.epsilon_per_user": 50.0}),
        (spending_city(), {"features.dynamic": False}),
        (spending_city(), {"preset": "rounds", "features.averages": ["spend"]}),
        (spending_city(), BY_BITS),
        (dear_and_cheap(), {**BY_BITS, "features.averages": ["spend"]}),
    ],
    ids=[
        "usual",
        "without coordinates",
        "with an average",
        "not dynamic",
        "plain counts",
        "randomised response",
        "one-bit mean",
    ],
)
def test_features_are_counted_as_training_has_them_and_without_a_look_at_records(made, changes):
    settings = config.load(changes=changes)
    found = features_of(made, settings)
    assert found == set_up(made, settings).samples.features
    nobody = made.with_visits(made.visits.take(np.arange(0)))
    assert features_of(nobody, settings) == found


def test_an_average_that_could_not_be_taken_is_refused_by_the_plan_too(city):
    found = call("plan", city, "--set", "features.averages=['spend']")
    assert (found.exit_code, found.stdout) == (2, "")
    assert shell.says(found.stderr, messages.AVERAGE_OF_NO_COLUMN)


def test_a_plan_prints_no_id_and_no_private_value(city):
    dataset, found = read_folder(city).dataset, call("plan", city)
    shown = set((found.stdout + found.stderr).split())
    assert found.exit_code == 0
    assert not shown & {*dataset.people.ids, *dataset.places.ids}
    (city / "users.csv").rename(city / "users.old")
    try:
        (city / "users.csv").write_text("user,lat,lon\nsomebody,secret,139.7\n")
        broken = call("plan", city)
    finally:
        (city / "users.old").replace(city / "users.csv")
    assert (broken.exit_code, broken.stdout) == (3, "")
    assert not {"somebody", "secret"} & set(broken.stderr.replace("'", " ").split())


@pytest.mark.parametrize(("people", "delta", "advice"), [(20_000, 1e-6, None), (2_000_000, 1e-6, "1e-08")])
def test_a_delta_that_is_not_well_below_one_in_all_people_is_noted(people, delta, advice):
    notes = told("plan", "--people", people, "--places", 100, "--set", f"privacy.delta={delta}")["notes"]
    assert [f"set privacy.delta to {advice} or less" in text for text in notes] == ([True] if advice else [])


def test_randomised_response_is_priced_per_user_and_not_per_bit():
    found = told("plan", "--people", 500, "--places", 300, *ANSWERS, "--set", "popularity.epsilon_per_bit=2.0")
    local = found["randomized_response"]
    assert (found["promised"], local["epsilon_per_bit"], local["epsilon_per_user_and_collection"]) == (None, 2, 600)
    assert local["chance_of_a_false_answer"] == pytest.approx(0.1192, rel=1e-3)
    assert local["reveals_who_was_there"] is False
    text = flat(call("plan", "--people", 500, "--places", 300, *ANSWERS).stdout)
    assert "ε per user, each collection 300" in text
    assert "A person sends 300 bits about 300 places, and pays for all of them" in text
    assert "No privacy promise." in text


def test_an_average_by_randomised_response_costs_one_more_bit_for_each_place():
    words = ("plan", "--people", 500, "--places", 300, *ANSWERS, "--set", "features.averages=['spend']")
    local = told(*words)["randomized_response"]
    assert (local["bits"], local["epsilon_per_user_and_collection"]) == (600, 600)
    assert "A person sends 600 bits about 300 places" in flat(call(*words).stdout)


def test_where_only_people_with_a_record_answer_the_plan_says_that_answering_reveals_the_visit():
    words = ("plan", *SIZE, *ANSWERS, "--set", "popularity.reporters=those-with-a-record")
    local, text = told(*words)["randomized_response"], flat(call(*words).stdout)
    assert (local["reveals_who_was_there"], local["epsilon_per_user_and_collection"]) == (True, None)
    assert "is known to have a record there, whatever the answer says: no epsilon bounds that" in text
    assert "ε per user, each collection no bound" in text


@pytest.mark.parametrize("name", ["rounds", "paper", "fm"])
def test_a_plan_without_a_budget_says_that_nothing_is_promised(name):
    found = call("plan", *SIZE, "--preset", name)
    assert found.exit_code == 0
    assert "No privacy promise." in flat(found.stdout)
    assert "for life" not in found.stdout


def test_a_settings_file_names_its_own_preset(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('preset = "rounds"\n')
    assert told("plan", *SIZE, "--settings", file)["promised"] is None
    file.write_text("[privacy]\nepsilon_per_user = 2.0\n")
    assert told("plan", *SIZE, "--settings", file)["promised"]["epsilon"] == 2


BAD_PLANS = {
    "nothing to count": ((), 2, messages.NEITHER_FOLDER_NOR_COUNTS),
    "people only": (("--people", 900), 2, messages.NEITHER_FOLDER_NOR_COUNTS),
    "nobody": (("--people", 0, "--places", 9), 2, messages.is_at_least("--people", 1)),
    "years without a period": ((*SIZE, "--years", 2), 2, messages.YEARS_WITHOUT_A_PERIOD),
    "years without a promise": ((*SIZE, "--years", 2, "--preset", "rounds"), 2, messages.YEARS_WITHOUT_A_PERIOD),
    "no time": ((*SIZE, "--years", 0, "--set", "privacy.period_days=30"), 2, messages.YEARS_OUT_OF_RANGE),
    "not a time": ((*SIZE, "--years", "nan", "--set", "privacy.period_days=30"), 2, messages.YEARS_OUT_OF_RANGE),
    "too long": ((*SIZE, "--years", 21, "--set", "privacy.period_days=30"), 2, messages.YEARS_OUT_OF_RANGE),
    "no epsilon": (
        (*SIZE, "--set", "privacy.epsilon_per_user=0.0"),
        2,
        messages.setting_out_of_range("privacy.epsilon_per_user"),
    ),
    "a setting twice": ((*SIZE, "--set", "seed=1", "--set", "seed=2"), 2, messages.setting_given_twice("seed")),
    "a preset twice": ((*SIZE, "--preset", "fm", "--set", "preset=rounds"), 2, messages.setting_given_twice("preset")),
    "too few people": (("--people", 60, "--places", 9), 4, messages.too_few_devices(60, floor=100)),
    "no folder": (("nowhere",), 3, messages.in_file("nowhere", messages.NO_SUCH_FOLDER)),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_invalid_plans_are_refused(name):
    words, code, message = BAD_PLANS[name]
    found = call("plan", *words)
    assert (found.exit_code, found.stdout) == (code, "")
    assert shell.says(found.stderr, message)


def test_the_strictest_period_and_the_longest_time_still_have_a_figure():
    words = ("--set", "privacy.period_days=1", "--set", "privacy.epsilon_per_user=50", "--years", 20)
    assert told("plan", *SIZE, *words)["terms"][1]["epsilon_replace_one"] < 2**20


@pytest.mark.parametrize("path", [(), ("plan",), ("forecast",), ("ledger",)])
def test_the_help_fits_eighty_columns_and_ends_with_examples(path):
    found = call(*path, "--help")
    help_text, _, examples = found.stdout.partition("Examples:")
    assert found.exit_code == 0
    assert all(len(line) <= 80 for line in help_text.splitlines())
    assert not [line for line in help_text.splitlines() if line.startswith(("  plan", "  ledger")) and "..." in line]
    assert "prirec privacy" in examples
