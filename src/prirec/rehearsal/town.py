"""From a city's data to its devices' files. Afterwards a person's data are on that person's device, and here only
because whoever rehearses owns them."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from prirec.config import PRIVATE
from prirec.data.dataset import Category, Column, Dataset, Numbers, People, Visits, take
from prirec.data.folder import Loaded, read_folder
from prirec.data.prepare import Prepared, filtered, prepare
from prirec.data.synthetic import CityPlan, make_city
from prirec.device.device import Device
from prirec.device.person import Visit
from prirec.device.sync import save_region
from prirec.errors import PolicyError, StateError, UsageError
from prirec.features.encoding import Value
from prirec.graph.cohorts import coarse_cells
from prirec.recommender.release import RESOLUTION
from prirec.rehearsal.plan import FEWEST, Plan
from prirec.simulate.setup import recipe
from prirec.types import RealArray
from prirec.util.keyed_random import generator
from prirec.wire.campaign import person_id

RECORDS = 40  # that a made-up person has, on average


@dataclass(frozen=True, slots=True)
class Town:
    """What a simulation would know, and where each person's device is: file by row."""

    prepared: Prepared = field(repr=False)
    files: tuple[Path, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def dataset(self) -> Dataset:
        return self.prepared.dataset

    def named(self) -> Prepared:
        """With people called as their devices are, which everything is drawn by. All have joined."""
        people = self.dataset.people
        return replace(
            self.prepared, dataset=replace(self.dataset, people=replace(people, ids=tuple(map(_name, self.files))))
        )


def people_of(plan: Plan) -> Loaded:
    """Exactly as many people as there are devices, made up or some of a folder, and what is to be said about it."""
    if plan.data is None:
        city = CityPlan(people=plan.devices, places=max(60, 2 * plan.devices // 5), records=RECORDS * plan.devices)
        return Loaded(make_city(city, generator(plan.seed, "city")))
    loaded = read_folder(plan.data)
    kept, notes = filtered(loaded.dataset, recipe(PRIVATE.data, labelled=loaded.dataset.labelled))
    many = len(kept.people)
    if many < FEWEST:
        raise PolicyError(f"{many} people are left of that folder, and a city has at least {FEWEST} devices")
    if many < plan.devices:
        raise UsageError(f"{many} people are left of that folder: give --devices {many}, or fewer")
    return Loaded(_some(kept, plan), (*loaded.notes, *notes))


def settle(people: Loaded, plan: Plan, folder: Path) -> Town:
    """A device's file for everyone, with the person's training records in it."""
    dataset = people.dataset
    how = recipe(plan.settings.data, labelled=dataset.labelled)
    prepared = prepare(dataset, how, generator(plan.seed, "data"))
    files = tuple(folder / f"device-{row:05}" for row in range(len(dataset.people)))
    regions = coarse_cells(_located(dataset), RESOLUTION)
    for row, records in enumerate(_by_person(prepared)):
        with Device.open(files[row]) as device:
            _move_in(device, dataset, row=row, records=records, regions=set(regions[records.place].tolist()))
    return Town(prepared, files, (*people.notes, *prepared.notes))


def _move_in(device: Device, city: Dataset, *, row: int, records: Visits, regions: set[int]) -> None:
    """What the person would tell the device; and the regions where they went, which they would have downloaded."""
    device.describe({name: told(column, row) for name, column in city.people.columns.items()})
    if city.people.location is not None and not np.isnan(city.people.location[row]).any():
        device.person.set_home((float(city.people.location[row, 0]), float(city.people.location[row, 1])))
    device.person.set_labelled(so=city.labelled)
    device.person.record_visits(visits_of(records, city))
    with device.store.transaction() as rows:
        for region in regions:
            save_region(rows, region)


def visits_of(records: Visits, city: Dataset) -> Iterator[Visit]:
    """One person's. Where a city knows only visits, so does the device, and draws what was ignored by itself."""
    for at in range(len(records)):
        if city.labelled or records.label[at] > 0:
            said = {name: value for name, column in records.context.items() if (value := told(column, at)) is not None}
            time = None if records.time is None else int(records.time[at])
            yield Visit(city.places.ids[records.place[at]], time, int(records.label[at]), said, f"record {at}")


def told(column: Column, row: int) -> Value | None:
    """What a table says in one row, as a person would tell it."""
    if isinstance(column, Numbers):
        return None if np.isnan(column.values[row]) else float(column.values[row])
    if isinstance(column, Category):
        return None if column.codes[row] < 0 else column.words[column.codes[row]]
    return tuple(column.words[code] for code in column.codes[column.offsets[row] : column.offsets[row + 1]])


def _some(city: Dataset, plan: Plan) -> Dataset:
    """So many people of a city, drawn by the seed, and all its places."""
    rows = np.sort(generator(plan.seed, "people of the city").permutation(len(city.people))[: plan.devices])
    rank = np.full(len(city.people), -1, dtype=np.int32)
    rank[rows] = np.arange(len(rows), dtype=np.int32)
    visits = city.visits.take(rank[city.visits.person] >= 0)
    people = People(
        tuple(city.people.ids[row] for row in rows),
        None if city.people.location is None else city.people.location[rows],
        {name: take(column, rows) for name, column in city.people.columns.items()},
    )
    return replace(city, people=people, visits=replace(visits, person=rank[visits.person]))


def _by_person(prepared: Prepared) -> Iterator[Visits]:
    """Training records come sorted by person."""
    train = prepared.train
    edges = np.searchsorted(train.person, np.arange(len(prepared.dataset.people) + 1))
    for row in range(len(edges) - 1):
        yield train.take(np.arange(edges[row], edges[row + 1]))


def _located(city: Dataset) -> RealArray:
    return np.full((len(city.places), 2), np.nan) if city.places.location is None else city.places.location


def _name(file: Path) -> str:
    with Device.open(file) as device:
        member = device.person.membership()
    if member is None:
        raise StateError(f"{file.name} belongs to no deployment yet")
    return person_id(member.name)
