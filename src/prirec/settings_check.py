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
        (1 <= s.neighbours.count < 2**31, "neighbours.count (N) must be at least 1 and below 2^31"),
        (2 <= s.neighbours.size < 2**31, "neighbours.size must be at least 2 and below 2^31"),
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
            s.neighbours.among is None or s.neighbours.among >= s.neighbours.count,
            "neighbours.among must be at least neighbours.count",
        ),
        (
            s.schedule != "samples" or s.linear.mixing == "fixed",
            "the paper's schedule has one linear.gamma for all: set linear.mixing to 'fixed'",
        ),
        (s.sums.corrupt + 2 * s.sums.lost < 1, "sums.corrupt + 2 sums.lost must be below 1, or no sum can be safe"),
        (
            rounds or s.participation.dropout == 0,
            "the paper's schedule cannot lose a device on the way (its shares are n-out-of-n); use rounds",
        ),
    ]


def check(settings: Settings) -> Settings:
    """The settings themselves, if every limit and every floor holds."""
    for holds, words in _limits(settings) + _fits(settings):
        if not holds:
            raise UsageError(words)
    if settings.schedule == "rounds" and settings.floor < HARD_FLOOR:
        raise PolicyError(f"floor must be at least {HARD_FLOOR}: a sum over fewer people can be taken apart")
    if settings.schedule == "rounds" and settings.neighbours.size < settings.floor:
        raise PolicyError(
            f"neighbours.size is below the floor of {settings.floor} people for an opened sum; use larger cohorts"
        )
    return settings
