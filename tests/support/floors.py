"""Floors are policy: checked by settings and by devices; protocols know none. Of fifty devices each checks the others'
signatures, which would be most of what tests do."""

import pytest

from prirec import settings_check
from prirec.privacy import noise_share
from prirec.protocols import meeting


def low_floor(patch: pytest.MonkeyPatch, fewest: int) -> None:
    """As low as a small round needs."""
    for module in (settings_check, meeting, noise_share):
        patch.setattr(module, "HARD_FLOOR", fewest)
