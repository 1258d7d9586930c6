"""Algorithm 3, line 1: the matched POI set, found on the person's device among public places.

The recommender sees at most which cells' places are downloaded. `cells_near` answers the same wherever in the cell the
person stands, so a download gives away the cell and the radius and nothing finer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple, TypeAlias

import numpy as np
from h3.api import basic_int as h3

from prirec.errors import UsageError
from prirec.types import IndexArray, KeyArray, OffsetArray, RealArray
from prirec.util.geography import EARTH_RADIUS_KM, haversine_km, located

Point: TypeAlias = Sequence[float] | RealArray  # latitude, longitude in degrees

MOST_CELLS = 100_000
FEW_CELLS = 2_000  # 80 kB, which may be remembered
_HALF_WAY_ROUND_KM = np.pi * EARTH_RADIUS_KM


NO_CELL = np.uint64(0)  # not a cell in h3: the person gives no location


def coarse_cells(location: RealArray, resolution: int = 6) -> KeyArray:
    """(n, 2) degrees to the h3 cell each device would name, NO_CELL without a location; runs on the device."""
    if not 0 <= resolution <= 15:
        raise UsageError(f"h3 resolutions go from 0 (continents) to 15 (a square metre); got {resolution}")
    known = located(location)
    latitude, longitude = location[known].T.tolist()
    cells = np.full(len(location), NO_CELL)
    cells[known] = np.fromiter(map(h3.latlng_to_cell, latitude, longitude, repeat(resolution)), np.uint64)
    return cells


def cells_near(lat: float, lon: float, radius_km: float, resolution: int) -> tuple[int, ...]:
    """The h3 cells that hold every point within the radius of any point in the person's own cell, in order."""
    here = _point((lat, lon))
    _check_radius(radius_km)
    origin = int(coarse_cells(here[None], resolution)[0])
    many = _about_how_many(radius_km, resolution)
    # a radius that is meant in metres, or a fine resolution, can ask for millions of cells
    if many > MOST_CELLS:
        raise UsageError(f"that radius covers more than {MOST_CELLS} cells: give a lower resolution than {resolution}")
    return (_known_around if many <= FEW_CELLS else _cells_around)(origin, radius_km)


def _cells_around(origin: int, radius_km: float) -> tuple[int, ...]:
    home = _circle(origin)
    found, frontier = {origin}, [origin]
    while frontier:
        # What overlaps a disc is connected, so stepping from cell to overlapping cell misses none.
        around = {cell for known in frontier for cell in h3.grid_disk(known, 1)} - found
        frontier = [cell for cell in around if _gap_km(home, _circle(cell)) <= radius_km]
        found.update(frontier)
    return tuple(sorted(found))


_known_around = lru_cache(maxsize=2**8)(_cells_around)  # people of one cell have the same cells around them


def match(places_location: RealArray, here: Point, radius_km: float, *, at_least: int = 0) -> IndexArray:
    """Rows of the places within the radius, nearest first; the nearest `at_least` when there are fewer.

    Places without coordinates are never matched.
    """
    _check_radius(radius_km)
    rows = np.flatnonzero(located(places_location)).astype(np.int32)
    rows, km = _ranked(places_location, rows, _point(here))
    return rows[: max(at_least, _within(km, radius_km))]


