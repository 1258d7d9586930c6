"""Devices' data as kernels walk through them, all in one memory: as only a simulation has them."""

import numpy as np

from prirec.features.samples import Samples
from prirec.model.public_half import PlaceRows, place_rows
from prirec.model.round_steps import Everyone


def everyone(samples: Samples) -> tuple[Everyone, PlaceRows]:
    """All devices' data, and the places, renumbered as people first come to them: who is near in the city is then near
    in memory, people and places alike. Places that nobody comes to are left out. The numbers of places decide nothing,
    so no result changes."""
    train, many = samples.train, len(samples.places)
    first = np.full(many, len(train), dtype=np.int64)
    first[train.place[::-1]] = np.arange(len(train))[::-1]
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(train))]
    rank = np.empty(many, dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    data = Everyone(samples.people, train.offsets, rank[train.place], train.context, train.label, samples.keys)
    return data, place_rows(samples.places[order])
