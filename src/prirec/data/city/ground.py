"""Where things stand: districts, points scattered around them, and kilometres turned into degrees."""

import numpy as np
from scipy.spatial import cKDTree

from prirec.types import IndexArray, RealArray

KM_A_DEGREE = 111.195
_CANDIDATES = 24  # best of so many: districts keep apart without standing in rows


def district_centres(count: int, *, span_km: float, rng: np.random.Generator) -> RealArray:
    """Centres that keep their distance from one another, shape (count, 2), kilometres east and north of the centre."""
    candidates = (rng.random((count, _CANDIDATES, 2)) - 0.5) * span_km * 0.9
    centres = np.zeros((count, 2))  # the first district is downtown
    for d in range(1, count):
        apart = np.linalg.norm(candidates[d][:, None] - centres[None, :d], axis=2).min(axis=1)
        centres[d] = candidates[d][np.argmax(apart)]
    return centres


def scatter(count: int, *, centres: RealArray, span_km: float, rng: np.random.Generator) -> RealArray:
    """Points around the centres, some of which draw more than others; nothing stands outside the square."""
    D, half = len(centres), span_km / 2
    crowd = rng.dirichlet(np.full(D, 4.0))
    around = centres[rng.choice(D, size=count, p=crowd)]
    points = around + rng.normal(scale=0.35 * span_km / np.sqrt(D), size=(count, 2))
    folded = np.where(np.abs(points) > half, np.sign(points) * span_km - points, points)
    return np.clip(folded, -half, half)


def nearest_centre(points: RealArray, centres: RealArray) -> IndexArray:
    """The district of each point: the one whose centre is nearest."""
    return np.asarray(cKDTree(centres).query(points)[1], dtype=np.int32)


def degrees(points: RealArray, centre: tuple[float, float]) -> RealArray:
    """Latitude and longitude of points given in kilometres from the centre, shape (n, 2)."""
    latitude, longitude = centre
    north = latitude + points[:, 1] / KM_A_DEGREE
    east = longitude + points[:, 0] / (KM_A_DEGREE * np.cos(np.radians(latitude)))
    return np.column_stack([north, (east + 180) % 360 - 180])
