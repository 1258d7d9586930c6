"""Small cities and settings that several folders of tests share."""

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from prirec.config import FM, PAPER, PRIVATE, ROUNDS, Settings
from prirec.data.dataset import Column, Dataset, Declared, Numbers, Visits, take
from prirec.data.synthetic import CityPlan, make_city
from prirec.engines.state import State
from prirec.engines.train import make_engine
from prirec.features.samples import Samples
from prirec.simulate.setup import set_up


def change(settings: Settings, **parts: Any) -> Settings:
    """Settings with some values replaced, section by section, past every check."""
    new = {
        name: msgspec.structs.replace(getattr(settings, name), **value) if isinstance(value, dict) else value
        for name, value in parts.items()
    }
    return msgspec.structs.replace(settings, **new)


SMALL_ROUNDS = change(ROUNDS, floor=10, iterations=3, data={"keep": "all"})
SMALL_PRIVATE = change(PRIVATE, floor=50, iterations=3, data={"keep": "all"})
SMALL_PAPER = change(PAPER, iterations=3, neighbours={"count": 6}, data={"keep": "all"})
SMALL_FM = change(FM, iterations=3, data={"keep": "all"})


def small_city(*, people: int = 150, places: int = 40, records: int = 600, seed: int = 0) -> Dataset:
    plan = CityPlan(people=people, places=places, records=records, districts=min(4, places), categories=5, span_km=40.0)
    return make_city(plan, np.random.default_rng(seed))


def without_coordinates(city: Dataset) -> Dataset:
    return replace(city, people=replace(city.people, location=None), places=replace(city.places, location=None))


def with_idle_people(city: Dataset, *, every: int = 3) -> Dataset:
    """Each `every`-th person has no records."""
    return city.with_visits(city.visits.take(city.visits.person % every != 0))


def with_one_place(city: Dataset) -> Dataset:
    places = replace(
        city.places,
        ids=city.places.ids[:1],
        location=city.places.location[:1],
        columns={name: take(column, np.array([0])) for name, column in city.places.columns.items()},
    )
    visits = replace(city.visits, place=np.zeros(len(city.visits), dtype=np.int32))
    return replace(city, places=places, visits=visits)


def with_moods(city: Dataset, rng: np.random.Generator) -> Dataset:
    """A private context column that nobody declared."""
    moods: dict[str, Column] = {"mood": Numbers(rng.normal(size=len(city.visits)))}
    return city.with_visits(replace(city.visits, context=moods))


def with_spending(city: Dataset) -> Dataset:
    """Places have a price; what a visit cost is about that, in tens. One person in ten keeps it to themselves."""
    rng, visits = np.random.default_rng(2), city.visits
    price = rng.uniform(20, 80, len(city.places))
    cost = np.clip(np.round(price[visits.place] + rng.normal(0, 10, len(visits)), -1), 0, 100)
    cost[(visits.label < 0) | (visits.person % 10 == 0)] = np.nan
    declared = {**city.declared, "visits.spend": Declared(low=0.0, high=100.0)}
    spending = replace(visits, context={**visits.context, "spend": Numbers(cost)})
    return replace(city, visits=spending, declared=declared)


def in_another_order(city: Dataset, order: np.ndarray) -> Dataset:
    """The same people with the same ids and records, standing in other rows."""
    row = np.empty(len(order), dtype=np.int32)
    row[order] = np.arange(len(order), dtype=np.int32)
    people = replace(
        city.people,
        ids=tuple(city.people.ids[at] for at in order),
        location=None if city.people.location is None else city.people.location[order],
        columns={name: take(column, order) for name, column in city.people.columns.items()},
    )
    return replace(city, people=people, visits=replace(city.visits, person=row[city.visits.person]))


def samples_of(city: Dataset, settings: Settings) -> Samples:
    return set_up(city, settings).samples


def after(engine: str, samples: Samples, settings: Settings, *, iterations: int = 1, threads: int = 2) -> State:
    """The state that an engine reaches."""
    motor = make_engine(engine, samples, settings, threads=threads)
    state: State = motor.start()
    for _ in range(iterations):
        motor.advance(state)
    return state


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def same_state(a: State, b: State) -> bool:
    one, other = a.arrays(), b.arrays()
    return (
        a.iteration == b.iteration
        and one.keys() == other.keys()
        and all(same_bits(one[name], other[name]) for name in one)
    )


def some_visits(person: list[int], place: list[int], label: list[int], time: list[int] | None = None) -> Visits:
    return Visits(
        np.array(person, dtype=np.int32),
        np.array(place, dtype=np.int32),
        np.array(label, dtype=np.int8),
        None if time is None else np.array(time, dtype=np.int64),
    )
