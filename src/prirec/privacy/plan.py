"""Privacy plans: from one (ε, δ) per person to the noise of every release of a deployment.

The budget is split as shares of Σ 1/σ², which is what adds up: with share s, each of n releases has σ = σ_total
√(n / s). A plan is computed from public numbers alone, so it is public and can be printed before anything is collected.

`plan` sizes the noise of given sums; `plan_for` does it for the sums that settings lead to.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import msgspec

from prirec.config import Settings, budget_parts
from prirec.errors import PolicyError, UsageError
from prirec.features.columns import ModelSize
from prirec.privacy.accountant import GRAINS, Adjacency, PrivacyLoss, Spent, affordable, total
from prirec.privacy.noise import NoiseShare, Participants
from prirec.privacy.norm import Norm, fine_enough
from prirec.privacy.quality_figures import USUAL

_FEWEST_GRAINS = 2**10  # per release: rounding down to grains then costs less than a thousandth
_VISITED = 100  # places that a typical person visited


class Kind(StrEnum):
    """What is summed. The values are the kinds in the names of rounds."""

    POPULARITY = "popularity"
    MOMENTS = "moments"
    INTERACTION = "interaction"
    QUALITY = "quality"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """One kind of release: how often, over whom, the norm of a contribution, and its share of the budget."""

    kind: Kind
    share: float
    releases: int
    crowd: Participants
    sensitivity: float  # the L2 norm of one person's contribution
    length: int  # entries of the vector
    entries: int | None = None  # that are not 0 in a typical vector, for the number of fraction bits; None: all

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise UsageError(f"the share of {self.kind} in the budget is from 0 to 1")
        if self.releases < 1 or self.length < 1 or (self.entries is not None and self.entries < 1):
            raise UsageError(f"{self.kind} has at least one release, of a vector of at least one entry")

    @property
    def norm(self) -> Norm:
        """Of a contribution in whole numbers. It does not depend on the noise, for which SciPy has to be loaded."""
        return fine_enough(self.sensitivity, self.length if self.entries is None else self.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One kind of sum with its noise."""

    of: Sum
    norm: Norm
    each: Spent  # what one of its releases costs a person

    @property
    def noise_multiplier(self) -> float:
        """σ / Δ, as the accountant counts it: the noise of the honest among the fewest survivors."""
        return self.each.noise_multiplier

    @property
    def spent(self) -> Spent:
        """The cost of all its releases."""
        return Spent(self.each.grains * self.of.releases)

    @property
    def wanted(self) -> Fraction:
        """Variance of the Gaussian noise that hides a contribution, in squared units of 2^-f."""
        return self.norm.units**2 * Fraction(GRAINS, self.each.grains)

    @property
    def wanted_whole(self) -> int:
        """`wanted`, rounded up to the whole number that a round's terms carry."""
        return math.ceil(self.wanted)

    def noise(self, crowd: Participants | None = None) -> NoiseShare:
        """A device's share of the noise for such a roster, which may differ in size from the planned one; or that of
        each of two operators."""
        crowd = crowd or self.of.crowd
        noise = crowd.noise(Fraction(self.wanted_whole))
        noise.check_ring(summands=crowd.size, largest=self.norm.units, count=self.of.length)
        return noise

    def cost_if_honest(self, honest: int) -> Spent:
        """What one release costs a person if only so many survivors, the person's own device among them, are honest."""
        return cost(self.norm, self.noise().hides(honest))

    def sd_of_sum(self, survivors: int | None = None) -> float:
        """Standard deviation of each entry of the opened sum, a POI's count say; without drop-outs by default."""
        variance = self.noise().total_variance(self.of.crowd.size if survivors is None else survivors)
        return math.sqrt(variance) / 2.0**self.norm.fraction_bits

    def sd_of_mean(self, survivors: int | None = None) -> float:
        """Standard deviation of each entry of the mean over survivors, of the gradient of B say."""
        return self.sd_of_sum(survivors) / (self.of.crowd.size if survivors is None else survivors)


