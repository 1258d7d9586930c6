"""What a run has learnt so far, and what it says about each iteration."""

from dataclasses import dataclass, field, replace
from typing import Self

import msgspec
import numpy as np

from prirec.config import Settings
from prirec.errors import StateError
from prirec.features.samples import Samples
from prirec.model import adam
from prirec.model.adam import Moments, no_moments
from prirec.model.latent import Latent
from prirec.model.scoring import Models
from prirec.types import RealArray
from prirec.util.keyed_random import generator


@dataclass(slots=True)
class State:
    """Moved by engines. The linear models are gathered here in simulation only; in a deployment each is on a device."""

    iteration: int
    linear: RealArray = field(repr=False)  # W (I, D + 1); (1, D + 1) where everyone shares one model
    interaction: RealArray = field(repr=False)  # V (D, K)
    moments: Moments = field(repr=False)
    means: RealArray = field(repr=False)  # (C, D + 1): what each cohort opened last; no rows before the first round
    latent: Latent | None = field(default=None, repr=False)  # u (I, K') and P (J, K'), where settings ask for them
    factor_moments: Moments = field(default_factory=lambda: no_moments((0, 0)), repr=False)  # Adam's, of P

    @property
    def models(self) -> Models:
        return Models(self.linear, self.interaction, self.latent)

    def copy(self) -> Self:
        """As it is now; whatever moves the one leaves the other alone."""
        latent = None if self.latent is None else Latent(*(part.copy() for part in self.latent))
        return replace(
            self, linear=self.linear.copy(), interaction=self.interaction.copy(), means=self.means.copy(), latent=latent
        )


class IterationReport(msgspec.Struct, frozen=True, kw_only=True):
    """One iteration, as the history keeps it."""

    iteration: int
    loss: float  # mean training loss before each step
    took_part: int  # devices that learnt
    in_sum: int  # devices whose gradient of V was summed
    cohorts_opened: int = 0
    opened: bool = True  # whether the sum over everyone was opened, and V moved
    alone: int = 0  # devices that learnt without neighbours
    octets: int | None = None  # bytes that crossed between parties, where the protocols were run
    held_out_loss: float | None = None
    seconds: float | None = None
    moved: int | None = None  # bytes between the driver and the actors, on a cluster


def fits(models: Models, samples: Samples, settings: Settings) -> bool:
    """Whether these are models of these samples under these settings; kernels do not check the size of an array."""
    D, K, L = samples.features, settings.model.dimension, settings.latent.dimension
    people = 1 if settings.schedule == "centralised" else len(samples.ids)
    wanted = [(models.linear, (people, D + 1)), (models.interaction, (D, K))]
    if models.latent is not None:
        wanted += zip(models.latent, ((people, L), (len(samples.places), L)), strict=True)
    return (models.latent is not None) == (L > 0) and all(
        array.shape == shape
        and array.dtype == np.float64
        and array.flags.c_contiguous
        and bool(np.isfinite(array).all())
        for array, shape in wanted
    )


def centres(state: State, cohorts: int, *, public: bool) -> RealArray:
    """(C, D + 1): what models are measured from in the next sums. Noisy means are public, so that everyone in a cohort
    has its last one; without noise a mean is its members' own, and the centre is 0."""
    if not len(state.means):
        state.means = np.zeros((cohorts, state.linear.shape[1]))
    if state.means.shape != (cohorts, state.linear.shape[1]):
        raise StateError("the cohorts' means are not as many or as long as these settings and data call for")
    return state.means if public else np.zeros_like(state.means)


def mixes(state: State, *, noisy: bool) -> bool:
    """Whether models are summed in this round. In the first they are all 0: noise would be paid for, and be all."""
    return state.iteration > 0 or not noisy


def first_interaction(features: int, settings: Settings) -> RealArray:
    """V before the first iteration, (D, K)."""
    shape = (features, settings.model.dimension)
    return generator(settings.seed, "start of V").normal(0.0, settings.model.spread, size=shape)


def start(samples: Samples, settings: Settings) -> State:
    """Algorithm 2, lines 1 to 4: V small and random, so that its gradient is not 0; W zero. P as V, u as W."""
    V = first_interaction(samples.features, settings)
    models = 1 if settings.schedule == "centralised" else len(samples.ids)
    W, means = np.zeros((models, samples.features + 1)), np.zeros((0, samples.features + 1))
    state = State(0, W, V, no_moments(V.shape), means)
    if settings.latent.dimension:
        many = (len(samples.places), settings.latent.dimension)
        P = generator(settings.seed, "start of place factors").normal(0.0, settings.latent.spread, size=many)
        state.latent, state.factor_moments = Latent(np.zeros((models, many[1])), P), no_moments(many)
    return state


def move_public(state: State, mean: RealArray, settings: Settings) -> None:
    """Step (f) of a round: a step of Adam for V, and one for P. The opened mean holds their gradients one after the
    other (K * D + J * K'). The penalty of V is added here; that of P came with each record."""
    V, K_D = state.interaction, state.interaction.size
    state.interaction, state.moments = adam.move(
        V, mean[:K_D], state.moments, alpha=settings.interaction.alpha, lambda_v=settings.model.lambda_v
    )
    if state.latent is not None:
        P = state.latent.factors
        gradient = mean[K_D:].reshape(P.shape) / settings.latent.weight
        moved, state.factor_moments = adam.step(P, gradient, state.factor_moments, alpha=settings.latent.pace)
        state.latent = state.latent._replace(factors=moved)
