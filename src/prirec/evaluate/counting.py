"""How popular places are, from the training visits, by the mechanism that the settings name.

A simulation: only the totals are drawn, from their exact law, and the noise protects nobody.
"""

from math import sqrt

import numpy as np

from prirec.data.recipe import Prepared
from prirec.engines.noise import simulated_noise
from prirec.engines.participation import left_in_collection, opens, uniforms
from prirec.engines.randomness import generator, run_key
from prirec.errors import PolicyError
from prirec.features.averages import own_means, plain_average, scale_of
from prirec.features.encoding import encode_columns
from prirec.features.planning import plan
from prirec.features.popularity import OwnCounts, Popularity, nothing_left_out, plain_counts
from prirec.keyed import mix_each, person_keys
from prirec.privacy import randomized_response as response
from prirec.privacy.average import average
from prirec.privacy.budget import crowd, planned
from prirec.privacy.plan import Kind, Release
from prirec.privacy.post_processing import POPULARITY, popularity
from prirec.privacy.weighted_popularity import NoisySums, capped, split, stacked, weighted, written
from prirec.settings import Settings
from prirec.types import OffsetArray, RealArray


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
    visitors, *values = split(noisy_sums(prepared, settings), 1 + len(settings.features.averages))
    places = prepared.dataset.places
    counts = popularity(visitors, location=places.location, features=_public(prepared, settings))
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
    release = planned(settings, people=people, pois=places).release(Kind.POPULARITY)
    there = left_in_collection(person_keys(prepared.dataset.people.ids), settings)
    survivors = int(there.sum())
    if not opens(survivors, rostered=people, settings=settings):
        raise PolicyError(
            f"popularity is not opened: {survivors} of {people} devices are left, fewer than sums.lost allows; "
            "lower participation.dropout or raise sums.lost"
        )
    mine = written(_contributions(prepared, settings, there), release.norm)
    noise = simulated_noise(
        release.wanted_whole,
        release.of.length,
        rostered=people,
        survivors=survivors,
        settings=settings,
        where=("popularity",),
    ).view(np.int64)
    unit = 2.0**-release.norm.fraction_bits
    own = OwnCounts(mine.places, mine.pairs, mine.counts * unit)
    return NoisySums((mine.total() + noise) * unit, _sd(release, people, survivors, settings), own)


def _sd(release: Release, people: int, survivors: int, settings: Settings) -> float:
    """Of the noise in each sum: public, since the terms and the number of survivors are."""
    variance = release.noise(crowd(settings, people)).total_variance(survivors)
    return sqrt(variance) * 2.0**-release.norm.fraction_bits


def _contributions(prepared: Prepared, settings: Settings, there: np.ndarray) -> OwnCounts:
    mine, cap = _of(_visitors(prepared), there), settings.popularity.cap
    if cap is None:
        averaged = {f"average {name}": _of(_means(prepared, name), there) for name in settings.features.averages}
        return stacked(list(weighted({"visitors": mine, **averaged}).values()))
    return capped(mine, most=cap, draws=_draws(mine, prepared, settings))


def _draws(own: OwnCounts, prepared: Prepared, settings: Settings) -> RealArray:
    """One number for each person and place, whatever rows people stand in."""
    people = person_keys(prepared.dataset.people.ids)[own.pairs // own.places]
    pairs = people ^ mix_each(run_key(settings.seed, "cap of places"), (own.pairs % own.places).astype(np.uint64))
    return uniforms(run_key(settings.seed, "cap of popularity"), pairs)


def _randomized_response(prepared: Prepared, settings: Settings) -> Popularity:
    """Eqs. (5) and (6): the estimated number of visitors."""
    mechanism = response.RandomizedResponse(settings.popularity.epsilon_per_bit)
    visitors = _visitors(prepared)
    with_a_record = OwnCounts.of(prepared.train, places=visitors.places).once().total().astype(np.int64)
    reporters = response.Reporters(settings.popularity.reporters)
    people, rng = len(prepared.dataset.people), generator(settings.seed, "popularity")
    reports = response.reports_about(reporters, people=people, with_a_record=with_a_record, in_simulation=True)
    true: OffsetArray = visitors.total().astype(np.int64)
    ones = response.simulate_ones(true, reports=reports, mechanism=mechanism, rng=rng)
    return Popularity({"visitors": response.estimate(ones, reports=reports, mechanism=mechanism)})


def _of(own: OwnCounts, there: np.ndarray) -> OwnCounts:
    """What those who are there have."""
    present = there[own.pairs // own.places]
    return OwnCounts(own.places, own.pairs[present], own.counts[present])


def _means(prepared: Prepared, name: str) -> OwnCounts:
    dataset = prepared.dataset
    return own_means(prepared.train, name, scale_of(dataset, name), places=len(dataset.places))


def _visitors(prepared: Prepared) -> OwnCounts:
    positive = prepared.train.take(prepared.train.label > 0)
    return OwnCounts.of(positive, places=len(prepared.dataset.places)).once()


def _public(prepared: Prepared, settings: Settings) -> RealArray:
    places = prepared.dataset.places
    blocks = plan(prepared.dataset, Popularity(), settings.features).place
    return encode_columns(blocks, places.columns, len(places)).astype(np.float64)
