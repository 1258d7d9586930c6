"""What visits to a place cost on average: plain, as more entries of the one noisy vector, and by one bit a person."""

import json
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from msgspec.structs import replace as replace_fields
from numpy.testing import assert_allclose, assert_array_equal

import prirec
from prirec import config
from prirec.data.dataset import Declared, Numbers
from prirec.data.prepare import prepare
from prirec.data.synthetic import CityPlan, make_city
from prirec.data.write_folder import write_folder
from prirec.errors import DataError, PolicyError, UsageError
from prirec.features.popularity import OwnCounts, Popularity, Scale, own_means, plain_average
from prirec.privacy.one_bit_mean import OneBitMean
from prirec.privacy.popularity_estimate import POPULARITY, average, average_of_answers, public_average, public_estimate
from prirec.privacy.weighted_popularity import NoisySums, split, stacked, weighted
from prirec.simulate.popularity import noisy_sums, release_popularity
from prirec.simulate.setup import recipe, set_up
from prirec.util.keyed_random import generator
from prirec.wire.campaign import deployable
from support import messages, shell

CENTS = Scale(0.0, 100.0)
NOBODY, NOTHING = np.empty(0, np.int64), np.empty(0)


def spending_city():
    """Places have a price; what a visit cost is about that. One person in ten keeps it to themselves."""
    city = make_city(CityPlan(people=1500, places=60, records=60_000), np.random.default_rng(1))
    rng = np.random.default_rng(2)
    price = rng.uniform(20, 80, len(city.places))
    cost = np.clip(price[city.visits.place] + rng.normal(0, 10, len(city.visits)), 0, 100)
    cost[(city.visits.label < 0) | (city.visits.person % 10 == 0)] = np.nan
    visits = replace(city.visits, context={**city.visits.context, "spend": Numbers(cost)})
    declared = {**city.declared, "visits.spend": Declared(low=0.0, high=100.0)}
    return replace(city, visits=visits, declared=declared), price


CITY, PRICE = spending_city()


def averaged(**changes: object):
    given = {name.replace("__", "."): value for name, value in changes.items()}
    setup = set_up(CITY, config.load(changes={"features.averages": ["spend"], **given}))
    price = PRICE[[CITY.places.ids.index(place) for place in setup.prepared.dataset.places.ids]]
    return setup, np.corrcoef(setup.popularity.released["average spend"], price)[0, 1]


def test_everyone_counts_once_a_place_with_the_mean_of_their_visits():
    visits = CITY.visits.take(np.arange(4))
    visits = replace(
        visits, person=np.array([0, 0, 1, 1], np.int32), place=np.array([1, 1, 1, 0], np.int32),
        label=np.array([1, 1, 1, -1], np.int8), context={"spend": Numbers(np.array([0.0, 50.0, 100.0, 7.0]))},
    )  # fmt: skip
    own = own_means(visits, "spend", CENTS, places=2)
    assert own.pairs.tolist() == [1, 3]
    assert_allclose(own.counts, [-0.5, 1.0])
    found = plain_average(own, CENTS, name="a")
    assert_allclose(found.released["a"], [62.5, 62.5])  # nobody's place has what the city has
    assert_allclose(found.released["a"][1] - found.own["a"].counts, [100.0, 25.0])  # what each sees of the other


def test_a_number_outside_its_range_is_cut():
    assert_allclose(CENTS.inward(np.array([-5.0, 0.0, 50.0, 100.0, 1e9])), [-1, -1, 0, 1, 1])
    assert_allclose(CENTS.outward(np.array([-2.0, 0.5])), [0.0, 75.0])


def test_statistics_stand_one_after_the_other_in_one_vector_and_come_back():
    parts = [OwnCounts(3, np.array([0, 4]), np.array([1.0, 2.0])), OwnCounts(3, np.array([2, 4]), np.array([3.0, 4.0]))]
    whole = stacked(parts)
    assert (whole.places, whole.pairs.tolist(), whole.counts.tolist()) == (6, [0, 5, 7, 10], [1.0, 3.0, 2.0, 4.0])
    assert whole.total().tolist() == [1.0, 2.0, 0.0, 0.0, 4.0, 3.0]
    for part, back in zip(parts, split(NoisySums(whole.total(), 0.5, whole), 2), strict=True):
        assert back.sums.tolist() == part.total().tolist()
        assert (back.sigma, back.own.places) == (0.5, 3)
        assert back.own.pairs.tolist() == part.pairs.tolist()
        assert back.own.counts.tolist() == part.counts.tolist()


