"""Everything that scores: what training moves, evaluation measures and a run folder keeps."""

from dataclasses import dataclass, field

import numpy as np

from prirec.model.latent import Latent
from prirec.types import RealArray


@dataclass(frozen=True, slots=True)
class Models:
    """Everyone's private models, gathered as only a simulation has them, and the public ones."""

    linear: RealArray = field(repr=False)  # W (I, D + 1); (1, D + 1) where everyone shares one model
    interaction: RealArray = field(repr=False)  # V (D, K)
    latent: Latent | None = field(default=None, repr=False)

    @property
    def factors(self) -> RealArray | None:
        """P (J, K'); none without a latent part."""
        return None if self.latent is None else self.latent.factors

    @property
    def public(self) -> tuple[RealArray, ...]:
        """What the recommender publishes, and everyone must have the same of."""
        return (self.interaction,) if self.latent is None else (self.interaction, self.latent.factors)

    def of(self, person: int) -> tuple[RealArray, RealArray]:
        """W_i and u_i of one device, views that a step moves; u_i has no entries without a latent part."""
        w: RealArray = self.linear[person if len(self.linear) > 1 else 0]
        return w, np.empty(0) if self.latent is None else self.latent.vectors[person]
