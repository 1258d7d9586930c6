"""What a simulated collection of popularity starts from, what it costs a person, and what comes of it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import msgspec
import numpy as np

from prirec.config import Neighbours, Privacy, Settings
from prirec.data.dataset import Dataset
from prirec.data.prepare import Prepared
from prirec.errors import PolicyError
from prirec.features.encoding import encode_columns, plan
from prirec.features.popularity import (
    OwnCounts,
    Popularity,
    nothing_left_out,
    own_means,
    plain_average,
    plain_counts,
    scale_of,
)
from prirec.metrics import auc
from prirec.privacy.accountant import affordable, noise_multiplier
from prirec.privacy.exact_random import Stream
from prirec.privacy.norm import Norm
from prirec.privacy.one_bit_mean import OneBitMean
from prirec.privacy.plan import Kind, Release, planned
from prirec.privacy.popularity_estimate import NEARBY, POPULARITY, average, average_of_answers, nearby_means, popularity
from prirec.privacy.popularity_estimate import popularity as posterior_of
from prirec.privacy.randomized_response import RandomizedResponse, Reporters, estimate, reports_about, simulate_ones
from prirec.privacy.units import Adjacency
from prirec.privacy.weighted_popularity import NoisySums, capped, opened, simulated, split, stacked, weighted
from prirec.rounds.participation import left_in_collection, opens, simulated_noise, uniforms
from prirec.types import OffsetArray, RealArray
from prirec.util.geography import located
from prirec.util.keyed_random import generator, mix_each, person_keys, run_key


@dataclass(frozen=True, slots=True)
class Price:
    """What one person spends on popularity: here the whole budget, for nothing else is computed."""

    epsilon_per_user: float = 1.0
    delta: float = 1e-6


@dataclass(frozen=True, slots=True)
class Collection:
    """Who was where in the training records, once a place. Only a simulation sees it whole."""

    own: OwnCounts = field(repr=False)  # 1 for each place of each person
    people: int  # everyone takes part, also whoever was nowhere
    with_a_record: OffsetArray = field(repr=False)  # (J,) people with a visit to the place, or a negative of it
    location: RealArray | None = field(repr=False)  # (J, 2), public
    features: RealArray | None = field(repr=False)  # (J, p), public
    settings: Settings = field(repr=False)  # how many may be lost or collude, and the floor

    @property
    def places(self) -> int:
        return self.own.places

    def visitors(self) -> OffsetArray:
        """(J,): what plain counts would show."""
        return self.own.total().astype(np.int64)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is released, and what it would be without noise; both in the mechanism's own measure."""

    popularity: Popularity = field(repr=False)  # its first column is the popularity
    expected: RealArray = field(repr=False)  # (J,)

    def error(self, visitors: OffsetArray) -> float:
        """How far places lie from the noiseless figure (root mean square), in visitors: a whole city has as many."""
        noise = released(self.popularity) - self.expected
        scale = float(visitors.sum() / self.expected.sum()) if self.expected.sum() > 0 else 1.0
        return float(np.sqrt(np.mean(noise**2))) * scale


def gather(prepared: Prepared, settings: Settings | None = None) -> Collection:
    """The collection that a prepared city allows."""
    settings = settings or Settings()
    return Collection(
        own=visitors(prepared),
        people=len(prepared.dataset.people),
        with_a_record=with_a_record(prepared),
        location=prepared.dataset.places.location,
        features=public_features(prepared, settings),
        settings=settings,
    )


def visitors(prepared: Prepared) -> OwnCounts:
    """Who was where in the training records, once a place."""
    positive = prepared.train.take(prepared.train.label > 0)
    return OwnCounts.of(positive, places=len(prepared.dataset.places)).once()


def with_a_record(prepared: Prepared) -> OffsetArray:
    """(J,): how many people have a visit to the place, or a negative of it, in the training records."""
    return OwnCounts.of(prepared.train, places=len(prepared.dataset.places)).once().total().astype(np.int64)


def public_features(prepared: Prepared, settings: Settings) -> RealArray | None:
    """(J, p): what the catalogue says of places, encoded; None where it says nothing."""
    places = prepared.dataset.places
    blocks = plan(prepared.dataset, Popularity(), settings.features).place
    features = encode_columns(blocks, places.columns, len(places)).astype(np.float64)
    return features if features.shape[1] else None


def those_left(prepared: Prepared, settings: Settings) -> tuple[Prepared, int]:
    """The training records of the people whose devices are not lost in the collection, and how many people they are,
    with or without records."""
    there = left_in_collection(person_keys(prepared.dataset.people.ids), settings)
    if there.all():
        return prepared, len(there)
    return replace(prepared, train=prepared.train.take(there[prepared.train.person])), int(there.sum())


