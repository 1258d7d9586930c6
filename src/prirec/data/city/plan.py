"""What a synthetic city is asked to look like."""

import math
from dataclasses import dataclass

from prirec.data.city.clock import MOST_DAYS
from prirec.errors import UsageError

TOKYO = (35.6812, 139.7671)  # latitude, longitude


@dataclass(frozen=True, slots=True)
class CityPlan:
    """Sizes and shape of a city. Records count impressions: what was clicked and what was shown and ignored."""

    people: int = 2000
    places: int = 1500
    records: int = 24_000
    districts: int = 12
    categories: int = 24
    span_km: float = 25.0  # side of the square that the city fills
    centre: tuple[float, float] = TOKYO  # latitude, longitude
    ignored_per_click: float = 3.0  # Koubei's "about 1:3"
    days: int = 90

    def __post_init__(self) -> None:
        for name in ("people", "places", "records", "districts", "categories", "days"):
            _whole(name, getattr(self, name))
        if self.days > MOST_DAYS:
            raise UsageError(f"days must be at most {MOST_DAYS:,}")
        _bounded("span_km", self.span_km, low=0.1, high=500.0)
        _bounded("centre's latitude", self.centre[0], low=-80.0, high=80.0)
        _bounded("centre's longitude", self.centre[1], low=-180.0, high=180.0)
        _bounded("ignored_per_click", self.ignored_per_click, low=0.01, high=1000.0)
        if self.records < self.people:
            raise UsageError("everyone has at least one record: give at least as many records as people")
        if self.districts > self.places:
            raise UsageError("give at least as many places as districts")

    @property
    def reach_km(self) -> float:
        """How far people go: the weight of a place falls to 1/e over this distance."""
        return self.span_km / 8

    @property
    def click_share(self) -> float:
        return 1 / (1 + self.ignored_per_click)


def koubei_size() -> CityPlan:
    """Table 2's Koubei: 85,466 people, 118,598 places, 497,838 records, and columns wide enough for 89 features.

    That is 4.2 records a place, so the paper's own filter (at least 5 for each) cannot be run on it.
    """
    return CityPlan(people=85_466, places=118_598, records=497_838, districts=16, categories=40, span_km=60.0)


def _whole(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value < 2**31:
        raise UsageError(f"{name} must be a whole number from 1 to 2^31 - 1")


def _bounded(name: str, value: float, *, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise UsageError(f"{name} must lie between {low:g} and {high:g}")
