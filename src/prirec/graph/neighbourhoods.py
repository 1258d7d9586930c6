"""Who learns with whom, from the settings: cohorts for rounds, neighbours for the paper's schedule."""

import msgspec
import numpy as np

from prirec.config import Settings
from prirec.errors import PolicyError, UsageError
from prirec.features.samples import Samples
from prirec.graph import neighbours as strengths
from prirec.graph.cohorts import coarse_cells, cohorts
from prirec.graph.neighbours import Neighbours, NeighbourSets, check_count, nearest, nearest_in_line, random_neighbours
from prirec.types import BoolArray, IndexArray, KeyArray, RealArray
from prirec.util.keyed_random import generator, iteration_key, run_key


def cohort_numbers(samples: Samples, settings: Settings) -> IndexArray:
    """(I,): the cohort of each person, from the coarse cell that the device names; by hash where there is no home."""
    return cohorts_of(cells_of(samples.home, len(samples.ids), settings), samples.keys, settings)


def cohorts_of(cells: KeyArray, keys: KeyArray, settings: Settings) -> IndexArray:
    """The same from what is public: the cell that each device named, and the key that follows from its id."""
    people, size = len(keys), settings.neighbours.size
    if people < settings.floor:
        raise PolicyError(
            f"{people} people are fewer than the floor of {settings.floor} for an opened sum; the filter data.keep may "
            "have left some out"
        )
    return cohorts(cells, keys, size=size, beacon=int(run_key(settings.seed, "beacon")))


def cells_of(home: RealArray | None, people: int, settings: Settings) -> KeyArray:
    """(I,): the coarse cell that each device names; none where there are no homes."""
    where = np.full((people, 2), np.nan) if home is None else home
    return coarse_cells(where, resolution=settings.neighbours.resolution)


def neighbourhoods_of(samples: Samples, settings: Settings, *, iteration: int, online: BoolArray) -> NeighbourSets:
    """N(i) and S_if among those online in this pass."""
    rows = np.flatnonzero(online).astype(np.int32)
    position = np.full(len(online), -1, dtype=np.int32)
    position[rows] = np.arange(len(rows), dtype=np.int32)
    plain = settings.neighbours.weights == "uniform"
    if settings.neighbours.kind == "random":
        if not plain:
            raise UsageError("neighbours drawn anew for each interaction have uniform weights only")
        none = np.zeros(len(online) + 1, dtype=np.int64)
        empty = np.empty(0, dtype=np.int32)
        return NeighbourSets(none, empty, np.empty(0), np.zeros(len(online)), _drawn(settings, online), rows, position)
    found = _neighbours(samples, settings, iteration=iteration, online=online)
    weights, own = (np.empty(0), np.zeros(len(online))) if plain else _weights(found, samples, settings)
    return NeighbourSets(found.offsets, found.people, weights, own, 0, rows, position)


def _neighbours(samples: Samples, settings: Settings, *, iteration: int, online: BoolArray) -> Neighbours:
    n = settings.neighbours
    if n.kind == "fixed":
        everyone = random_neighbours(len(online), count=n.count, rng=generator(settings.seed, "fixed neighbours"))
        return _only(everyone, online)
    if n.kind == "alike" and samples.area is not None:
        return nearest_in_line(samples.area, count=n.count, online=online)
    if samples.home is None:
        raise UsageError(
            "nearest neighbours need coordinates, which this city has not; set neighbours.kind to 'random'"
        )
    drawn = generator(int(iteration_key(settings.seed, "among the closest", iteration)) >> 1, "draw")
    return nearest(samples.home, count=n.count, online=online, among=n.among, rng=drawn)


def _drawn(settings: Settings, online: BoolArray) -> int:
    """How many are drawn for an interaction: N, or all others online where they are fewer; nobody where one other is
    online, whose own model the sum would be."""
    check_count(settings.neighbours.count, people=len(online))
    others = int(np.count_nonzero(online)) - 1
    return min(settings.neighbours.count, others) if others > 1 else 0


def with_coordinates_or_without(settings: Settings, *, located: bool) -> Settings:
    """Settings that this city can be learnt with: where it has no coordinates, neighbours are drawn anew for each
    interaction instead of from nearby, as the paper does for Foursquare (decisions/0008)."""
    n = settings.neighbours
    if located or settings.schedule != "samples" or n.kind != "nearest" or n.weights != "uniform":
        return settings
    return msgspec.structs.replace(settings, neighbours=msgspec.structs.replace(n, kind="random", among=None))


def _only(everyone: Neighbours, online: BoolArray) -> Neighbours:
    """The neighbours that are online, for those who are."""
    kept = online[everyone.people] & online[everyone.owners()]
    counts = np.bincount(everyone.owners()[kept], minlength=len(online))
    return Neighbours(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), everyone.people[kept])


def _weights(found: Neighbours, samples: Samples, settings: Settings) -> strengths.Weights:
    kind = settings.neighbours.weights
    if kind == "metropolis":
        return strengths.metropolis_hastings(found)
    if kind == "ones-diverges":
        return strengths.ones(found, knowing="it diverges")
    if kind == "uniform":
        return strengths.uniform(found)
    if samples.home is None:
        raise UsageError("weights by distance need coordinates, which this city has not; use uniform weights")
    return strengths.by_distance(found, samples.home, kind=kind, scale_km=settings.neighbours.scale_km)
