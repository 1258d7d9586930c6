"""What a run has learnt so far, and what it says about each iteration."""

from dataclasses import dataclass, field

import msgspec
import numpy as np

from prirec.engines.randomness import generator
from prirec.errors import StateError
from prirec.features.samples import Samples
from prirec.model.adam import Moments, no_moments
from prirec.settings import Settings
from prirec.types import RealArray


@dataclass(slots=True)
class State:
    """Moved by engines. The linear models are gathered here in simulation only; in a deployment each is on a device."""

    iteration: int
    linear: RealArray = field(repr=False)  # W (I, D + 1); (1, D + 1) where everyone shares one model
    interaction: RealArray = field(repr=False)  # V (D, K)
    moments: Moments = field(repr=False)
    means: RealArray = field(repr=False)  # (C, D + 1): what each cohort opened last; no rows before the first round


class Passed(msgspec.Struct, frozen=True, kw_only=True):
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


def fits(linear: RealArray, interaction: RealArray, samples: Samples, settings: Settings) -> bool:
    """Whether these are models of these samples under these settings; kernels do not check the size of an array."""
    D, K = samples.features, settings.model.dimension
    models = 1 if settings.schedule == "centralised" else len(samples.ids)
    return all(
        array.shape == shape
        and array.dtype == np.float64
        and array.flags.c_contiguous
        and bool(np.isfinite(array).all())
        for array, shape in ((linear, (models, D + 1)), (interaction, (D, K)))
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
    """Algorithm 2, lines 1 to 4: V small and random, so that its gradient is not 0; W zero."""
    V = first_interaction(samples.features, settings)
    models = 1 if settings.schedule == "centralised" else len(samples.ids)
    return State(
        0, np.zeros((models, samples.features + 1)), V, no_moments(V.shape), np.zeros((0, samples.features + 1))
    )
