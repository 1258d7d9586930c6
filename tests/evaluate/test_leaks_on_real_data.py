"""The project's own evaluations on the real data: nothing is refused, and what the split does is told with its size."""

from functools import partial

import pytest

from prirec import config
from prirec.evaluate.leak_evidence import Finding
from prirec.evaluate.leaks import check
from prirec.features.popularity import Popularity
from prirec.simulate.popularity import release_popularity
from prirec.simulate.setup import Setup, set_up
from support.cities import change
from support.leaky_setups import again, with_all_learnt
from support.real_data import ON_REAL_DATA, real_city

pytestmark = ON_REAL_DATA
more = partial(pytest.param, marks=pytest.mark.long)  # the same checks on made-up cities are in test_leaks.py
BY_PEOPLE, BY_MOMENTS = "labels anti-correlated by the split", "moments cut in two by the split"


def prepared(name: str, **changes: object) -> Setup:
    return set_up(real_city(name), config.load(changes={key.replace("__", "."): v for key, v in changes.items()}))


def told(setup: Setup) -> dict[str, Finding]:
    return {one.name: one for one in check(setup)}


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("foursquare-tokyo", "paper"),
        *(more("yelp", preset) for preset in ("paper", "rounds", "private", "fm")),
        *(more("foursquare-tokyo", preset) for preset in ("rounds", "private", "fm")),
    ],
)
def test_visits_alone_are_flagged_for_the_anti_correlation_only(name, preset):
    found = told(prepared(name, preset=preset))
    assert found.keys() == {BY_PEOPLE}
    assert 0.61 < found[BY_PEOPLE].figure < 0.64


@pytest.mark.parametrize(
    "changes",
    [
        {"data__negatives": "nearby"},
        more({"data__ratio": 3}),
        more({"popularity__mechanism": "randomized-response"}),
        more({"popularity__mechanism": "randomized-response", "popularity__reporters": "those-with-a-record"}),
    ],
)
def test_other_negatives_and_mechanisms_raise_no_other_alarm(changes):
    assert told(prepared("yelp", preset="rounds", **changes)).keys() == {BY_PEOPLE}


@pytest.mark.parametrize(
    ("changes", "by_people", "by_moments"),
    [
        ({}, 0.66, 0.83),
        more({"data__thin": 3}, 0.83, 0.90),
        more({"data__split": "time"}, 0.60, 0.68),
    ],
)
def test_on_trivago_lists_are_cut_in_two_by_either_split(changes, by_people, by_moments):
    found = told(prepared("trivago", preset="rounds", **changes))
    assert found.keys() == {BY_PEOPLE, BY_MOMENTS}
    assert found[BY_PEOPLE].figure == pytest.approx(by_people, abs=0.015)
    assert found[BY_MOMENTS].figure == pytest.approx(by_moments, abs=0.015)


@pytest.mark.parametrize(
    "changes",
    [
        more({"preset": "private", "privacy__epsilon_per_user": 10.0}),
        more({"preset": "rounds", "popularity__mechanism": "randomized-response", "popularity__epsilon_per_bit": 6.0}),
    ],
)
def test_on_tokyo_other_noise_is_fair_over_training_visits_and_refused_over_all(changes):
    setup = prepared("foursquare-tokyo", **changes)
    anew = change(setup.settings, seed=99)
    for records, severities in ((setup.prepared, []), (with_all_learnt(setup.prepared), ["refused"])):
        other = again(setup, setup.prepared, Popularity(release_popularity(records, anew).released))
        assert [one.severity for one in check(other) if one.name != BY_PEOPLE] == severities
