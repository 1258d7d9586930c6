"""Distances on the sphere. A location is a row of latitude and longitude in degrees, NaN where unknown."""

import numpy as np

from prirec.errors import UsageError
from prirec.types import BoolArray, RealArray

EARTH_RADIUS_KM = 6371.0088  # mean radius, IUGG


def unit_vectors(location: RealArray) -> RealArray:
    """(n, 2) degrees to (n, 3) points on the unit sphere, where a straight chord orders people as distance does."""
    latitude, longitude = np.radians(location[:, 0]), np.radians(location[:, 1])
    across = np.cos(latitude)
    return np.column_stack([across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)])


def haversine_km(a: RealArray, b: RealArray) -> RealArray:
    """Great-circle distance between (..., 2) and (..., 2) degrees, broadcast; NaN where either is unknown."""
    here, there = np.radians(a), np.radians(b)
    half = np.sin((there - here) / 2) ** 2
    inside = half[..., 0] + np.cos(here[..., 0]) * np.cos(there[..., 0]) * half[..., 1]
    km: RealArray = 2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.minimum(inside, 1.0)))
    return km


def located(location: RealArray) -> BoolArray:
    """Which rows of (n, 2) have a location; UsageError, without the values, for one that is not on the globe."""
    if location.ndim != 2 or location.shape[1] != 2:
        raise UsageError(f"locations have shape (n, 2), latitude and longitude in degrees, not {location.shape}")
    known = ~(np.isnan(location[:, 0]) | np.isnan(location[:, 1]))
    if not (np.abs(location[known]) <= (90.0, 180.0)).all():
        raise UsageError(
            "a latitude is outside -90..90 or a longitude outside -180..180: "
            "give latitude first, then longitude, in degrees, and NaN where unknown"
        )
    return known
