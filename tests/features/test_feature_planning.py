"""Which encoding a city gets: public columns by their statistics, private ones by declarations and constants."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.config import Features
from prirec.data.dataset import Category, Dataset, Declared, Numbers, People, Places, Tags, Visits
from prirec.data.schema import Schema
from prirec.errors import DataError
from prirec.features.encoding import (
    MOST_WORDS,
    PRIVATE_SCALE,
    Affinity,
    Clock,
    Density,
    Distance,
    Hashed,
    Log,
    Nearest,
    Range,
    Words,
    from_json,
    plan_declared_encoding,
    plan_encoding,
)
from prirec.features.popularity import Popularity
from support import messages
from support.cities import small_city, some_visits

BARE = Features(own_history=False, areas=0)


def codes(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int32)


def toy(*, visits: Visits | None = None, location: bool = True) -> Dataset:
    people = People(
        ("u1", "u2"),
        None,
        {
            "age": Numbers(np.array([30.0, 40.0])),
            "steps": Numbers(np.array([1.0, np.nan])),
            "gender": Category(codes(0, 1), ("f", "m")),
            "job": Category(codes(0, 1), ("nurse", "pilot")),
        },
    )
    places = Places(
        ("p1", "p2", "p3"),
        np.array([[35.0, 139.0]] * 3) if location else None,
        {
            "price": Numbers(np.array([0.0, np.e - 1, np.nan])),
            "floor": Numbers(np.array([2.0, 2.0, 2.0])),
            "kind": Category(codes(1, 1, 0), ("bar", "café", "park")),
            "tags": Tags(np.array([0, 2, 3, 3]), codes(0, 1, 1), ("quiet", "cheap")),
        },
    )
    declared = {
        "users.age": Declared(low=0.0, high=100.0),
        "users.gender": Declared(words=("m", "f", "x")),
        "visits.rain": Declared(low=0.0, high=9.0),
    }
    return Dataset("toy", people, places, visits or some_visits([0], [0], [1]), labelled=True, declared=declared)


def test_private_columns_follow_declarations_and_constants():
    assert plan_encoding(toy(), Popularity(), Features(buckets=3, areas=0)).person == (
        Range(column="age", low=0.0, high=100.0),
        Log(column="steps", shift=0.0, scale=PRIVATE_SCALE),
        Words(column="gender", words=("m", "f", "x")),
        Hashed(column="job", buckets=3),
    )


@pytest.mark.parametrize("table", ["users", "visits"])
def test_more_declared_words_than_a_saved_run_may_hold_are_refused_before_there_is_a_run(table):
    most, over = (
        Schema(declared={f"{table}.job": Declared(words=tuple(map(str, range(many))))})
        for many in (MOST_WORDS, MOST_WORDS + 1)
    )
    planned = plan_declared_encoding(toy().places, most, Features())
    assert from_json(planned.to_json()) == planned
    with pytest.raises(DataError, match=messages.too_many_values(65_536)) as caught:
        plan_declared_encoding(toy().places, over, Features())
    assert (caught.value.file.name, caught.value.column) == ("schema.toml", "job")


def test_a_city_with_more_declared_words_than_a_saved_run_may_hold_is_refused():
    declared = {"users.job": Declared(words=tuple(map(str, range(MOST_WORDS + 1))))}
    with pytest.raises(DataError, match=messages.too_many_values(65_536)):
        plan_encoding(replace(toy(), declared=declared), Popularity(), Features())


def test_public_columns_follow_the_catalogue():
    price, kind, tags = plan_encoding(toy(), Popularity(), Features()).place
    assert isinstance(price, Log)
    assert (price.column, price.shift, price.scale) == ("price", pytest.approx(0.5), pytest.approx(0.5))
    assert kind == Words(column="kind", words=("café", "bar", "park"))
    assert tags == Words(column="tags", words=("cheap", "quiet"))


def test_the_most_common_words_are_kept_and_ties_are_broken_by_the_alphabet():
    columns = {"kind": Category(codes(0, 1, 2, 2), ("zoo", "bar", "park"))}
    city = Dataset("t", People((), None), Places(tuple("abcd"), None, columns), some_visits([], [], []), labelled=True)
    assert plan_encoding(city, Popularity(), Features(words=2)).place == (Words(column="kind", words=("park", "bar")),)
    assert plan_encoding(city, Popularity(), Features(words=0)).place == ()


def test_popularity_is_standardised_and_left_out_where_it_says_nothing():
    counts = {"visitors": np.array([0.0, np.e - 1]), "visits": np.array([4.0, 4.0])}
    (block,) = plan_encoding(toy(), Popularity(counts), Features()).popularity
    assert (block.column, block.shift, block.scale) == ("visitors", pytest.approx(0.5), pytest.approx(0.5))


def test_context_holds_what_the_city_knows_of_a_moment():
    visits = Visits(codes(0), codes(0), np.ones(1, dtype=np.int8), np.zeros(1, dtype=np.int64),
                    {"rain": Numbers(np.zeros(1)), "mood": Category(codes(0), ("good",))})  # fmt: skip
    distance, clock, rain, mood = plan_encoding(toy(visits=visits), Popularity(), BARE).context
    assert isinstance(distance, Distance)
    assert isinstance(clock, Clock)
    assert rain == Range(column="rain", low=0.0, high=9.0)
    assert mood == Hashed(column="mood", buckets=8)
    assert plan_encoding(toy(location=False), Popularity(), BARE).context == ()
    assert plan_encoding(toy(visits=visits), Popularity(), Features(context=False)).context == ()


def test_the_own_history_is_an_option_and_compares_what_is_a_feature_of_places():
    encoding = plan_encoding(toy(), Popularity(), Features(own_history=True))
    near, dense, kind, tags, price = encoding.history
    assert encoding.context[1:] == encoding.history
    assert isinstance(near, Nearest)
    assert isinstance(dense, Density)
    assert kind == Affinity(column="own visits by kind", of="kind", shares=pytest.approx((2 / 3, 1 / 3, 1e-3)))
    assert tags == Affinity(column="own visits by tags", of="tags", shares=pytest.approx((2 / 3, 1 / 3)))
    assert (price.column, price.of) == ("own visits by price", "price")
    np.testing.assert_allclose(dense.encode_mean(np.array([[0.0, 1.0, np.nan]])), [[-1.5, 1.5, 0.0]], atol=1e-3)
    likeness = plan_encoding(toy(location=False), Popularity(), Features(own_history=True))
    assert likeness.context == (kind, tags, price)
    assert plan_encoding(toy(), Popularity(), BARE).history == ()
    assert plan_encoding(toy(), Popularity(), Features(own_history=True, context=False)).context == ()


def test_at_most_four_columns_of_words_and_of_numbers_are_compared():
    columns = {f"{n}": Category(codes(0, 1), ("a", "b")) for n in range(6)}
    columns |= {f"number {n}": Numbers(np.array([1.0, 2.0])) for n in range(6)}
    city = Dataset("t", People((), None), Places(("x", "y"), None, columns), some_visits([], [], []), labelled=True)
    compared = [block.of for block in plan_encoding(city, Popularity(), Features(own_history=True)).history]
    assert compared == ["0", "1", "2", "3", "number 0", "number 1", "number 2", "number 3"]


def test_five_kilometres_are_the_middle_of_the_distance_feature():
    (distance,) = plan_encoding(toy(), Popularity(), BARE).context
    np.testing.assert_allclose(distance.encode_km(np.array([5.0, 6 * np.e**2 - 1])).ravel(), [0.0, 1.0], atol=1e-6)


def test_standardised_features_have_mean_0_and_spread_1_over_the_catalogue():
    city = small_city()
    block = next(
        block for block in plan_encoding(city, Popularity(), Features()).place if block.column == "opened_years"
    )
    encoded = block.encode(city.places.columns["opened_years"])
    assert encoded.mean() == pytest.approx(0.0, abs=1e-5)
    assert encoded.std() == pytest.approx(1.0, abs=1e-5)
