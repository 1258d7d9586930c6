"""Every person of a city, each on a device of their own, computes what engines/plain.py computes for all of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from prirec.data.dataset import Category, Column, Dataset, Numbers, Tags
from prirec.device.recommend import own_model, published
from prirec.device.records import encode_records
from prirec.device.rounds import gradient_vector, moments_vector, visited_places, visits_vector
from prirec.device.store import save_visit_contribution
from prirec.engines import local
from prirec.engines.plain import Rounds, Sums
from prirec.model import scoring
from prirec.types import RingArray
from prirec.wire.campaign import write_model
from prirec.wire.documents import written
from support.cities import (
    SMALL_PRIVATE,
    change,
    same_bits,
    small_city,
    with_idle_people,
    with_spending,
    without_coordinates,
)
from support.device_city import Town, town

ROUNDS = 4


def usual() -> Dataset:
    return small_city(people=60, places=40, records=500)


def described_richly() -> Dataset:
    """Columns of every kind, declared and not, with gaps, half of the homes unknown; visits with a context."""
    city, rng = usual(), np.random.default_rng(3)
    assert city.people.location is not None
    people, visits = len(city.people), len(city.visits)
    columns: dict[str, Column] = {
        **city.people.columns,
        "likes": Tags(
            np.arange(0, 2 * people + 1, 2), rng.integers(5, size=2 * people).astype(np.int32), tuple("abcde")
        ),
        "job": Category(rng.integers(-1, 3, size=people).astype(np.int32), ("one", "two", "three")),
        "debt": Numbers(np.where(rng.random(people) < 0.3, np.nan, rng.normal(scale=100.0, size=people))),
    }
    context: dict[str, Column] = {
        "mood": Numbers(rng.normal(size=visits)),
        "with": Category(rng.integers(-1, 2, size=visits).astype(np.int32), ("friends", "family")),
    }
    location = np.where(rng.random((people, 1)) < 0.5, np.nan, city.people.location)
    told = replace(city.people, columns=columns, location=location)
    return replace(city, people=told, visits=replace(city.visits, context=context))


CITIES: dict[str, Callable[[], Dataset]] = {
    "as made": usual,
    "columns of every kind": described_richly,
    "no homes told": lambda: replace(usual(), people=replace(usual().people, location=None)),
    "no times": lambda: usual().with_visits(replace(usual().visits, time=None)),
    "no coordinates": lambda: without_coordinates(usual()),
    "some without records": lambda: with_idle_people(usual()),
    "nothing rises out of the noise": lambda: small_city(people=60, places=400, records=900, seed=2),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "own part not left out": {"features": {"own_left_out": False}},
    "a large budget": {"privacy": {"epsilon_per_user": 50.0}},
    "32 bits": {"ring": {"bits": 32}},
    "no context": {"features": {"context": False}},
    "own history": {"features": {"own_history": True}},
    "own history, without later visits": {"features": {"own_history": True}, "data": {"split": "time"}},
    "home areas": {"features": {"areas": 6}},
}
AVERAGES = {"features": {"averages": ("spend",)}}
CASES: dict[str, tuple[Callable[[], Dataset], dict[str, Any]]] = {
    **{name: (made, {}) for name, made in CITIES.items()},
    **{name: (usual, changes) for name, changes in SETTINGS.items()},
    "home areas, half of the homes from visits": (described_richly, {"features": {"areas": 6}}),
    "averages over visits": (lambda: with_spending(described_richly()), AVERAGES),
    "averages over visits, under less noise": (
        lambda: with_spending(usual()),
        {**AVERAGES, "privacy": {"epsilon_per_user": 50.0}},
    ),
    "averages over visits, where nothing rises out of the noise": (
        lambda: with_spending(small_city(people=60, places=400, records=900, seed=2)),
        AVERAGES,
    ),
    "own history without coordinates": (lambda: without_coordinates(usual()), {"features": {"own_history": True}}),
}
LONG = {"no times", "some without records", "a large budget", "no context"}


class Devices:
    """One for each person, in the samples' order, and what each gave to the sum of visits."""

    def __init__(self, here: Town, folder: Path):
        self.here, self.samples = here, here.setup.samples
        self.people = [here.person(i, folder) for i in range(len(self.samples.ids))]
        self.vectors = [self._give_visits(i) for i in range(len(self.people))]
        self.records = [encode_records(person, here.campaign, here.known) for person in self.people]

    def _give_visits(self, i: int) -> RingArray:
        visited = visited_places(self.people[i], self.here.campaign, self.here.known)
        with self.people[i].store.transaction() as rows:
            save_visit_contribution(rows, self.here.campaign.name, visited)
        return visits_vector(visited, self.here.campaign)

    def close(self) -> None:
        for person in self.people:
            person.store.close()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(case, id=name, marks=[pytest.mark.long] if name in LONG else []) for name, case in CASES.items()
    ],
)
def devices(request: pytest.FixtureRequest) -> Iterator[Devices]:
    made, changes = request.param
    memory = Path("/dev/shm")  # noqa: S108  # sixty files that are synced after each step
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        opened = Devices(town(made(), change(SMALL_PRIVATE, **changes)), Path(folder))
        yield opened
        opened.close()


