"""Cities to be tested on, and set-ups with one fault each that lets the test into training."""

from dataclasses import replace

import numpy as np

from prirec.config import Settings
from prirec.data.dataset import Dataset, Numbers, People, Places, Visits
from prirec.data.prepare import Prepared, distinct_pairs
from prirec.evaluate.leak_evidence import both
from prirec.features.history import only_earlier
from prirec.features.popularity import Popularity
from prirec.features.samples import assemble
from prirec.simulate.setup import Setup, set_up


def visited_city(
    *, people: int = 120, places: int = 60, each: int = 10, near: float = 0.0, seed: int = 0
) -> Dataset:  # fmt: skip
    """Visits without labels, with times and coordinates; some places are more popular, and nearer, than others."""
    rng = np.random.default_rng(seed)
    where = np.cumsum(rng.random((places, 2)), axis=0) / 100  # along a road
    away = np.abs(rng.random((people, 1)) - np.arange(places) / places)
    liked = rng.gumbel(size=(people, places)) + 1.5 * rng.normal(size=places) - near * away
    place = np.argsort(-liked, axis=1)[:, :each].astype(np.int32).ravel()
    person = np.repeat(np.arange(people, dtype=np.int32), each)
    time = 1000 * rng.permutation(len(person)) + rng.integers(1000, size=len(person))  # no two alike
    return Dataset(
        "visited",
        People(
            tuple(f"secret-person-{n}" for n in range(people)),
            None,
            {"friends": Numbers(np.floor(rng.gamma(2, 10, people)))},
        ),
        Places(tuple(f"secret-place-{n}" for n in range(places)), where),
        Visits(person, place, np.ones(len(person), dtype=np.int8), time),
        labelled=False,
    )


def again(setup: Setup, prepared: Prepared, popularity: Popularity | None = None) -> Setup:
    """The same set-up with other records, or another release, and features that follow from them."""
    counts = popularity if popularity is not None else setup.popularity
    samples = assemble(
        prepared.dataset, train=prepared.train, test=prepared.test, encoding=setup.encoding, popularity=counts,
        earlier=only_earlier(setup.settings.data),
    )  # fmt: skip
    return replace(setup, prepared=prepared, popularity=counts, samples=samples)


def with_all_learnt(prepared: Prepared) -> Prepared:
    return replace(prepared, train=both(prepared))


def avoiding(setup: Setup, *, share: float = 1.0) -> Setup:
    """Training negatives that hit a test visit are drawn again until they do not; a share of them."""
    prepared, places = setup.prepared, len(setup.prepared.dataset.places)
    rng = np.random.default_rng(0)
    visited = distinct_pairs(prepared.dataset.visits, places=places)
    place = prepared.train.place.copy()
    hit = np.isin(prepared.train.person * np.int64(places) + place, visited) & (prepared.train.label < 0)
    for row in np.flatnonzero(hit & (rng.random(len(place)) < share)):
        free = np.setdiff1d(np.arange(places), visited[visited // places == prepared.train.person[row]] % places)
        place[row] = rng.choice(free)
    return again(setup, replace(prepared, train=replace(prepared.train, place=place)))


def timed_by_the_test(setup: Setup, *, rows: int) -> Setup:
    """Some training negatives have the time of a test visit of the same person."""
    train, test = setup.prepared.train, setup.prepared.test
    time, left = np.asarray(train.time).copy(), rows
    for row in np.flatnonzero(train.label < 0):
        theirs = np.flatnonzero((test.person == train.person[row]) & (test.label > 0))
        if len(theirs) and left:
            time[row], left = np.asarray(test.time)[theirs[0]], left - 1
    return again(setup, replace(setup.prepared, train=replace(train, time=time)))


def copied(setup: Setup, *, rows: int) -> Setup:
    """Some test visits are learnt from as well."""
    prepared = setup.prepared
    some = prepared.test.take(np.flatnonzero(prepared.test.label > 0)[:rows])
    train = both(replace(prepared, test=some))
    return again(setup, replace(prepared, train=train.take(np.argsort(train.person, kind="stable"))))


def set_up_with_people(city: Dataset, settings: Settings, **people: object) -> Setup:
    """A city whose table of people is another one."""
    return set_up(replace(city, people=replace(city.people, **people)), settings)
