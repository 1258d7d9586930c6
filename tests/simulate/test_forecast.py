"""A forecast: every mechanism at every price, on a city of the size that was asked for."""

import numpy as np
import pytest

from prirec import config
from prirec.errors import PolicyError, UsageError
from prirec.features.columns import ModelSize
from prirec.privacy.accountant import Adjacency, affordable
from prirec.privacy.plan import plan_for
from prirec.simulate.forecast import (
    CLEAR,
    FIXED,
    PEOPLE_NEEDED,
    VARIANTS,
    Forecast,
    Price,
    Row,
    as_many,
    forecast,
    gather,
    made_up,
    made_up_for_many,
    plain,
    popularity_auc,
    runs,
    train_both,
    without_a_budget,
)
from prirec.simulate.setup import columns_of
from prirec_experiments.unary import UNARY
from support import messages
from support.pages import measured, page_writer

PRICES = [1.0, 8.0]


@pytest.fixture(scope="module")
def found() -> Forecast:
    return forecast(made_up(people=600, places=50, visits_per_person=6), epsilons_per_user=PRICES)


def test_every_mechanism_stands_at_every_price_and_the_paper_s_once(found: Forecast) -> None:
    told = [(row.mechanism, row.epsilon_per_user) for row in found.rows]
    priced = [(one.name, price) for price in PRICES for one in VARIANTS if one.name not in FIXED]
    assert told == [*priced, *((name, None) for name in FIXED)]


def test_the_cost_is_against_plain_counts_of_the_same_city(found: Forecast) -> None:
    city = made_up(people=600, places=50, visits_per_person=6)
    assert found.plain_auc == popularity_auc(plain(gather(city)), city)
    assert found.plain_auc > 0.6
    assert all(row.cost == pytest.approx(found.plain_auc - row.auc) for row in found.rows)


def test_a_higher_price_has_a_smaller_error_and_more_places_above_the_noise(found: Forecast) -> None:
    rows = {(row.mechanism, row.epsilon_per_user): row for row in found.rows}
    for name in {row.mechanism for row in found.rows} - set(FIXED):
        cheap, dear = (rows[name, price] for price in PRICES)
        assert dear.error < cheap.error
        assert dear.places_above_noise >= cheap.places_above_noise


def test_a_place_rises_out_of_the_noise_with_twice_the_error(found: Forecast) -> None:
    visitors = gather(made_up(people=600, places=50, visits_per_person=6)).visitors()
    assert all(row.places_above_noise == (visitors > CLEAR * row.error).sum() for row in found.rows)
    assert (found.median_visitors, found.mean_visitors) == (np.median(visitors), pytest.approx(visitors.mean()))


def test_secure_sums_are_better_than_local_answers(found: Forecast) -> None:
    city = made_up(people=600, places=50, visits_per_person=6)
    sums = [row.auc for row in found.rows if row.user_level and row.epsilon_per_user == 1.0]
    local = [
        popularity_auc(UNARY.simulate(gather(city), Price(1.0), np.random.default_rng(seed)).popularity, city)
        for seed in range(3)
    ]
    assert min(sums) > float(np.mean(local))


def test_beside_each_epsilon_stands_the_one_between_any_two_contributions(found: Forecast) -> None:
    for row in found.rows:
        if row.epsilon_per_user is None:
            assert row.epsilon_replace_one is None
        else:
            spent = affordable(row.epsilon_per_user, found.delta)
            assert row.epsilon_replace_one == spent.loss(found.delta, Adjacency.REPLACE_ONE).epsilon
            assert row.epsilon_replace_one > 2 * row.epsilon_per_user


def test_without_a_budget_nothing_is_forecast_as_planned(found: Forecast) -> None:
    assert (found.as_planned, found.part_for_popularity) == (None, None)


