"""What popularity would be worth under each mechanism, before anyone is asked anything: simulated on a city at hand.

The city is given, or made up with as many people, places and visits. AUC is of popularity alone, counted on the
training records, over test records that no count has seen; a model has more than popularity to go by. So models can be
trained as well, one as planned and one without a budget. In a made-up city these are models of few people, with as
little noise as many people's would have.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from prirec.config import ROUNDS, Privacy, Settings, budget_parts, check
from prirec.data.dataset import Dataset
from prirec.data.prepare import Prepared, Recipe, prepare
from prirec.data.synthetic import CityPlan, make_city
from prirec.engines.state import IterationReport
from prirec.errors import UsageError
from prirec.features.columns import ModelSize
from prirec.features.popularity import OwnCounts, Popularity
from prirec.metrics import auc
from prirec.privacy.accountant import Adjacency, Spent, affordable, noise_multiplier
from prirec.privacy.noise import Stream
from prirec.privacy.plan import Kind, Release, plan_for, with_parts
from prirec.privacy.popularity_estimate import POPULARITY, popularity
from prirec.privacy.randomized_response import Reporters, reports_about
from prirec.privacy.weighted_popularity import NoisySums, capped, opened, simulated, split, weighted
from prirec.simulate.popularity import (
    VISITORS,
    answered,
    noisy_sums,
    public_features,
    release_popularity,
    visitors,
    with_a_record,
)
from prirec.simulate.privacy_plan import PrivacyPlan, promise
from prirec.simulate.setup import Outcome, columns_of, run, set_up
from prirec.types import OffsetArray, RealArray
from prirec.util.keyed_random import generator
from prirec.util.shown import Shown, Table, counted, number

PLANNED = "as planned"
REPEATS = 3
CLEAR = 2  # errors above 0: then a place has risen out of the noise
MOST_VISITS = 4_000_000
MOST_TRAINED = 30_000  # people of a made-up city on which models are trained; they stand for more by less noise
_MOST_LESS_NOISE = 35.0  # times: beyond that there is hardly any left
# people from which on `private` at this ε came within 0.015 of the AUC of a tuned FM, in a made-up city with 5,000
# places and ten records a person: benchmarks/people.py
PEOPLE_NEEDED = {0.5: 150_000, 1.0: 73_000, 2.0: 26_000}
PAPER_EPSILON_PER_BIT = 1.0
CAP = 20
_SEEDS = 2**63
_TRAIN = 0.8
_DISTRICTS = 12


# What is compared: variants of the mechanisms, all at the same price for each USER
#
# Another mechanism is compared with these by being a `Variant` too, as unary encoding is in the experiments: nothing
# here has to know of it.


@dataclass(frozen=True, slots=True)
class Price:
    """What one person spends on popularity: here the whole budget, for nothing else is computed."""

    epsilon_per_user: float = 1.0
    delta: float = 1e-6


@dataclass(frozen=True, slots=True)
class Collection:
    """Who was where in the training records, once a place; nobody is lost. Only a simulation sees it whole."""

    own: OwnCounts = field(repr=False)  # 1 for each place of each person
    people: int  # everyone takes part, also whoever was nowhere
    with_a_record: OffsetArray = field(repr=False)  # (J,) people with a visit to the place, or a negative of it
    location: RealArray | None = field(repr=False)  # (J, 2), public
    features: RealArray | None = field(repr=False)  # (J, p), public
    settings: Settings = field(repr=False)  # how many may be lost or collude, the floor, and parts of a budget

    @property
    def places(self) -> int:
        return self.own.places

    def visitors(self) -> OffsetArray:
        """(J,): what plain counts would show."""
        return self.own.total().astype(np.int64)


def gather(prepared: Prepared, settings: Settings | None = None) -> Collection:
    """The collection that a prepared city allows."""
    settings, city = settings or Settings(), prepared.dataset
    settings = with_parts(
        settings, people=len(city.people), places=len(city.places), size=columns_of(city, settings).size
    )
    return Collection(
        own=visitors(prepared),
        people=len(city.people),
        with_a_record=with_a_record(prepared),
        location=city.places.location,
        features=public_features(city.places, settings),
        settings=settings,
    )


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is released, and what it would be without noise; both in the mechanism's own measure."""

    popularity: Popularity = field(repr=False)  # its first column is the popularity
    expected: RealArray = field(repr=False)  # (J,)

    def error(self, visitors: OffsetArray) -> float:
        """Root mean square distance from the noiseless figure over places, scaled to visitors."""
        noise = released(self.popularity) - self.expected
        scale = float(visitors.sum() / self.expected.sum()) if self.expected.sum() > 0 else 1.0
        return float(np.sqrt(np.mean(noise**2))) * scale


