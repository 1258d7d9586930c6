"""Counts that cannot be recomputed: what chance does to honest ones is let pass, and what the test did is told."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from prirec.config import Settings
from prirec.data.dataset import Declared, Numbers
from prirec.evaluate.leak_evidence import FAR, Evidence, both, weigh
from prirec.evaluate.leaks import check
from prirec.features.popularity import Popularity, plain_counts
from prirec.simulate.popularity import release_popularity
from prirec.simulate.setup import Setup, set_up
from support.cities import SMALL_PRIVATE, SMALL_ROUNDS, change, small_city
from support.leaky_setups import again, visited_city, with_all_learnt

SAW = "dynamic features that saw the test"
QUIET = change(SMALL_PRIVATE, privacy={"epsilon_per_user": 40.0})
LOUD = change(SMALL_PRIVATE, privacy={"epsilon_per_user": 0.5})
ANSWERS = change(SMALL_ROUNDS, popularity={"mechanism": "randomized-response", "epsilon_per_bit": 6.0})


@cache
def setup_of(settings: Settings, *, people: int = 400, places: int = 150) -> Setup:
    return set_up(visited_city(people=people, places=places, each=20), settings)


def released_anew(setup: Setup, *, leaky: bool) -> Setup:
    """The release of the same mechanism under other noise."""
    prepared = with_all_learnt(setup.prepared) if leaky else setup.prepared
    return again(
        setup, setup.prepared, Popularity(release_popularity(prepared, change(setup.settings, seed=77)).released)
    )


def counts(setup: Setup) -> tuple[np.ndarray, np.ndarray]:
    """Visitors of places in training, and in all."""
    places = len(setup.prepared.dataset.places)
    return tuple(
        plain_counts(visits, places=places, recent_days=30).released["visitors"]
        for visits in (setup.prepared.train, both(setup.prepared))
    )


def told(setup: Setup) -> list[str]:
    return [one.severity for one in check(setup) if one.name == SAW]


@pytest.mark.parametrize("settings", [QUIET, ANSWERS], ids=["secure sum", "answers"])
def test_other_noise_on_training_visits_is_fair_and_on_all_visits_is_refused(settings):
    setup = setup_of(settings)
    assert told(released_anew(setup, leaky=False)) == []
    assert told(released_anew(setup, leaky=True)) == ["refused"]


@pytest.mark.parametrize("leaky", [True, False])
def test_a_finding_says_when_noise_hides_what_was_counted(leaky):
    setup = released_anew(setup_of(LOUD), leaky=leaky)
    found = [one for one in check(setup) if one.name == SAW]
    assert [one.severity for one in found] == ["flagged"]
    assert "nobody can tell" in found[0].words


def test_a_finding_says_when_too_few_places_hide_what_was_counted():
    setup = set_up(small_city(places=20), SMALL_ROUNDS)
    doubled = {name: 2 * values for name, values in setup.popularity.released.items()}
    assert set(told(again(setup, setup.prepared, Popularity(doubled)))) == {"flagged"}


def test_a_release_that_the_settings_could_never_have_made_is_weighed():
    setup = set_up(visited_city(people=400, places=150, each=20), SMALL_ROUNDS)
    impossible = change(SMALL_PRIVATE, floor=5000)
    _, seen = counts(setup)
    twice = dict.fromkeys(setup.popularity.released, 2 * seen)
    leaky = again(setup, setup.prepared, Popularity(twice))
    assert set(told(Setup(impossible, leaky.prepared, leaky.popularity, leaky.encoding, leaky.samples))) == {"refused"}


@pytest.mark.parametrize(
    "shape", [np.asarray, np.log1p, np.sqrt, lambda n: 5 * n - 40], ids=["as is", "log", "√", "affine"]
)
def test_whatever_shape_the_counts_have_the_test_is_seen_in_them(shape):
    setup = setup_of(SMALL_ROUNDS)
    c, n = counts(setup)
    seen, fair = (weigh(shape(one), setup.prepared, setup.settings) for one in (n, c))
    assert seen.leaks
    assert seen.share > 0.8
    assert not fair.leaks
    assert fair.ruled_out


@pytest.mark.statistical
def test_honest_noise_is_hardly_ever_far_from_nothing():
    """300 honest releases under noise of all sizes: none is told. Over two scales the largest of 600 normal figures is
    below FAR but for once in 1,700 times."""
    setup, rng = setup_of(SMALL_ROUNDS), np.random.default_rng(0)
    c, _ = counts(setup)
    found = [
        weigh(c + sigma * rng.normal(size=len(c)), setup.prepared, setup.settings)
        for sigma in (0.5, 2.0, 10.0)
        for _ in range(100)
    ]
    assert not any(one.leaks for one in found)
    assert max(one.z for one in found) < FAR


@pytest.mark.statistical
def test_a_leak_under_noise_is_found_from_the_stated_size_on():
    """J t̄ = 100 σ²: 0.99 of 100 leaks, so 94 or more but for once in 2,000 times; at a tenth of that, few."""
    setup, rng = setup_of(SMALL_ROUNDS), np.random.default_rng(1)
    c, n = counts(setup)

    def share_told(size: float) -> float:
        sigma = np.sqrt((n - c).sum() / size)
        found = [weigh(n + sigma * rng.normal(size=len(n)), setup.prepared, setup.settings) for _ in range(100)]
        return float(np.mean([one.leaks for one in found]))

    assert share_told(100.0) >= 0.94
    assert share_told(10.0) < 0.5


def test_evidence_is_judged_by_both_its_distance_from_nothing_and_its_size():
    assert Evidence(1.0, 0.9, 0.1).leaks
    assert not Evidence(1.0, 0.9, 0.3).leaks  # may be chance
    assert not Evidence(1.0, 0.1, 0.01).leaks  # no chance, but no test visit counts for so little
    assert Evidence(1.0, 0.1, 0.01).ruled_out
    assert not Evidence(1.0, 0.3, 0.1).ruled_out
    assert Evidence(0.0, 1.0, 0.1).leaks  # nothing but the test
    assert Evidence(0.0, 1.0, 0.1).share == Evidence(1.0, 250.0, 0.1).share == 100.0
    assert Evidence(1.0, 0.0, 1 / (FAR + 2.3263)).power == pytest.approx(0.99, abs=1e-4)
    assert Evidence(-1.0, 0.0, 0.1).power == 0.0


def test_averages_over_test_visits_are_found():
    city = visited_city(people=400, places=150, each=20)
    rng = np.random.default_rng(3)
    spent = {"spent": Numbers(np.clip(rng.normal(50, 20, len(city.visits)), 0, 100))}
    city = replace(
        city.with_visits(replace(city.visits, context=spent)), declared={"visits.spent": Declared(low=0.0, high=100.0)}
    )
    setup = set_up(city, change(SMALL_ROUNDS, features={"averages": ("spent",)}))
    leaky = release_popularity(with_all_learnt(setup.prepared), setup.settings).released
    mixed = {**setup.popularity.released, "average spent": leaky["average spent"]}
    assert told(again(setup, setup.prepared, Popularity(mixed, setup.popularity.own))) == ["refused"]
    blurred = {**mixed, "average spent": leaky["average spent"] + 0.01 * rng.normal(size=150)}
    assert told(again(setup, setup.prepared, Popularity(blurred, setup.popularity.own))) == ["refused"]
