"""The plan that settings come to for a city: how much noise each sum has, so that all of them keep to one budget.

Where settings leave the size of cohorts to the plan (neighbours.size = 0), it is chosen here, once for a run. In a mean
over n people the noise is σ √(D + 1) / n times as long as the longest model, so larger cohorts have less of it, and
smaller ones know more of their own place. The plan takes the smallest in which it is at most a third (decisions/0014).
"""

import math
from bisect import bisect_left

import msgspec

from prirec.errors import PolicyError
from prirec.privacy.noise_share import Crowd
from prirec.privacy.plan import Kind, Plan, Release, Shape, Split, plan, usual_sums
from prirec.settings import Settings
from prirec.settings_check import budget_parts

LONGEST_NOISE = 1 / 3  # in a cohort's mean, as a part of the longest model
_LARGEST = 2**31  # settings name no larger cohort


def planned(settings: Settings, *, people: int, pois: int, features: int = 1) -> Plan:
    """From what is public: how many people, places and features there are. Features move no noise but their own."""
    epsilon = settings.privacy.epsilon_per_user
    if epsilon is None:
        raise PolicyError("these settings promise nothing: give privacy.epsilon_per_user, or use the preset 'private'")
    parts = budget_parts(settings)
    whole = sum(parts.values())
    shape = Shape(
        pois=popularity_entries(pois, settings),
        linear=features + 1,
        interaction=features * settings.model.dimension,
        linear_clip=settings.linear.clip,
        interaction_clip=settings.interaction.clip,
    )
    sums = usual_sums(
        shape,
        everyone=crowd(settings, people),
        cohort=crowd(settings, min(people, sized(settings, people=people, features=features).neighbours.size)),
        rounds=settings.iterations,
        split=Split(**{name: part / whole for name, part in parts.items()}),
    )
    return plan(sums, epsilon_per_user=epsilon, delta=settings.privacy.delta)


def sized(settings: Settings, *, people: int, features: int) -> Settings:
    """The settings themselves; with neighbours.size = 0, with the size that their plan asks for in its place, or with
    that of everyone where there are fewer people. It follows from what is public."""
    if settings.neighbours.size:
        return settings
    return _with_size(settings, min(people, size_asked(settings, features=features)))


def size_asked(settings: Settings, *, features: int) -> int:
    """From twice the floor on, the smallest cohort in whose mean the noise is at most LONGEST_NOISE, whatever size the
    settings name and however many people there are."""
    fewest = 2 * settings.floor
    release = planned(_with_size(settings, fewest), people=fewest, pois=1, features=features).release(Kind.MIXING)

    def quiet(size: int) -> float:
        return -noise_in_mean(release, crowd(settings, size))  # grows with the size, but for steps of rounding

    return fewest + bisect_left(range(fewest, max(_LARGEST, fewest)), -LONGEST_NOISE, key=quiet)


def noise_in_mean(release: Release, cohort: Crowd) -> float:
    """How long the noise in a cohort's mean is when nobody is lost, as a part of the longest model.

    There is more of it then than the accountant counts: shares are for the fewest survivors less the colluders."""
    variance = release.noise(cohort).total_variance(cohort.size) * release.of.length
    return math.sqrt(variance) / float(release.norm.units) / cohort.size


def popularity_entries(places: int, settings: Settings) -> int:
    """How long a person's vector of visits is: a count for each place, and a value for each thing that is averaged."""
    return places * (1 + len(settings.features.averages))


def crowd(settings: Settings, size: int) -> Crowd:
    """A roster of so many, and what these settings let happen to it."""
    return Crowd(size, floor=settings.floor, lost=settings.sums.lost, corrupt=settings.sums.corrupt)


def _with_size(settings: Settings, size: int) -> Settings:
    return msgspec.structs.replace(settings, neighbours=msgspec.structs.replace(settings.neighbours, size=size))
