"""A figure that noise has drowned: how many people the budget takes is said beside it, and is enough."""

import math
import re

import pytest

from prirec.config import PRIVATE, ROUNDS
from prirec.data.synthetic import CityPlan, make_city
from prirec.engines.state import RoundsState
from prirec.simulate.privacy_plan import Counts, drowned_by_noise, make_plan
from prirec.simulate.setup import Setup, run, set_up
from prirec.util.keyed_random import generator
from support.cities import change

FLOOR = change(PRIVATE, floor=50, data={"keep": "all"})


def made(people: int, *, places: int = 100, **changes: object) -> Setup:
    plan = CityPlan(people=people, places=places, records=30 * people, districts=4)
    return set_up(make_city(plan, generator(0, "city")), change(FLOOR, **changes))


def said(setup: Setup) -> str:
    return drowned_by_noise(setup.prepared, setup.settings, Counts.of(setup.samples))


def needed(words: str, what: str) -> int:
    found = re.search(rf"about ([0-9,]+) people for {what}", words)
    assert found is not None, words
    return int(found[1].replace(",", ""))


def test_too_few_people_are_told_how_many_it_takes_and_so_many_are_enough() -> None:
    few = said(made(150))
    assert few.startswith("Noise drowns much of what 150 people add: ε = 1 takes about ")
    models, places = needed(few, "the shared model"), needed(few, "the popularity of 100 places")
    assert 150 < places < models
    between = said(made(int(1.1 * places)))
    assert "popularity" not in between
    assert needed(between, "the shared model") == pytest.approx(models, rel=0.1)
    assert said(made(int(1.1 * models))) == ""


def test_popularity_of_many_places_takes_more_people_than_models_do() -> None:
    words = said(made(6000, places=6000))
    assert "the shared model" not in words
    assert needed(words, "the popularity of 6,000 places") > 6000


def test_a_larger_budget_takes_fewer_people() -> None:
    one, two = (needed(said(made(150, privacy={"epsilon_per_user": e})), "the shared model") for e in (1.0, 2.0))
    assert two == pytest.approx(one / 2, rel=0.1)


def test_without_noise_or_popularity_nothing_is_said_of_them() -> None:
    city = make_city(CityPlan(people=150, places=100, records=4500, districts=4), generator(0, "city"))
    plain = set_up(city, change(ROUNDS, floor=50, data={"keep": "all"}))
    assert said(plain) == ""
    assert "popularity" not in said(made(150, features={"dynamic": False}))


@pytest.mark.parametrize("epsilon", [4.0, 20.0])
def test_the_noise_that_a_plan_tells_beforehand_is_about_what_a_training_has(epsilon: float) -> None:
    """The plan does not know how many records people have, nor the curvature: half or twice as much is near."""
    setup = made(1000, privacy={"epsilon_per_user": epsilon})
    told = make_plan(setup.settings, Counts.of(setup.samples)).noise
    state = run(setup).trained.state
    assert told is not None
    assert isinstance(state, RoundsState)
    found = math.sqrt(setup.samples.columns.entries * state.estimate.variance)
    assert 0.5 < told.in_scores / found < 2
