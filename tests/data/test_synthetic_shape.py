"""The synthetic city has the sizes, columns and rhythm that its plan asks for, and depends on the generator alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prirec.data.dataset import Category, Dataset, Numbers, Tags
from prirec.data.synthetic import MOST_DAYS, CityPlan, category_words, district_words, koubei_size, make_city
from prirec.errors import UsageError
from support import messages


@pytest.fixture(scope="module")
def city() -> Dataset:
    return make_city(CityPlan(), np.random.default_rng(3))


def kilometres(city: Dataset) -> np.ndarray:
    step = city.people.location[city.visits.person] - city.places.location[city.visits.place]
    return np.hypot(step[:, 0], step[:, 1] * np.cos(np.radians(35.68))) * 111.195


def test_sizes_are_those_of_the_plan(city: Dataset) -> None:
    assert (len(city.people), len(city.places), len(city.visits)) == (2000, 1500, 24_000)
    assert len(set(city.people.ids)) == 2000
    assert len(set(city.places.ids)) == 1500
    assert city.labelled


def test_one_impression_in_four_is_clicked(city: Dataset) -> None:
    assert set(np.unique(city.visits.label)) == {-1, 1}
    assert abs(np.mean(city.visits.label > 0) - 0.25) < 0.02  # six standard deviations


def test_the_click_share_follows_the_plan() -> None:
    city = make_city(CityPlan(ignored_per_click=9.0), np.random.default_rng(0))
    assert abs(np.mean(city.visits.label > 0) - 0.1) < 0.012


def test_private_columns_stay_within_what_is_declared(city: Dataset) -> None:
    assert set(city.declared) == {f"users.{name}" for name in city.people.columns}
    for name, column in city.people.columns.items():
        known = city.declared[f"users.{name}"]
        if isinstance(column, Numbers):
            assert known.low <= column.values.min()
            assert column.values.max() <= known.high
        else:
            assert isinstance(column, Category)
            assert column.words == known.words
            assert column.codes.min() >= 0
            assert column.codes.max() < len(known.words)


def test_places_have_one_to_three_different_categories(city: Dataset) -> None:
    tags = city.places.columns["category"]
    assert isinstance(tags, Tags)
    count = np.diff(tags.offsets)
    assert set(count) == {1, 2, 3}
    row = np.repeat(np.arange(1500), count)
    assert len(np.unique(row * 24 + tags.codes)) == len(tags.codes)
    assert set(np.unique(city.places.columns["price_level"].values)) == {1, 2, 3, 4}


def test_everyone_has_a_record_few_have_many_and_most_have_less_than_the_mean(city: Dataset) -> None:
    records = np.sort(np.bincount(city.visits.person, minlength=2000))
    assert records[0] >= 1
    assert np.median(records) < 0.8 * records.mean()
    assert records[-200:].sum() > 0.3 * records.sum()


def test_popularity_has_a_heavy_tail(city: Dataset) -> None:
    clicks = np.sort(np.bincount(city.visits.place[city.visits.label > 0], minlength=1500))
    assert clicks[-150:].sum() > 0.4 * clicks.sum()


def test_people_are_shown_and_click_what_is_near(city: Dataset) -> None:
    distance = kilometres(city)
    anywhere = np.hypot(*(np.random.default_rng(0).random((2, 10_000)) - np.random.default_rng(1).random((2, 10_000))))
    assert np.median(distance) < 0.5 * np.median(anywhere * 25)
    assert np.median(distance[city.visits.label > 0]) < 0.9 * np.median(distance[city.visits.label < 0])


def test_bars_are_for_the_evening_and_museums_for_the_day() -> None:
    big = make_city(CityPlan(records=100_000), np.random.default_rng(0))
    hour = big.visits.time % 86_400 // 3600
    evening = (hour >= 18) | (hour < 2)
    tags = big.places.columns["category"]

    def evening_lift(word: str) -> float:
        has = np.zeros(1500, dtype=bool)
        has[np.repeat(np.arange(1500), np.diff(tags.offsets))[tags.codes == tags.words.index(word)]] = True
        shown = has[big.visits.place]
        clicked = big.visits.label > 0
        return float(clicked[shown & evening].mean() - clicked[shown & ~evening].mean())

    assert evening_lift("bar") > 0.05
    assert evening_lift("museum") < -0.05


def test_times_fill_the_days_with_a_rhythm(city: Dataset) -> None:
    day = (city.visits.time - city.visits.time.min() // 86_400 * 86_400) // 86_400
    assert day.min() == 0
    assert day.max() == 89
    hour = city.visits.time % 86_400 // 3600
    assert np.mean(hour == 19) > 5 * np.mean(hour == 3)
    weekday = (city.visits.time // 86_400 + 3) % 7  # 1 January 1970 was a Thursday
    assert np.mean(weekday == 5) > 1.5 * np.mean(weekday == 0)


def test_no_place_is_shown_twice_to_a_person_at_one_moment(city: Dataset) -> None:
    rows = np.stack([city.visits.person, city.visits.place, city.visits.time])
    assert np.unique(rows, axis=1).shape[1] == 24_000


@settings(max_examples=30)
@given(
    people=st.integers(1, 20), places=st.integers(1, 8), more=st.integers(0, 60), categories=st.integers(1, 70),
    days=st.integers(1, 9), seed=st.integers(0, 99), data=st.data(),
)  # fmt: skip
def test_tiny_cities_are_whole(
    people: int, places: int, more: int, categories: int, days: int, seed: int, data: st.DataObject
) -> None:
    plan = CityPlan(
        people=people, places=places, records=people + more, categories=categories, days=days,
        districts=data.draw(st.integers(1, places)),
    )  # fmt: skip
    city = make_city(plan, np.random.default_rng(seed))
    visits = city.visits
    assert len(visits) == people + more
    assert visits.place.min() >= 0
    assert visits.place.max() < places
    assert set(visits.person) == set(range(people))
    rows = np.stack([visits.person, visits.place, visits.time])
    assert np.unique(rows, axis=1).shape[1] == len(visits)


def test_the_longest_city_keeps_everyones_times_apart_and_a_longer_one_is_refused() -> None:
    city = make_city(CityPlan(people=3, records=40_000, days=MOST_DAYS), np.random.default_rng(0))
    assert np.array_equal(np.lexsort((city.visits.time, city.visits.person)), np.arange(40_000))
    assert city.visits.time.max() // 86_400 - city.visits.time.min() // 86_400 > 0.99 * MOST_DAYS
    with pytest.raises(UsageError, match=messages.days_at_most(49_710)):
        CityPlan(days=MOST_DAYS + 1)


def test_records_are_ordered_by_person_and_time(city: Dataset) -> None:
    order = np.lexsort((city.visits.time, city.visits.person))
    assert np.array_equal(order, np.arange(24_000))


def test_the_same_seed_gives_the_same_city_and_another_seed_another() -> None:
    plan = CityPlan(people=50, places=40, records=500)
    first, again, other = (make_city(plan, np.random.default_rng(seed)) for seed in (7, 7, 8))
    for a, b, equal in ((first, again, True), (first, other, False)):
        assert np.array_equal(a.visits.place, b.visits.place) is equal
        assert np.array_equal(a.visits.label, b.visits.label) is equal
        assert np.array_equal(a.people.location, b.people.location) is equal
        assert np.array_equal(a.places.columns["price_level"].values, b.places.columns["price_level"].values) is equal


def test_the_city_stands_where_the_plan_puts_it() -> None:
    plan = CityPlan(people=300, places=200, records=900, centre=(-33.9, 179.99), span_km=10.0)
    city = make_city(plan, np.random.default_rng(0))
    latitude, longitude = city.places.location.T
    assert np.all(np.abs(latitude + 33.9) * 111.195 <= 5.001)
    assert np.all(np.abs(longitude) <= 180)
    assert (longitude < 0).any()  # over the date line, and still a longitude
    assert (longitude > 0).any()


def test_koubei_size_is_table_2() -> None:
    plan = koubei_size()
    assert (plan.people, plan.places, plan.records) == (85_466, 118_598, 497_838)
    # gender 3, age, hometown, friends, spending; category, price, district, years; three dynamic features and distance
    assert 3 + 1 + plan.districts + 1 + 1 + plan.categories + 1 + plan.districts + 1 + 3 + 1 + 5 == 89


def test_names_beyond_the_list_are_numbered_and_never_repeat() -> None:
    for words in (category_words(80), district_words(40)):
        assert len(set(words)) == len(words)
    assert category_words(80)[-1] == "category 80"
    assert district_words(31)[-1] == "district 31"
    assert category_words(2) == ("ramen", "museum")


@pytest.mark.parametrize(
    "wrong",
    [
        {"people": 0}, {"people": 2.5}, {"people": True}, {"places": -1}, {"records": 1999}, {"districts": 0},
        {"districts": 1501}, {"categories": 0}, {"days": 0}, {"span_km": 0.0}, {"span_km": float("nan")},
        {"centre": (91.0, 0.0)}, {"centre": (0.0, 181.0)}, {"ignored_per_click": 0.0},
        {"ignored_per_click": float("inf")},
    ],
)  # fmt: skip
def test_an_impossible_plan_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        CityPlan(**wrong)