@dataclass(frozen=True, slots=True)
class RegionIndex:
    """Public places by h3 cell, so that matching looks only at the cells near the person."""

    resolution: int
    location: RealArray = field(repr=False)  # (J, 2)
    cells: KeyArray = field(repr=False)  # (C,) distinct cells that hold a place, ascending
    offsets: OffsetArray = field(repr=False)  # (C + 1,)
    rows: IndexArray = field(repr=False)  # cell c holds places rows[offsets[c]:offsets[c + 1]]

    @classmethod
    def build(cls, location: RealArray, resolution: int = 7) -> "RegionIndex":
        """Index places at (J, 2); those without coordinates are left out."""
        cell_of = coarse_cells(location, resolution)
        order = np.argsort(cell_of, kind="stable")
        order = order[cell_of[order] != NO_CELL]
        cells, starts = np.unique(cell_of[order], return_index=True)
        offsets = np.append(starts, len(order)).astype(np.int64)
        return cls(resolution, location, cells, offsets, order.astype(np.int32))

    def near(self, here: Point, radius_km: float, *, at_least: int = 0) -> IndexArray:
        """What `match` answers over all places, reached through the cells near the person."""
        _check_radius(radius_km)
        point, reach = _point(here), radius_km
        rows, km = _ranked(self.location, self._candidates(point, reach), point)
        while _within(km, reach) < at_least and len(rows) < len(self.rows):
            reach = max(2 * reach, h3.average_hexagon_edge_length(self.resolution, unit="km"))
            rows, km = _ranked(self.location, self._candidates(point, reach), point)
        return rows[: max(at_least, _within(km, radius_km))]

    def in_cells(self, cells: Sequence[int]) -> IndexArray:
        """Rows of the places in these cells: what a download of them holds."""
        wanted = np.unique(np.asarray(cells, dtype=np.uint64))
        begin = self.offsets[np.searchsorted(self.cells, wanted, side="left")]
        end = self.offsets[np.searchsorted(self.cells, wanted, side="right")]
        pieces = [self.rows[b:e] for b, e in zip(begin, end, strict=True) if b < e]
        return np.concatenate(pieces) if pieces else self.rows[:0]

    def _candidates(self, point: RealArray, radius_km: float) -> IndexArray:
        if _about_how_many(radius_km, self.resolution) > min(len(self.cells), MOST_CELLS):
            return self.rows  # looking at every place costs less than naming the cells
        return self.in_cells(cells_near(point[0], point[1], radius_km, self.resolution))


def _ranked(location: RealArray, rows: IndexArray, point: RealArray) -> tuple[IndexArray, RealArray]:
    """These rows, nearest first (then by row), and how far each is."""
    km = haversine_km(location[rows], point)
    order = np.lexsort((rows, km))
    return rows[order], km[order]


def _within(ascending_km: RealArray, radius_km: float) -> int:
    return int(np.searchsorted(ascending_km, radius_km, side="right"))


def _point(here: Point) -> RealArray:
    point = np.asarray(here, dtype=np.float64)
    if point.shape != (2,) or not located(point[None])[0]:
        raise UsageError("matching needs the person's own latitude and longitude, in degrees")
    return point


def _check_radius(radius_km: float) -> None:
    if not 0 <= radius_km < np.inf:
        raise UsageError("the radius must be a finite number of kilometres, 0 or more")


def _about_how_many(radius_km: float, resolution: int) -> float:
    """Cells that overlap a disc, by their average area."""
    across = min(radius_km, _HALF_WAY_ROUND_KM) + h3.average_hexagon_edge_length(resolution, unit="km")
    return float(np.pi * across**2 / h3.average_hexagon_area(resolution, unit="km^2"))


def _distance(a: tuple[float, float], b: tuple[float, float]) -> float:
    return float(h3.great_circle_distance(a, b, unit="km"))


class _Circle(NamedTuple):
    """Around a cell: nothing in it is farther from its centre."""

    centre: tuple[float, float]
    radius_km: float


@lru_cache(maxsize=2**14)  # whoever asks again asks about the same cells; working them out took most of a match
def _circle(cell: int) -> _Circle:
    centre = h3.cell_to_latlng(cell)
    return _Circle(centre, max(_distance(centre, corner) for corner in h3.cell_to_boundary(cell)))


def _gap_km(one: _Circle, other: _Circle) -> float:
    """Between the nearest points of both; below 0 where they overlap."""
    return _distance(one.centre, other.centre) - one.radius_km - other.radius_km