def columns(dataset: Dataset, settings: Settings) -> tuple[str, ...]:
    """The names of what these settings release about places, from public tables and declarations, no visit looked at.

    What is counted plainly has a column of visits only where somebody came twice; here it always has."""
    if not settings.features.dynamic:
        return ()
    for name in settings.features.averages:
        scale_of(dataset, name)  # refuses what could not be averaged
    averages = tuple(f"average {name}" for name in settings.features.averages)
    if settings.popularity.mechanism == "secure-sum":
        return (POPULARITY, *((NEARBY,) if _has_surroundings(dataset.places.location) else ()), *averages)
    if settings.popularity.mechanism == "randomized-response":
        return ("visitors", *averages)
    recent = ("recent visits",) if dataset.visits.time is not None else ()
    return ("visitors", "visits", *recent, *averages)


def _has_surroundings(location: RealArray | None) -> bool:
    """Whether there are enough places with coordinates; a thousand of them show it."""
    if location is None:
        return False
    some = location[located(location)][:1000]
    return bool(nearby_means(some, np.zeros(len(some))).shape[1])


def released(popularity: Popularity) -> RealArray:
    """(J,): the first column, which is how popular places are; others describe their surroundings."""
    return next(iter(popularity.released.values()))


# Popularity by a secure sum with noise, simulated: contributions of norm 1, and the noise of all shares together.
#
# Vectors are rounded as devices round them, and the noise has the exact law of the sum of everyone's shares, sized for
# the fewest survivors less the colluders while everyone survives.


CAP = 20
_SEEDS = 2**63


