"""Limits on settings: each with the words for whoever oversteps it."""

from math import inf

from prirec.errors import PolicyError, UsageError
from prirec.settings import Settings

HARD_FLOOR = 50


def _per_mille(share: float, below: int) -> bool:
    """Terms, which everyone in a sum signs, hold whole numbers only."""
    return 0 <= 1000 * share < below and abs(1000 * share - round(1000 * share)) < 1e-9


def _limits(s: Settings) -> list[tuple[bool, str]]:
    """Every limit on a single number, with the words for whoever oversteps it."""
    return [
        (s.iterations >= 1, "iterations must be at least 1"),
        (0 <= s.seed < 2**63, "seed must be between 0 and 2^63 - 1"),
        (s.data.at_least is None or s.data.at_least >= 1, "data.at_least must be at least 1"),
        (0 < s.data.train_share < 1, "data.train_share must be between 0 and 1"),
        (1 <= s.data.ratio <= 1000, "data.ratio must be between 1 and 1000"),
        (s.data.thin is None or s.data.thin >= 1, "data.thin must be at least 1"),
        (0 <= s.features.words <= 65_536, "features.words must be between 0 and 65536"),
        (1 <= s.features.buckets <= 4096, "features.buckets must be between 1 and 4096"),
        (1 <= s.features.recent_days <= 36_500, "features.recent_days must be between 1 and 36500"),
        (s.popularity.cap is None or s.popularity.cap >= 1, "popularity.cap must be at least 1"),
        (0 < s.popularity.epsilon_per_bit < inf, "popularity.epsilon_per_bit must be positive and finite"),
        (
            s.privacy.epsilon_per_user is None or 0 < s.privacy.epsilon_per_user <= 50,
            "privacy.epsilon_per_user must be above 0 and at most 50; beyond that nothing is promised",
        ),
        (0 < s.privacy.delta < 1, "privacy.delta must be between 0 and 1"),
        (s.privacy.period_days is None or s.privacy.period_days >= 1, "privacy.period_days must be at least 1"),
        (
            all(0 <= part <= 1e6 for part in _parts(s)) and sum(_parts(s)) > 0,
            "the parts of the privacy budget must be between 0 and 1000000, and one of them above 0",
        ),
        (1 <= s.model.dimension <= 256, "model.dimension (K) must be between 1 and 256"),
        (0 <= s.model.lambda_w < inf, "model.lambda_w must be finite and not negative"),
        (0 <= s.model.lambda_v < inf, "model.lambda_v must be finite and not negative"),
        (0 < s.model.spread < inf, "model.spread must be positive and finite"),
        (0 < s.linear.alpha < inf, "linear.alpha must be positive and finite"),
        (0 < s.linear.kappa < inf, "linear.kappa must be positive and finite"),
        (0 <= s.linear.gamma <= 1, "linear.gamma must be between 0 and 1"),
        (0 < s.linear.clip < inf, "linear.clip must be positive and finite"),
        (0 < s.interaction.alpha < inf, "interaction.alpha must be positive and finite"),
        (s.interaction.batch >= 1, "interaction.batch must be at least 1"),
        (0 < s.interaction.clip < inf, "interaction.clip must be positive and finite"),
        (0 <= s.latent.dimension <= 256, "latent.dimension (K') must be between 0 and 256; 0 is off"),
        (0 < s.latent.alpha < inf, "latent.alpha must be positive and finite"),
        (0 <= s.latent.lambda_u < inf, "latent.lambda_u must be finite and not negative"),
        (0 <= s.latent.lambda_p < inf, "latent.lambda_p must be finite and not negative"),
        (0 < s.latent.pace < inf, "latent.pace must be positive and finite"),
        (0 < s.latent.spread < inf, "latent.spread must be positive and finite"),
        (0 < s.latent.weight < inf, "latent.weight must be positive and finite"),
        (1 <= s.neighbours.count < 2**31, "neighbours.count (N) must be at least 1 and below 2^31"),
        (
            s.neighbours.size == 0 or 2 <= s.neighbours.size < 2**31,
            "neighbours.size must be at least 2 and below 2^31, or 0 for what the plan asks",
        ),
        (s.floor >= 1, "floor must be at least 1"),
        (0 < s.neighbours.scale_km < inf, "neighbours.scale_km must be positive and finite"),
        (0 <= s.neighbours.resolution <= 9, "neighbours.resolution must be between 0 and 9"),
        (0 < s.participation.online <= 1, "participation.online must be above 0 and at most 1"),
        (0 <= s.participation.dropout < 1, "participation.dropout must be at least 0 and below 1"),
        (_per_mille(s.sums.lost, 500), "sums.lost must be in whole thousandths, at least 0 and below 1/2"),
        (_per_mille(s.sums.corrupt, 334), "sums.corrupt must be in whole thousandths, at least 0 and below 1/3"),
        (s.ring.bits in (32, 64), "ring.bits must be 32 or 64"),
        (1 <= s.ring.fraction_bits <= 40, "ring.fraction_bits must be between 1 and 40"),
        (0 < s.ring.bound < inf, "ring.bound must be positive and finite"),
        (s.stopping.patience >= 0, "stopping.patience must not be negative"),
        (0 < s.stopping.share < 1, "stopping.share must be between 0 and 1"),
    ]


