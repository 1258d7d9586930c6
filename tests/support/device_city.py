"""A small city, once as a simulation sees it and once as public documents and people's own devices."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import msgspec
import numpy as np

from prirec.config import Settings
from prirec.data.dataset import Category, Column, Dataset, Numbers, Visits
from prirec.data.prepare import Prepared, prepare
from prirec.device.person import Person, Visit
from prirec.device.store import Membership, Store
from prirec.engines.local import Rounds
from prirec.engines.state import RoundsState
from prirec.features.encoding import Encoding, Value, plan_encoding
from prirec.features.history import only_earlier
from prirec.features.popularity import Popularity, Scale, average_column, nothing_left_out
from prirec.features.samples import assemble
from prirec.model.scoring import SharedModels
from prirec.privacy.plan import with_parts
from prirec.privacy.popularity_estimate import POPULARITY, CityAverage, PublicEstimate, public_estimate
from prirec.privacy.weighted_popularity import NoisySums, split
from prirec.protocols.codec import encode
from prirec.recommender.release import Catalogue, pack_regions
from prirec.sharing.keys import SigningKey
from prirec.simulate.popularity import SecureSum, noisy_sums, public_features, reporting
from prirec.simulate.setup import Setup, columns_of, recipe
from prirec.util.keyed_random import generator
from prirec.wire.campaign import Campaign, person_id, write_scales
from prirec.wire.documents import VERSION, AverageOfCity, Charter, Edition, EditionWithAverages, address, written
from prirec.wire.regions import AverageKnown, KnownPlaces, PlacePopularity, read_regions
from prirec.wire.settings import CampaignSettings
from support.cities import SMALL_PRIVATE, change, small_city

DEPLOYMENT = b"\7" * 16
RECOMMENDER = SigningKey(b"\1" * 32).public
SEED = 4242


# so that counts rise out of the noise, and it makes a difference to leave the own part out of them
MOST_FOR_POPULARITY = change(SMALL_PRIVATE, privacy={"popularity": 0.7, "moments": 0.15, "interaction": 0.15})


def secret_of(row: int) -> bytes:
    return sha256(b"device %d" % row).digest()


def membership(row: int = 0, *, cell: int = 0) -> Membership:
    return Membership(DEPLOYMENT, "https://recommender.example", RECOMMENDER, "a town", cell, secret_of(row))


@dataclass(frozen=True)
class Town:
    """Both sides of one campaign whose sums of visits and of moments are open: a set-up for the engines,
    and what devices know."""

    setup: Setup
    release: NoisySums  # only a simulation has everyone's own part of it
    campaign: Campaign
    catalogue: Catalogue

    @property
    def known(self) -> KnownPlaces:
        """Everything downloaded."""
        return self.catalogue.known

    @property
    def summing_moments(self) -> Campaign:
        """As it was before its scales."""
        return Campaign.of(self.campaign.charter, self.campaign.edition)

    @property
    def edition(self) -> Edition:
        assert self.campaign.edition is not None
        return self.campaign.edition

    def known_in(self, cells: Sequence[int]) -> KnownPlaces:
        """As a device reads it from documents, for some regions."""
        return read_regions(self.catalogue.manifest, self._bodies.__getitem__, basis=self.campaign, cells=cells)

    @cached_property
    def trained(self) -> tuple[RoundsState, SharedModels]:
        """After three rounds, as engines/local has them."""
        engine = Rounds(self.setup.samples, self.setup.settings, threads=1)
        state = engine.start()
        for _ in range(3):
            engine.advance(state)
        return state, engine.models(state)

    @cached_property
    def _bodies(self) -> dict[bytes, bytes]:
        static = pack_regions(self.setup.prepared.dataset.places, self.setup.encoding)
        return dict([*static.documents, *self.catalogue.documents])

    def row(self, i: int) -> int:
        """Where the samples' i-th person stands in the city."""
        return self.setup.prepared.dataset.people.ids.index(self.setup.samples.ids[i])

    def person(self, i: int, folder: Path, *, cell: int = 0) -> Person:
        """The samples' i-th person on a device of its own, with the training records."""
        row, data = self.row(i), self.setup.prepared.dataset
        person = Person(Store.open(folder / f"device-{i}"))
        person.join(membership(row, cell=cell))
        person.set_profile({name: told(column, row) for name, column in data.people.columns.items()})
        if data.people.location is not None and not np.isnan(data.people.location[row]).any():
            person.set_home((float(data.people.location[row, 0]), float(data.people.location[row, 1])))
        person.set_labelled(labelled=data.labelled)
        person.record_visits(visits_of(self.setup.prepared.train, row, data.places.ids))
        return person


