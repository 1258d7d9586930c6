"""Popularity by every mechanism: the right thing on average, with the noise that was planned, as devices see it."""

from dataclasses import replace

import numpy as np
import pytest

from prirec.config import PRIVATE, Settings
from prirec.data.dataset import Dataset, People, Places, Visits
from prirec.data.prepare import Prepared, Recipe, prepare
from prirec.errors import PolicyError
from prirec.features.popularity import OwnCounts, Popularity
from prirec.privacy.accountant import affordable, noise_multiplier
from prirec.privacy.randomized_response import RandomizedResponse
from prirec.simulate.forecast import (
    FIXED,
    PAPER_EPSILON_PER_BIT,
    VARIANTS,
    Collection,
    Estimate,
    Price,
    Variant,
    gather,
    plain,
    planned_release,
    popularity_auc,
    released,
)
from prirec_experiments.unary import COMPARED, UNARY
from support import messages
from support.cities import change, small_city, some_visits

SUMS = ("secure sum, posterior", "secure sum", "secure sum, 20 places")
APART = ("secure sum, no loss", "Eq. (6)", "records only")
NAMED = {one.name: one for one in COMPARED}
every_mechanism = pytest.mark.parametrize("one", COMPARED, ids=lambda one: one.name)


@pytest.fixture(scope="module")
def prepared() -> Prepared:
    return prepare(small_city(people=400, places=60, records=6000), Recipe(), np.random.default_rng(0))


def crowd_of(visits: Visits, *, people: int, places: int) -> Prepared:
    names = tuple(str(n) for n in range(max(people, places)))
    city = Dataset("toy", People(names[:people], None), Places(names[:places], None), visits, labelled=True)
    return Prepared(city, visits, visits)


def many(people: int = 10_000, places: int = 40) -> Collection:
    """Person i was at place i mod J, and every second one at place 0 as well."""
    own = np.unique(np.r_[np.arange(people) * places + np.arange(people) % places, np.arange(0, people, 2) * places])
    once = OwnCounts(places, own, np.ones(len(own)))
    return Collection(once, people, once.total().astype(np.int64), None, None, Settings())


def test_mechanisms_with_an_epsilon_per_user_are_marked_as_such() -> None:
    assert [one.name for one in VARIANTS if one.user_level] == list(SUMS)
    assert [one.name for one in VARIANTS if not one.user_level] == list(APART)
    assert (UNARY.user_level, UNARY.local) == (True, True)


@every_mechanism
def test_every_mechanism_gives_each_place_a_popularity_and_the_same_again(one: Variant, prepared: Prepared) -> None:
    first, again, other = (
        released(one.simulate(gather(prepared), Price(), np.random.default_rng(seed)).popularity) for seed in (1, 1, 2)
    )
    assert first.shape == (60,)
    assert np.isfinite(first).all()
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_a_local_mechanism_keeps_its_epsilon_between_any_two_contributions(epsilon: float) -> None:
    assert UNARY.epsilon_replace_one(Price(epsilon)) == epsilon
    assert NAMED["secure sum"].epsilon_replace_one(Price(epsilon)) > 2 * epsilon


@pytest.mark.statistical  # false alarm 3e-7 for all 400 figures by Student's t; must notice a fifth too much
@pytest.mark.parametrize("name", [name for name in NAMED if name != "secure sum, posterior"])
def test_what_is_released_is_the_noiseless_figure_on_average(name: str) -> None:
    collection, rng, runs = many(people=2000), np.random.default_rng(), 200
    found = [NAMED[name].simulate(collection, Price(8.0), rng) for _ in range(runs)]
    noise = np.array([released(one.popularity) - one.expected for one in found])
    fifth = np.mean([one.expected for one in found], axis=0) / 5  # 13 sd where there is least to see
    standard_error = noise.std(axis=0, ddof=1) / runs**0.5
    assert np.max(np.abs(noise.mean(axis=0)) / standard_error) < 6.5
    assert np.max(np.abs(noise.mean(axis=0) + fifth) / standard_error) > 6.5


def test_the_noiseless_figures_are_visitors_or_weigh_them_as_they_say() -> None:
    collection, rng = many(people=120, places=3), np.random.default_rng(0)
    visitors = collection.visitors()
    # of 60 people who are at place 0 as well, 20 are there anyway: 40 have two places
    assert visitors.tolist() == [80, 40, 40]
    for name in ("Eq. (6)", "records only"):
        assert NAMED[name].simulate(collection, Price(), rng).expected.tolist() == visitors.tolist()
    one_place = UNARY.simulate(collection, Price(), rng).expected
    assert one_place == pytest.approx([40 + 40 / 2, 20 + 20 / 2, 20 + 20 / 2])
    scaled = NAMED["secure sum"].simulate(collection, Price(), rng).expected
    assert scaled == pytest.approx([40 + 40 / 2**0.5, 20 + 20 / 2**0.5, 20 + 20 / 2**0.5], rel=0.003)


