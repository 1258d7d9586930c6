"""A city laid out in memory for the fast engines: who is near there is near in memory, people and places alike."""

from typing import NamedTuple

import numpy as np

from prirec.features.samples import Samples
from prirec.model.public_half import PlaceRows, place_rows
from prirec.model.round_steps import Everyone
from prirec.types import OffsetArray, RealArray, RingArray


class LaidOut(NamedTuple):
    """Places are renumbered as people first come to them. Their numbers decide nothing, so no result changes."""

    everyone: Everyone
    rows: PlaceRows
    order: OffsetArray  # (J,): which place of the catalogue stands in each row

    def factors(self, of_catalogue: RealArray) -> RealArray:
        """P (J, K') as it is laid out here."""
        laid: RealArray = of_catalogue[self.order]
        return laid

    def in_catalogue(self, total: RingArray, *, latent: int) -> RingArray:
        """A sum over everyone (K * D + J * K') with the rows of P in the catalogue's order; in place."""
        rows = total[len(total) - latent * len(self.order) :].reshape(len(self.order), latent)
        rows[self.order] = rows.copy()
        return total


def laid_out(samples: Samples) -> LaidOut:
    train, many = samples.train, len(samples.places)
    first = np.full(many, len(train), dtype=np.int64)
    first[train.place[::-1]] = np.arange(len(train))[::-1]
    order = np.argsort(first, kind="stable")
    rank = np.empty(many, dtype=np.int32)
    rank[order] = np.arange(many, dtype=np.int32)
    data = Everyone(samples.people, train.offsets, rank[train.place], train.context, train.label, samples.keys)
    return LaidOut(data, place_rows(samples.places[order]), order)
