"""The loss of a round, summed exactly: whole numbers of 2^-32 have the same sum in any order, over any shards."""

from math import nan

import numpy as np

from prirec.types import RealArray

_UNIT = 2.0**-32
_LARGEST = 2.0**30  # of one person's loss; beyond it the models have diverged
_LOW = 0xFFFFFFFF


def summed(losses: RealArray) -> int | None:
    """In units of 2^-32; None where one of them is not a number, or beyond all that a model could still learn from."""
    if not (np.abs(losses) < _LARGEST).all():
        return None
    whole = np.rint(losses / _UNIT).astype(np.int64)
    return (int((whole >> 32).sum()) << 32) + int((whole & _LOW).sum())


def mean(total: int | None, records: int) -> float:
    """Of a record; nan where the sum was none."""
    return nan if total is None else total * _UNIT / max(records, 1)
