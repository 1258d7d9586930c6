"""The people of a rehearsal: their data, written into a device file each, and the accuracy of all their models.

After that a person's data are on that person's device. They are also here, because whoever rehearses owns them all: so
accuracy can be measured, with the shared model from the recommender, everyone's own model around it as their devices
compute it, and test records that no device has."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self

import msgspec
import numpy as np

from prirec.config import PRIVATE
from prirec.data.dataset import Category, Column, Dataset, Numbers, People, Visits, take
from prirec.data.folder import Loaded, read_folder
from prirec.data.prepare import Prepared, filtered, prepare
from prirec.data.synthetic import CityPlan, make_city
from prirec.device.device import Device
from prirec.device.person import Visit
from prirec.device.sync import save_extra_region
from prirec.engines.local import Rounds
from prirec.engines.state import RoundsState
from prirec.errors import PolicyError, StateError, UsageError
from prirec.features.encoding import Value
from prirec.features.history import only_earlier
from prirec.features.popularity import Popularity
from prirec.features.samples import Samples, assemble
from prirec.graph.matching import coarse_cells
from prirec.metrics import Quality
from prirec.recommender.campaign import CampaignState
from prirec.recommender.operator import own_document
from prirec.recommender.release import RESOLUTION, Catalogue
from prirec.recommender.store import Store
from prirec.rehearsal.plan import FEWEST, Plan
from prirec.simulate.popularity import noisy_sums
from prirec.simulate.setup import quality, recipe
from prirec.types import RealArray
from prirec.util.keyed_random import generator
from prirec.util.shown import counted
from prirec.wire.campaign import Campaign, person_id
from prirec.wire.documents import Charter, Edition, Scales, read

SIMULATIONS = 5
THREADS = 2
RECORDS_PER_PERSON = 40  # that a made-up person has, on average


@dataclass(frozen=True, slots=True)
class Population:
    """The prepared data, as a simulation would have them, and each person's device file, by row."""

    prepared: Prepared = field(repr=False)
    files: tuple[Path, ...] = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def dataset(self) -> Dataset:
        return self.prepared.dataset

    def named(self) -> Prepared:
        """The data with people named by their devices' public keys, once all have joined: random draws are keyed by
        name, so a simulation of the campaign must use the names that the campaign uses."""
        people = replace(self.dataset.people, ids=tuple(map(_enrolled_id, self.files)))
        return replace(self.prepared, dataset=replace(self.dataset, people=people))


