"""Names for districts and categories, and what each category leans to."""

import numpy as np

from prirec.types import RealArray

DISTRICTS = (
    "Old Town", "Harbour", "Riverside", "University", "Station", "Hillside", "Market", "Garden", "Castle", "Foundry",
    "Lakeside", "Temple", "Orchard", "Mills", "Theatre", "Heights", "Canal", "Meadow", "Docks", "Observatory",
    "Barracks", "Springs", "Viaduct", "Lighthouse",
)  # fmt: skip

# word, then its lean to the evening (+) or the day (-), to the weekend or the working week, to older or younger people
_CATEGORIES = (
    ("ramen", 1, 0, -1), ("museum", -1, 1, 1), ("bar", 1, 1, -1), ("coffee", -1, 0, 0),
    ("park", -1, 1, 0), ("sushi", 1, 0, 1), ("bookshop", 0, 0, 1), ("karaoke", 1, 1, -1),
    ("bakery", -1, 0, 1), ("gym", 1, -1, -1), ("temple", -1, 1, 1), ("burger", 0, 0, -1),
    ("cinema", 1, 1, 0), ("curry", 0, -1, 0), ("supermarket", 0, -1, 0), ("izakaya", 1, 0, 0),
    ("arcade", 0, 1, -1), ("garden", -1, 1, 1), ("noodles", 0, -1, 0), ("theatre", 1, 1, 1),
    ("bathhouse", 1, 0, 1), ("clothing", 0, 1, -1), ("dessert", 0, 1, -1), ("gallery", -1, 1, 0),
    ("pizza", 1, 0, -1), ("library", -1, 0, 1), ("tea house", -1, 0, 1), ("jazz club", 1, 1, 1),
    ("playground", -1, 1, -1), ("barbecue", 1, 1, 0), ("stationery", -1, -1, 0), ("aquarium", -1, 1, -1),
    ("salad", -1, -1, -1), ("wine", 1, 0, 1), ("zoo", -1, 1, 0), ("hairdresser", 0, 0, 0),
    ("electronics", 0, 1, -1), ("dumplings", 0, 0, 0), ("market hall", -1, 1, 1), ("bowling", 1, 1, -1),
    ("florist", -1, 0, 1), ("tempura", 1, 0, 1), ("pharmacy", 0, -1, 1), ("nightclub", 1, 1, -1),
    ("swimming pool", 0, 1, 0), ("fried chicken", 1, 0, -1), ("furniture", -1, 1, 0), ("concert hall", 1, 0, 1),
    ("brunch", -1, 1, -1), ("hot pot", 1, 1, 0), ("tailor", -1, -1, 1), ("climbing", 1, 0, -1),
    ("vegetarian", 0, 0, -1), ("steak", 1, 0, 0), ("viewpoint", 0, 1, 0), ("laundry", 0, 0, -1),
    ("seafood", 1, 1, 1), ("toys", -1, 1, 0), ("shrine", -1, 1, 1), ("beer hall", 1, 0, 0),
    ("sandwiches", -1, -1, 0), ("record shop", 0, 1, 0), ("juice", -1, 0, -1), ("spa", 0, 1, 0),
)  # fmt: skip


def district_words(count: int) -> tuple[str, ...]:
    """Names of that many districts: from the list, then "district 25" and so on."""
    return DISTRICTS[:count] + tuple(f"district {n}" for n in range(len(DISTRICTS) + 1, count + 1))


def category_words(count: int) -> tuple[str, ...]:
    """Names of that many categories: from the list, then "category 65" and so on."""
    named = tuple(entry[0] for entry in _CATEGORIES[:count])
    return named + tuple(f"category {n}" for n in range(len(_CATEGORIES) + 1, count + 1))


def category_leans(count: int, rng: np.random.Generator) -> RealArray:
    """Lean of each category to evening, weekend and age, shape (count, 3); drawn for categories without a name."""
    listed = np.array([entry[1:] for entry in _CATEGORIES[:count]], dtype=np.float64)
    drawn = rng.integers(-1, 2, size=(count - len(listed), 3)).astype(np.float64)
    return np.concatenate([listed, drawn])
