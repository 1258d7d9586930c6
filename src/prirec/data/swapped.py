"""Latitude and longitude that have changed places, in the table of people or in that of places but not in both.

Either table alone may be right as it stands. Together they give themselves away: nearly everybody lives on another part
of the globe than where they go, and within a city's reach of it once one of the tables is turned around.
"""

from pathlib import Path

import numpy as np

from prirec.data.dataset import Dataset
from prirec.errors import DataError
from prirec.geography import haversine_km
from prirec.types import IndexArray, RealArray

FAR_KM, NEAR_KM = 1_000.0, 100.0
FAR_SHARE, NEAR_SHARE = 0.95, 0.5
FEWEST = 10  # people: one or two may well have moved, and to anywhere
_LOOKED_AT = 100_000  # records, evenly over all of them


def refuse_swapped(dataset: Dataset, *, users: Path, pois: Path) -> None:
    """DataError if one table's coordinates are the wrong way round; nothing can be known if only one has any."""
    if dataset.people.location is None or dataset.places.location is None:
        return
    visits = dataset.visits
    some = slice(None, None, max(1, len(visits) // _LOOKED_AT))
    person, place = visits.person[some], visits.place[some]
    refuse_far(person, dataset.people.location[person], dataset.places.location[place], users=users, pois=pois)


def refuse_far(person: IndexArray, home: RealArray, spot: RealArray, *, users: Path, pois: Path) -> None:
    """The same for some records: who, living where, went where."""
    known = ~(np.isnan(home).any(axis=1) | np.isnan(spot).any(axis=1))
    if len(np.unique(person[known])) >= FEWEST and _look_swapped(home[known], spot[known]):
        problem = (
            f"nearly all live over {FAR_KM:,.0f} km from where they go, and near it if lat and lon change places; "
            f"they look swapped here or in {pois.name}: write the latitude as lat"
        )
        raise DataError(problem, file=users, column="lat")


def _look_swapped(home: RealArray, spot: RealArray) -> bool:
    turned = home[:, ::-1]
    near = (haversine_km(turned, spot) < NEAR_KM) & (np.abs(turned[:, 0]) <= 90)
    far = haversine_km(home, spot) > FAR_KM
    return bool(far.mean() >= FAR_SHARE and near.mean() >= NEAR_SHARE)