def cost(norm: Norm, noise: Fraction) -> Spent:
    """What a release costs a person whose vector is no longer than the norm, under Gaussian noise of this variance."""
    # without noise nothing is hidden: more than any ε that is ever named
    return Spent(math.ceil(norm.units**2 * GRAINS / noise) if noise else GRAINS << 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a plan's table."""

    what: Kind
    share: float
    releases: int
    devices: int
    survivors: int
    colluders: int
    noise_multiplier: float
    sd_of_sum: float  # of an entry, without drop-outs
    sd_of_mean: float
    sd_of_mean_at_worst: float  # with the fewest survivors
    longest_contribution: float  # the norm that a contribution is scaled or clipped to
    entries: int
    epsilon_alone: float  # of all releases of this kind, by themselves
    epsilon_at_worst: float  # of one release, if all other names of its roster are made up


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every release of a deployment under one budget for each person."""

    epsilon_per_user: float
    delta: float
    releases: tuple[Release, ...]

    @property
    def spent(self) -> Spent:
        """The cost of all releases together."""
        return total(release.spent for release in self.releases)

    def loss(self, adjacency: Adjacency = Adjacency.ZERO_OUT) -> PrivacyLoss:
        """What a person who takes part in everything has spent in the end."""
        return self.spent.loss(self.delta, adjacency)

    def epsilon_at_worst(self) -> float:
        """ε of all releases together if the operator made up every other name of every roster."""
        return total(
            Spent(release.cost_if_honest(1).grains * release.of.releases) for release in self.releases
        ).epsilon(self.delta)

    def release(self, kind: Kind) -> Release:
        for release in self.releases:
            if release.of.kind is kind:
                return release
        raise UsageError(f"the plan has no budget for {kind}; give it a share")

    def rows(self) -> tuple[Row, ...]:
        return tuple(self._row(release) for release in self.releases)

    def _row(self, release: Release) -> Row:
        of, crowd = release.of, release.of.crowd
        return Row(
            what=of.kind, share=of.share, releases=of.releases,
            devices=crowd.size, survivors=crowd.survivors, colluders=crowd.colluders,
            noise_multiplier=release.noise_multiplier, sd_of_sum=release.sd_of_sum(),
            sd_of_mean=release.sd_of_mean(), sd_of_mean_at_worst=release.sd_of_mean(crowd.survivors),
            longest_contribution=of.sensitivity, entries=of.length,
            epsilon_alone=release.spent.loss(self.delta).epsilon,
            epsilon_at_worst=release.cost_if_honest(1).epsilon(self.delta),
        )  # fmt: skip


def plan(sums: Sequence[Sum], *, epsilon_per_user: float = 1.0, delta: float = 1e-6) -> Plan:
    """The noise of each kind of sum, so that all releases together are (ε, δ)-private for each person.

    Kinds with a share of 0 release nothing and are left out."""
    budget = affordable(epsilon_per_user, delta)
    shares = sum((Fraction(one.share) for one in sums), Fraction(0))
    if len({one.kind for one in sums}) < len(sums):
        raise UsageError("a plan names each kind of sum once")
    if abs(shares - 1) > 1e-9:  # a user's decimals; the exact sum of the fractions divides the budget below
        raise UsageError("the shares of the budget add up to 1")
    releases = tuple(_release(one, budget.grains / shares) for one in sums if one.share)
    found = Plan(epsilon_per_user=epsilon_per_user, delta=delta, releases=releases)
    for release in releases:
        release.noise()  # raises for noise that does not fit the ring or the sampler
    return found


def _release(of: Sum, grains: Fraction) -> Release:
    each = int(Fraction(of.share) * grains / of.releases)  # rounded down: all releases together stay within the budget
    if each < _FEWEST_GRAINS:
        raise UsageError(f"{of.kind} has so little of the budget for each of its releases that nothing would be learnt")
    return Release(of=of, norm=of.norm, each=Spent(each))


# --- The plan of settings ---------------------------------------------------------------------------------------------
# Where settings leave the parts of the budget to the plan, they are chosen here, once for a run, from public numbers:
# how many people and places there are, and how many numbers the shared model has (decisions/0025).


MOMENTS_PART = 0.03  # means and squares need little: each is one number for everyone
EQUAL_AT = 1000  # numbers in B at which popularity and B would have equal parts
CLEAR_AT = 3.0  # places per person at which counts of places begin to drown
MOST_FOR_POPULARITY = 0.92


def chosen_parts(*, people: int, places: int, entries: int) -> dict[str, float]:
    """The parts of the budget. Popularity gets the less, the more there is to learn besides, and the fewer visitors a
    place has: counts that would drown anyway are not worth paying for."""
    clear = CLEAR_AT * people / max(places, 1)
    part = (1 - MOMENTS_PART) / (1 + entries / EQUAL_AT) * clear**2 / (1 + clear**2)
    popularity = round(min(part, MOST_FOR_POPULARITY), 4)
    return {"popularity": popularity, "moments": MOMENTS_PART, "interaction": round(1 - MOMENTS_PART - popularity, 4)}


def with_parts(settings: Settings, *, people: int, places: int, size: ModelSize) -> Settings:
    """The settings with the parts of the budget filled in, where there is one that leaves them to the plan."""
    privacy = settings.privacy
    if privacy.epsilon_per_user is None or privacy.interaction is not None:
        return settings
    parts = chosen_parts(people=people, places=places, entries=size.entries)
    return msgspec.structs.replace(settings, privacy=msgspec.structs.replace(privacy, **parts))


def plan_for(settings: Settings, *, people: int, pois: int, size: ModelSize | None = None) -> Plan:
    """The plan that settings lead to, from the public numbers of people, places and columns. Whoever asks for the sum
    of visits alone needs no size, if the settings name the parts of the budget."""
    epsilon = settings.privacy.epsilon_per_user
    if epsilon is None:
        raise PolicyError("these settings promise nothing: give privacy.epsilon_per_user, or use the preset 'private'")
    if size is None and settings.privacy.interaction is None:
        raise UsageError("the parts of the budget follow from the size of the model; it is not known here")
    size = size or ModelSize(1, 1, 1.0)
    sums = sums_of(with_parts(settings, people=people, places=pois, size=size), people=people, pois=pois, size=size)
    return plan(sums, epsilon_per_user=epsilon, delta=settings.privacy.delta)


def sums_of(settings: Settings, *, people: int, pois: int, size: ModelSize) -> tuple[Sum, ...]:
    """Popularity and moments once, B in each round, and quality figures once, if they have a part of the budget."""
    parts = budget_parts(settings)
    share = {name: part / sum(parts.values()) for name, part in parts.items()}
    everyone, counts = participants(settings, people), popularity_entries(pois, settings)
    sums = (
        Sum(kind=Kind.POPULARITY, share=share["popularity"], releases=1, crowd=everyone,
            sensitivity=1.0, length=counts, entries=min(_VISITED, counts)),
        Sum(kind=Kind.MOMENTS, share=share["moments"], releases=1, crowd=everyone,
            sensitivity=size.moments_norm, length=size.moments),
        Sum(kind=Kind.INTERACTION, share=share["interaction"], releases=settings.iterations, crowd=everyone,
            sensitivity=1.0, length=size.entries),
    )  # fmt: skip
    if not share["quality"]:
        return sums
    figures = Sum(
        kind=Kind.QUALITY, share=share["quality"], releases=1, crowd=everyone, sensitivity=1.0, length=USUAL.length
    )
    return (*sums, figures)


def norm_of_visits(places: int, settings: Settings) -> Norm:
    """Of a person's vector of visits; everyone's is the same, however many there are."""
    return fine_enough(1.0, min(_VISITED, popularity_entries(places, settings)))


def popularity_entries(places: int, settings: Settings) -> int:
    """The length of a person's vector of visits: a count per place, and a value per place for each averaged feature."""
    return places * (1 + len(settings.features.averages))


def participants(settings: Settings, size: int) -> Participants:
    """A roster of so many people, with the floor, drop-out and collusion that these settings allow for."""
    sums = settings.sums
    return Participants(size, floor=settings.floor, lost=sums.lost, corrupt=sums.corrupt, operators=sums.operators)