class Overheard(Sums):
    """The sums of a simulation, and what went into the last one. That of round 2 is not opened."""

    CLOSED = ("interaction", 2)

    def over_roster(self, where: Any, code: Any, values: Mapping[int, RingArray], **rest: Any) -> RingArray | None:
        self.values = values
        total = super().over_roster(where, code, values, **rest)
        return None if where == self.CLOSED else total


def test_what_a_device_adds_to_the_sum_of_visits_is_what_is_simulated(devices: Devices) -> None:
    own, campaign = devices.here.release.own, devices.here.campaign
    unit = 2.0**-campaign.visits.norm.fraction_bits
    for i, vector in enumerate(devices.vectors):
        expected = np.zeros(own.places)
        mine = own.pairs // own.places == devices.here.row(i)
        expected[own.pairs[mine] % own.places] = own.counts[mine]
        assert same_bits(vector.view(np.int64) * unit, expected)


def test_features_labels_and_contexts_are_those_of_the_samples(devices: Devices) -> None:
    samples, train = devices.samples, devices.samples.train
    for i, records in enumerate(devices.records):
        mine = slice(train.offsets[i], train.offsets[i + 1])
        assert same_bits(records.person, samples.people[i])
        assert same_bits(records.label, train.label[mine])
        assert same_bits(records.context, train.context[mine])
        assert same_bits(records.places[records.place], samples.places[train.place[mine]])
        assert records.unknown == 0


def test_rounds_on_devices_give_the_bits_of_the_engine(devices: Devices) -> None:
    """Contributions to the sum of moments, and to that of each round; the one of round 2 is not opened."""
    settings, campaign = devices.here.setup.settings, devices.here.campaign
    sums = Overheard(settings)
    engine = Rounds(devices.samples, settings, sums)
    state = engine.start()
    for i, records in enumerate(devices.records):
        assert same_bits(moments_vector(records, devices.here.summing_moments), sums.values[i])
    for _ in range(ROUNDS):
        B = state.estimate.B
        engine.advance(state)
        for i, records in enumerate(devices.records):
            assert same_bits(gradient_vector(records, campaign, B), sums.values[i])
    assert state.estimate.B.any()
    learners = np.flatnonzero(devices.samples.train.counts())
    assert len(learners) > len(devices.people) / 2
    assert all(sums.values[i].any() for i in learners)  # else equal bits would say little


def test_a_device_recommends_with_the_own_model_of_the_simulation(devices: Devices) -> None:
    here, engine = devices.here, local.Rounds(devices.samples, devices.here.setup.settings, threads=2)
    state = engine.start()
    for _ in range(ROUNDS):
        engine.advance(state)
    models, people = engine.models(state), range(len(devices.people))
    simulated = np.stack([scoring.own_model(models, devices.samples, i) for i in people])
    model = write_model(written(here.campaign.scales)[0], here.campaign.columns, state.estimate.B, iteration=ROUNDS)
    of = published(model, here.campaign, here.known)
    for i, person in enumerate(devices.people):
        assert same_bits(own_model(person, of), simulated[i])
    assert len(np.unique(simulated, axis=0)) > len(simulated) / 2


def test_leaving_the_own_part_out_makes_a_difference(devices: Devices) -> None:
    """Else the bits above would say nothing about it: where it is left out, many records see another popularity."""
    pairs = [(records.context, own_part_kept(devices, i)) for i, records in enumerate(devices.records)]
    changed = float(np.mean([not same_bits(seen, kept) for seen, kept in pairs]))
    left_out = devices.here.setup.settings.features.own_left_out and devices.here.known.counted.shape > 0
    assert changed > 0.3 if left_out else changed == 0


def own_part_kept(devices: Devices, i: int) -> np.ndarray:
    samples, train = devices.samples, devices.samples.train
    mine = slice(train.offsets[i], train.offsets[i + 1])
    context = train.context[mine].copy()
    context[:, : samples.popularity.shape[1]] = samples.popularity[train.place[mine]]
    return context