def test_averages_share_the_norm_of_the_visits():
    setup, _ = averaged()
    release = noisy_sums(setup.prepared, setup.settings)
    assert len(release.sums) == 2 * len(setup.prepared.dataset.places)
    people = release.own.pairs // release.own.places
    assert np.bincount(people, release.own.counts**2).max() <= 1.0


def test_the_average_of_a_place_is_found_again_and_the_better_the_more_may_be_spent():
    plain, most, little = (
        averaged(**changes)[1]
        for changes in (
            {"preset": "rounds"},
            {"privacy__epsilon_per_user": 30.0},
            {"privacy__epsilon_per_user": 1.0},
        )
    )
    assert plain > 0.97
    assert most > 0.9
    assert 0.2 < little < most


BITS = {"preset": "rounds", "popularity__mechanism": "randomized-response"}
RECORDS = {**BITS, "popularity__reporters": "those-with-a-record"}


@pytest.mark.parametrize("who", [BITS, RECORDS], ids=["everyone", "those with a record"])
def test_one_bit_of_each_person_gives_the_average_of_a_place(who):
    plain, most, little = (
        averaged(**changes)[1]
        for changes in (
            {"preset": "rounds"},
            {**who, "popularity__epsilon_per_bit": 30.0},
            {**who, "popularity__epsilon_per_bit": 3.0},
        )
    )
    assert plain > most > 0.85
    assert 0.5 < little < most


@pytest.mark.statistical  # false alarm 2e-8 for each of 24 figures; must notice a tenth of the range, and noise halved
@pytest.mark.parametrize("reports", [400, None], ids=["everyone", "those with a record"])
def test_the_two_sums_behind_an_average_of_bits_are_unbiased_and_have_the_stated_noise(reports):
    """12 places of a crowd of 400, at which 100 people each have values around the place's own."""
    rng, places, runs = np.random.default_rng(), 12, 600
    pairs = np.sort(np.concatenate([np.arange(j, j + 100) * places + j for j in range(places)]))
    own = OwnCounts(places, pairs, np.clip(np.linspace(-0.8, 0.8, places)[pairs % places] + 0.1, -1, 1))
    mechanism = OneBitMean(-1.0, 1.0, 1.0)
    sent = reports or np.full(places, 100)
    found = np.array(
        [
            mechanism.estimated_sum(mechanism.simulate_ones(own, reports=sent, rng=rng), reports=sent)
            for _ in range(runs)
        ]
    )
    means, truth = (found.mean(axis=0) + sent - 100) / 100, own.total() / 100
    most = mechanism.largest_deviation(np.full(places, 100.0), reports=sent)
    standard_error = most / 100 / runs**0.5
    assert np.abs((means - truth) / standard_error).max() < 5.6
    assert np.abs((means + 0.2 - truth) / standard_error).min() > 5.6  # the range is from -1 to 1
    assert (found.std(axis=0) < 1.2 * most).all()  # 5.6 sd
    assert (found.std(axis=0) > 0.6 * most).all()


def test_averages_of_bits_leave_visitors_as_they_were_and_follow_from_the_seed():
    without, one, again, other = (
        set_up(CITY, config.load(changes=changes)).popularity.released
        for changes in (
            {"preset": "rounds", "popularity.mechanism": "randomized-response"},
            *({"preset": "rounds", "popularity.mechanism": "randomized-response",
               "features.averages": ["spend"], "seed": seed} for seed in (0, 0, 1)),
        )
    )  # fmt: skip
    assert list(without) == ["visitors"]
    assert list(one) == ["visitors", "average spend"]
    assert_array_equal(one["visitors"], without["visitors"])
    assert_array_equal(one["average spend"], again["average spend"])
    assert (one["average spend"] != other["average spend"]).any()
    assert ((one["average spend"] >= 0) & (one["average spend"] <= 100)).all()


def test_a_device_leaves_its_visit_and_its_value_out_of_an_average_of_bits():
    """Without noise it sees what the others' values come to; the prior of the city weighs nothing then."""
    own = OwnCounts(2, np.array([0, 1, 2, 4]), np.array([1.0, -0.2, 0.0, 0.5]))
    visitors = own.once().total()
    found = average_of_answers(visitors, own.total(), noise=lambda r: np.zeros(2), own=own, scale=CENTS, name="a")
    assert_allclose(found.released["a"], [75.0, 40.0])  # 0.5 and -0.2
    seen = found.released["a"][own.pairs % 2] - found.own["a"].counts
    assert_allclose(seen[[0, 2, 3]], [62.5, 87.5, 75.0])  # of 1, 0 and 0.5 the mean of the other two


