"""Small rounds, in processes of a benchmark alone: the fewest people that a sum may hold are policy, and policy's
number would take a town."""

from prirec import config
from prirec.privacy import noise
from prirec.protocols import roster

FEW = 5


def lower() -> None:
    """From now on, in this process."""
    for module in (config, roster, noise):
        module.HARD_FLOOR = FEW  # type: ignore[attr-defined]
