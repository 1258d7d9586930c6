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
from prirec.evaluate.collecting_local import answered
from prirec.evaluate.collection import public_features, those_left, visitors, with_a_record
from prirec.features.averages import own_means, plain_average, scale_of
from prirec.features.popularity import OwnCounts, Popularity, nothing_left_out, plain_counts
from prirec.keyed import mix_each, person_keys
from prirec.privacy.average import average
from prirec.privacy.budget import planned
from prirec.privacy.norm import Norm
from prirec.privacy.plan import Kind
from prirec.privacy.post_processing import POPULARITY, popularity
from prirec.privacy.randomized_response import Reporters, reports_about
from prirec.privacy.weighted_popularity import NoisySums, capped, opened, split, stacked, weighted
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
    reports = reports_about(
        Reporters(settings.popularity.reporters),
        people=people,
        with_a_record=with_a_record(left),
        in_simulation=True,
    )
    rng = generator(settings.seed, "popularity")
    return answered(visitors(left), reports=reports, epsilon_per_bit=settings.popularity.epsilon_per_bit, rng=rng)


def _means(prepared: Prepared, name: str) -> OwnCounts:
    dataset = prepared.dataset
    return own_means(prepared.train, name, scale_of(dataset, name), places=len(dataset.places))
