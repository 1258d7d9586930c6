"""A city from its plan: ground, people, places, then what was shown to whom and what was clicked."""

import numpy as np
from scipy.special import expit

from prirec.data.city.clicks import ClickLaw, district_tastes, intercept_for
from prirec.data.city.clock import slate_times
from prirec.data.city.exposure import SLATE, open_showcase, show
from prirec.data.city.ground import district_centres
from prirec.data.city.plan import CityPlan
from prirec.data.city.residents import Residents, declared, settle
from prirec.data.city.venues import Venues, open_venues
from prirec.data.dataset import Dataset, Visits
from prirec.types import IndexArray, OffsetArray, RealArray, TimeArray


def make_city(plan: CityPlan, rng: np.random.Generator) -> Dataset:
    """A labelled data set of impressions, ordered by person and time; the same generator state gives the same city."""
    return city_and_truth(plan, rng)[0]


def city_and_truth(plan: CityPlan, rng: np.random.Generator) -> tuple[Dataset, RealArray]:
    """The city and the true click probability of each record, which nothing outside the tests may use."""
    centres = district_centres(plan.districts, span_km=plan.span_km, rng=rng)
    residents = settle(plan, centres=centres, rng=rng)
    venues = open_venues(plan, centres=centres, rng=rng)
    taste = district_tastes(districts=plan.districts, categories=plan.categories, rng=rng)
    person, place, time = _impressions(plan, residents=residents, venues=venues, rng=rng)
    law = ClickLaw(residents, venues, taste, walk_km=plan.reach_km / 3)
    logits = law.logits(person, place, time)
    probability = expit(logits + intercept_for(logits, plan.click_share))
    clicked = rng.random(len(person)) < probability
    visits = Visits(person, place, np.where(clicked, np.int8(1), np.int8(-1)), time)
    columns = declared(plan)
    city = Dataset(
        "city", residents.people, venues.places, visits, labelled=True, declared=columns, made_up=True
    )  # fmt: skip
    return city, probability


def _impressions(
    plan: CityPlan, *, residents: Residents, venues: Venues, rng: np.random.Generator
) -> tuple[IndexArray, IndexArray, TimeArray]:
    """Person, place and time of every record, slate after slate."""
    size = min(SLATE, plan.places)
    records = _records_a_person(plan, rng)
    slates = -(-records // size)
    owner = np.repeat(np.arange(plan.people, dtype=np.int32), slates)
    length = np.full(len(owner), size)
    length[np.cumsum(slates) - 1] = records - size * (slates - 1)  # a person's last slate holds the rest
    moment = slate_times(owner, days=plan.days, rng=rng)
    position = np.arange(plan.records) - np.repeat(np.cumsum(length) - length, length)
    person = np.repeat(owner, length)
    showcase = open_showcase(
        home=residents.home, spot=venues.spot, appeal=venues.appeal, span_km=plan.span_km, reach_km=plan.reach_km
    )
    place = show(showcase, person, position=position, places=plan.places, rng=rng)
    return person, place, np.repeat(moment, length)


def _records_a_person(plan: CityPlan, rng: np.random.Generator) -> OffsetArray:
    """At least one each; the rest in lognormal shares, so that few people have many. They add up exactly."""
    share = np.cumsum(rng.lognormal(sigma=1.0, size=plan.people))
    edges = np.rint(share / share[-1] * (plan.records - plan.people)).astype(np.int64)
    return np.asarray(1 + np.diff(edges, prepend=0), dtype=np.int64)
