"""Settings that a training would not read: whoever changes one of them had something else in mind, so it is refused."""

from collections.abc import Callable
from typing import NamedTuple

from prirec import config
from prirec.config import Settings, preset
from prirec.errors import UsageError


class Reader(NamedTuple):
    """A part of a training that reads a setting, and whether settings have that part."""

    name: str
    used: Callable[[Settings], bool]


ROUNDS = Reader("rounds", lambda s: s.schedule == "rounds")
SAMPLES = Reader("the paper's schedule", lambda s: s.schedule == "samples")
DECENTRALISED = Reader("rounds and the paper's schedule", lambda s: s.schedule != "centralised")
NEAREST = Reader("neighbours.kind 'nearest'", lambda s: s.neighbours.kind == "nearest")
BY_DISTANCE = Reader(
    "neighbours.weights by distance", lambda s: s.neighbours.weights in ("exponential", "gaussian", "inverse")
)
FIXED = Reader("linear.mixing 'fixed'", lambda s: s.linear.mixing == "fixed")
ADAPTIVE = Reader("linear.mixing 'adaptive' in rounds", lambda s: ROUNDS.used(s) and s.linear.mixing == "adaptive")
LATENT = Reader("a latent part (latent.dimension)", lambda s: s.latent.dimension > 0)
BUDGET = Reader("a budget (privacy.epsilon_per_user)", lambda s: s.privacy.epsilon_per_user is not None)
DEPLOYMENT = Reader("a deployment", lambda s: False)
PATIENCE = Reader("early stopping (stopping.patience)", lambda s: s.stopping.patience > 0)

# Settings that are not listed are read by every training; those of popularity by the mechanisms that name them.
READ_BY = {
    "order": SAMPLES, "interaction.batch": SAMPLES, "interaction.clip": ROUNDS,
    "linear.clip": ROUNDS, "linear.mixing": DECENTRALISED, "linear.gamma": FIXED, "linear.kappa": ADAPTIVE,
    "neighbours.kind": DECENTRALISED, "neighbours.count": SAMPLES, "neighbours.size": ROUNDS,
    "neighbours.weights": SAMPLES, "neighbours.among": NEAREST, "neighbours.scale_km": BY_DISTANCE,
    "participation.online": DECENTRALISED, "sums.corrupt": ROUNDS, "sums.lost": ROUNDS, "sums.roster": DEPLOYMENT,
    "ring.bits": DECENTRALISED, "ring.fraction_bits": DECENTRALISED, "ring.bound": SAMPLES,
    "latent.alpha": LATENT, "latent.lambda_u": LATENT, "latent.lambda_p": LATENT, "latent.pace": LATENT,
    "latent.spread": LATENT, "latent.weight": LATENT,
    "privacy.delta": BUDGET, "privacy.period_days": BUDGET, "privacy.popularity": BUDGET, "privacy.mixing": BUDGET,
    "privacy.interaction": BUDGET, "privacy.quality": BUDGET,
    "stopping.share": PATIENCE,
}  # fmt: skip


def refuse_unused(settings: Settings) -> None:
    """UsageError for a setting that differs from its preset and that no part of this training reads."""
    # `prirec train --neighbours` sets the two together, since a schedule reads one of them, and a run saves both
    together = ("neighbours.count", "neighbours.size") if settings.neighbours.count == settings.neighbours.size else ()
    for name in config.changed(settings, since=preset(settings.preset)):
        reader = READ_BY.get(name) or (_mechanism(name) if name.startswith("popularity.") else None)
        if reader is not None and not reader.used(settings) and name not in together:
            raise UsageError(f"{name} is read by {reader.name} alone, which this training has not; leave it as it was")


def _mechanism(setting: str) -> Reader | None:
    """The mechanism that reads a setting. Imported only here: mechanisms need NumPy, which settings do without."""
    from prirec.simulate.popularity import MECHANISMS

    found = next((name for name, one in MECHANISMS.items() if setting in one.reads), None)
    return (
        None
        if found is None
        else Reader(f"{found} (popularity.mechanism)", lambda s: bool(s.popularity.mechanism == found))
    )