def scaled(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """Everyone's whole vector at norm 1; the noisy sums as they are."""
    return _as_it_is(_noisy(_scaled(collection), collection, price, rng))


def posterior(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """The same, and then the posterior from places nearby and public features, which costs nothing."""
    release = _noisy(_scaled(collection), collection, price, rng)
    shrunk = posterior_of(release, location=collection.location, features=collection.features)
    return Estimate(shrunk, release.own.total())


def twenty_places(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """At most 20 places of each person, drawn at random, each with 1/√20."""
    some = capped(collection.own, most=CAP, draws=rng.random(len(collection.own.pairs)))
    return _as_it_is(_noisy(some, collection, price, rng))


def ideal(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """The whole vector, and only as much noise as would do if nobody was ever lost and nobody colluded."""
    sigma = noise_multiplier(price.epsilon_per_user, price.delta)
    return _as_it_is(simulated(_scaled(collection), sigma=sigma, rng=rng))


def as_planned(prepared: Prepared, settings: Settings) -> Callable[[Collection, Price, np.random.Generator], Estimate]:
    """What a training under these settings sees: popularity has its part of the budget, and some devices may drop out.

    All of it is in the settings, so no other price enters."""

    def simulated(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
        del collection, price
        drawn = msgspec.structs.replace(settings, seed=int(rng.integers(_SEEDS)))
        visitors = split(noisy_sums(prepared, drawn), 1 + len(settings.features.averages))[0]
        return Estimate(count(prepared, drawn), visitors.own.total())

    return simulated


def planned_release(collection: Collection, price: Price) -> Release:
    """One release of popularity that has the whole budget to itself."""
    alone = Settings(
        floor=collection.settings.floor,
        sums=collection.settings.sums,
        neighbours=Neighbours(size=collection.people),  # nothing is mixed, so no cohort can be too small
        privacy=Privacy(
            epsilon_per_user=price.epsilon_per_user, delta=price.delta, popularity=1.0, mixing=0.0, interaction=0.0
        ),
    )
    return planned(alone, people=collection.people, pois=collection.places).release(Kind.POPULARITY)


def _scaled(collection: Collection) -> OwnCounts:
    return weighted({"visitors": collection.own})["visitors"]


def _noisy(own: OwnCounts, collection: Collection, price: Price, rng: np.random.Generator) -> NoisySums:
    release = planned_release(collection, price)
    shares, everyone = release.noise(), collection.people
    noise = shares.total(Stream(rng.bytes(32)), survivors=everyone, count=own.places)
    return opened(own, norm=release.norm, noise=noise, noise_variance=shares.total_variance(everyone))


def _as_it_is(release: NoisySums) -> Estimate:
    name = "weighted popularity"
    return Estimate(Popularity({name: release.sums}, {name: release.own}), release.own.total())


# How popular places are, from the training visits, by the mechanism that the settings name.
#
# A simulation: only the totals are drawn, from their exact law, and the noise protects nobody.


_VISITORS = "visitors"


def count(prepared: Prepared, settings: Settings) -> Popularity:
    """Popularity as the recommender and devices know it; nothing where dynamic features are off."""
    if not settings.features.dynamic:
        return Popularity()
    ways = {"plain": _plain, "secure-sum": _secure_sum, "randomized-response": _randomized_response}
    counts = ways[settings.popularity.mechanism](prepared, settings)
    return counts if settings.features.own_left_out else nothing_left_out(counts)


def _plain(prepared: Prepared, settings: Settings) -> Popularity:
    places = len(prepared.dataset.places)
    counts = plain_counts(prepared.train, places=places, recent_days=settings.features.recent_days)
    averages = [
        plain_average(_means(prepared, name), scale_of(prepared.dataset, name), name=f"average {name}")
        for name in settings.features.averages
    ]
    return _together(counts, *averages)


def _secure_sum(prepared: Prepared, settings: Settings) -> Popularity:
    """Visit vectors of norm 1 under one budget, and what public features and surroundings make of their noisy sum."""
    counted, *values = split(noisy_sums(prepared, settings), 1 + len(settings.features.averages))
    places = prepared.dataset.places
    counts = popularity(counted, location=places.location, features=public_features(prepared, settings))
    averages = [
        average(counts.released[POPULARITY], one, scale_of(prepared.dataset, name), name=f"average {name}")
        for name, one in zip(settings.features.averages, values, strict=True)
    ]
    return _together(counts, *averages)


def _together(*parts: Popularity) -> Popularity:
    released = {name: column for part in parts for name, column in part.released.items()}
    return Popularity(released, {name: own for part in parts for name, own in part.own.items()})


def noisy_sums(prepared: Prepared, settings: Settings) -> NoisySums:
    """The one sum over everyone that is opened, in units of a person's norm: visitors, then whatever is averaged."""
    people, places = len(prepared.dataset.people), len(prepared.dataset.places)
    left, survivors = those_left(prepared, settings)
    drawn = noise_in_popularity(settings, people=people, places=places, survivors=survivors)
    return opened(contributions(left, settings), norm=drawn.norm, noise=drawn.noise, noise_variance=drawn.variance)


class Drawn(NamedTuple):
    """The noise of the sum of visits, in whole numbers of what vectors are written in."""

    norm: Norm
    noise: OffsetArray
    variance: Fraction


def noise_in_popularity(settings: Settings, *, people: int, places: int, survivors: int) -> Drawn:
    """PolicyError where too few are left."""
    release = planned(settings, people=people, pois=places).release(Kind.POPULARITY)
    if not opens(survivors, rostered=people, settings=settings):
        raise PolicyError(
            f"popularity is not opened: {survivors} of {people} devices are left, fewer than sums.lost allows; "
            "lower participation.dropout or raise sums.lost"
        )
    noise = simulated_noise(
        release.wanted_whole,
        release.of.length,
        rostered=people,
        survivors=survivors,
        settings=settings,
        where=("popularity",),
    ).view(np.int64)
    return Drawn(release.norm, noise, release.noise().total_variance(survivors))


def contributions(prepared: Prepared, settings: Settings) -> OwnCounts:
    mine, cap = visitors(prepared), settings.popularity.cap
    if cap is None:
        averaged = {f"average {name}": _means(prepared, name) for name in settings.features.averages}
        return stacked(list(weighted({"visitors": mine, **averaged}).values()))
    return capped(mine, most=cap, draws=_draws(mine, prepared, settings))


def _draws(own: OwnCounts, prepared: Prepared, settings: Settings) -> RealArray:
    """One number for each person and place, whatever rows people stand in."""
    people = person_keys(prepared.dataset.people.ids)[own.pairs // own.places]
    pairs = people ^ mix_each(run_key(settings.seed, "cap of places"), (own.pairs % own.places).astype(np.uint64))
    return uniforms(run_key(settings.seed, "cap of popularity"), pairs)


def _randomized_response(prepared: Prepared, settings: Settings) -> Popularity:
    """Whoever is not lost answers for every place, or for those with a record; the answers that come are counted."""
    left, people = those_left(prepared, settings)
    chosen, rng = settings.popularity, generator(settings.seed, "popularity")
    reports = reports_about(
        Reporters(chosen.reporters), people=people, with_a_record=with_a_record(left), in_simulation=True
    )
    counts = answered(visitors(left), reports=reports, epsilon_per_bit=chosen.epsilon_per_bit, rng=rng)
    averages = [
        _average_by_bits(left, name, counts=counts, people=people, settings=settings, rng=rng)
        for name in settings.features.averages
    ]
    return _together(counts, *averages)


def answered(
    own: OwnCounts, *, reports: int | OffsetArray, epsilon_per_bit: float, rng: np.random.Generator
) -> Popularity:  # fmt: skip
    """Eqs. (5) and (6): the estimated visitors of each place from so many answers about it, `own` being the visits.

    What a device leaves out is its truth y, 1 or 0: its answer y' adds (y' - q) / (1 - 2q) to the estimate, whose mean
    is y for every ε. What is left to it has the same mean and variance whether it was there or not. A device knows its
    answer too, and could leave out what that really added."""
    mechanism, true_visitors = RandomizedResponse(epsilon_per_bit), own.total().astype(np.int64)
    ones = simulate_ones(true_visitors, reports=reports, mechanism=mechanism, rng=rng)
    return Popularity({_VISITORS: estimate(ones, reports=reports, mechanism=mechanism)}, {_VISITORS: own})


def _average_by_bits(
    left: Prepared, name: str, *, counts: Popularity, people: int, settings: Settings, rng: np.random.Generator
) -> Popularity:
    """What visits are like on average, from one more bit of each person who reports about a place (one-bit mean).

    If everyone reports, whoever was not at a place sends a bit about the lower bound, a visitor without a value one
    about the middle of the range, and there are as many visitors as Eq. (6) has estimated. If only those with a record
    report, and a record is a visit with a value here, their number is known."""
    chosen, values, scale = settings.popularity, _means(left, name), scale_of(left.dataset, name)
    mechanism = OneBitMean(-1.0, 1.0, chosen.epsilon_per_bit)
    if Reporters(chosen.reporters) is Reporters.EVERYONE:
        own = _at_every_visitor(values, visitors(left))
        reports: int | OffsetArray = people
        there, sd_of_there = counts.released[_VISITORS], mechanism.coin.standard_deviation(people)
    else:
        own, there, sd_of_there = values, values.once().total(), 0.0
        reports = there.astype(np.int64)
    ones = mechanism.simulate_ones(own, reports=reports, rng=rng)
    sd_of_sum = mechanism.largest_deviation(there, reports=reports)
    return average_of_answers(
        there,
        # everyone who was not there is in the estimated sum with -1
        mechanism.estimated_sum(ones, reports=reports) + (reports - there),
        # B - rA = sum + reports - (1 + r) A, and the answers behind the sum and A are independent
        noise=lambda r: sd_of_sum**2 + ((1 + r) * sd_of_there) ** 2,
        own=own,
        scale=scale,
        name=f"average {name}",
    )


def _at_every_visitor(values: OwnCounts, visits: OwnCounts) -> OwnCounts:
    """The values with 0, the middle of the range, for visitors who have none."""
    filled = np.zeros(len(visits.pairs))
    filled[np.searchsorted(visits.pairs, values.pairs)] = values.counts
    return OwnCounts(visits.places, visits.pairs, filled)


def _means(prepared: Prepared, name: str) -> OwnCounts:
    dataset = prepared.dataset
    return own_means(prepared.train, name, scale_of(dataset, name), places=len(dataset.places))


# The mechanisms by which popularity can leave devices, by name, simulated at the same price for each USER.
#
# A simulation sees everyone's visits and protects nobody; what devices run is in privacy/. Another mechanism is
# compared with these by being a `Mechanism` too, as unary.py is: nothing here has to know of it.


PAPER_EPSILON_PER_BIT = 1.0

Simulation: TypeAlias = Callable[[Collection, Price, np.random.Generator], Estimate]


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One way, and what it promises for an (ε, δ)."""

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


def as_printed(reporters: Reporters) -> Simulation:
    """The paper's own: Eq. (6) at ε = 1 for each BIT, which no price for a user enters."""

    def simulated(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
        del price
        reports = reports_about(
            reporters, people=collection.people, with_a_record=collection.with_a_record, in_simulation=True
        )
        found = answered(collection.own, reports=reports, epsilon_per_bit=PAPER_EPSILON_PER_BIT, rng=rng)
        return Estimate(found, collection.visitors().astype(np.float64))

    return simulated


_USER = "(ε, δ) per user"
MECHANISMS: tuple[Mechanism, ...] = (
    Mechanism("secure sum, posterior", _USER, posterior),
    Mechanism("secure sum", _USER, scaled),
    Mechanism("secure sum, 20 places", _USER, twenty_places),
    Mechanism("secure sum, no loss", "if nobody is lost or colludes", ideal, user_level=False),
    Mechanism("Eq. (6)", "ε = 1 per bit", as_printed(Reporters.EVERYONE), user_level=False),
    Mechanism(
        "records only",
        "none: who reports reveals the visit",
        as_printed(Reporters.THOSE_WITH_A_RECORD),
        user_level=False,
    ),
)
FIXED = ("Eq. (6)", "records only")  # at ε = 1 per bit, whatever the price is


def popularity_auc(popularity: Popularity, prepared: Prepared) -> float:
    """AUC of the first popularity column alone on the test records, as devices see it: their own part left out."""
    seen = popularity.seen_by(prepared.test)
    return auc(prepared.test.label, next(iter(seen.values())))


def plain(collection: Collection) -> Popularity:
    """Plain counts of visitors: the ceiling, with no privacy at all."""
    return Popularity({"visitors": collection.own.total()}, {"visitors": collection.own})
