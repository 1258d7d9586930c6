"""What would change nothing is a mistake: whoever asked for it had something else in mind."""

from collections.abc import Callable
from typing import NamedTuple

from prirec import settings_file
from prirec.errors import UsageError
from prirec.settings import Settings, preset


class Reader(NamedTuple):
    """Who reads a setting, and whether that is part of a training."""

    called: str
    there: Callable[[Settings], bool]


DISTANCE = ("exponential", "gaussian", "inverse")
EVERY = Reader("every training", lambda s: True)
ROUNDS = Reader("rounds", lambda s: s.schedule == "rounds")
SAMPLES = Reader("the paper's schedule", lambda s: s.schedule == "samples")
APART = Reader("rounds and the paper's schedule", lambda s: s.schedule != "centralised")
NEAREST = Reader("neighbours.kind 'nearest'", lambda s: s.neighbours.kind == "nearest")
BY_DISTANCE = Reader("neighbours.weights by distance", lambda s: s.neighbours.weights in DISTANCE)
FIXED = Reader("linear.mixing 'fixed'", lambda s: s.linear.mixing == "fixed")
ADAPTIVE = Reader("linear.mixing 'adaptive' in rounds", lambda s: ROUNDS.there(s) and s.linear.mixing == "adaptive")
LATENT = Reader("a latent part (latent.dimension)", lambda s: s.latent.dimension > 0)
BUDGET = Reader("a budget (privacy.epsilon_per_user)", lambda s: s.privacy.epsilon_per_user is not None)
BITS = Reader("randomized-response (popularity.mechanism)", lambda s: s.popularity.mechanism == "randomized-response")
SUM = Reader("a secure-sum (popularity.mechanism)", lambda s: s.popularity.mechanism == "secure-sum")
PATIENCE = Reader("early stopping (stopping.patience)", lambda s: s.stopping.patience > 0)

READ_BY = {
    "order": SAMPLES, "interaction.batch": SAMPLES, "interaction.clip": ROUNDS,
    "linear.clip": ROUNDS, "linear.mixing": APART, "linear.gamma": FIXED, "linear.kappa": ADAPTIVE,
    "neighbours.kind": APART, "neighbours.count": SAMPLES, "neighbours.size": ROUNDS, "neighbours.weights": SAMPLES,
    "neighbours.among": NEAREST, "neighbours.scale_km": BY_DISTANCE,
    "participation.online": APART, "sums.corrupt": ROUNDS, "sums.lost": ROUNDS,
    "ring.bits": APART, "ring.fraction_bits": APART, "ring.bound": SAMPLES,
    "popularity.cap": SUM, "popularity.epsilon_per_bit": BITS, "popularity.reporters": BITS,
    "latent.alpha": LATENT, "latent.lambda_u": LATENT, "latent.lambda_p": LATENT, "latent.pace": LATENT,
    "latent.spread": LATENT, "latent.weight": LATENT,
    "privacy.delta": BUDGET, "privacy.period_days": BUDGET, "privacy.popularity": BUDGET, "privacy.mixing": BUDGET,
    "privacy.interaction": BUDGET, "privacy.quality": BUDGET,
    "stopping.share": PATIENCE,
}  # fmt: skip
SET_TOGETHER = ("neighbours.count", "neighbours.size")  # --neighbours sets both, and a run saves both


def refuse_idle(settings: Settings, *, neighbours: int | None, engine: str) -> None:
    """Flags, and settings of how to learn, that this training would not read."""
    central = settings.schedule == "centralised"
    if neighbours is not None and central:
        raise UsageError("--neighbours has no meaning here: the centralised model has no neighbours")
    if engine in ("plain", "protocol") and central:
        raise UsageError(f"--engine {engine} has no meaning here: the centralised model has one engine; leave it out")
    together = SET_TOGETHER if settings.neighbours.count == settings.neighbours.size else ()
    for name in settings_file.changed(settings, since=preset(settings.preset)):
        reader = READ_BY.get(name, EVERY)
        if not reader.there(settings) and name not in together:
            raise UsageError(
                f"{name} is read by {reader.called} alone, which this training has not; leave it as it was"
            )
