"""The plan that settings come to for a city: how much noise each sum has, so that all of them keep to one budget."""

from prirec.errors import PolicyError
from prirec.privacy.noise_share import Crowd
from prirec.privacy.plan import Plan, Shape, Split, plan, usual_sums
from prirec.settings import Settings
from prirec.settings_check import budget_parts


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
        cohort=crowd(settings, min(people, settings.neighbours.size)),
        rounds=settings.iterations,
        split=Split(**{name: part / whole for name, part in parts.items()}),
    )
    return plan(sums, epsilon_per_user=epsilon, delta=settings.privacy.delta, local=settings.privacy.local)


def popularity_entries(places: int, settings: Settings) -> int:
    """How long a person's vector of visits is: a count for each place, and a value for each thing that is averaged."""
    return places * (1 + len(settings.features.averages))


def crowd(settings: Settings, size: int) -> Crowd:
    """A roster of so many, and what these settings let happen to it."""
    return Crowd(size, floor=settings.floor, lost=settings.sums.lost, corrupt=settings.sums.corrupt)