def told(column: Column, row: int) -> Value | None:
    """What a table says in one row, as a person would tell it."""
    if isinstance(column, Numbers):
        return None if np.isnan(column.values[row]) else float(column.values[row])
    if isinstance(column, Category):
        return None if column.codes[row] < 0 else column.words[column.codes[row]]
    return tuple(column.words[code] for code in column.codes[column.offsets[row] : column.offsets[row + 1]])


def visits_of(visits: Visits, row: int, places: Sequence[str]) -> list[Visit]:
    found = []
    for at in np.flatnonzero(visits.person == row).tolist():
        said = {name: value for name, column in visits.context.items() if (value := told(column, at)) is not None}
        time = None if visits.time is None else int(visits.time[at])
        found.append(Visit(places[visits.place[at]], time, int(visits.label[at]), said, f"record {at}"))
    return found


def town(city: Dataset | None = None, settings: Settings = SMALL_PRIVATE) -> Town:
    """By the parts that simulation and recommender share, with the noise of a simulation in both sums."""
    city = named(city if city is not None else small_city(people=60, places=40, records=500))
    size, city_size = columns_of(city, settings).size, {"people": len(city.people), "places": len(city.places)}
    settings = with_parts(settings, size=size, **city_size)
    prepared = prepare(city, recipe(settings.data, labelled=city.labelled), generator(settings.seed, "data"))
    release = noisy_sums(prepared, settings)
    counted, *_ = split(release, 1 + len(settings.features.averages))
    found = public_estimate(
        counted, location=prepared.dataset.places.location, features=public_features(prepared.dataset.places, settings)
    )  # fmt: skip
    counts = SecureSum()._seen(reporting(prepared, settings), release, found)
    if not settings.features.own_left_out:
        counts = nothing_left_out(counts)
    encoding = plan_encoding(prepared.dataset, counts, settings.features)
    samples = assemble(
        prepared.dataset, train=prepared.train, test=prepared.test, encoding=encoding, popularity=counts,
        earlier=only_earlier(settings.data),
    )  # fmt: skip
    setup = Setup(msgspec.structs.replace(settings, seed=SEED), prepared, counts, encoding, samples)
    static = pack_regions(prepared.dataset.places, encoding)
    catalogue = static.with_counts(_popular(counts, found, release, encoding))
    charter = _charter(prepared, settings, encoding, manifest=static.name)
    edition, engine = _edition(charter, catalogue, encoding), Rounds(samples, setup.settings, threads=1)
    scales = write_scales(written(edition)[0], samples.columns, engine.start().moments, engine.words)
    return Town(setup, release, Campaign.of(charter, edition, scales), catalogue)


def named(city: Dataset) -> Dataset:
    """People called as their devices are."""
    ids = tuple(person_id(SigningKey(secret_of(row)).public) for row in range(len(city.people)))
    return replace(city, people=replace(city.people, ids=ids))


def _popular(
    counts: Popularity, found: PublicEstimate, release: NoisySums, encoding: Encoding
) -> PlacePopularity:  # fmt: skip
    names, prior = tuple(block.column for block in encoding.popularity), found.prior
    counted, *values = split(release, 1 + len(encoding.averages))
    variance = np.asarray(release.sigma**2)
    cities = [CityAverage.of(found.columns[POPULARITY], one.sums, lambda r: variance) for one in values]
    return PlacePopularity(
        names=names,
        released=np.stack([counts.released[name] for name in names], axis=1),
        sums=counted.sums,
        predicted=prior.predicted,
        weight=found.weight,
        sigma=release.sigma,
        shape=prior.shape,
        values=release.sums.reshape(-1, len(counted.sums))[1:].T,
        averages=tuple(
            AverageKnown(average_column(one.column), Scale(one.low, one.high), city)
            for one, city in zip(encoding.averages, cities, strict=True)
        ),
    )


def _charter(prepared: Prepared, settings: Settings, encoding: Encoding, *, manifest: bytes) -> Charter:
    return Charter(
        version=VERSION,
        deployment=DEPLOYMENT,
        campaign=3,
        recommender=RECOMMENDER,
        settings=CampaignSettings.of(settings),
        encoding=msgspec.structs.replace(encoding, popularity=()).to_json(),
        people=bytes(32),
        many=len(prepared.dataset.people),
        manifest=manifest,
        places=len(prepared.dataset.places),
    )


def _edition(charter: Charter, catalogue: Catalogue, encoding: Encoding) -> Edition:
    counted = catalogue.known.counted
    named = address(encode(charter)), encoding.to_json(), catalogue.name, counted.shape, counted.sigma
    if not counted.averages:
        return Edition(*named)
    cities = (AverageOfCity(one.city.middle, one.city.spread, 0.0, 0.0) for one in counted.averages)
    return EditionWithAverages(*named, averages=tuple(cities))
