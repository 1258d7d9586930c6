"""Before anyone is asked anything: what each mechanism would leave of popularity, by simulation on a city at hand.

The city is given, or made up with as many people, places and visits. AUC is of popularity alone, counted on the
training records, over test records that no count has seen; a model has more than popularity to go by.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

import msgspec
import numpy as np

from prirec.config import ROUNDS, Settings, budget_parts, check
from prirec.data.prepare import Prepared, Recipe, prepare
from prirec.data.synthetic import CityPlan, make_city
from prirec.errors import UsageError
from prirec.privacy.plan import planned
from prirec.privacy.units import Adjacency
from prirec.simulate.compare import Contender
from prirec.simulate.popularity import (
    FIXED,
    MECHANISMS,
    Collection,
    Mechanism,
    Price,
    as_planned,
    gather,
    plain,
    popularity_auc,
)
from prirec.util.keyed_random import generator

PLANNED = "as planned"
REPEATS = 3
CLEAR = 2  # errors above 0: then a place has risen out of the noise
MOST_VISITS = 4_000_000
_TRAIN = 0.8
_DISTRICTS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One mechanism at one price."""

    mechanism: str
    promise: str
    user_level: bool
    epsilon_per_user: float | None  # None: whatever the price, it is as it is
    epsilon_replace_one: float | None  # the same promise between any two contributions
    error: float  # of a place's count, in visitors
    places_above_noise: int
    auc: float
    cost: float  # of AUC, against plain counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """All of them for one city."""

    made_up: bool
    people: int
    places: int
    pairs: int  # of a person and a place that the person visited
    median_visitors: float  # of a place
    mean_visitors: float
    delta: float
    lost: float  # the share of devices that may be lost, and the one that may collude: secure sums have noise for both
    corrupt: float
    plain_auc: float
    as_planned: Row | None  # popularity with its part of a budget for everything; None: nothing is planned for it
    part_for_popularity: float | None  # of that budget
    rows: tuple[Row, ...]  # all of a budget spent on popularity

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def forecast(
    prepared: Prepared,
    *,
    epsilons_per_user: Sequence[float],
    delta: float = 1e-6,
    seed: int = 0,
    settings: Settings | None = None,
    tell: Callable[[int, str], None] = lambda done, name: None,
) -> Forecast:
    """Every mechanism at every price, and what the settings plan, if anything; each the mean of three simulations.
    `tell` hears what is done and next."""
    collection = gather(prepared, settings)
    visitors, ceiling = collection.visitors(), popularity_auc(plain(collection), prepared)
    chosen, rows = runs(epsilons_per_user), []
    for done, (mechanism, epsilon) in enumerate(chosen):
        tell(done, mechanism.name)
        price = Price(epsilon, delta)
        rows.append(_row(mechanism, prepared, collection=collection, price=price, seed=seed, ceiling=ceiling))
    own = None
    if plans_popularity(collection.settings):
        tell(len(chosen), PLANNED)
        own = _as_planned(prepared, collection=collection, seed=seed, ceiling=ceiling)
    return Forecast(
        made_up=prepared.dataset.made_up,
        people=collection.people,
        places=collection.places,
        pairs=len(collection.own.pairs),
        median_visitors=float(np.median(visitors)),
        mean_visitors=float(visitors.mean()),
        delta=delta,
        lost=collection.settings.sums.lost,
        corrupt=collection.settings.sums.corrupt,
        plain_auc=ceiling,
        as_planned=own,
        part_for_popularity=None if own is None else _part(collection.settings),
        rows=tuple(rows),
    )


def runs(epsilons_per_user: Sequence[float]) -> list[tuple[Mechanism, float]]:
    """What is simulated, in order: price after price, and at the end what no price changes."""
    if not epsilons_per_user or len(set(epsilons_per_user)) < len(epsilons_per_user):
        raise UsageError("give at least one epsilon, and none twice")
    priced = [(one, epsilon) for epsilon in epsilons_per_user for one in MECHANISMS if one.name not in FIXED]
    return priced + [(one, epsilons_per_user[0]) for one in MECHANISMS if one.name in FIXED]


