"""One validated settings object. A preset fills it, a TOML file and flags change it, and a run saves it whole."""

from typing import Literal

import msgspec

from prirec.errors import UsageError

DIVERGES = (
    "S_if = 1 adds the neighbours' models up instead of averaging them: with N = 30 they grow thirtyfold a step, from "
    "0.01 past 10^11 in ten steps, and leave the ring (decisions/0001)"
)
PresetName = Literal["paper", "rounds", "private", "fm"]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all sections: immutable, and strict about its keys."""


class Data(Section, frozen=True):
    """Which records are learnt from, and which are kept for the test."""

    keep: Literal["paper", "visitors", "records", "all"] = "paper"  # paper: visitors without labels, records with
    at_least: int | None = None  # visitors a place (10), or records a person and a place (5)
    split: Literal["record", "time", "moment"] = "record"  # moment: what was shown together stays together
    train_share: float = 0.8
    negatives: Literal["uniform", "nearby"] = "uniform"
    ratio: int = 1  # negatives for each positive, where there are no labels
    thin: int | None = None  # with labels: at most so many ignored for each click of a session


class Features(Section, frozen=True):
    """What a sample X^ij is made of."""

    dynamic: bool = True  # POI popularity; without it PriRec becomes the paper's PriRec-
    own_left_out: bool = True  # a device learns from its visit with the popularity that others gave the place
    averages: tuple[str, ...] = ()  # numbers of visits, such as what was spent, that places have an average of
    context: bool = True  # distance from home, hour, day of the week, columns of the visits
    own_visits: bool = False  # distance from the nearest other place that the person has visited
    words: int = 30  # the most common words of a public column that get a feature each
    buckets: int = 8  # hashed features for a private column of words that nobody declared
    recent_days: int = 30


class Popularity(Section, frozen=True):
    """How the dynamic features leave devices."""

    mechanism: Literal["plain", "secure-sum", "randomized-response"] = "plain"  # plain: simulation only
    cap: int | None = None  # secure-sum: at most so many places a person, instead of a vector scaled to norm 1
    epsilon_per_bit: float = 1.0  # randomized-response: for each bit of a person; a place has 1, and 1 for each average
    reporters: Literal["everyone", "those-with-a-record"] = "everyone"  # or who reports gives the visit away


class Privacy(Section, frozen=True):
    """One budget for all that is computed from a person, and its parts, which are parts of the sum of 1/sigma^2."""

    epsilon_per_user: float | None = None  # none: nothing is promised and no noise is added, in simulation only
    delta: float = 1e-6
    period_days: int | None = None  # the budget holds for any so many days in a row; none: for life
    popularity: float = 0.70
    mixing: float = 0.15
    interaction: float = 0.15
    quality: float = 0.0


class Model(Section, frozen=True):
    """The factorization machine of Eq. (1) and the objective of Eq. (2)."""

    dimension: int = 5  # K
    lambda_w: float = 1e-3
    lambda_v: float = 1e-4
    spread: float = 0.05  # V starts from N(0, spread^2), W from 0


class Linear(Section, frozen=True):
    """How the linear models W are learnt."""

    alpha: float = 0.02
    mixing: Literal["adaptive", "fixed"] = "adaptive"
    kappa: float = 50.0  # adaptive: gamma_i = kappa / (kappa + n_i)
    gamma: float = 1.0  # fixed: 1 is Eq. (8) as printed, 0 is local learning only
    clip: float = 3.0  # rounds: the longest model that enters a sum


class Interaction(Section, frozen=True):
    """How the feature interaction model V is learnt."""

    alpha: float = 0.05
    batch: int = 1  # samples: gradients in one secure aggregation
    clip: float = 2.0  # rounds: the longest gradient that enters a sum


class Latent(Section, frozen=True):
    """A latent vector u_i on each device and public factors p_j of places: rounds without a budget, decisions/0016."""

    dimension: int = 0  # K'; 0 is off
    alpha: float = 0.05  # of u
    lambda_u: float = 0.025  # for each record, as is lambda_p
    lambda_p: float = 0.05
    pace: float = 0.2  # Adam's, of the factors
    spread: float = 0.2  # the factors start from N(0, spread^2), u from 0
    weight: float = 0.1  # of the factors' gradient beside that of V, with which it is clipped


class Neighbours(Section, frozen=True):
    """Who learns with whom."""

    kind: Literal["cohorts", "nearest", "alike", "random", "fixed"] = "cohorts"
    count: int = 30  # N, for all but cohorts
    alike: str | None = None  # alike: the column of places that says where, in words such as "Paris, France"
    among: int | None = None  # nearest: drawn at random from so many of the closest
    weights: Literal["uniform", "metropolis", "exponential", "gaussian", "inverse", "ones-diverges"] = "uniform"
    scale_km: float = 2.0  # for weights by distance
    size: int = 200  # the smallest cohort: twice the floor, since devices are lost; 0: as large as a budget's plan asks
    resolution: int = 6  # h3 resolution of the coarse cell that a device names


class Participation(Section, frozen=True):
    """Which devices take part in an iteration."""

    online: float = 1.0
    dropout: float = 0.0  # rounds: share of those online that is lost on the way


class Sums(Section, frozen=True):
    """How sums over devices are protected, see docs/decisions/0011-mask-graph.md."""

    lost: float = 0.2  # rounds: the share of a roster that may be lost before its sum is given up
    corrupt: float = 0.05  # the share of devices that may work for the server


class Ring(Section, frozen=True):
    """Fixed point, see sharing/fixed_point.py."""

    bits: int = 64
    fraction_bits: int = 24  # without a budget; with one, the plan says how finely a sum is written
    bound: float = 1000.0  # samples: the largest entry that may be summed


class Stopping(Section, frozen=True):
    """Early stopping, in simulation only: it looks at a part of everyone's training records."""

    patience: int = 0  # iterations without a lower loss; 0 is off
    share: float = 0.1