def released(popularity: Popularity) -> RealArray:
    """(J,): the first column, which is how popular places are; others describe their surroundings."""
    return next(iter(popularity.released.values()))


def popularity_auc(popularity: Popularity, prepared: Prepared) -> float:
    """AUC of the first popularity column alone on the test records, as devices see it: their own part left out."""
    seen = popularity.seen_by(prepared.test)
    return auc(prepared.test.label, next(iter(seen.values())))


def plain(collection: Collection) -> Popularity:
    """Plain counts of visitors: the ceiling, with no privacy at all."""
    return Popularity({VISITORS: collection.own.total()}, {VISITORS: collection.own})


Simulation: TypeAlias = Callable[[Collection, Price, np.random.Generator], Estimate]


@dataclass(frozen=True, slots=True)
class Variant:
    """A mechanism at a price, and what it promises for an (ε, δ)."""

    name: str
    promise: str
    simulate: Simulation = field(repr=False)
    user_level: bool = True  # False: no (ε, δ) for a person comes of it, or only one with ifs
    local: bool = False  # noise in each answer by itself: the promise is between any two people's as it stands

    def epsilon_replace_one(self, price: Price) -> float:
        """The ε between any two contributions; that of a price is between a contribution and none."""
        if self.local:
            return price.epsilon_per_user
        spent = affordable(price.epsilon_per_user, price.delta)
        return spent.loss(price.delta, Adjacency.REPLACE_ONE).epsilon


def planned_release(collection: Collection, price: Price) -> Release:
    """One release of popularity that has the whole budget to itself."""
    alone = Settings(
        floor=collection.settings.floor,
        sums=collection.settings.sums,
        privacy=Privacy(
            epsilon_per_user=price.epsilon_per_user, delta=price.delta, popularity=1.0, moments=0.0, interaction=0.0
        ),
    )
    return plan_for(alone, people=collection.people, pois=collection.places).release(Kind.POPULARITY)