def planned_row(**changes: object) -> tuple[Row, Row]:
    """As planned, and the secure sum with posterior that has the whole budget."""
    given = {name.replace("__", "."): value for name, value in changes.items()}
    settings = config.load(changes=given)
    city = made_up(people=600, places=50, visits_per_person=6)
    told = forecast(city, epsilons_per_user=[1.0], settings=settings)
    assert told.as_planned is not None
    return told.as_planned, told.rows[0]


def test_as_planned_popularity_has_the_noise_of_its_part_of_the_budget() -> None:
    others = {"privacy__moments": 1.0, "privacy__interaction": 1.0}
    usual, whole = planned_row()
    rest, _ = planned_row(privacy__popularity=0.01, **others)
    nearly_all, same = planned_row(privacy__popularity=1e5, **others)
    assert whole == same
    assert nearly_all.error < usual.error < rest.error
    assert nearly_all.error == pytest.approx(whole.error, rel=0.3)  # other draws of the same noise
    assert usual.epsilon_per_user == pytest.approx(1)
    assert usual.epsilon_replace_one == pytest.approx(2.1229, rel=1e-4)


def test_as_planned_counts_those_who_drop_out() -> None:
    with pytest.raises(PolicyError, match=messages.TOO_MANY_DROP_OUT):
        planned_row(participation__dropout=0.5)


def test_the_twin_without_a_budget_has_the_same_records_features_and_devices() -> None:
    changes = {"seed": 3, "data.split": "time", "features.words": 5, "iterations": 7, "floor": 300}
    settings = config.load(changes={**changes, "participation.dropout": 0.1, "privacy.epsilon_per_user": 2.0})
    twin = without_a_budget(settings)
    for name in ("seed", "floor", "iterations", "data", "features", "participation", "sums"):
        assert getattr(twin, name) == getattr(settings, name)
    assert (twin.preset, twin.privacy.epsilon_per_user) == ("rounds", None)


def test_a_seed_determines_the_forecast() -> None:
    one, again, other = (
        forecast(made_up(people=150, places=20, visits_per_person=3), epsilons_per_user=[1.0], seed=seed)
        for seed in (0, 0, 1)
    )
    assert one == again
    assert one.rows != other.rows


def test_progress_is_reported_before_each_step() -> None:
    heard: list[tuple[int, str]] = []
    city = made_up(people=150, places=20, visits_per_person=3)
    forecast(city, epsilons_per_user=[2.0], progress=lambda done, of, name: heard.append((done, name)))
    assert heard == [(at, one.name) for at, (one, _) in enumerate(runs([2.0]))]


def test_a_made_up_city_has_the_size_that_was_asked_for() -> None:
    city = made_up(people=2000, places=300, visits_per_person=10)
    counted = np.count_nonzero(city.train.label > 0)
    assert (len(city.dataset.people), len(city.dataset.places)) == (2000, 300)
    assert city.dataset.made_up
    assert counted / 2000 == pytest.approx(10, rel=0.1)
    assert np.count_nonzero(city.test.label > 0) == pytest.approx(counted / 4, rel=0.1)
    visitors = np.sort(gather(city).visitors())[::-1]
    assert visitors[:30].sum() > 3 * visitors[-100:].sum()  # a tenth has far more than a third


def test_few_visits_and_few_places_are_possible() -> None:
    found = forecast(made_up(people=300, places=2, visits_per_person=0.5), epsilons_per_user=[1.0])
    assert found.places == 2


@pytest.mark.parametrize("size", [{"people": 10**6, "visits_per_person": 5}, {"people": 10, "visits_per_person": 0}])
def test_a_city_too_large_or_empty_to_be_made_up_is_refused(size: dict[str, int]) -> None:
    with pytest.raises(UsageError, match=messages.visits_of_a_made_up_city(4_000_000)):
        made_up(places=10, **size)


@pytest.mark.parametrize("prices", [[], [1.0, 1.0]])
def test_prices_are_given_once_each(prices: list[float]) -> None:
    with pytest.raises(UsageError, match=messages.EPSILONS_MISSING_OR_TWICE):
        runs(prices)


