"""Where newcomers start is worked out in whole numbers."""

import numpy as np

from prirec.rounds.newcomers import FRACTION

PART = 2.0**-FRACTION  # that means are counted in


def in_parts(means: np.ndarray) -> np.ndarray:
    return np.rint(means / PART) * PART