def _scaled(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """Everyone's whole vector at norm 1; the noisy sums as they are."""
    return _as_it_is(_noisy(_norm_1(collection), collection, price, rng))


def _posterior(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """Everyone's whole vector, then the posterior from places nearby and public features, which costs nothing."""
    release = _noisy(_norm_1(collection), collection, price, rng)
    shrunk = popularity(release, location=collection.location, features=collection.features)
    return Estimate(shrunk, release.own.total())


def _twenty_places(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """At most 20 places of each person, drawn at random, each with 1/√20."""
    some = capped(collection.own, most=CAP, draws=rng.random(len(collection.own.pairs)))
    return _as_it_is(_noisy(some, collection, price, rng))


def _ideal(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """The whole vector, and only as much noise as would do if nobody was ever lost and nobody colluded."""
    sigma = noise_multiplier(price.epsilon_per_user, price.delta)
    return _as_it_is(simulated(_norm_1(collection), sigma=sigma, rng=rng))


def _as_printed(reporters: Reporters) -> Simulation:
    """The paper's own: Eq. (6) at ε = 1 for each BIT, which no price for a user enters."""

    def simulate(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
        del price
        reports = reports_about(
            reporters, people=collection.people, with_a_record=collection.with_a_record, in_simulation=True
        )
        found = answered(collection.own, reports=reports, epsilon_per_bit=PAPER_EPSILON_PER_BIT, rng=rng)
        return Estimate(found, collection.visitors().astype(np.float64))

    return simulate


def _under(prepared: Prepared, settings: Settings) -> Simulation:
    """What a training under these settings sees: popularity has its part of the budget, and some devices may drop out.

    All of it is in the settings, so no other price enters."""

    def simulate(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
        del collection, price
        drawn = msgspec.structs.replace(settings, seed=int(rng.integers(_SEEDS)))
        visits = split(noisy_sums(prepared, drawn), 1 + len(settings.features.averages))[0]
        return Estimate(release_popularity(prepared, drawn), visits.own.total())

    return simulate


def _norm_1(collection: Collection) -> OwnCounts:
    return weighted({VISITORS: collection.own})[VISITORS]


def _noisy(own: OwnCounts, collection: Collection, price: Price, rng: np.random.Generator) -> NoisySums:
    """The sum with the exact law of all devices' shares, sized for the fewest survivors less the colluders while
    everyone survives. Vectors are rounded as devices round them."""
    release = planned_release(collection, price)
    shares, everyone = release.noise(), collection.people
    noise = shares.total(Stream(rng.bytes(32)), survivors=everyone, count=own.places)
    return opened(own, norm=release.norm, noise=noise, noise_variance=shares.total_variance(everyone))


def _as_it_is(release: NoisySums) -> Estimate:
    return Estimate(Popularity({POPULARITY: release.sums}, {POPULARITY: release.own}), release.own.total())


_USER = "(ε, δ) per user"
VARIANTS: tuple[Variant, ...] = (
    Variant("secure sum, posterior", _USER, _posterior),
    Variant("secure sum", _USER, _scaled),
    Variant("secure sum, 20 places", _USER, _twenty_places),
    Variant("secure sum, no loss", "if nobody is lost or colludes", _ideal, user_level=False),
    Variant("Eq. (6)", "ε = 1 per bit", _as_printed(Reporters.EVERYONE), user_level=False),
    Variant(
        "records only",
        "none: who reports reveals the visit",
        _as_printed(Reporters.THOSE_WITH_A_RECORD),
        user_level=False,
    ),
)
FIXED = ("Eq. (6)", "records only")  # at ε = 1 per bit, whatever the price is


# The forecast


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


class TrainedCost(NamedTuple):
    """AUC of a model as planned and of one without a budget, on the same test records."""

    auc: float
    auc_without_a_budget: float
    people: int  # whose records both models had

    @property
    def cost(self) -> float:
        return self.auc_without_a_budget - self.auc

    def to_dict(self) -> dict[str, float | int]:
        return {**self._asdict(), "cost": self.cost}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Forecast(Shown):
    """What popularity is worth in one city: as the settings plan it, and by every mechanism at every price."""

    made_up: bool
    people: int
    places: int
    pairs: int  # of a person and a place that the person visited
    median_visitors: float  # of a place
    mean_visitors: float
    delta: float
    lost: float  # the share of devices that may be lost, and the one that may collude: secure sums have noise for both
    corrupt: float
    operators: int  # with 2 each of them adds all of the noise, whoever is lost or colludes
    plain_auc: float
    as_planned: Row | None  # popularity with its part of a budget for everything; None: nothing is planned for it
    part_for_popularity: float | None  # of that budget
    rows: tuple[Row, ...]  # all of a budget spent on popularity
    plan: PrivacyPlan | None = None  # None: the settings promise nothing
    trained: TrainedCost | None = None  # where models were trained too

    @property
    def verdict(self) -> str:
        """One sentence: the AUC that is left of popularity, and the cost."""
        if self.trained is not None:
            return (
                f"The plan costs the model {self.trained.cost:.4f} AUC {self._where}: {number(self.trained.auc)} "
                f"instead of {number(self.trained.auc_without_a_budget)} without a budget."
            )
        best = self.as_planned or self.rows[0]
        how = "As planned" if self.as_planned else f"By {best.mechanism} at ε = {best.epsilon_per_user:g}"
        return (
            f"{how}, popularity alone has an AUC of {number(best.auc)}, {best.cost:.4f} below plain counts "
            f"({number(self.plain_auc)}), which nothing protects."
        )

    @property
    def _where(self) -> str:
        return "in a made-up city" if self.made_up else "on this folder"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the figures must know, in sentences."""
        made_up = "the city is made up, so yours will differ; " if self.made_up else ""
        none = (
            () if self.as_planned else ("these settings release no popularity within a budget: no row is as planned",)
        )
        return (
            f"a simulation, which collects nothing and protects nobody; {made_up}figures are means of three runs",
            "ε compares a person's contribution with none; replace-one ε compares any two contributions",
            "error: root mean square over places, in visitors; above noise: places with more visitors than twice that",
            f"secure sums have enough noise even if {self.lost:.0%} of devices drop out and {self.corrupt:.0%} collude"
            if self.operators == 1
            else "each of two operators adds all of the noise: it is enough while one of them is honest",
            f"ε = 1 per bit, with a bit for each of {self.places:,} places, is ε = {self.places:,} per user",
            *none,
            self._about_models(),
            *self._people_needed(),
        )

    def _people_needed(self) -> tuple[str, ...]:
        promised = self.as_planned and self.as_planned.epsilon_per_user
        known = min(PEOPLE_NEEDED, key=lambda epsilon: abs(epsilon - (promised or 0.0)))
        if not promised or abs(known - promised) > 0.01:
            return ()
        return (
            f"at ε = {known:g} it took {PEOPLE_NEEDED[known]:,} people to come within 0.015 of a tuned centralised FM, "
            "in a made-up city with ten records a person",
        )

    def _about_models(self) -> str:
        if self.trained is None:
            return "AUC is that of popularity alone, not of a model; models can be trained too"
        if not self.made_up:
            return "no ε covers choosing settings by looking at real people's records; each model was trained once"
        if self.trained.people == self.people:
            return "each model was trained once"
        return (
            f"models were trained on {self.trained.people:,} people, with as little noise as {self.people:,} people's "
            "sums would have; more people's records would make both a little better"
        )

    def panels(self) -> Iterator[str | Table]:
        yield self.verdict
        yield (
            f"{counted(self.people, 'person')}, {counted(self.places, 'place')}, "
            f"{counted(self.pairs, 'pair')} of a person and a visited place; a "
            f"place has {self.median_visitors:,.0f} visitors (median), {self.mean_visitors:,.1f} (mean)."
        )
        if self.plan is not None and self.plan.noise is not None:
            yield f"The plan costs each person, for everything: {promise(self.plan.terms, self.delta)}."
            yield self.plan.noise.in_words
        if self.trained is not None:
            yield Table((f"model, trained {self._where}", ">AUC", ">cost"), [
                ("without a budget (rounds)", number(self.trained.auc_without_a_budget), ""),
                (PLANNED, number(self.trained.auc), number(self.trained.cost)),
            ], "the AUC cost of the plan")  # fmt: skip
        columns = ("mechanism", ">error", ">above noise", ">AUC", ">cost")
        if self.as_planned is not None and self.part_for_popularity is not None:
            title = f"{PLANNED}: {100 * self.part_for_popularity:.3g} % of the budget for popularity"
            yield Table((*columns, ">replace-one ε"), [_cells(self.as_planned)], title)
        for epsilon in dict.fromkeys(row.epsilon_per_user for row in self.rows if row.user_level):
            rows = [_cells(row) for row in self.rows if row.user_level and row.epsilon_per_user == epsilon]
            title = f"ε = {epsilon:g}, δ = {self.delta:g} per user, all of it for popularity"
            yield Table((*columns, ">replace-one ε"), rows, title)
        rest = [(*_cells(row)[:-1], _promise_of(row)) for row in self.rows if not row.user_level]
        yield Table((*columns, "promise"), rest, "for comparison: weaker promises, or none")

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("plan", "trained")}
        noise = None if self.plan is None else self.plan.noise
        return {
            **{name: _plain(value) for name, value in own.items()},
            "verdict": self.verdict,
            "terms": [] if self.plan is None else [asdict(term) for term in self.plan.terms],
            "noise": None if noise is None else asdict(noise),
            "trained": None if self.trained is None else self.trained.to_dict(),
            "notes": self.notes,
        }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return asdict(value) if isinstance(value, Row) else value


def _cells(row: Row) -> tuple[str, ...]:
    other = "-" if row.epsilon_replace_one is None else f"{row.epsilon_replace_one:.3f}"
    return (
        row.mechanism, f"{row.error:,.1f}", f"{row.places_above_noise:,}", number(row.auc), number(row.cost), other
    )  # fmt: skip


def _promise_of(row: Row) -> str:
    if row.epsilon_per_user is None or row.epsilon_replace_one is None:
        return row.promise
    return f"ε = {row.epsilon_per_user:g} (replace-one {row.epsilon_replace_one:.3f}), {row.promise}"


def forecast(
    prepared: Prepared,
    *,
    epsilons_per_user: Sequence[float],
    delta: float = 1e-6,
    seed: int = 0,
    settings: Settings | None = None,
    progress: Callable[[int, int, str], None] = lambda done, of, name: None,
) -> Forecast:
    """Every mechanism at every price, and what the settings plan, if anything; each the mean of three simulations.

    `progress` is called before each with how many are done, of how many, and the name of the next."""
    collection = gather(prepared, settings)
    counts, ceiling = collection.visitors(), popularity_auc(plain(collection), prepared)
    chosen, rows, planned = runs(epsilons_per_user), [], plans_popularity(collection.settings)
    for done, (variant, epsilon) in enumerate(chosen):
        progress(done, len(chosen) + planned, variant.name)
        price = Price(epsilon, delta)
        rows.append(_row(variant, prepared, collection=collection, price=price, seed=seed, ceiling=ceiling))
    own = None
    if planned:
        progress(len(chosen), len(chosen) + 1, PLANNED)
        own = _as_planned(prepared, collection=collection, seed=seed, ceiling=ceiling)
    parts = budget_parts(collection.settings)
    return Forecast(
        made_up=prepared.dataset.made_up,
        people=collection.people,
        places=collection.places,
        pairs=len(collection.own.pairs),
        median_visitors=float(np.median(counts)),
        mean_visitors=float(counts.mean()),
        delta=delta,
        lost=collection.settings.sums.lost,
        corrupt=collection.settings.sums.corrupt,
        operators=collection.settings.sums.operators,
        plain_auc=ceiling,
        as_planned=own,
        part_for_popularity=None if own is None else parts["popularity"] / sum(parts.values()),
        rows=tuple(rows),
    )


def runs(epsilons_per_user: Sequence[float]) -> list[tuple[Variant, float]]:
    """What is simulated, in order: price after price, and at the end what no price changes."""
    if not epsilons_per_user or len(set(epsilons_per_user)) < len(epsilons_per_user):
        raise UsageError("give at least one epsilon, and none twice")
    priced = [(one, epsilon) for epsilon in epsilons_per_user for one in VARIANTS if one.name not in FIXED]
    return priced + [(one, epsilons_per_user[0]) for one in VARIANTS if one.name in FIXED]


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
            iterations=settings.iterations,
            participation=settings.participation,
            sums=settings.sums,
        )
    )


def train_both(
    dataset: Dataset,
    settings: Settings,
    *,
    threads: int,
    progress: Callable[[str, IterationReport | None], None] = lambda name, passed: None,
) -> TrainedCost:
    """A model as planned and one without a budget, on the same records: the difference is what the plan costs."""

    def trained(name: str, chosen: Settings) -> Outcome:
        progress(name, None)
        return run(set_up(dataset, chosen), threads=threads, progress=lambda passed: progress(name, passed))

    ours, other = trained(PLANNED, settings), trained("without a budget", without_a_budget(settings))
    return TrainedCost(ours.quality.auc, other.quality.auc, len(ours.setup.samples.ids))


def as_many(settings: Settings, *, few: int, many: int, places: int, size: ModelSize) -> Settings:
    """Settings at which a training of few people has the noise of one of many, and their parts of the budget.

    Noise in a mean is divided by the number of people. Less of it is what a larger budget has: so many times less for
    the square of that many times the cost. The ε of that budget is no promise to anybody."""
    chosen, times = with_parts(settings, people=many, places=places, size=size), min(many / few, _MOST_LESS_NOISE)
    if chosen.privacy.epsilon_per_user is None or times <= 1:
        return chosen
    spent, delta = affordable(chosen.privacy.epsilon_per_user, chosen.privacy.delta), chosen.privacy.delta
    epsilon = Spent(round(spent.grains * times**2)).epsilon(delta)
    return msgspec.structs.replace(chosen, privacy=msgspec.structs.replace(chosen.privacy, epsilon_per_user=epsilon))


def made_up_for_many(
    settings: Settings, *, people: int, places: int, visits_per_person: float
) -> tuple[Dataset, Settings]:
    """A made-up city with so many of these people as are soon trained, and settings with the noise of all of them."""
    few = min(people, MOST_TRAINED)
    city = made_up_city(people=few, places=places, visits_per_person=visits_per_person, seed=settings.seed)
    # all places: a filter would leave out more of them for few people than for many
    data = msgspec.structs.replace(settings.data, keep="all", train_share=_TRAIN)
    whole = msgspec.structs.replace(settings, data=data)
    return city, as_many(whole, few=few, many=people, places=places, size=columns_of(city, whole).size)


def _as_planned(prepared: Prepared, *, collection: Collection, seed: int, ceiling: float) -> Row:
    settings = collection.settings
    plan = plan_for(settings, people=collection.people, pois=collection.places)
    variant = Variant(PLANNED, "(ε, δ) per user, for everything", _under(prepared, settings))
    price = Price(plan.epsilon_per_user, plan.delta)
    row = _row(variant, prepared, collection=collection, price=price, seed=seed, ceiling=ceiling)
    one, other = (plan.loss(adjacency).epsilon for adjacency in Adjacency)
    return replace(row, epsilon_per_user=one, epsilon_replace_one=other)


def _row(
    variant: Variant, prepared: Prepared, *, collection: Collection, price: Price, seed: int, ceiling: float
) -> Row:
    counts, errors, aucs = collection.visitors(), [], []
    for repeat in range(REPEATS):
        # the same numbers for all, so that what differs is the mechanism
        estimate = variant.simulate(collection, price, generator(seed, f"forecast {repeat}"))
        errors.append(estimate.error(counts))
        aucs.append(popularity_auc(estimate.popularity, prepared))
    error, mean_auc, fixed = float(np.mean(errors)), float(np.mean(aucs)), variant.name in FIXED
    return Row(
        mechanism=variant.name,
        promise=variant.promise,
        user_level=variant.user_level,
        epsilon_per_user=None if fixed else price.epsilon_per_user,
        epsilon_replace_one=None if fixed else variant.epsilon_replace_one(price),
        error=error,
        places_above_noise=int(np.count_nonzero(counts > CLEAR * error)),
        auc=mean_auc,
        cost=ceiling - mean_auc,
    )


def made_up(*, people: int, places: int, visits_per_person: float, seed: int = 0) -> Prepared:
    """A made-up city, split: so many counted visits a person, and a quarter as many again to test on, each against a
    place that the person never visits."""
    city = made_up_city(people=people, places=places, visits_per_person=visits_per_person, seed=seed)
    return prepare(city, Recipe(train_share=_TRAIN), generator(seed, "data"))


def made_up_city(*, people: int, places: int, visits_per_person: float, seed: int = 0) -> Dataset:
    """A city of visits alone. Few places have most of the visitors, and people go where it is near."""
    visits = people * visits_per_person
    if not 0 < visits <= MOST_VISITS:
        raise UsageError(
            f"a made-up city has above 0 and at most {MOST_VISITS:,} visits: give fewer people or fewer visits a person"
        )
    shape = CityPlan(people=people, places=places, records=people, districts=min(_DISTRICTS, places))
    records = max(people, round(visits / _TRAIN / shape.click_share))
    city = make_city(replace(shape, records=records), generator(seed, "city"))
    return replace(city, labelled=False, visits=city.visits.take(city.visits.label > 0))