class Settings(Section, frozen=True):
    """All that decides a run, apart from the data."""

    preset: PresetName = "rounds"
    schedule: Literal["rounds", "samples", "centralised"] = "rounds"
    iterations: int = 60  # rounds, or the paper's T passes
    order: Literal["shuffled", "windows"] = "shuffled"  # samples: as in the paper, or neighbours together (faster)
    seed: int = 0
    floor: int = 100  # the fewest people that an opened sum may hold
    data: Data = Data()
    features: Features = Features()
    popularity: Popularity = Popularity()
    privacy: Privacy = Privacy()
    model: Model = Model()
    linear: Linear = Linear()
    interaction: Interaction = Interaction()
    latent: Latent = Latent()
    neighbours: Neighbours = Neighbours()
    participation: Participation = Participation()
    sums: Sums = Sums()
    ring: Ring = Ring()
    stopping: Stopping = Stopping()


PAPER = Settings(
    preset="paper",
    schedule="samples",
    iterations=10,
    model=Model(lambda_w=1e-4, lambda_v=1e-4),
    linear=Linear(alpha=0.05, mixing="fixed", gamma=1.0),
    interaction=Interaction(alpha=0.01),
    neighbours=Neighbours(kind="nearest"),
)
ROUNDS = Settings()
PRIVATE = Settings(
    preset="private",
    iterations=20,
    popularity=Popularity(mechanism="secure-sum"),
    privacy=Privacy(epsilon_per_user=1.0),
    linear=Linear(alpha=0.05, clip=1.0),
    interaction=Interaction(clip=0.2),
    neighbours=Neighbours(size=0),
)
FM = Settings(
    preset="fm",
    schedule="centralised",
    iterations=10,
    model=Model(lambda_w=1e-5, lambda_v=1e-5),
    linear=Linear(alpha=0.002),
    interaction=Interaction(alpha=0.002),
)


def preset(name: str) -> Settings:
    """The settings behind a name."""
    known = {"paper": PAPER, "rounds": ROUNDS, "private": PRIVATE, "fm": FM}
    if name not in known:
        raise UsageError(f"no preset is called '{name}'; there are paper, rounds, private and fm")
    return known[name]
