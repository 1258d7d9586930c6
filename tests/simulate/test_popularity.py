"""Popularity by the mechanism that the settings name: what is counted, how noisy it is, and who is in it."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from prirec.config import Settings
from prirec.data.dataset import Declared, Numbers
from prirec.data.prepare import Prepared
from prirec.errors import PolicyError
from prirec.features.popularity import OwnCounts, Popularity, plain_counts
from prirec.privacy.norm import clipped
from prirec.privacy.plan import Kind, Release, participants, plan_for
from prirec.privacy.popularity_estimate import POPULARITY, popularity
from prirec.privacy.randomized_response import RandomizedResponse, estimate
from prirec.privacy.weighted_popularity import NoisySums, weighted
from prirec.rounds.definition import simulated_noise
from prirec.simulate import popularity as counting
from prirec.simulate.popularity import noisy_sums, release_popularity
from prirec.simulate.setup import set_up
from support import messages
from support.cities import SMALL_PRIVATE, SMALL_ROUNDS, change, small_city, with_idle_people, without_coordinates

# as a set-up settles them: a release alone does not know how large the model is
BUDGETED = change(SMALL_PRIVATE, privacy={"popularity": 0.7, "moments": 0.1, "interaction": 0.2})
CITY = small_city(people=150, places=15, records=700)
PREPARED: Prepared = set_up(CITY, BUDGETED).prepared
RESPONSE = change(SMALL_ROUNDS, popularity={"mechanism": "randomized-response"})
PLACES = len(CITY.places)


def release_of(settings: Settings = BUDGETED, people: int = 150) -> Release:
    return plan_for(settings, people=people, pois=PLACES).release(Kind.POPULARITY)


def visits_of(prepared: Prepared = PREPARED) -> OwnCounts:
    """Who was where in training, once."""
    return OwnCounts.of(prepared.train.take(prepared.train.label > 0), places=PLACES).once()


def rows_of(own: OwnCounts) -> dict[int, list[float]]:
    rows: dict[int, list[float]] = {}
    for pair, value in zip(own.pairs.tolist(), own.counts.tolist(), strict=True):
        rows.setdefault(pair // own.places, []).append(value)
    return rows


def without_noise(settings: Settings, monkeypatch: pytest.MonkeyPatch, prepared: Prepared = PREPARED):
    monkeypatch.setattr(counting, "simulated_noise", lambda wanted, many, **where: np.zeros(many, dtype=np.uint64))
    return noisy_sums(prepared, settings)


# Plain


def test_plain_counts_are_the_counts():
    found = release_popularity(PREPARED, SMALL_ROUNDS)
    expected = plain_counts(PREPARED.train, places=PLACES, recent_days=SMALL_ROUNDS.features.recent_days)
    assert {name: values.tolist() for name, values in found.released.items()} == {
        name: values.tolist() for name, values in expected.released.items()
    }
    assert found.own


@pytest.mark.parametrize("settings", [SMALL_ROUNDS, BUDGETED, RESPONSE], ids=["plain", "secure", "response"])
def test_without_dynamic_features_nothing_is_counted(settings):
    assert release_popularity(PREPARED, change(settings, features={"dynamic": False})) == Popularity()


@pytest.mark.parametrize("settings", [SMALL_ROUNDS, BUDGETED, RESPONSE], ids=["plain", "secure", "response"])
def test_devices_that_leave_nothing_out_see_what_was_released(settings):
    found = release_popularity(PREPARED, change(settings, features={"own_left_out": False}))
    assert not found.own
    both = release_popularity(PREPARED, settings)
    assert both.own
    assert {k: v.tolist() for k, v in both.released.items()} == {k: v.tolist() for k, v in found.released.items()}


# Secure sum


def test_what_is_opened_is_everyones_vector_in_whole_numbers_and_the_noise_of_the_run():
    release, found, vectors = release_of(), noisy_sums(PREPARED, BUDGETED), np.zeros(PLACES, dtype=np.int64)
    for person in range(150):
        places = np.unique(visits_of().pairs[visits_of().pairs // PLACES == person]) % PLACES
        mine = weighted({"v": OwnCounts(PLACES, places, np.ones(len(places)))})["v"]
        vectors[places] += clipped(mine.counts, release.norm)
    noise = simulated_noise(
        release.wanted_whole, PLACES, rostered=150, survivors=150, settings=BUDGETED, where=("popularity",)
    ).view(np.int64)  # fmt: skip
    assert (found.sums * 2.0**release.norm.fraction_bits).tolist() == (vectors + noise).tolist()


def test_the_norm_of_nobody_is_exceeded(monkeypatch):
    for cap in (None, 1, 3, 50):
        settings = change(BUDGETED, popularity={"cap": cap})
        norm = release_of().norm
        for row in rows_of(without_noise(settings, monkeypatch).own).values():
            whole = [Fraction(value) * 2**norm.fraction_bits for value in row]
            assert all(value.denominator == 1 for value in whole)
            assert sum(value**2 for value in whole) <= norm.units**2


def test_contributions_add_up_to_the_sum(monkeypatch):
    found = without_noise(BUDGETED, monkeypatch)
    assert found.sums.tolist() == found.own.total().tolist()
    assert (found.own.pairs == visits_of().pairs).all()
    for row in rows_of(found.own).values():
        assert row == pytest.approx([len(row) ** -0.5] * len(row), rel=0.01)


def test_test_visits_are_not_counted(monkeypatch):
    before = without_noise(BUDGETED, monkeypatch).sums
    other = replace(PREPARED, test=PREPARED.train)
    assert without_noise(BUDGETED, monkeypatch, other).sums.tolist() == before.tolist()


def test_a_cap_is_a_count_of_at_most_so_many_places_a_person(monkeypatch):
    everywhere = without_noise(change(BUDGETED, popularity={"cap": 15}), monkeypatch)
    assert everywhere.sums * 15**0.5 == pytest.approx(visits_of().total(), rel=0.01)
    few = without_noise(change(BUDGETED, popularity={"cap": 2}), monkeypatch)
    assert {len(row) for row in rows_of(few.own).values()} == {1, 2}
    assert set(few.own.pairs.tolist()) < set(visits_of().pairs.tolist())
    assert np.unique(few.own.counts) == pytest.approx([2**-0.5], rel=0.01)


def test_the_noise_that_is_stated_is_that_of_the_shares():
    found, release = noisy_sums(PREPARED, BUDGETED), release_of()
    variance = release.noise(participants(BUDGETED, 150)).total_variance(150)
    assert found.sigma == pytest.approx(float(variance) ** 0.5 / 2**release.norm.fraction_bits)
    needed = float(release.wanted) ** 0.5 / 2**release.norm.fraction_bits
    assert needed < found.sigma < 1.3 * needed


@pytest.mark.statistical  # 6 sd, and seeded: no false alarm; must notice a deviation that is off by a tenth
def test_the_noise_that_is_there_is_the_one_that_is_stated(monkeypatch):
    runs = [change(BUDGETED, seed=seed) for seed in range(400)]
    found = [noisy_sums(PREPARED, settings) for settings in runs]
    bare = without_noise(BUDGETED, monkeypatch).sums
    draws = np.concatenate([one.sums - bare for one in found]) / found[0].sigma
    assert abs((draws**2).mean() - 1) < 6 * np.sqrt(2 / draws.size) < 0.2
    assert abs(draws.mean()) < 6 / np.sqrt(draws.size)


def test_a_smaller_budget_is_noisier_and_every_seed_has_noise_of_its_own():
    sigmas = [
        noisy_sums(PREPARED, change(BUDGETED, privacy={"epsilon_per_user": epsilon})).sigma
        for epsilon in (0.5, 1.0, 4.0)
    ]
    assert sigmas[0] > 1.9 * sigmas[1] > sigmas[1] > 3 * sigmas[2]
    one, again, other = (noisy_sums(PREPARED, change(BUDGETED, seed=s)).sums.tolist() for s in (0, 0, 1))
    assert one == again != other


# Who is there

LOSSES = change(BUDGETED, participation={"dropout": 0.1})


def test_lost_devices_are_in_no_sum_and_the_noise_is_that_of_the_survivors(monkeypatch):
    told = {}

    def silent(wanted, many, **how):
        told.update(how)
        return np.zeros(many, dtype=np.uint64)

    everyone = without_noise(BUDGETED, monkeypatch)
    monkeypatch.setattr(counting, "simulated_noise", silent)
    some = noisy_sums(PREPARED, LOSSES)
    assert told["rostered"] == 150
    assert 120 <= told["survivors"] < 150
    there, rows = rows_of(everyone.own), rows_of(some.own)
    assert set(rows) < set(there)
    assert all(rows[person] == there[person] for person in rows)
    assert some.sums.tolist() == some.own.total().tolist()
    share = release_of().noise(participants(LOSSES, 150))
    assert some.sigma == pytest.approx(
        float(share.total_variance(told["survivors"])) ** 0.5 / 2 ** release_of().norm.fraction_bits
    )
    assert some.sigma < everyone.sigma


def test_whether_somebody_is_lost_does_not_depend_on_what_was_visited():
    """Who drops out is decided before anything is counted: the same people, whatever their records are."""
    fewer = replace(PREPARED, train=PREPARED.train.take(np.arange(len(PREPARED.train)) % 2 == 0))
    before, after = (set(rows_of(noisy_sums(one, LOSSES).own)) for one in (PREPARED, fewer))
    lost = set(rows_of(visits_of())) - before
    assert lost
    assert not lost & after


def test_with_too_few_survivors_no_sum_is_opened():
    with pytest.raises(PolicyError, match=messages.devices_left_for_popularity(150)):
        release_popularity(PREPARED, change(BUDGETED, participation={"dropout": 0.6}))
    with pytest.raises(PolicyError, match=messages.too_few_devices(150, floor=151)):
        release_popularity(PREPARED, change(BUDGETED, floor=151))


def test_without_a_budget_a_secure_sum_is_refused():
    with pytest.raises(PolicyError, match=messages.NO_BUDGET_PROMISED):
        release_popularity(PREPARED, change(BUDGETED, privacy={"epsilon_per_user": None}))


@pytest.mark.parametrize(
    "city", [without_coordinates(CITY), with_idle_people(CITY, every=2)], ids=["no coordinates", "idle people"]
)
def test_unusual_cities_have_a_popularity_too(city):
    found = set_up(city, BUDGETED).popularity
    assert found.released
    assert all(np.isfinite(values).all() for values in found.released.values())


@pytest.mark.parametrize("name", ["spend", "visitors", POPULARITY])
def test_what_is_averaged_may_have_any_name(name):
    """Entries of the vector are told apart by their place in it, and not by what a column happens to be called."""
    cost = Numbers(np.random.default_rng(0).uniform(0, 9, len(CITY.visits)))
    city = replace(
        CITY,
        visits=replace(CITY.visits, context={name: cost}),
        declared={f"visits.{name}": Declared(low=0.0, high=9.0)},
    )
    settings = change(BUDGETED, features={"averages": (name,)})
    found = set_up(city, settings).popularity.released
    assert {POPULARITY, f"average {name}"} <= set(found)
    assert all(len(values) == PLACES for values in found.values())


def test_devices_see_a_place_without_what_they_added_themselves():
    found = release_popularity(PREPARED, BUDGETED)
    (name,) = found.own
    positive = PREPARED.train.take(PREPARED.train.label > 0)
    seen, whole = found.seen_by(positive)[name], found.released[name][positive.place]
    assert (seen <= whole + 1e-12).all()
    assert (seen < whole).any()


# Randomised response


@pytest.mark.statistical  # 6 sd of a mean over 300 runs, and seeded; must notice a spread off by a tenth
def test_estimates_are_right_on_average_and_as_noisy_as_stated():
    true = visits_of().total()
    runs = np.array([release_popularity(PREPARED, change(RESPONSE, seed=s)).released["visitors"] for s in range(300)])
    spread = RandomizedResponse(1.0).standard_deviation(150)
    assert np.abs(runs.mean(axis=0) - true).max() < 6 * spread / np.sqrt(300)
    assert (runs - true).std() == pytest.approx(spread, rel=0.05)
    assert spread > 10


def test_a_larger_epsilon_for_a_bit_is_less_noisy():
    close = change(RESPONSE, popularity={"epsilon_per_bit": 20.0})
    np.testing.assert_allclose(release_popularity(PREPARED, close).released["visitors"], visits_of().total(), atol=1e-3)


def test_devices_leave_their_own_truth_out_of_an_estimate():
    found = release_popularity(PREPARED, RESPONSE)
    assert list(found.released) == list(found.own) == ["visitors"]
    own, true = found.own["visitors"], visits_of()
    assert (own.pairs.tolist(), own.counts.tolist()) == (true.pairs.tolist(), true.counts.tolist())
    there, visited = found.seen_by(PREPARED.train)["visitors"], PREPARED.train.label > 0
    whole = found.released["visitors"][PREPARED.train.place]
    assert (there[visited] == whole[visited] - 1).all()


@pytest.mark.parametrize("epsilon_per_bit", [0.1, 1.0, 5.0])
def test_an_answer_adds_its_truth_on_average_and_its_noise_is_as_wide_for_either_truth(epsilon_per_bit):
    """Over both answers, exactly: so what a device sees without its truth does not tell its labels apart."""
    mechanism = RandomizedResponse(epsilon_per_bit)
    no, yes = estimate(np.array([0, 1]), reports=1, mechanism=mechanism)
    q = float(mechanism.flip)
    for truth in (0, 1):
        chance = {yes: 1 - q, no: q} if truth else {yes: q, no: 1 - q}
        mean = sum(added * odds for added, odds in chance.items())
        spread = sum((added - truth) ** 2 * odds for added, odds in chance.items())
        assert mean == pytest.approx(truth, abs=1e-9)
        assert spread == pytest.approx(mechanism.standard_deviation(1) ** 2)


def test_lost_devices_send_no_answer_and_subtract_nothing():
    near = change(RESPONSE, popularity={"epsilon_per_bit": 20.0}, participation={"dropout": 0.1})
    found = release_popularity(PREPARED, near)
    own = found.own["visitors"]
    np.testing.assert_allclose(found.released["visitors"], own.total(), atol=1e-3)
    assert set(rows_of(own)) < set(rows_of(visits_of()))
    assert set(rows_of(own)) == set(rows_of(noisy_sums(PREPARED, LOSSES).own))  # whatever the mechanism is


@pytest.mark.statistical  # 4500 draws, seeded: no false alarm; must notice twice as many answers
@pytest.mark.parametrize("reporters", ["everyone", "those-with-a-record"])
def test_the_noise_of_answers_is_that_of_the_answers_that_come(reporters):
    half = change(RESPONSE, popularity={"reporters": reporters}, participation={"dropout": 0.5})
    runs = [release_popularity(PREPARED, change(half, seed=seed)) for seed in range(300)]
    off = np.array([one.released["visitors"] - one.own["visitors"].total() for one in runs])
    with_a_record = OwnCounts.of(PREPARED.train, places=PLACES).once().total().mean()
    answers = (150 if reporters == "everyone" else with_a_record) / 2
    assert off.std() == pytest.approx(RandomizedResponse(1.0).standard_deviation(1) * answers**0.5, rel=0.05)


def test_if_those_with_a_record_report_alone_there_is_less_noise_and_no_privacy():
    """In simulation only, for the paper's table."""
    alone = change(RESPONSE, popularity={"reporters": "those-with-a-record"})
    runs = np.array([release_popularity(PREPARED, change(alone, seed=s)).released["visitors"] for s in range(100)])
    assert (runs - visits_of().total()).std() < RandomizedResponse(1.0).standard_deviation(150) / 1.2


def test_answers_follow_from_the_seed():
    one, again, other = (
        release_popularity(PREPARED, change(RESPONSE, seed=s)).released["visitors"].tolist() for s in (0, 0, 1)
    )
    assert one == again != other


def test_with_fewer_places_than_public_columns_nothing_of_the_own_visit_is_left_in_the_posterior():
    """A prediction from more columns than places would be the noisy sum itself, the own visit in it."""
    rng, places = np.random.default_rng(0), 20
    pairs = np.concatenate([person * places + np.arange(1 + person % places) for person in range(40)])
    visits = OwnCounts(places, pairs, np.ones(len(pairs)))
    own = weighted({"visitors": visits})["visitors"]
    sums = NoisySums(own.total() + rng.normal(0, 0.01, places), 0.01, own)
    found = popularity(sums, location=None, features=rng.normal(size=(places, 2 * places)))
    np.testing.assert_allclose(found.own[POPULARITY].counts, own.counts, rtol=0.05)