def _fits(s: Settings) -> list[tuple[bool, str]]:
    """What must go together."""
    cohorts, rounds, one_place = s.neighbours.kind == "cohorts", s.schedule == "rounds", s.schedule == "centralised"
    return [
        (
            rounds == cohorts or one_place,
            "rounds mix within cohorts and samples with neighbours: set schedule and neighbours.kind to match",
        ),
        (
            s.neighbours.kind != "random" or s.neighbours.weights == "uniform",
            "neighbours.kind 'random' draws anew for each interaction and has uniform weights only",
        ),
        (
            (s.neighbours.kind == "alike") == (s.neighbours.alike is not None),
            "neighbours.kind 'alike' and neighbours.alike, a column of places, need each other",
        ),
        (
            s.neighbours.among is None or s.neighbours.among >= s.neighbours.count,
            "neighbours.among must be at least neighbours.count",
        ),
        (
            s.schedule != "samples" or s.linear.mixing == "fixed",
            "the paper's schedule has one linear.gamma for all: set linear.mixing to 'fixed'",
        ),
        (
            s.popularity.cap is None or not s.features.averages,
            "popularity.cap counts places alone: leave it out, or features.averages",
        ),
        (
            len(set(s.features.averages)) == len(s.features.averages),
            "features.averages names a column twice",
        ),
        (s.sums.corrupt + 2 * s.sums.lost < 1, "sums.corrupt + 2 sums.lost must be below 1, or no sum can be safe"),
        (
            rounds or s.participation.dropout == 0,
            "the paper's schedule cannot lose a device on the way (its shares are n-out-of-n); use rounds",
        ),
        (
            rounds or s.latent.dimension == 0,
            "latent vectors are learnt in rounds only: set schedule to 'rounds', or latent.dimension to 0",
        ),
    ]


def _parts(s: Settings) -> tuple[float, ...]:
    return s.privacy.popularity, s.privacy.mixing, s.privacy.interaction, s.privacy.quality


def budget_parts(settings: Settings) -> dict[str, float]:
    """The parts of the budget by name; without dynamic features nothing is spent on popularity."""
    p = settings.privacy
    popularity = p.popularity if settings.features.dynamic else 0.0
    return {"popularity": popularity, "mixing": p.mixing, "interaction": p.interaction, "quality": p.quality}


def _promises(s: Settings) -> list[tuple[bool, str]]:
    """What a promised epsilon needs, and what needs one."""
    promised, mechanism = s.privacy.epsilon_per_user is not None, s.popularity.mechanism
    parts = {name: part for name, part in budget_parts(s).items() if name != "quality"}
    if not s.features.dynamic:
        del parts["popularity"]
    return [
        (
            promised or s.preset != "private",
            "the preset 'private' promises one budget for each person: give privacy.epsilon_per_user",
        ),
        (
            promised or mechanism != "secure-sum",
            "popularity.mechanism 'secure-sum' needs a budget: give privacy.epsilon_per_user, or use 'private'",
        ),
        (
            not promised or s.schedule == "rounds",
            "privacy.epsilon_per_user is for rounds: what the paper's schedule tells of a person has no bound",
        ),
        (
            not promised or mechanism == "secure-sum" or not s.features.dynamic,
            f"with privacy.epsilon_per_user popularity comes by 'secure-sum': '{mechanism}' is not within that budget",
        ),
        (
            not promised or s.stopping.patience == 0,
            "early stopping looks at everyone's records, which no budget covers: set stopping.patience to 0",
        ),
        (
            not promised or s.latent.dimension == 0,
            "learnt factors of places drown in a budget's noise and do harm (decisions/0016): set latent.dimension to "
            "0, or leave privacy.epsilon_per_user out, in simulation",
        ),
        (
            not promised or all(parts.values()),
            "popularity, mixing and interaction each need a part of the privacy budget",
        ),
        (
            promised or s.neighbours.size > 0,
            "neighbours.size 0 leaves cohorts to the plan of a budget: give privacy.epsilon_per_user, or a size",
        ),
    ]


def check(settings: Settings) -> Settings:
    """The settings themselves, if every limit, every promise and every floor holds."""
    for holds, words in _limits(settings) + _fits(settings):
        if not holds:
            raise UsageError(words)
    for holds, words in _promises(settings):
        if not holds:
            raise PolicyError(words)
    if settings.schedule == "rounds" and settings.floor < HARD_FLOOR:
        raise PolicyError(f"floor must be at least {HARD_FLOOR}: a sum over fewer people can be taken apart")
    if settings.schedule == "rounds" and 0 < settings.neighbours.size < settings.floor:
        raise PolicyError(
            f"neighbours.size is below the floor of {settings.floor} people for an opened sum; use larger cohorts"
        )
    return settings
