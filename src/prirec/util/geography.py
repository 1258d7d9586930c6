"""Distances on the sphere. A location is a row of latitude and longitude in degrees, NaN where unknown."""

import numpy as np

from prirec.errors import UsageError
from prirec.types import BoolArray, KeyArray, RealArray

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
    # rounding may lift antipodes a bit above 1, where arcsin is NaN; min keeps the NaN of what is unknown
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


# Z-order (Morton 1966): one number a place, such that near numbers are mostly near places.


NOWHERE = np.uint64(2**32)  # sorts after every real code
_STEPS = 2.0**16
_SPREAD = ((8, 0x00FF00FF), (4, 0x0F0F0F0F), (2, 0x33333333), (1, 0x55555555))


def morton(location: RealArray) -> KeyArray:
    """(n, 2) degrees to (n,) codes of 32 bits, 16 each of latitude and longitude interleaved; NOWHERE if unknown."""
    known = located(location)
    share = (location[known] + (90.0, 180.0)) / (180.0, 360.0)
    quantised = np.minimum(np.floor(share * _STEPS), _STEPS - 1).astype(np.uint64)
    codes = np.full(len(location), NOWHERE)
    codes[known] = (_spread(quantised[:, 0]) << np.uint64(1)) | _spread(quantised[:, 1])
    return codes


def _spread(x: KeyArray) -> KeyArray:
    """A zero bit before each of the 16 bits of x."""
    for shift, mask in _SPREAD:
        x = (x | (x << np.uint64(shift))) & np.uint64(mask)
    return x
