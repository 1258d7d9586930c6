"""The synthetic city: a data set with Koubei's shape that belongs to nobody and can be drawn at any size.

People and places are scattered over districts; places near home are shown in lists of four; a law that no model gets
to see decides what is clicked. A change to the order of draws changes every city that a seed stands for.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from prirec.data.dataset import Category, Column, Dataset, Declared, Numbers, People, Places, Tags, Visits
from prirec.errors import UsageError
from prirec.types import DAY, BoolArray, FeatureArray, IndexArray, OffsetArray, RealArray, TimeArray

TOKYO = (35.6812, 139.7671)  # latitude, longitude
FIRST_DAY = 1_704_067_200  # Monday, 1 January 2024, 00:00
_ROOM = np.int64(2**32)  # a person's times fit below this
MOST_DAYS = int(_ROOM) // DAY  # 136 years


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


def make_city(plan: CityPlan, rng: np.random.Generator) -> Dataset:
    """A labelled data set of impressions, ordered by person and time; the same generator state gives the same city."""
    return city_and_truth(plan, rng)[0]


def city_and_truth(plan: CityPlan, rng: np.random.Generator) -> tuple[Dataset, RealArray]:
    """The city and the true click probability of each record, which nothing outside the tests may use."""
    from scipy.special import expit

    centres = district_centres(plan.districts, span_km=plan.span_km, rng=rng)
    residents = settle(plan, centres=centres, rng=rng)
    venues = open_venues(plan, centres=centres, rng=rng)
    taste = district_tastes(districts=plan.districts, categories=plan.categories, rng=rng)
    person, place, time = _impressions(plan, residents=residents, venues=venues, rng=rng)
    law = ClickLaw(residents, venues, taste, walk_km=plan.reach_km / 3)
    logits = law.logits(person, place, time)
    probability = expit(logits + intercept_for(logits, plan.click_share))
    clicked = rng.random(len(person)) < probability
    visits = Visits(person, place, np.where(clicked, np.int8(1), np.int8(-1)), time)
    columns = declared(plan)
    city = Dataset("city", residents.people, venues.places, visits, labelled=True, declared=columns, made_up=True)
    return city, probability


def _impressions(
    plan: CityPlan, *, residents: "Residents", venues: "Venues", rng: np.random.Generator
) -> tuple[IndexArray, IndexArray, TimeArray]:
    """Person, place and time of every record, slate after slate."""
    size = min(SLATE, plan.places)
    records = _records_a_person(plan, rng)
    slates = -(-records // size)
    owner = np.repeat(np.arange(plan.people, dtype=np.int32), slates)
    length = np.full(len(owner), size)
    length[np.cumsum(slates) - 1] = records - size * (slates - 1)  # a person's last slate holds the rest
    moment = slate_times(owner, days=plan.days, rng=rng)
    position = np.arange(plan.records) - np.repeat(np.cumsum(length) - length, length)
    person = np.repeat(owner, length)
    showcase = open_showcase(
        home=residents.home, spot=venues.spot, appeal=venues.appeal, span_km=plan.span_km, reach_km=plan.reach_km
    )
    place = show(showcase, person, position=position, places=plan.places, rng=rng)
    return person, place, np.repeat(moment, length)


def _records_a_person(plan: CityPlan, rng: np.random.Generator) -> OffsetArray:
    """At least one each; the rest in lognormal shares, so that few people have many. They add up exactly."""
    share = np.cumsum(rng.lognormal(sigma=1.0, size=plan.people))
    edges = np.rint(share / share[-1] * (plan.records - plan.people)).astype(np.int64)
    return np.asarray(1 + np.diff(edges, prepend=0), dtype=np.int64)


# Where things stand: districts, points scattered around them, and kilometres turned into degrees.


KM_A_DEGREE = 111.195
_CANDIDATES = 24  # best of so many: districts keep apart without standing in rows


def district_centres(count: int, *, span_km: float, rng: np.random.Generator) -> RealArray:
    """Centres that keep their distance from one another, shape (count, 2), kilometres east and north of the centre."""
    candidates = (rng.random((count, _CANDIDATES, 2)) - 0.5) * span_km * 0.9
    centres = np.zeros((count, 2))  # the first district is downtown
    for d in range(1, count):
        gap = np.linalg.norm(candidates[d][:, None] - centres[None, :d], axis=2).min(axis=1)
        centres[d] = candidates[d][np.argmax(gap)]
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
    from scipy.spatial import cKDTree

    return np.asarray(cKDTree(centres).query(points)[1], dtype=np.int32)


def degrees(points: RealArray, centre: tuple[float, float]) -> RealArray:
    """Latitude and longitude of points given in kilometres from the centre, shape (n, 2)."""
    latitude, longitude = centre
    north = latitude + points[:, 1] / KM_A_DEGREE
    east = longitude + points[:, 0] / (KM_A_DEGREE * np.cos(np.radians(latitude)))
    return np.column_stack([north, (east + 180) % 360 - 180])


# Who lives in the city: what a device knows of its owner, and the traits that nobody ever records.


GENDERS = ("female", "male", "other")
TASTE_RANK = 4  # dimensions of individual taste
_STAYED = 0.7  # of the people live in the district they grew up in, so the hometown tells of the home, but not for sure
_LIMITS = {"age": (16.0, 90.0), "friend_count": (0.0, 2000.0), "spending": (1.0, 1000.0)}


@dataclass(frozen=True, slots=True)
class Residents:
    """People with the traits that decide what they click, of which the data set shows only a part."""

    people: People = field(repr=False)
    home: RealArray = field(repr=False)  # (I, 2) kilometres
    district: IndexArray = field(repr=False)  # (I,) where they live, which is what shapes taste
    traits: FeatureArray = field(repr=False)  # (I, 4 + TASTE_RANK) age, gender, sociability, spending, own taste


def settle(plan: CityPlan, *, centres: RealArray, rng: np.random.Generator) -> Residents:
    """Draws everyone: homes, the columns that their devices know, and the traits behind their clicks."""
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
    """The schema: what is publicly known about private columns."""
    ranges = {f"users.{name}": Declared(low=low, high=high) for name, (low, high) in _LIMITS.items()}
    words = {"gender": GENDERS, "hometown": district_words(plan.districts)}
    return ranges | {f"users.{name}": Declared(words=known) for name, known in words.items()}


def _within(name: str, values: np.ndarray) -> Numbers:
    low, high = _LIMITS[name]
    return Numbers(np.clip(values, low, high).astype(np.float64))


def _names(letter: str, count: int) -> tuple[str, ...]:
    """u0001, u0002, ...: as many digits as the last needs, so that ids sort as their rows do."""
    width = len(str(count))
    return tuple(f"{letter}{n:0{width}d}" for n in range(1, count + 1))


# What the city offers: the public catalogue, and the pull of each place that only clicks will show.


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
    """Draws the catalogue: where places are, their public columns, and what makes people click on them."""
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
    places = Places(_names("p", J), degrees(spot, plan.centre), columns)
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


# When people look: the rhythm of the day and of the week.


_HOURS = np.array([2, 1, 1, 1, 1, 1, 2, 4, 6, 5, 5, 8, 12, 9, 6, 6, 7, 10, 14, 15, 13, 10, 7, 4], dtype=np.float64)
_WEEKDAYS = np.array([8, 8, 8, 9, 12, 16, 14], dtype=np.float64)  # from Monday


def slate_times(person: IndexArray, *, days: int, rng: np.random.Generator) -> TimeArray:
    """A moment for each slate; person must be sorted, and each person's moments come out rising, none twice."""
    S = len(person)
    weekday = _WEEKDAYS[np.arange(days) % 7]
    day = rng.choice(days, size=S, p=weekday / weekday.sum())
    hour = rng.choice(24, size=S, p=_HOURS / _HOURS.sum())
    key = person * _ROOM + day * DAY + hour * 3600 + rng.integers(3600, size=S)
    key.sort()
    while len(ties := np.flatnonzero(key[1:] == key[:-1])):
        key[ties + 1] += 1
        key.sort()
    return np.asarray(key % _ROOM + FIRST_DAY, dtype=np.int64)


