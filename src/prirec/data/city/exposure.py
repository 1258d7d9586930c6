"""Who is shown what: places near home, weighted by attractiveness^0.5 * exp(-distance / reach)."""

from dataclasses import dataclass, field

import numpy as np

from prirec.types import IndexArray, OffsetArray, RealArray

SLATE = 4  # places shown together, at one moment
_CELLS_A_SIDE = 32
_REDRAWS = 8


@dataclass(frozen=True, slots=True)
class Showcase:
    """Two searches instead of a weight for every pair: first a cell of the map by distance, then a place in it."""

    home_cell: OffsetArray = field(repr=False)  # (I,) among the H cells that somebody lives in
    cells: RealArray = field(repr=False)  # (H * G,) row h holds h + the cumulative share of each cell, seen from cell h
    catalogue: IndexArray = field(repr=False)  # (J,) places, cell after cell
    bounds: RealArray = field(repr=False)  # (G + 1,) cumulative weight at the edges of the cells
    weight: RealArray = field(repr=False)  # (J,) cumulative weight along the catalogue

    def draw(self, person: IndexArray, rng: np.random.Generator) -> IndexArray:
        """One place for each of these people, shape of person."""
        G = len(self.bounds) - 1
        home = self.home_cell[person]
        cell = np.searchsorted(self.cells, home + rng.random(len(person)), side="right") - home * G
        cell = np.minimum(cell, G - 1)
        low, high = self.bounds[cell], self.bounds[cell + 1]
        rank = np.searchsorted(self.weight, low + rng.random(len(person)) * (high - low), side="right")
        return np.asarray(self.catalogue[np.minimum(rank, len(self.catalogue) - 1)], dtype=np.int32)


def open_showcase(*, home: RealArray, spot: RealArray, appeal: RealArray, span_km: float, reach_km: float) -> Showcase:
    """Prepare to draw: distances are taken between the middles of the map's cells."""
    side = span_km / _CELLS_A_SIDE
    G = _CELLS_A_SIDE**2
    cell = _cell_of(spot, span_km=span_km)
    catalogue = np.argsort(cell, kind="stable").astype(np.int32)
    weight = np.cumsum(np.exp(0.5 * appeal[catalogue]))
    bounds = np.concatenate([[0.0], weight])[np.searchsorted(cell[catalogue], np.arange(G + 1))]
    middles = np.stack(np.divmod(np.arange(G), _CELLS_A_SIDE), axis=1) * side
    lived_in, home_cell = np.unique(_cell_of(home, span_km=span_km), return_inverse=True)
    distance = np.linalg.norm(middles[lived_in][:, None] - middles[None], axis=2)
    share = np.cumsum(np.diff(bounds) * np.exp(-distance / reach_km), axis=1)
    share /= share[:, -1:]
    cells = np.asarray(share + np.arange(len(lived_in))[:, None], dtype=np.float64).ravel()
    return Showcase(home_cell, cells, catalogue, bounds, weight)


def show(
    showcase: Showcase, person: IndexArray, *, position: OffsetArray, places: int, rng: np.random.Generator
) -> IndexArray:
    """A place for every record; no place twice in a slate (rows of a slate stand together, in position order)."""
    shown = showcase.draw(person, rng)
    for _ in range(_REDRAWS):
        again = np.flatnonzero(_repeats(shown, position))
        shown[again] = showcase.draw(person[again], rng)
    while len(again := np.flatnonzero(_repeats(shown, position))):
        shown[again] = (shown[again] + 1) % places  # a neighbourhood with hardly a place: any other will do
    return shown


def _repeats(shown: IndexArray, position: OffsetArray) -> np.ndarray:
    """Rows whose place stands earlier in the same slate."""
    found = np.zeros(len(shown), dtype=np.bool_)
    for lag in range(1, SLATE):
        found[lag:] |= (shown[lag:] == shown[:-lag]) & (position[lag:] >= lag)
    return found


def _cell_of(points: RealArray, *, span_km: float) -> IndexArray:
    column = np.clip((points / span_km + 0.5) * _CELLS_A_SIDE, 0, _CELLS_A_SIDE - 1).astype(np.int32)
    return column[:, 0] * np.int32(_CELLS_A_SIDE) + column[:, 1]