def plans_popularity(settings: Settings) -> bool:
    """Whether popularity is released within a budget."""
    return settings.privacy.epsilon_per_user is not None and settings.features.dynamic


def without_a_budget(settings: Settings) -> Settings:
    """The preset without noise for the same records, features and devices: what a budget takes away, it takes from
    this."""
    return check(
        msgspec.structs.replace(
            ROUNDS,
            seed=settings.seed,
            floor=settings.floor,
            data=settings.data,
            features=settings.features,
            model=settings.model,
            neighbours=msgspec.structs.replace(ROUNDS.neighbours, size=max(ROUNDS.neighbours.size, settings.floor)),
            participation=settings.participation,
            sums=settings.sums,
        )
    )


def with_and_without(settings: Settings) -> tuple[Contender, Contender]:
    """Two models whose difference on the same test records is what the plan costs."""
    return (
        Contender(PLANNED, "noisy sums, all within one budget", settings),
        Contender("without a budget", "sums, counts of visits", without_a_budget(settings)),
    )


def _part(settings: Settings) -> float:
    parts = budget_parts(settings)
    return parts["popularity"] / sum(parts.values())


def _as_planned(prepared: Prepared, *, collection: Collection, seed: int, ceiling: float) -> Row:
    settings = collection.settings
    plan = planned(settings, people=collection.people, pois=collection.places)
    mechanism = Mechanism(PLANNED, "(ε, δ) per user, for everything", as_planned(prepared, settings))
    price = Price(plan.epsilon_per_user, plan.delta)
    row = _row(mechanism, prepared, collection=collection, price=price, seed=seed, ceiling=ceiling)
    one, other = (plan.loss(adjacency).epsilon for adjacency in Adjacency)
    return replace(row, epsilon_per_user=one, epsilon_replace_one=other)


def _row(
    mechanism: Mechanism, prepared: Prepared, *, collection: Collection, price: Price, seed: int, ceiling: float
) -> Row:
    visitors, errors, aucs = collection.visitors(), [], []
    for repeat in range(REPEATS):
        # the same numbers for all, so that what differs is the mechanism
        estimate = mechanism.simulate(collection, price, generator(seed, f"forecast {repeat}"))
        errors.append(estimate.error(visitors))
        aucs.append(popularity_auc(estimate.popularity, prepared))
    error, auc, fixed = float(np.mean(errors)), float(np.mean(aucs)), mechanism.name in FIXED
    return Row(
        mechanism=mechanism.name,
        promise=mechanism.promise,
        user_level=mechanism.user_level,
        epsilon_per_user=None if fixed else price.epsilon_per_user,
        epsilon_replace_one=None if fixed else mechanism.epsilon_replace_one(price),
        error=error,
        places_above_noise=int(np.count_nonzero(visitors > CLEAR * error)),
        auc=auc,
        cost=ceiling - auc,
    )


def made_up(*, people: int, places: int, visits_per_person: float, seed: int = 0) -> Prepared:
    """A city with so many counted visits a person, and a quarter as many again to test on; each against a place that
    the person never visits. Few places have most of the visitors, and people go where it is near."""
    visits = people * visits_per_person
    if not 0 < visits <= MOST_VISITS:
        raise UsageError(
            f"a made-up city has above 0 and at most {MOST_VISITS:,} visits: give fewer people or fewer visits a person"
        )
    shape = CityPlan(people=people, places=places, records=people, districts=min(_DISTRICTS, places))
    records = max(people, round(visits / _TRAIN / shape.click_share))
    city = make_city(replace(shape, records=records), generator(seed, "city"))
    clicked = replace(city, labelled=False, visits=city.visits.take(city.visits.label > 0))
    return prepare(clicked, Recipe(train_share=_TRAIN), generator(seed, "data"))