def evening(time: TimeArray) -> BoolArray:
    """Whether a moment is in the evening: from 18:00 to 2:00."""
    hour = time % DAY // 3600
    return np.asarray((hour >= 18) | (hour < 2))


def weekend(time: TimeArray) -> BoolArray:
    """Whether a moment is on a Saturday or Sunday."""
    return np.asarray((time - FIRST_DAY) // DAY % 7 >= 5)


# Who is shown what: places near home, weighted by attractiveness^0.5 * exp(-distance / reach).


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
        """One place for each entry of `person`, by distance and attractiveness."""
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
    """Which rows repeat a place that is earlier in the same slate."""
    found = np.zeros(len(shown), dtype=np.bool_)
    for lag in range(1, SLATE):
        found[lag:] |= (shown[lag:] == shown[:-lag]) & (position[lag:] >= lag)
    return found


def _cell_of(points: RealArray, *, span_km: float) -> IndexArray:
    column = np.clip((points / span_km + 0.5) * _CELLS_A_SIDE, 0, _CELLS_A_SIDE - 1).astype(np.int32)
    return column[:, 0] * np.int32(_CELLS_A_SIDE) + column[:, 1]


# Who clicks: the law behind the labels. A model may learn it from records alone; nothing of it is in the data set.


_APPEAL = 0.9  # a popular place is clicked more often, by anyone
_DISTANCE = 1.0  # log of the distance, in thirds of a reach
_CATEGORY = 0.3  # what the whole city likes
_DISTRICT = 1.1  # what a district likes, against the city: the sign differs from one to the next
_INDIVIDUAL = 0.35  # own taste, for each of its dimensions
_TRAITS = (0.5, 0.3, 0.25, 0.7)  # age x category, gender x category, sociability x evening, spending x price
_HOUR_PULL = (0.6, 0.5)  # evening and weekend places at their time
_CALIBRATE_ON = 200_000
_CHUNK = 1_000_000


@dataclass(frozen=True, slots=True)
class ClickLaw:
    """logit P(click) = intercept + appeal - distance + taste of the district + traits x lures + hours."""

    residents: Residents = field(repr=False)
    venues: Venues = field(repr=False)
    taste: FeatureArray = field(repr=False)  # (D, C)
    walk_km: float

    def logits(self, person: IndexArray, place: IndexArray, time: TimeArray) -> RealArray:
        """Log-odds of visits without the intercept; a chunk at a time, so that memory stays flat."""
        out = np.empty(len(person))
        for start in range(0, len(out), _CHUNK):
            rows = slice(start, start + _CHUNK)
            out[rows] = self._chunk(person[rows], place[rows], time[rows])
        return out

    def _chunk(self, person: IndexArray, place: IndexArray, time: TimeArray) -> RealArray:
        who, what = self.residents, self.venues
        step = who.home[person] - what.spot[place]
        distance = np.sqrt(step[:, 0] ** 2 + step[:, 1] ** 2)
        pull = np.array([*_TRAITS, *[_INDIVIDUAL] * TASTE_RANK], dtype=np.float32)
        match = np.einsum("rk,rk,k->r", who.traits[person], what.lures[place], pull)
        liked = self.taste[who.district[person][:, None], what.tags[place]]  # (R, MOST_TAGS)
        taste = (liked * what.weights[place]).sum(axis=1)
        hours = what.hours[place]
        late, free = _sign(evening(time)), _sign(weekend(time))
        moment = _HOUR_PULL[0] * hours[:, 0] * late + _HOUR_PULL[1] * hours[:, 1] * free
        near = _DISTANCE * np.log1p(distance / self.walk_km)
        return np.asarray(_APPEAL * what.appeal[place] - near + match + taste + moment, dtype=np.float64)


def district_tastes(*, districts: int, categories: int, rng: np.random.Generator) -> FeatureArray:
    """What each district likes: the city's taste plus leanings that cancel over the districts, shape (D, C)."""
    own = rng.normal(size=(districts, categories))
    own -= own.mean(axis=0)
    return np.asarray(_DISTRICT * own + _CATEGORY * rng.normal(size=categories), dtype=np.float32)


def intercept_for(logits: RealArray, share: float) -> float:
    """Bisection: the intercept at which the mean click probability is that share."""
    from scipy.special import expit

    sample = logits[:: max(1, len(logits) // _CALIBRATE_ON)]
    low, high = -100.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if expit(sample + middle).mean() < share else (low, middle)
    return (low + high) / 2


def _sign(happens: np.ndarray) -> FeatureArray:
    return np.where(happens, np.float32(1), np.float32(-1))


# Names for districts and categories, and what each category leans to.


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


__all__ = ["CityPlan", "koubei_size", "make_city"]
