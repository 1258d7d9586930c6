"""A city laid out in memory for the fast engines: who is near there is near in memory, people and places alike."""

from typing import NamedTuple

import numpy as np

from prirec.features.samples import Samples
from prirec.model.public_half import PlaceRows, place_rows
from prirec.model.round_steps import Everyone
from prirec.types import OffsetArray, RealArray, RingArray


class LaidOut(NamedTuple):
    """Places are renumbered as people first come to them, and those that nobody comes to are left out. The numbers of
    places decide nothing, so no result changes."""

    everyone: Everyone
    rows: PlaceRows
    order: OffsetArray  # which place of the catalogue stands in each row
    places: int  # J, of the catalogue

    def factors(self, of_catalogue: RealArray) -> RealArray:
        """P (J, K') as it is laid out here, without the places that nobody comes to."""
        laid: RealArray = of_catalogue[self.order]
        return laid

    def in_catalogue(self, total: RingArray, *, latent: int) -> RingArray:
        """A sum of rows of P as they are laid out here, as the catalogue has them: (J * K',)."""
        rows = np.zeros((self.places, latent), dtype=total.dtype)
        rows[self.order] = total.reshape(len(self.order), latent)
        return rows.ravel()


def laid_out(samples: Samples) -> LaidOut:
    train, many = samples.train, len(samples.places)
    first = np.full(many, len(train), dtype=np.int64)
    first[train.place[::-1]] = np.arange(len(train))[::-1]
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(train))]
    rank = np.empty(many, dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    data = Everyone(samples.people, train.offsets, rank[train.place], train.context, train.label, samples.keys)
    return LaidOut(data, place_rows(samples.places[order]), order, many)
