"""Popularity by a secure sum with noise, simulated: contributions of norm 1, and the noise of all shares together.

Vectors are rounded as devices round them, and the noise has the exact law of the sum of everyone's shares, sized for
the fewest survivors less the colluders while everyone survives.
"""

from collections.abc import Callable

import msgspec
import numpy as np

from prirec.data.recipe import Prepared
from prirec.evaluate.collection import Collection, Estimate, Price
from prirec.evaluate.counting import count, noisy_sums
from prirec.features.popularity import OwnCounts, Popularity
from prirec.privacy.accountant import noise_multiplier
from prirec.privacy.budget import planned
from prirec.privacy.plan import Kind, Release
from prirec.privacy.post_processing import popularity as posterior_of
from prirec.privacy.randomness import Stream
from prirec.privacy.weighted_popularity import NoisySums, capped, opened, simulated, split, weighted
from prirec.settings import Neighbours, Privacy, Settings

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
