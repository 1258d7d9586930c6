"""How popular places are, from the training visits, by the mechanism that the settings name.

A simulation: only the totals are drawn, from their exact law, and the noise protects nobody.
"""

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from prirec.data.recipe import Prepared
from prirec.engines.noise import simulated_noise
from prirec.engines.participation import opens, uniforms
from prirec.engines.randomness import generator, run_key
from prirec.errors import PolicyError
from prirec.evaluate.collection import public_features, those_left, visitors, with_a_record
from prirec.features.averages import own_means, plain_average, scale_of
from prirec.features.popularity import OwnCounts, Popularity, nothing_left_out, plain_counts
from prirec.keyed import mix_each, person_keys
from prirec.privacy.average import average, average_of_answers
from prirec.privacy.budget import planned
from prirec.privacy.norm import Norm
from prirec.privacy.one_bit_mean import OneBitMean
from prirec.privacy.plan import Kind
from prirec.privacy.post_processing import POPULARITY, popularity
from prirec.privacy.randomized_response import RandomizedResponse, Reporters, estimate, reports_about, simulate_ones
from prirec.privacy.weighted_popularity import NoisySums, capped, opened, split, stacked, weighted
from prirec.settings import Settings
from prirec.types import OffsetArray, RealArray

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