def test_a_training_on_averages_of_bits_runs_to_the_end_and_recommends(tmp_path):
    folder = tmp_path / "city"
    write_folder(CITY, folder)
    flags = ("--preset", "rounds", "--set", "popularity.mechanism=randomized-response", "--set",
             "features.averages=['spend']", "--set", "iterations=3")  # fmt: skip
    trained = shell.call("train", folder, "--out", tmp_path / "run", *flags, "--json")
    assert trained.exit_code == 0, trained.stderr
    assert json.loads(trained.stdout)["quality"]["auc"] > 0.6
    shown = shell.call("recommend", tmp_path / "run", folder, "--person", CITY.people.ids[0], "--json")
    assert json.loads(shown.stdout)["places"]


@pytest.mark.statistical  # false alarm below 1e-6 each; must notice an error that is a third off
def test_published_errors_are_those_of_the_noise():
    """100 draws of noise over sums of 400 places, whose averages lie around the city's by 0.3."""
    rng, sigma, places = np.random.default_rng(), 1.5, 400
    visitors, truth = rng.uniform(2, 10, places), np.clip(rng.normal(0.2, 0.3, places), -1, 1)
    middles, squares, said = [], [], []
    for _ in range(100):
        values = NoisySums(visitors * truth + rng.normal(0, sigma, places), sigma, OwnCounts(places, NOBODY, NOTHING))
        city, released = public_average(visitors, values, Scale(-1.0, 1.0))
        middles.append(city.middle)
        squares.append(((released - truth) ** 2).mean())
        said.append(city.errors(visitors, sigma))
    noise, error = np.mean(said, axis=0)
    assert 0.6 < np.std(middles) / noise < 1.4  # the noise in visitors is not drawn here, and counts for 0.02 of it
    assert 0.9 < np.sqrt(np.mean(squares)) / error < 1.1


def city_of_evenly_spread_visits(people: int, places: int, visits: int):
    """Everyone visits so many places; what places cost lies evenly over the range, and is the same for everyone."""
    city = make_city(CityPlan(people=people, places=places, records=people * visits), np.random.default_rng(1))
    rng = np.random.default_rng(2)
    where = rng.random((people, places)).argsort(axis=1)[:, :visits].ravel().astype(np.int32)
    price = rng.uniform(0, 100, places)
    visits_made = replace(
        city.visits, person=np.repeat(np.arange(people, dtype=np.int32), visits), place=where,
        label=np.ones(len(where), np.int8), context={"spend": Numbers(price[where])},
    )  # fmt: skip
    return replace(city, visits=visits_made, declared={"visits.spend": Declared(low=0.0, high=100.0)}), price


@pytest.mark.parametrize("operators", [1, 2])
def test_errors_that_a_plan_foresees_are_those_of_a_simulation(operators):
    """Published errors within a twentieth, a place's within an eighth; the city's, of 30 draws, within a half."""
    city, price = city_of_evenly_spread_visits(people=1500, places=150, visits=10)
    changes = {"features.averages": ["spend"], "privacy.epsilon_per_user": 2.0, "sums.operators": operators}
    settings = config.load(changes={"preset": "private", **changes})
    prepared = prepare(city, recipe(settings.data, labelled=True), generator(0, "data"))
    there, left = prepared.dataset.places, len(prepared.train) / len(prepared.dataset.people)
    plan = prirec.plan(
        people=len(prepared.dataset.people), places=len(there), visits_per_person=left, settings=settings
    )  # fmt: skip
    assert plan.averages is not None
    truth = price[[city.places.ids.index(place) for place in there.ids]]
    middles, squares, published = [], [], []
    for seed in range(30):
        counted, values = split(noisy_sums(prepared, replace_fields(plan.settings, seed=seed)), 2)
        visitors = public_estimate(counted, location=there.location, features=None).columns[POPULARITY]
        found, released = public_average(visitors, values, CENTS)
        middles.append(CENTS.outward(np.array([found.middle])).item())
        squares.append(((released - truth) ** 2).mean())
        published.append(found.errors(visitors, values.sigma))
    of_city, of_place = (100 * part for part in plan.averages)
    assert 0.5 < 2 * np.std(middles) / of_city < 1.5
    assert 7 / 8 < 2 * np.sqrt(np.mean(squares)) / of_place < 9 / 8
    assert_allclose(100 * np.mean(published, axis=0), [of_city, of_place], rtol=1 / 20)


