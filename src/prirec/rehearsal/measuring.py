"""How good the models are, as only whoever owns everybody's data can tell: V from the recommender, every linear model
from its device's file, and test records that no device has."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from prirec.device.store import held_model
from prirec.engines import local
from prirec.engines.train import start
from prirec.errors import StateError
from prirec.features.popularity import Popularity
from prirec.features.samples import Samples, assemble
from prirec.metrics import Quality
from prirec.model.scoring import Models
from prirec.privacy.popularity_estimate import POPULARITY, own_part, prior_of
from prirec.privacy.weighted_popularity import NoisySums
from prirec.recommender.campaign import Progress
from prirec.recommender.release import Catalogue
from prirec.recommender.store import Store
from prirec.rehearsal.town import Town
from prirec.simulate.popularity import noisy_sums
from prirec.simulate.setup import quality
from prirec.types import RealArray
from prirec.util import sqlite
from prirec.wire.campaign import Campaign
from prirec.wire.documents import Charter, Edition, read

WAIT = 10.0  # seconds, for a device that writes


@dataclass(frozen=True, slots=True)
class Yardstick:
    """A campaign's samples as a simulation would have them, under the popularity that was released."""

    campaign: Campaign
    samples: Samples = field(repr=False)
    files: tuple[Path, ...] = field(repr=False)  # in the samples' order

    @classmethod
    def of(cls, town: Town, store: Store, progress: Progress) -> Self:
        """Once there is an edition."""
        campaign, prepared = campaign_of(store, progress), town.named()
        samples = assemble(
            prepared.dataset, train=prepared.train, test=prepared.test, encoding=campaign.encoding,
            popularity=_released(town, store, campaign),
        )  # fmt: skip
        file = dict(zip(prepared.dataset.people.ids, town.files, strict=True))
        return cls(campaign, samples, tuple(file[name] for name in samples.ids))

    def measure(self, progress: Progress) -> Quality:
        return quality(
            self.samples, Models(linear_models(self.files, self.campaign, features=self.samples.features), progress.V)
        )

    def simulated(self) -> Quality:
        """The same campaign by engines/local: the same people, popularity and start, and nobody lost. Its noise has
        the same law, and devices that had no labels drew other negatives."""
        settings = self.campaign.settings
        state, engine = start(self.samples, settings), local.engine(self.samples, settings)
        for _ in range(settings.iterations):
            engine.advance(state)
        return quality(self.samples, state.models)


def campaign_of(store: Store, progress: Progress) -> Campaign:
    charter = read(Charter, _document(store, progress.charter), name=progress.charter)
    return Campaign.of(charter, read(Edition, _document(store, progress.edition), name=progress.edition))


def linear_models(files: Sequence[Path], campaign: Campaign, *, features: int) -> RealArray:
    """(I, D + 1): W as devices hold it; 0 on one that has not learnt yet."""
    found = np.zeros((len(files), features + 1))
    for row, file in enumerate(files):
        with closing(sqlite.connect(file, pragmas=("query_only=ON",), wait=WAIT)) as rows:
            if (kept := held_model(rows, campaign.name)) is not None:
                found[row] = kept.linear
    return found


def _released(town: Town, store: Store, campaign: Campaign) -> Popularity:
    """As it was published; a person's own part is left out of it as the person's device does."""
    if campaign.edition is None:
        raise StateError("there is no popularity before the sum of visits is open")
    known = Catalogue.read(campaign.edition.manifest, lambda name: _document(store, name), campaign=campaign).known
    popular, own = known.counted, noisy_sums(town.prepared, campaign.settings).own  # the own part has no noise
    columns = {name: popular.released[:, at] for at, name in enumerate(popular.names)}
    if POPULARITY not in columns:  # nothing rose out of the noise, and the encoding has no feature for it
        return Popularity(columns)
    prior = prior_of(popular.predicted, sigma=popular.sigma, shape=popular.shape)
    release = NoisySums(popular.sums, popular.sigma, own)
    return Popularity(columns, {POPULARITY: own_part(release, prior, columns[POPULARITY], popular.weight)})


def _document(store: Store, name: bytes) -> bytes:
    body = store.document(name)
    if body is None:
        raise StateError("the store lacks a document that its own log names")
    return body
