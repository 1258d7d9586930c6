"""Popularity by local mechanisms, simulated: each person's answer is noisy by itself, and totals come from their law.

A device leaves its own part out as it is on average: a simulation of totals has no single answers.
"""

from collections.abc import Callable

import numpy as np

from prirec.evaluate.collection import Collection, Estimate, Price
from prirec.features.popularity import OwnCounts, Popularity
from prirec.privacy.hadamard import HadamardResponse
from prirec.privacy.local_hashing import LocalHashing
from prirec.privacy.one_place import Support, Visits
from prirec.privacy.randomized_response import RandomizedResponse, Reporters, estimate, reports_about, simulate_ones
from prirec.privacy.sampling_pois import SampledPois
from prirec.privacy.unary import OptimisedUnary
from prirec.privacy.whole_catalogue import epsilon_of_a_bit
from prirec.types import OffsetArray

PAPER_EPSILON_PER_BIT = 1.0
SLOTS = 1  # of the places that one is drawn from: more would only add noise
_NAME = "visitors"


def whole_catalogue(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """A bit for every place, priced so that all of a person's bits together keep (ε, δ)."""
    bit = epsilon_of_a_bit(price.epsilon_per_user, delta=price.delta, pois=collection.places)
    found = answered(collection.own, reports=collection.people, epsilon_per_bit=bit.epsilon, rng=rng)
    return _counts(collection, found)


def sampled_places(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """A bit for one place that is drawn from the catalogue."""
    mechanism = SampledPois(price.epsilon_per_user, collection.places)
    found = mechanism.simulate(collection.visitors(), people=collection.people, rng=rng)
    return _counts(collection, Popularity({_NAME: found}, {_NAME: collection.own}))


def unary(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """One of a person's places, in optimised unary encoding."""
    return _one_place(collection, OptimisedUnary(price.epsilon_per_user, collection.places).support, rng)


def hashing(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """One of a person's places, by optimised local hashing."""
    return _one_place(collection, LocalHashing(price.epsilon_per_user, collection.places).support, rng)


def hadamard(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
    """One of a person's places, by Hadamard response."""
    return _one_place(collection, HadamardResponse(price.epsilon_per_user, collection.places).support, rng)


def as_printed(reporters: Reporters) -> Callable[[Collection, Price, np.random.Generator], Estimate]:
    """The paper's own: Eq. (6) at ε = 1 for each BIT, which no price for a user enters."""

    def simulated(collection: Collection, price: Price, rng: np.random.Generator) -> Estimate:
        del price
        reports = reports_about(
            reporters, people=collection.people, with_a_record=collection.with_a_record, in_simulation=True
        )
        found = answered(collection.own, reports=reports, epsilon_per_bit=PAPER_EPSILON_PER_BIT, rng=rng)
        return _counts(collection, found)

    return simulated


def answered(
    own: OwnCounts, *, reports: int | OffsetArray, epsilon_per_bit: float, rng: np.random.Generator
) -> Popularity:  # fmt: skip
    """Eqs. (5) and (6): the estimated visitors of each place from so many answers about it, `own` being the visits.

    What a device leaves out is its truth y, 1 or 0: its answer y' adds (y' - q) / (1 - 2q) to the estimate, whose mean
    is y for every ε. What is left to it has the same mean and variance whether it was there or not. A device knows its
    answer too, and could leave out what that really added."""
    mechanism, visitors = RandomizedResponse(epsilon_per_bit), own.total().astype(np.int64)
    ones = simulate_ones(visitors, reports=reports, mechanism=mechanism, rng=rng)
    return Popularity({_NAME: estimate(ones, reports=reports, mechanism=mechanism)}, {_NAME: own})


def _counts(collection: Collection, found: Popularity) -> Estimate:
    return Estimate(found, collection.visitors().astype(np.float64))


def _one_place(collection: Collection, support: Support, rng: np.random.Generator) -> Estimate:
    own, starts = collection.own, collection.starts()
    visits = Visits(starts, (own.pairs % own.places).astype(np.int32), SLOTS)
    supports = support.simulate(visits.simulated(rng), pois=own.places, rng=rng)
    counts = support.estimate(supports, people=collection.people, slots=SLOTS)
    visited = np.diff(starts)
    shares = np.repeat(SLOTS / np.maximum(visited, SLOTS), visited)
    part = OwnCounts(own.places, own.pairs, shares)
    return Estimate(Popularity({_NAME: counts}, {_NAME: part}), visits.weighted_popularity(own.places))
