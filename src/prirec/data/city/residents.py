"""Who lives in the city: what a device knows of its owner, and the traits that nobody ever records."""

from dataclasses import dataclass, field

import numpy as np

from prirec.data.city.ground import degrees, nearest_centre, scatter
from prirec.data.city.plan import CityPlan
from prirec.data.city.words import district_words
from prirec.data.dataset import Category, Column, Declared, Numbers, People
from prirec.types import FeatureArray, IndexArray, RealArray

GENDERS = ("female", "male", "other")
TASTE_RANK = 4  # dimensions of individual taste
_STAYED = 0.7  # of the people live in the district they grew up in, so the hometown tells of the home, but not for sure
_LIMITS = {"age": (16.0, 90.0), "friend_count": (0.0, 2000.0), "spending": (1.0, 1000.0)}


@dataclass(frozen=True, slots=True)
class Residents:
    """People as the generator sees them."""

    people: People = field(repr=False)
    home: RealArray = field(repr=False)  # (I, 2) kilometres
    district: IndexArray = field(repr=False)  # (I,) where they live, which is what shapes taste
    traits: FeatureArray = field(repr=False)  # (I, 4 + TASTE_RANK) age, gender, sociability, spending, own taste


def settle(plan: CityPlan, *, centres: RealArray, rng: np.random.Generator) -> Residents:
    """Homes, columns and traits of everyone."""
    count, D = plan.people, plan.districts
    home = scatter(count, centres=centres, span_km=plan.span_km, rng=rng)
    district = nearest_centre(home, centres)
    wealth = rng.normal(size=D)[district]
    age, sociable = rng.normal(size=count), rng.normal(size=count)
    spending = 0.6 * wealth + 0.8 * rng.normal(size=count)
    gender = rng.choice(3, size=count, p=[0.49, 0.49, 0.02]).astype(np.int32)
    hometown = np.where(rng.random(count) < _STAYED, district, rng.integers(D, size=count)).astype(np.int32)
    columns: dict[str, Column] = {
        "gender": Category(gender, GENDERS),
        "age": _within("age", np.rint(38 + 14 * age)),
        "hometown": Category(hometown, district_words(D)),
        "friend_count": _within("friend_count", np.floor(np.exp(3.2 + 1.1 * sociable))),
        "spending": _within("spending", np.round(np.exp(3.4 + 0.7 * spending), 2)),
    }
    side = np.array([1.0, -1.0, 0.0])[gender]
    traits = np.column_stack([age, side, sociable, spending, rng.normal(size=(count, TASTE_RANK))]).astype(np.float32)
    people = People(_names("u", count), degrees(home, plan.centre), columns)
    return Residents(people, home, district, traits)


def declared(plan: CityPlan) -> dict[str, Declared]:
    """What is publicly known about the private columns before anyone answers."""
    ranges = {f"users.{name}": Declared(low=low, high=high) for name, (low, high) in _LIMITS.items()}
    words = {"gender": GENDERS, "hometown": district_words(plan.districts)}
    return ranges | {f"users.{name}": Declared(words=known) for name, known in words.items()}


def _within(name: str, values: np.ndarray) -> Numbers:
    low, high = _LIMITS[name]
    return Numbers(np.clip(values, low, high).astype(np.float64))


def _names(letter: str, count: int) -> tuple[str, ...]:
    width = len(str(count))
    return tuple(f"{letter}{n:0{width}d}" for n in range(1, count + 1))
