"""What a run has learnt so far, and what it says about each iteration."""

from dataclasses import dataclass, field, replace
from typing import Self

import msgspec
import numpy as np

from prirec.config import Settings
from prirec.features.samples import Samples
from prirec.model.adam import Moments, no_moments
from prirec.model.latent import Latent
from prirec.model.scoring import Models
from prirec.types import RealArray


@dataclass(slots=True)
class State:
    """All models of a simulated run; engines move it in place. In a deployment each linear model is on a device."""

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
        """A copy of the models. Moments are shared: Adam makes new ones and never changes them in place."""
        latent = None if self.latent is None else Latent(*(part.copy() for part in self.latent))
        return replace(
            self, linear=self.linear.copy(), interaction=self.interaction.copy(), means=self.means.copy(), latent=latent
        )


class IterationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What happened in one iteration; the history of a run is a list of these."""

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
    """Whether models have the shapes and types that these samples and settings call for, and are numbers. What was read
    from a file is asked first: kernels do not check the size of an array."""
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
