"""What the city offers: the public catalogue, and the pull of each place that only clicks will show."""

from dataclasses import dataclass, field

import numpy as np

from prirec.data.city.ground import degrees, nearest_centre, scatter
from prirec.data.city.plan import CityPlan
from prirec.data.city.residents import TASTE_RANK
from prirec.data.city.words import category_leans, category_words, district_words
from prirec.data.dataset import Category, Column, Numbers, Places, Tags
from prirec.types import FeatureArray, IndexArray, RealArray

MOST_TAGS = 3
_TAG_SHARES = (0.5, 0.35, 0.15)  # places that ask for one, two and three categories


@dataclass(frozen=True, slots=True)
class Venues:
    """Places as the generator sees them. A tag's weight is 1/sqrt(tags of its place), 0 where there is no tag."""

    places: Places = field(repr=False)
    spot: RealArray = field(repr=False)  # (J, 2) kilometres
    appeal: RealArray = field(repr=False)  # (J,) log of attractiveness, standard normal: a heavy tail
    tags: IndexArray = field(repr=False)  # (J, MOST_TAGS)
    weights: FeatureArray = field(repr=False)  # (J, MOST_TAGS)
    lures: FeatureArray = field(repr=False)  # (J, 4 + TASTE_RANK) what answers to a person's traits, in the same order
    hours: FeatureArray = field(repr=False)  # (J, 2) lean to the evening and to the weekend


def open_venues(plan: CityPlan, *, centres: RealArray, rng: np.random.Generator) -> Venues:
    """Spots, columns and pull of every place."""
    J = plan.places
    spot = scatter(J, centres=centres, span_km=plan.span_km, rng=rng)
    tags, present = _draw_tags(J, categories=plan.categories, rng=rng)
    weights = (present / np.sqrt(present.sum(axis=1, keepdims=True))).astype(np.float32)
    price, years = rng.normal(size=J), np.minimum(rng.exponential(8.0, size=J), 80.0)
    appeal = 0.25 * (np.log1p(years) - 1.9) + rng.normal(size=J)  # long-standing places are somewhat better known
    columns: dict[str, Column] = {
        "category": _as_column(tags, present, category_words(plan.categories)),
        "price_level": Numbers(np.clip(np.rint(2.4 + 0.9 * price), 1.0, 4.0)),
        "district": Category(nearest_centre(spot, centres), district_words(plan.districts)),
        "opened_years": Numbers(np.round(years, 1).astype(np.float64)),
    }
    width = len(str(J))
    places = Places(tuple(f"p{n:0{width}d}" for n in range(1, J + 1)), degrees(spot, plan.centre), columns)
    older, gender, evening, weekend, *taste = _leans(plan.categories, tags, weights, rng)
    lures = np.column_stack([older, gender, evening, price, *taste]).astype(np.float32)
    hours = np.column_stack([evening, weekend]).astype(np.float32)
    return Venues(places, spot, appeal, tags, weights, lures, hours)


def _draw_tags(count: int, *, categories: int, rng: np.random.Generator) -> tuple[IndexArray, np.ndarray]:
    """Up to three different categories a place, common ones first, and a mask of those that count."""
    common = 1 / np.sqrt(np.arange(1, categories + 1))
    tags = rng.choice(categories, size=(count, MOST_TAGS), p=common / common.sum()).astype(np.int32)
    wanted = rng.choice(MOST_TAGS, size=count, p=_TAG_SHARES) + 1
    present = np.arange(MOST_TAGS) < wanted[:, None]
    present[:, 1] &= tags[:, 1] != tags[:, 0]
    present[:, 2] &= (tags[:, 2] != tags[:, 0]) & (tags[:, 2] != tags[:, 1])
    return tags, present


def _leans(categories: int, tags: IndexArray, weights: FeatureArray, rng: np.random.Generator) -> list[RealArray]:
    """What each place takes from its categories: age, gender, evening, weekend, then individual tastes; (J,) each."""
    known = category_leans(categories, rng)  # evening, weekend, age
    drawn = rng.normal(size=(categories, 1 + TASTE_RANK))
    of_category = np.column_stack([known[:, 2], drawn[:, 0], known[:, :2], drawn[:, 1:]])  # (C, 4 + TASTE_RANK)
    return [(lean[tags] * weights).sum(axis=1) for lean in of_category.T]


def _as_column(tags: IndexArray, present: np.ndarray, words: tuple[str, ...]) -> Tags:
    offsets = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int64)
    return Tags(offsets, tags[present], words)