def load_people(plan: Plan) -> Loaded:
    """Exactly as many people as the plan has devices, made up or sampled from a folder, with notes for the user."""
    if plan.data is None:
        city = CityPlan(
            people=plan.devices, places=max(60, 2 * plan.devices // 5), records=RECORDS_PER_PERSON * plan.devices
        )
        return Loaded(make_city(city, generator(plan.seed, "city")))
    loaded = read_folder(plan.data)
    kept, notes = filtered(loaded.dataset, recipe(PRIVATE.data, labelled=loaded.dataset.labelled))
    many = len(kept.people)
    if many < FEWEST:
        left = counted(many, "person is", "people are")
        raise PolicyError(f"{left} left of that folder, and a city has at least {FEWEST} devices")
    if many < plan.devices:
        raise UsageError(f"{many} people are left of that folder: a city of them has {many} devices or fewer")
    return Loaded(_sample_people(kept, plan), (*loaded.notes, *notes))


def make_devices(people: Loaded, plan: Plan, folder: Path) -> Population:
    """A device file for everyone, with the person's training records in it."""
    dataset = people.dataset
    how = recipe(plan.settings.data, labelled=dataset.labelled)
    prepared = prepare(dataset, how, generator(plan.seed, "data"))
    files = tuple(folder / f"device-{row:05}" for row in range(len(dataset.people)))
    regions = coarse_cells(_located(dataset), RESOLUTION)
    for row, records in enumerate(_by_person(prepared)):
        with Device.open(files[row]) as device:
            _fill_device(device, dataset, row=row, records=records, regions=set(regions[records.place].tolist()))
    return Population(prepared, files, (*people.notes, *prepared.notes))


def _fill_device(device: Device, city: Dataset, *, row: int, records: Visits, regions: set[int]) -> None:
    """What the person would enter on the device; and the regions where they went, which it would have downloaded."""
    device.describe({name: value_at(column, row) for name, column in city.people.columns.items()})
    if city.people.location is not None and not np.isnan(city.people.location[row]).any():
        device.person.set_home((float(city.people.location[row, 0]), float(city.people.location[row, 1])))
    device.person.set_labelled(labelled=city.labelled)
    device.person.record_visits(visits_of(records, city))
    with device.store.transaction() as rows:
        for region in regions:
            save_extra_region(rows, region)


def visits_of(records: Visits, city: Dataset) -> Iterator[Visit]:
    """One person's records. Where the data hold no ignored places, the device draws its own negatives."""
    for at in range(len(records)):
        if city.labelled or records.label[at] > 0:
            said = {
                name: value for name, column in records.context.items() if (value := value_at(column, at)) is not None
            }
            time = None if records.time is None else int(records.time[at])
            yield Visit(city.places.ids[records.place[at]], time, int(records.label[at]), said, f"record {at}")


def value_at(column: Column, row: int) -> Value | None:
    """A column's value in one row, as a person would enter it."""
    if isinstance(column, Numbers):
        return None if np.isnan(column.values[row]) else float(column.values[row])
    if isinstance(column, Category):
        return None if column.codes[row] < 0 else column.words[column.codes[row]]
    return tuple(column.words[code] for code in column.codes[column.offsets[row] : column.offsets[row + 1]])


def _sample_people(city: Dataset, plan: Plan) -> Dataset:
    """As many people as the plan has devices, drawn by the seed, with all places of the city."""
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
    """Each person's training records, which come sorted by person."""
    train = prepared.train
    edges = np.searchsorted(train.person, np.arange(len(prepared.dataset.people) + 1))
    for row in range(len(edges) - 1):
        yield train.take(np.arange(edges[row], edges[row + 1]))


def _located(city: Dataset) -> RealArray:
    return np.full((len(city.places), 2), np.nan) if city.places.location is None else city.places.location


def _enrolled_id(file: Path) -> str:
    with Device.open(file) as device:
        member = device.person.membership()
    if member is None:
        raise StateError(f"{file.name} belongs to no deployment yet")
    return person_id(member.name)


# Accuracy, as only whoever owns everybody's data can measure it


@dataclass(frozen=True, slots=True)
class QualityMeter:
    """Measures a campaign's models on its samples, as a simulation would have them under the released popularity."""

    campaign: Campaign
    samples: Samples = field(repr=False)

    @classmethod
    def of(cls, population: Population, store: Store, progress: CampaignState) -> Self:
        """The population in a campaign whose scales are published."""
        campaign, prepared = campaign_of(store, progress), population.named()
        samples = assemble(
            prepared.dataset, train=prepared.train, test=prepared.test, encoding=campaign.encoding,
            popularity=_released(population, store, campaign), earlier=only_earlier(campaign.settings.data),
        )  # fmt: skip
        return cls(campaign, samples)

    def measure(self, progress: CampaignState) -> Quality:
        """Quality of the shared model as it is now, with everyone's own model around it."""
        campaign = self.campaign
        state = RoundsState(progress.iteration, campaign.scaling[0], progress.estimate(campaign.columns))
        engine = Rounds(self.samples, campaign.settings, threads=THREADS, rules=campaign.rules)
        return quality(self.samples, engine.models(state))

    def simulated(self) -> tuple[Quality, ...]:
        """Accuracy of the campaign in SIMULATIONS runs of engines/local, on the same people, records and popularity,
        without drop-outs. Each run has noise of its own from the same distribution: so their range says how far
        accuracies differ by chance. Devices without labels drew other negatives too."""
        return tuple(self._simulated(draw) for draw in range(SIMULATIONS))

    def _simulated(self, draw: int) -> Quality:
        settings = msgspec.structs.replace(self.campaign.settings, seed=draw)
        engine = Rounds(self.samples, settings, threads=THREADS)
        state = engine.start()
        for _ in range(settings.iterations):
            engine.advance(state)
        return quality(self.samples, engine.models(state))


def campaign_of(store: Store, progress: CampaignState) -> Campaign:
    charter = read(Charter, own_document(store, progress.charter), name=progress.charter)
    edition = read(Edition, own_document(store, progress.edition), name=progress.edition)
    return Campaign.of(charter, edition, read(Scales, own_document(store, progress.scales), name=progress.scales))


def _released(population: Population, store: Store, campaign: Campaign) -> Popularity:
    """Popularity as it was published; a person's own part is taken out of it, as the person's device does."""
    if campaign.edition is None:
        raise StateError("there is no popularity before the sum of visits is open")
    known = Catalogue.read(campaign.edition.manifest, partial(own_document, store), basis=campaign).known
    return known.counted.seen_with(noisy_sums(population.prepared, campaign.settings).own)  # the own part has no noise
