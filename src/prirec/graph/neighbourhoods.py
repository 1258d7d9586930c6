"""Who learns with whom in the paper's schedule: neighbours on the map, alike, fixed, or drawn anew."""

import msgspec
import numpy as np

from prirec.config import Settings
from prirec.errors import UsageError
from prirec.features.samples import Samples
from prirec.graph.neighbours import (
    Neighbours,
    NeighbourSets,
    Weights,
    check_count,
    distance_weights,
    metropolis_weights,
    nearest,
    nearest_in_line,
    ones_weights,
    random_neighbours,
)
from prirec.types import BoolArray
from prirec.util.keyed_random import generator, iteration_key


def neighbourhoods_of(samples: Samples, settings: Settings, *, iteration: int, online: BoolArray) -> NeighbourSets:
    """N(i) and S_if among those online in this pass."""
    rows = np.flatnonzero(online).astype(np.int32)
    position = np.full(len(online), -1, dtype=np.int32)
    position[rows] = np.arange(len(rows), dtype=np.int32)
    if settings.neighbours.kind == "random":
        if settings.neighbours.weights != "uniform":
            raise UsageError("neighbours drawn anew for each interaction have uniform weights only")
        none = np.zeros(len(online) + 1, dtype=np.int64)
        empty = np.empty(0, dtype=np.int32)
        return NeighbourSets(
            none, empty, np.empty(0), np.zeros(len(online)), _how_many_fresh(settings, online), rows, position
        )
    found = _neighbours(samples, settings, iteration=iteration, online=online)
    weights, own = _weights(found, samples, settings)
    return NeighbourSets(found.offsets, found.people, weights, own, 0, rows, position)


def _neighbours(samples: Samples, settings: Settings, *, iteration: int, online: BoolArray) -> Neighbours:
    n = settings.neighbours
    if n.kind == "fixed":
        everyone = random_neighbours(len(online), count=n.count, rng=generator(settings.seed, "fixed neighbours"))
        return _only_online(everyone, online)
    if n.kind == "alike" and samples.area is not None:
        return nearest_in_line(samples.area, count=n.count, online=online)
    if samples.home is None:
        raise UsageError(
            "nearest neighbours need coordinates, which this city has not; set neighbours.kind to 'random'"
        )
    drawn = generator(int(iteration_key(settings.seed, "among the closest", iteration)) >> 1, "draw")
    return nearest(samples.home, count=n.count, online=online, among=n.among, rng=drawn)


def _how_many_fresh(settings: Settings, online: BoolArray) -> int:
    """How many neighbours are drawn for an interaction: N, or all others online where they are fewer. Nobody where one
    other person is online: the sum would be that person's own model."""
    check_count(settings.neighbours.count, people=len(online))
    others = int(np.count_nonzero(online)) - 1
    return min(settings.neighbours.count, others) if others > 1 else 0


def adapt_to_coordinates(settings: Settings, *, located: bool) -> Settings:
    """Settings that fit a city with or without coordinates: without, neighbours are drawn anew for each interaction
    instead of from nearby, as the paper does for Foursquare (decisions/0008)."""
    n = settings.neighbours
    if located or settings.schedule != "samples" or n.kind != "nearest" or n.weights != "uniform":
        return settings
    return msgspec.structs.replace(settings, neighbours=msgspec.structs.replace(n, kind="random", among=None))


def _only_online(everyone: Neighbours, online: BoolArray) -> Neighbours:
    """The graph without the people who are offline, and without their edges."""
    kept = online[everyone.people] & online[everyone.owners()]
    counts = np.bincount(everyone.owners()[kept], minlength=len(online))
    return Neighbours(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), everyone.people[kept])


def _weights(found: Neighbours, samples: Samples, settings: Settings) -> Weights:
    kind = settings.neighbours.weights
    if kind == "uniform":  # 1 / |N(i)| is not stored for each edge: engines divide the sum once
        return np.empty(0), np.zeros(len(found))
    if kind == "metropolis":
        return metropolis_weights(found)
    if kind == "ones-diverges":
        return ones_weights(found, knowing="it diverges")
    if samples.home is None:
        raise UsageError("weights by distance need coordinates, which this city has not; use uniform weights")
    return distance_weights(found, samples.home, kind=kind, scale_km=settings.neighbours.scale_km)
