"""One campaign on a small city, once as a simulation has it and once as the recommender publishes it."""

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

import numpy as np

from prirec.config import Settings
from prirec.data.dataset import Dataset
from prirec.features.encoding import plan_encoding
from prirec.features.popularity import Popularity
from prirec.privacy.plan import Kind, plan_for
from prirec.privacy.weighted_popularity import NoisySums
from prirec.recommender.release import Catalogue, NewDocuments, make_charter, pack_regions, popularity_release
from prirec.simulate.popularity import noisy_sums, reporting
from prirec.simulate.setup import Setup, set_up
from prirec.types import RingArray
from prirec.wire.campaign import Campaign, person_id
from prirec.wire.documents import Charter, Edition
from prirec.wire.regions import KnownPlaces, read_regions
from support.cities import SMALL_PRIVATE, change

DEPLOYMENT, RECOMMENDER = b"\7" * 16, b"\1" * 32


@dataclass(frozen=True)
class Staged:
    setup: Setup  # the simulation
    release: NoisySums  # its sum of visits, with what each person added
    names: tuple[bytes, ...]
    static: Catalogue
    chartered: NewDocuments[Charter]
    edited: NewDocuments[Edition]

    @cached_property
    def campaign(self) -> Campaign:
        return Campaign.of(self.chartered.document, self.edited.document)

    @cached_property
    def campaign_without_edition(self) -> Campaign:
        return Campaign.of(self.chartered.document)

    @cached_property
    def bodies(self) -> dict[bytes, bytes]:
        return dict([*self.chartered.documents, *self.edited.documents])

    def known(self, cells: tuple[int, ...] | None = None) -> KnownPlaces:
        """As a device reads it from documents."""
        manifest = self.edited.catalogue.manifest
        return read_regions(manifest, self.bodies.__getitem__, basis=self.campaign, cells=cells)


def named(city: Dataset) -> Dataset:
    """People called as their devices are."""
    ids = tuple(person_id(sha256(one.encode()).digest()) for one in city.people.ids)
    return replace(city, people=replace(city.people, ids=ids))


def in_the_ring(release: NoisySums, settings: Settings, *, people: int) -> RingArray:
    """The simulation's sum as a collector would have opened it."""
    norm = plan_for(settings, people=people, pois=len(release.sums)).release(Kind.POPULARITY).norm
    whole = release.sums * 2.0**norm.fraction_bits
    assert (whole == np.rint(whole)).all()
    return whole.astype(np.int64).view(np.uint64)


def begun(city: Dataset, settings: Settings, names: tuple[bytes, ...], *, resolution: int = 5) -> NewDocuments[Charter]:
    encoding = plan_encoding(city, Popularity(), settings.features)
    return make_charter(
        pack_regions(city.places, encoding, resolution=resolution), names, deployment=DEPLOYMENT, campaign=3,
        recommender=RECOMMENDER, settings=settings, encoding=encoding,
    )  # fmt: skip


def staged(
    city: Dataset, settings: Settings = SMALL_PRIVATE, *, resolution: int = 5, dropout: float = 0.0
) -> Staged:  # fmt: skip
    """The simulation loses some people on the way to the sum, if told so; the settings of a deployment say nothing
    about that."""
    city, people = named(city), len(city.people)
    losing = change(settings, participation={"dropout": dropout})
    setup = set_up(city, losing)
    settled = setup.settings  # with the parts of the budget
    release = noisy_sums(setup.prepared, settled)
    names = tuple(sorted(map(bytes.fromhex, setup.samples.ids)))  # which is no order of the city's
    chartered = begun(city, settings, names, resolution=resolution)
    edited = popularity_release(
        Campaign.of(chartered.document), chartered.catalogue, rostered=people,
        opened=in_the_ring(release, settled, people=people), survivors=survivors_of(setup, settled),
    )  # fmt: skip
    return Staged(setup, release, names, chartered.catalogue, chartered, edited)


def survivors_of(setup: Setup, settings: Settings) -> int:
    return reporting(setup.prepared, settings).survivors
