"""Small rounds, in processes of a benchmark alone: the fewest people that a sum may hold are policy, and policy's
number would take a town."""

from prirec import settings_check
from prirec.privacy import noise_share
from prirec.protocols import meeting

FEW = 5


def lower() -> None:
    """From now on, in this process."""
    for module in (settings_check, meeting, noise_share):
        module.HARD_FLOOR = FEW  # type: ignore[attr-defined]
