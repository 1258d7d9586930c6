"""Floors are policy: checked by settings and by devices; protocols know none. Of fifty devices each checks the others'
signatures, which would be most of what tests do."""

import pytest

from prirec import config
from prirec.privacy import noise
from prirec.protocols import roster


def low_floor(patch: pytest.MonkeyPatch, fewest: int) -> None:
    """As low as a small round needs."""
    for module in (config, roster, noise):
        patch.setattr(module, "HARD_FLOOR", fewest)