def test_fewer_people_than_the_floor_have_no_secure_sum_to_forecast() -> None:
    with pytest.raises(PolicyError, match=messages.too_few_devices(60, floor=100)):
        forecast(made_up(people=60, places=20, visits_per_person=5), epsilons_per_user=[1.0])


def test_a_forecast_knows_two_operators() -> None:
    city = made_up(people=600, places=50, visits_per_person=6)
    chosen = [config.load(changes={"sums.operators": n}) for n in (1, 2)]
    one, two = (forecast(city, epsilons_per_user=[1.0], settings=settings) for settings in chosen)
    assert "while one of them is honest" in " ".join(two.notes)
    assert "drop out and" in " ".join(one.notes)
    errors = [next(row.error for row in found.rows if row.mechanism == "secure sum") for found in (one, two)]
    assert 1.1 < errors[1] / errors[0] < 1.4  # 2 instead of 1.33 times the variance that is needed: 1.22


# Models of few people with the noise of many


MANY = {"people": 8_000, "places": 200, "visits_per_person": 8.0}


def test_few_people_have_the_noise_and_the_parts_of_the_budget_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prirec.simulate.forecast.MOST_TRAINED", 1_000)
    settings = config.load(changes={"preset": "private"})
    city, scaled = made_up_for_many(settings, **MANY)
    size = columns_of(city, scaled).size
    assert len(city.people) == 1_000
    one = plan_for(settings, people=8_000, pois=200, size=size)
    other = plan_for(scaled, people=1_000, pois=200, size=size)
    for many, few in zip(one.releases, other.releases, strict=True):
        assert few.sd_of_mean() == pytest.approx(many.sd_of_mean(), rel=0.02)  # by the whole number of those lost
    assert made_up_for_many(settings, **{**MANY, "people": 900})[1].privacy.epsilon_per_user == 1.0


def test_without_a_budget_there_is_no_noise_to_scale() -> None:
    settings = config.load(changes={"preset": "rounds"})
    scaled = as_many(settings, few=10, many=1000, places=5, size=ModelSize.assumed(9))
    assert scaled.privacy.epsilon_per_user is None


@pytest.mark.long
def test_what_few_people_predict_is_what_many_come_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the people, with a quarter of the noise: the moments of a city are noisy too, so that two trainings
    of this size differ by 0.01. With all of the noise they are far below. benchmarks/people.py has larger cities."""
    settings = config.load(changes={"preset": "private"})
    there = train_both(*made_up_for_many(settings, **MANY), threads=1)
    monkeypatch.setattr("prirec.simulate.forecast.MOST_TRAINED", 2_000)
    predicted = train_both(*made_up_for_many(settings, **MANY), threads=1)
    alone = train_both(*made_up_for_many(settings, **{**MANY, "people": 2_000}), threads=1)
    assert (there.people, predicted.people, alone.people) == (8_000, 2_000, 2_000)
    assert abs(predicted.cost - there.cost) < 0.02
    assert alone.cost > max(predicted.cost, there.cost) + 0.02


def test_how_many_people_a_budget_needs_is_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = page_writer("benchmarks/people.py", monkeypatch)
    measured_needs = {epsilon: writer.people_needed(measured("people"), epsilon) for epsilon in writer.EPSILONS}
    assert measured_needs == PEOPLE_NEEDED
    small = made_up(people=200, places=20, visits_per_person=5)

    def notes(epsilon: float) -> str:
        settings = config.load(changes={"preset": "private", "privacy.epsilon_per_user": epsilon})
        return " ".join(forecast(small, epsilons_per_user=[1.0], settings=settings).notes)

    assert all(f"{needed:,} people" in notes(epsilon) for epsilon, needed in PEOPLE_NEEDED.items())
    assert "tuned" not in notes(3.0)
    assert writer.PICTURE.read_text(encoding="utf-8") == writer.picture(measured("people")), "run make bench"