@pytest.mark.statistical  # false alarm 2e-7; must notice noise for a roster that loses nobody
def test_a_secure_sum_has_the_noise_that_lost_and_colluding_devices_need() -> None:
    collection, price, rng = many(people=1000, places=4000), Price(1.0, 1e-6), np.random.default_rng()

    def spread(name: str) -> float:
        found = NAMED[name].simulate(collection, price, rng)
        return float((released(found.popularity) - found.expected).std())

    needed = noise_multiplier(1.0, 1e-6)
    assert planned_release(collection, price).sd_of_sum() == pytest.approx(needed * (1000 / 750) ** 0.5, rel=1e-3)
    assert spread("secure sum") == pytest.approx(needed * (1000 / 750) ** 0.5, rel=0.06)
    assert spread("secure sum, no loss") == pytest.approx(needed, rel=0.06)


def test_a_release_with_the_whole_budget_heeds_the_floor_and_the_losses_of_the_settings_and_nothing_else() -> None:
    own, price = many(people=1000), Price(2.0, 1e-7)
    usual = planned_release(own, price)
    strange = change(
        PRIVATE,
        features={"averages": ("spend",), "dynamic": False},
        privacy={"epsilon_per_user": 9.0, "popularity": 0.0, "quality": 3.0},
    )
    assert planned_release(replace(own, settings=strange), price) == usual
    assert usual.of.length == own.places
    assert usual.each == affordable(2.0, 1e-7)
    stricter = change(strange, floor=900, sums={"lost": 0.0, "corrupt": 0.3})
    crowd = planned_release(replace(own, settings=stricter), price).of.crowd
    assert (crowd.size, crowd.survivors, crowd.colluders) == (1000, 1000, 300)
    with pytest.raises(PolicyError, match=messages.too_few_devices(1000, floor=1001)):
        planned_release(replace(own, settings=change(strange, floor=1001)), price)


def test_the_paper_s_figures_do_not_move_with_the_price_and_all_others_do() -> None:
    collection = many(people=1000)
    for name in NAMED:
        cheap, dear = (
            released(NAMED[name].simulate(collection, Price(epsilon), np.random.default_rng(3)).popularity)
            for epsilon in (0.5, 5.0)
        )
        assert (name in FIXED) == bool((cheap == dear).all())


@pytest.mark.statistical  # false alarm 1e-7; must notice everyone answering
def test_records_only_has_the_noise_of_those_who_answer() -> None:
    own = OwnCounts(4000, np.arange(4000, dtype=np.int64), np.ones(4000))  # person 0 was everywhere
    collection = Collection(own, 10_000, np.full(4000, 30), None, None, Settings())
    found = NAMED["records only"].simulate(collection, Price(), np.random.default_rng())
    expected = RandomizedResponse(PAPER_EPSILON_PER_BIT).standard_deviation(30)
    assert (released(found.popularity) - 1).std() == pytest.approx(expected, rel=0.06)


def test_without_public_knowledge_the_posterior_keeps_the_order_and_is_nearer_to_the_truth() -> None:
    collection = many(people=1000, places=400)
    raw, shrunk = (
        NAMED[name].simulate(collection, Price(), np.random.default_rng(4))
        for name in ("secure sum", "secure sum, posterior")
    )
    assert (np.argsort(released(raw.popularity)) == np.argsort(released(shrunk.popularity))).all()
    assert shrunk.error(collection.visitors()) < 0.9 * raw.error(collection.visitors())


def test_secure_sums_are_refused_below_the_floor_and_local_answers_are_not() -> None:
    few = many(people=99)
    for name in SUMS:
        with pytest.raises(PolicyError, match=messages.too_few_devices(99, floor=100)):
            NAMED[name].simulate(few, Price(), np.random.default_rng(0))
    for name in ("unary encoding", "Eq. (6)", "records only"):
        NAMED[name].simulate(few, Price(), np.random.default_rng(0))


def test_popularity_alone_is_judged_without_the_device_s_own_part() -> None:
    """Person 0 was at place 0 and is alone there; seen from outside it is no more popular than place 1."""
    toy = crowd_of(some_visits([0, 0], [0, 1], [1, -1]), people=1, places=2)
    counts = plain(gather(toy))
    assert counts.released["visitors"].tolist() == [1.0, 0.0]
    assert popularity_auc(counts, toy) == 0.5
    assert popularity_auc(Popularity(counts.released), toy) == 1.0


def test_of_several_columns_the_first_is_the_popularity() -> None:
    toy = crowd_of(some_visits([0, 0], [0, 1], [1, -1]), people=1, places=2)
    columns = {"popular": np.array([3.0, 1.0]), "nearby": np.array([1.0, 3.0])}
    assert popularity_auc(Popularity(columns), toy) == 1.0


def test_a_collection_counts_visitors_once_and_knows_who_has_any_record() -> None:
    visits = some_visits([0, 0, 1, 2, 2], [0, 0, 0, 1, 0], [1, 1, -1, 1, -1])
    found = gather(crowd_of(visits, people=4, places=2))
    assert found.visitors().tolist() == [1, 1]
    assert found.with_a_record.tolist() == [3, 1]
    assert found.people == 4


def test_an_error_is_a_number_of_visitors() -> None:
    """Released in halves of a visitor: an error of 1 there is one of 2 visitors."""
    expected = np.array([5.0, 10.0])
    found = Estimate(Popularity({"x": np.array([6.0, 9.0])}), expected)
    assert found.error(np.array([10, 20])) == pytest.approx(2.0)
    assert Estimate(Popularity({"x": np.array([1.0])}), np.zeros(1)).error(np.array([0])) == 1.0
