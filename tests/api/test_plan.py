"""`prirec.plan`: the verdict first, the same figures as the plan of a training."""

import pytest

import prirec
from prirec.errors import PolicyError, UsageError
from support import messages


def test_a_plan_says_its_verdict_first() -> None:
    found = prirec.plan(epsilon=1, people=50_000, places=20_000, rounds=20)
    assert repr(found).splitlines()[0] == found.verdict
    assert found.verdict.startswith("Usable: ε = 1 for each person for life (δ = 1e-06).")
    assert found.usable
    assert found.verdict in found._repr_html_().replace("&#x27;", "'")


def test_for_too_few_people_a_plan_says_how_many_it_takes() -> None:
    found = prirec.plan(epsilon=1, people=500, places=200)
    assert not found.usable
    assert found.verdict.startswith("Noisy: ")
    assert found.noise is not None
    assert f"you need about {found.noise.people:,} people for that" in found.verdict
    assert prirec.plan(epsilon=1, people=found.noise.people, places=200).usable


def test_settings_without_a_budget_promise_nothing() -> None:
    found = prirec.plan(people=5_000, places=100, settings="rounds")
    assert found.plan is None
    assert found.verdict.startswith("No privacy promise.")


def test_a_city_is_counted_and_numbers_go_before_it() -> None:
    city = prirec.make_city(people=160)
    found, larger = prirec.plan(city), prirec.plan(city, people=9_000)
    assert (found.counts.people, found.counts.places) == (160, 64)
    assert (larger.counts.people, larger.counts.features) == (9_000, found.counts.features)
    assert larger.counts.size == found.counts.size


def test_periods_add_up() -> None:
    chosen = prirec.settings("private", privacy={"period_days": 30})
    first, later = prirec.plan(people=50_000, places=100, settings=chosen, years=2).terms
    assert (first.days, later.days) == (30, 730)
    assert later.epsilon > first.epsilon


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({}, UsageError, messages.PLAN_WITHOUT_NUMBERS),
        ({"people": 0, "places": 5}, UsageError, messages.not_a_count("people")),
        ({"people": 500, "places": 5, "years": 2}, UsageError, messages.YEARS_WITHOUT_A_PERIOD),
        ({"people": 500, "places": 5, "years": 0}, UsageError, messages.YEARS_OUT_OF_RANGE),
        ({"people": 500, "places": 5, "visits_per_person": 0}, UsageError, messages.VISITS_OUT_OF_RANGE),
        (
            {"people": 500, "places": 5, "epsilon": -1},
            UsageError,
            messages.setting_out_of_range("privacy.epsilon_per_user"),
        ),
        (
            {"people": 500, "places": 5, "epsilon": "one"},
            UsageError,
            messages.takes("privacy.epsilon_per_user", "a number"),
        ),
        ({"people": 500, "places": 5, "rounds": 2.5}, UsageError, messages.takes("iterations", "a whole number")),
        ({"people": 500, "places": 5, "epsilon": 1, "settings": "fm"}, PolicyError, messages.EPSILON_OUTSIDE_ROUNDS),
    ],
)
def test_invalid_plans_are_refused_with_the_reason(given, kind, words: str) -> None:
    with pytest.raises(kind, match=words):
        prirec.plan(**given)


def test_a_plan_over_two_operators_says_what_it_rests_on_and_what_a_report_costs() -> None:
    chosen = prirec.settings("private", sums={"operators": 2})
    one, two = (prirec.plan(people=50_000, places=100, settings=s) for s in ("private", chosen))
    assert "while one of the two operators is honest" in two.assumption
    assert "of each roster work with the operator" in one.assumption
    assert (one.to_dict()["operators"], two.to_dict()["operators"]) == (1, 2)
    assert two.to_dict()["epsilon_at_worst"] == pytest.approx(1.0, abs=1e-4)
    assert "proof of their norm" in two.traffic
    sent = [plan.to_dict()["shared_model"]["bytes_a_round"] for plan in (one, two)]
    assert sent[0] == 8 * one.counts.size.entries < sent[1]
    assert f"{sent[1] / 1e3:,.1f} kB" in two.traffic
    assert one.noise is not None
    assert two.noise is not None
    assert one.noise.in_scores < two.noise.in_scores < 1.3 * one.noise.in_scores
