"""How the two kinds of sums are written in the ring, for a schedule: refused here if one of them could wrap."""

from typing import NamedTuple

from prirec.features.samples import Samples
from prirec.settings import Settings
from prirec.sharing.fixed_point import FixedPoint

_ROUNDING = 1.001  # a vector scaled to its norm may have an entry a few bits larger than it


class Codes(NamedTuple):
    linear: FixedPoint
    interaction: FixedPoint


def codes(samples: Samples, settings: Settings) -> Codes:
    """Rounds: clipped vectors of up to everyone. Samples: N neighbours, and a batch of gradients."""
    ring, people = settings.ring, len(samples.ids)
    bits = {"fraction_bits": ring.fraction_bits, "ring_bits": ring.bits}
    if settings.schedule == "rounds":
        return Codes(
            FixedPoint(summands=people, bound=_ROUNDING * settings.linear.clip, **bits),
            FixedPoint(summands=people, bound=_ROUNDING * settings.interaction.clip, **bits),
        )
    return Codes(
        FixedPoint(summands=settings.neighbours.count, bound=ring.bound, **bits),
        FixedPoint(summands=settings.interaction.batch, bound=ring.bound, **bits),
    )