def test_averages_of_bits_are_for_simulation_alone():
    bits = {"popularity.mechanism": "randomized-response", "features.averages": ["spend"]}
    with pytest.raises(PolicyError, match=messages.mechanism_outside_the_budget("randomized-response")):
        config.load(changes={"preset": "private", "privacy.epsilon_per_user": 1.0, **bits})
    with pytest.raises(PolicyError, match=messages.SIMULATION_ONLY):
        deployable(config.load(changes={"preset": "rounds", **bits}))


def test_without_noise_the_average_is_that_of_the_visitors_weights():
    own = OwnCounts(2, np.array([0, 1, 2]), np.array([1.0, -1.0, 0.0]))
    parts = weighted({"visitors": own.once(), "spend": own})
    found = averaged_sums(parts)
    expected = CENTS.outward(parts["spend"].total() / parts["visitors"].total())
    assert_allclose(found.released["a"], expected)


def averaged_sums(parts: Mapping[str, OwnCounts]) -> Popularity:
    """From secure sums without noise."""
    sums = NoisySums(parts["spend"].total(), 0.0, parts["spend"])
    return average(parts["visitors"].total(), parts["visitors"], sums, CENTS, name="a")


def test_a_device_leaves_its_visit_and_its_value_out_of_an_average_of_sums():
    """Three people spend 80 each at place 0, a fourth spends 20 at place 1, and nobody else was there: the three see
    80, the fourth the city's mean of 65. With the own visit left in, they would see 70 and 50."""
    own = OwnCounts(2, np.array([0, 2, 4, 7]), CENTS.inward(np.array([80.0, 80.0, 80.0, 20.0])))
    found = averaged_sums({"visitors": own.once(), "spend": own})
    seen = found.released["a"][own.pairs % 2] - found.own["a"].counts
    assert_allclose(seen, [80.0, 80.0, 80.0, 65.0])


def test_where_noise_is_all_there_is_every_place_has_the_citys_average():
    own = OwnCounts(50, np.empty(0, np.int64), np.empty(0))
    noise = np.random.default_rng(3).normal(0, 5.0, 50)
    found = average(np.full(50, 0.1), own, NoisySums(noise, 5.5, own), CENTS, name="a").released["a"]
    assert np.ptp(found) < 1e-9


def test_what_is_averaged_is_no_context_of_a_visit():
    """What a visit will have cost is not known before it."""
    with_it, _ = averaged(iterations=1)
    assert "spend" not in [getattr(block, "column", "") for block in with_it.encoding.context]
    assert "average spend" in [block.column for block in with_it.encoding.popularity]


@pytest.mark.parametrize("name", ["nothing", "rating"])
def test_a_column_that_is_not_there_is_refused(name):
    with pytest.raises(UsageError, match=messages.AVERAGE_OF_NO_COLUMN):
        averaged(features__averages=[name])


def test_a_range_is_declared_and_never_taken_from_the_visits():
    undeclared = replace(CITY, declared={})
    settings = config.load(changes={"features.averages": ["spend"]})
    with pytest.raises(DataError, match=messages.AVERAGE_WITHOUT_A_RANGE):
        set_up(undeclared, settings)


@pytest.mark.parametrize(
    "changes",
    [
        {"popularity.cap": 20},
        {"features.averages": ["spend", "spend"]},
    ],
)
def test_averages_that_no_mechanism_gives_are_refused(changes):
    with pytest.raises(UsageError, match=messages.any_of(messages.CAP_WITH_AVERAGES, messages.AVERAGE_NAMED_TWICE)):
        config.load(changes={"features.averages": ["spend"], **changes})


def test_settings_with_averages_are_read_back_as_they_were_written(tmp_path):
    settings = config.load(changes={"features.averages": ["spend", 'with "quotes"']})
    assert config.loads(config.dump(settings)) == settings


def test_without_dynamic_features_nothing_is_averaged():
    settings = config.load(changes={"features.averages": ["spend"], "features.dynamic": False})
    assert release_popularity(set_up(CITY, settings).prepared, settings).released == {}
